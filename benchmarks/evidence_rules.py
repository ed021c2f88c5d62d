"""Does the evidence of an answer show the rule behind it? The demo world records every rule.

For each test fact of a recurring, reciprocal or chain rule that a model ranks first, on either
side: is a fact of the rule among the first three facts of evidence? Such a fact has the same two
entities, and either has the relation that the rule starts from, in its direction, or was generated
by the same rule. Recurring rules whose relation occurs only once for a pair have no other fact and
are left out. A second column counts how often the cause itself is shown, if it is in train.

PYTHONPATH=src python benchmarks/evidence_rules.py --models pointer,temp-gru
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from tempograph.cli.console import out, table
from tempograph.data.synthetic.rules import BURSTS, RELATIONS
from tempograph.data.synthetic.world import World, make_world
from tempograph.prediction.predictor import Predictor
from tempograph.training.runs import Run
from tempograph.training.trainer import train

KINDS = ("recurring", "reciprocal", "chain")


def main() -> None:
    """Train or load each model, count, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models",
        default="pointer,temp-gru",
        help="models to train, or run folders of the demo dataset",
    )
    parser.add_argument("--max-facts", type=int, default=1500, help="test facts to query")
    parser.add_argument("overrides", nargs="*", help="settings, such as train.epochs=20")
    arguments = parser.parse_args()
    world, rows = make_world(), []
    for name in arguments.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            run = (
                Run.load(name)
                if Path(name).is_dir()
                else train(world.graph, name, out=f"{folder}/run", overrides=arguments.overrides)
            )
            for kind, counts in count_shown(Predictor(run), world, arguments.max_facts).items():
                asked, of_rule, with_cause, causes = counts
                share = f"{of_rule / asked:.1%}" if asked else "-"
                rows.append(
                    [
                        run.config.name,
                        kind,
                        str(asked),
                        share,
                        f"{causes / with_cause:.1%}" if with_cause else "-",
                    ]
                )
    columns = ["model", "rules", "right", "shows the rule", "shows the cause"]
    caption = (
        "Right answers; of these with a fact of the rule, and with the cause where train has it."
    )
    out.print(
        table("Among the first three facts of evidence", columns, rows, left=2, caption=caption)
    )


def count_shown(predictor: Predictor, world: World, max_facts: int) -> dict[str, list[int]]:
    """Count, for each kind of rule, right answers and what their evidence shows.

    The counts are: right answers; those that show a fact of the rule; those with the cause in
    train; those that show it.
    """
    graph, counts = world.graph, defaultdict[str, list[int]](lambda: [0, 0, 0, 0])
    rule_of = {
        tuple(fact): int(rule)
        for fact, (rule, _) in zip(graph.train.tolist(), world.origins["train"], strict=True)
    }
    ids = (
        {n: i for i, n in enumerate(names)}
        for names in (graph.entities, graph.relations, graph.times)
    )
    entity, relation_id, step = ids
    for fact, (number, cause) in list(
        zip(graph.test.tolist(), world.origins["test"].tolist(), strict=True)
    )[:max_facts]:
        rule, (subject, relation, object_, time) = world.rules[number], fact
        once = rule.kind == "recurring" and BURSTS[RELATIONS[rule.relation % len(RELATIONS)]] == (
            1,
            1,
        )
        if rule.kind not in KINDS or once:
            continue
        for side, ask in (("object", (subject, relation)), ("subject", (relation, object_))):
            query = getattr(predictor, f"{side}s")
            response = query(*ask, time, top=20, evidence=0)
            right = graph.entities[object_ if side == "object" else subject]
            answer = next(
                (answer for answer in response.answers if not answer.known or answer.name == right),
                None,
            )
            if answer is None or answer.name != right:
                continue
            answer = query(*ask, time, top=1 + response.answers.index(answer)).answers[-1]
            shown = [
                (entity[e.subject], relation_id[e.relation], entity[e.object], step[e.time])
                for e in answer.evidence[:3]
            ]
            cause_pair = (object_, subject) if rule.inverted else (subject, object_)
            of_rule = any(
                {s, o} == {subject, object_}
                and (
                    (r == rule.cause and (s, o) == cause_pair)
                    or rule_of.get((s, r, o, t)) == number
                )
                for s, r, o, t in shown
            )
            in_train = 0 <= cause < len(graph.train)
            for key in (rule.kind, "all"):
                counts[key][0] += 1
                counts[key][1] += of_rule
                counts[key][2] += in_train
                counts[key][3] += in_train and tuple(np.asarray(graph.train)[cause]) in shown
    return {key: counts[key] for key in (*KINDS, "all")}


if __name__ == "__main__":
    main()
