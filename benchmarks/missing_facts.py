"""Does `missing` find facts that happened? The test facts are hidden; are they proposed first?

A run answers from train facts. Train and valid facts are known, so that test facts are what is
missing. For each way to rank facts that are not known, the program counts the hidden facts among
the first 1,000:

- missing: by the probability that the fact happened, one row for each triple, as
  `Predictor.missing`
- missing, every step: the same with every likely step of a triple
- P(who | it happened): by the calibrated probability of the object, for every (subject, relation)
  of train at every step; with --every N at every N-th step, and of the first 1,000 / N
- recurrence: train triples at other steps, by the sum over their train facts of exp(-gap / width);
  the default width is the best one on valid facts of ICEWS14
- recurrence, one step per triple: the same at the best step of each triple
- mirror: for each train fact (s, r, o, t) the fact (o, r', s, t), where r' most often accompanies
  r, by how often it does; in ICEWS, for example, "Consult" is nearly always recorded both ways
- missing, recurrence without mirrors: without facts whose mirror accompanies a train fact in at
  least half of all cases

The reliability of `missing` is that of all facts that it classifies. Choose with --hide valid.

PYTHONPATH=src python benchmarks/missing_facts.py --runs runs/pointer --json missing-facts.json
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch
from speed_tables import missing_facts_table
from torch import Tensor

from tempograph.cli.console import note, out, show, table
from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import Facts, TemporalGraph, rows_in
from tempograph.data.known_parts import KnownParts
from tempograph.data.timeline import Queries
from tempograph.device import environment, resolve_device
from tempograph.evaluation.evaluator import query_batches
from tempograph.evaluation.reliability import calibration_error, reliability, reliability_cells
from tempograph.io import write_json
from tempograph.models.heads.fact_candidates import Search
from tempograph.prediction.missing import MissingFacts, find_missing
from tempograph.prediction.scenario import Scenario
from tempograph.training.question_models import Answering
from tempograph.training.runs import Run

Result = TypeVar("Result")
FIRST: Final = 1000
LISTED: Final = 20 * FIRST
"""Facts that a baseline lists, for those without mirrors to be enough."""
CACHE: Final = 2**30
MIN_BIN: Final = 100
"""Bins of probability with fewer proposals do not count."""
MAX_CALIBRATION_ERROR: Final = 0.03
RATIO: Final = 2
"""The share of hidden facts must be this many times that of P(who | it happened)."""


def main() -> None:
    """Rank, count, print; exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", required=True, help="run folders, separated by commas")
    parser.add_argument("--hide", choices=("valid", "test"), default="test")
    parser.add_argument("--every", type=int, default=1, help="steps of P(who | it happened)")
    parser.add_argument("--width", type=float, default=2, help="of the recurrence, in steps")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    found: dict[str, Any] = {"environment": environment(device), "results": []}
    for folder in arguments.runs.split(","):
        found["results"] += measure(Run.load(folder, device), arguments)
    about = f"hidden: {arguments.hide} facts; P(who | it happened) at every {arguments.every} steps"
    show(missing_facts_table(found, about))
    for result in found["results"]:
        if "reliability" in result:
            title = f"Probability that a fact happened, {result['model']} on {result['dataset']}"
            columns, cells = reliability_cells(result["reliability"])
            columns[1:] = ["proposals", "mean", "hidden facts"]
            out.print(table(title, columns, cells))
    if arguments.json is not None:
        write_json(arguments.json, found)
    sys.exit(not all(result["reached"] for result in found["results"] if "reached" in result))


