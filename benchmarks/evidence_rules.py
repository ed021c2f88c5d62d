"""Do the facts shown for an answer belong to the rule behind it? The maker of the demo world knows each rule.

For every test fact of a recurring, reciprocal or chain rule that a model ranks first, from both sides: is a fact of the
rule among the first three facts of evidence? Such a fact has the same two entities and is either of the relation that
the rule starts from, in its direction, or was made by the same rule. Recurring rules of relations that come only once
to a pair are left out: no other fact is theirs. Beside it, how often the very cause is there, if train holds it.

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
    """Train or load, ask, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models",
        default="pointer,temp-gru",
        help="models to train, or folders of runs on the demo",
    )
    parser.add_argument("--most", type=int, default=1500, help="test facts to ask about at most")
    parser.add_argument("overrides", nargs="*", help="settings, such as train.epochs=20")
    arguments = parser.parse_args()
    world, rows = make_world(), []
    for name in arguments.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            found = Path(name).is_dir()
            run = (
                Run.load(name)
                if found
                else train(world.graph, name, out=f"{folder}/run", overrides=arguments.overrides)
            )
            for kind, counts in look(Predictor(run), world, arguments.most).items():
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


def look(predictor: Predictor, world: World, most: int) -> dict[str, list[int]]:
    """For each kind of rule: right answers; of these with a fact of the rule; with a cause in train; that show it."""
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
    )[:most]:
        rule, (subject, relation, object_, time) = world.rules[number], fact
        once = rule.kind == "recurring" and BURSTS[RELATIONS[rule.relation % len(RELATIONS)]] == (
            1,
            1,
        )
        if rule.kind not in KINDS or once:
            continue
        for side, ask in (("object", (subject, relation)), ("subject", (relation, object_))):
            question = getattr(predictor, f"{side}s")
            asked = question(*ask, time, top=20, evidence=0)
            right = graph.entities[object_ if side == "object" else subject]
            answer = next(
                (answer for answer in asked.answers if not answer.known or answer.name == right),
                None,
            )
            if answer is None or answer.name != right:
                continue
            answer = question(*ask, time, top=1 + asked.answers.index(answer)).answers[-1]
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