def measure(run: Run, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A result for each ranking; the first one also has the calibration and the targets."""
    fit_seconds = clock(run.questions.classifier)[0]
    graph, hidden = run.graph, run.graph.facts(arguments.hide)
    known = (
        dataclasses.replace(graph, valid=hidden[:0])
        if arguments.hide == "valid"
        else dataclasses.replace(graph, test=hidden[:0])
    )
    scenario = Scenario(run, CACHE, Answering(known, run.timeline, run.model))
    every = find_missing(scenario, Search(), None)
    rankings: dict[str, Callable[[], Facts]] = {
        "missing": lambda: rows_by_triple(find_missing(scenario, Search(), FIRST)),
        "missing, every step": lambda: rows(find_missing(scenario, Search(), FIRST)),
        "P(who | it happened)": lambda: rank_by_object(scenario, arguments.every),
        "recurrence": lambda: rank_by_recurrence(known, arguments.width, False),
        "recurrence, one step per triple": lambda: rank_by_recurrence(known, arguments.width, True),
        "mirror": lambda: rank_by_mirror(known, 0),
        "missing without mirrors": lambda: without_mirrors(rows_by_triple(every), known),
        "recurrence without mirrors": lambda: without_mirrors(
            rank_by_recurrence(known, arguments.width, False), known
        ),
    }
    results = []
    for name, rank in rankings.items():
        note(f"{run.config.name} on {graph.name}: {name}")
        seconds, facts = clock(rank)
        right = rows_in(facts[:FIRST], hidden)
        results.append(
            {
                "model": run.config.name,
                "dataset": graph.name,
                "protocol": run.config.protocol,
                "hidden": arguments.hide,
                "ranking": name,
                "every": arguments.every if name.startswith("P(") else 1,
                "proposals": len(right),
                "found": int(right.sum()),
                "share": float(right.mean()),
                "seconds": seconds,
            }
        )
    label = torch.from_numpy(rows_in(every.facts.cpu().numpy(), hidden))
    bins = [
        row for row in reliability(every.probability.cpu(), label) if row["questions"] >= MIN_BIN
    ]
    error, share = calibration_error(bins), {each["ranking"]: each["share"] for each in results}
    recurrence = max(
        value
        for name, value in share.items()
        if name.startswith("recurrence") and "without" not in name
    )
    results[0] |= {
        "fit_seconds": fit_seconds,
        "calibration_error": error,
        "largest_calibration_error": max(abs(row["confidence"] - row["right"]) for row in bins),
        "reliability": bins,
        "reached": share["missing"] >= RATIO * share["P(who | it happened)"]
        and share["missing"] > recurrence
        and error <= MAX_CALIBRATION_ERROR,
    }
    return results


def rows(found: MissingFacts) -> Facts:
    """All facts, the most likely first."""
    facts: Facts = found.facts[found.order()].cpu().numpy()
    return facts


def rows_by_triple(found: MissingFacts) -> Facts:
    """Each triple at its most likely step, the most likely first."""
    return first_of_each(rows(found), columns=3)


def first_of_each(facts: Facts, columns: int) -> Facts:
    """The first of the facts [n, 4] that agree in their first columns."""
    first = np.unique(facts[:, :columns], axis=0, return_index=True)[1]
    return facts[np.sort(first)]


@torch.inference_mode()
def rank_by_object(scenario: Scenario, every: int) -> Facts:
    """New facts by the probability of the object among those not known, then by its score.

    `missing` ranked like this before it told whether a fact happened at all.
    """
    model, limit = scenario.model, FIRST // every
    known = KnownAnswers.from_graph(scenario.graph, "time", model.device)
    calibrator = scenario.calibrator("entity")
    pairs = torch.unique(scenario.timeline.facts[:, :2], dim=0)
    best = torch.empty(0, 4, dtype=torch.int64, device=model.device)
    value = torch.empty(0, 2, dtype=torch.float64, device=model.device)
    for step in range(0, scenario.timeline.num_steps, every):
        queries = Queries(pairs[:, 0], pairs[:, 1], torch.full_like(pairs[:, 0], step))
        for index in query_batches(model, queries, known):
            asked = queries.take(index)
            scores, excluded = model.scores(asked), known(asked)
            log_probs = calibrator.log_probs(scores, excluded)
            # Those below the best so far need no look.
            lowest = value[-1, 0] if len(value) == limit else -torch.inf
            row, candidate = (log_probs >= lowest).nonzero().unbind(1)
            own = torch.stack([log_probs[row, candidate], scores[row, candidate].double()], 1)
            entity, relation, when = asked.take(row)
            facts = torch.stack([entity, relation, candidate, when], 1)
            best, value = highest(torch.cat([best, facts]), torch.cat([value, own]), limit)
    return best.cpu().numpy()


def highest(facts: Tensor, value: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """The facts with the largest values [n, 2], by the first, then by the second."""
    order = torch.argsort(value[:, 1], descending=True, stable=True)
    order = order[torch.argsort(value[order, 0], descending=True, stable=True)][:limit]
    return facts[order], value[order]


def rank_by_recurrence(graph: TemporalGraph, width: float, one_step: bool) -> Facts:
    """Train triples at steps where they are not known, by how many train facts are how near."""
    train = torch.from_numpy(graph.train)
    triples, number = torch.unique(train[:, :3], dim=0, return_inverse=True)
    steps = torch.arange(len(graph.times))
    weight = torch.exp(-(steps[:, None] - steps).abs() / width)
    value = torch.zeros(len(triples), len(steps)).index_add_(0, number, weight[train[:, 3]])
    questions = torch.cat([triples, torch.zeros_like(triples[:, :1])], dim=1)
    value[KnownParts(torch.from_numpy(graph.all_facts), graph.sizes, 3)(questions)] = 0
    if one_step:
        best = value.max(1)
        chosen = best.values.topk(min(LISTED, len(triples))).indices
        return torch.cat([triples[chosen], best.indices[chosen, None]], dim=1).numpy()
    chosen = value.flatten().topk(min(LISTED, value.numel())).indices
    triple, step = chosen // len(steps), chosen % len(steps)
    return torch.cat([triples[triple], step[:, None]], dim=1).numpy()


def rank_by_mirror(graph: TemporalGraph, min_share: float) -> Facts:
    """Mirrors of train facts that are not known, those that most often accompany a fact first."""
    facts = torch.from_numpy(graph.train)
    relations, (subject, relation, object_, when) = len(graph.relations), facts.unbind(1)
    reverse = KnownParts(facts, graph.sizes, 1)
    row, other = reverse(torch.stack([object_, relation, subject, when], dim=1))
    pair = relation[row] * relations + other
    both = torch.bincount(pair, minlength=relations**2).view(relations, relations)
    count, mirror = both.max(1)
    share = count / torch.bincount(relation, minlength=relations).clamp(min=1)
    share = share[relation]
    order = torch.argsort(share, descending=True, stable=True)
    order = order[share[order] >= min_share]
    mirrored = torch.stack([object_, mirror[relation], subject, when], dim=1)[order].numpy()
    return first_of_each(mirrored[~rows_in(mirrored, graph.all_facts)], columns=4)


def without_mirrors(facts: Facts, graph: TemporalGraph) -> Facts:
    """Facts [n, 4] that mirror no train fact."""
    return facts[~rows_in(facts, rank_by_mirror(graph, 0.5))]


def clock(work: Callable[[], Result]) -> tuple[float, Result]:
    """The seconds that some work takes, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
