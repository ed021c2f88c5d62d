"""Does `forecast` know what will happen? Each step of a split is forecast from the facts before it.

For each way to rank facts that may happen, the program counts those that did happen among the first
10, 100 and 1,000 of each step:

- forecast: by the probability that the fact happens, as `Predictor.forecast`
- recurrence: by the sum of 2^(-decay gap) over earlier occurrences of the fact, with the decay that
  is best on valid
- last: the facts that happened last, those with more occurrences first

The calibration error is that of all proposals, without bins of fewer than 100. With --ahead N,
nothing is known of the last N - 1 steps before each step. Exit code 1: the error is above 0.03, or
`forecast` finds fewer facts than a baseline.

PYTHONPATH=src python benchmarks/will_it_happen.py --runs runs/pointer --json will-it-happen.json
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from tempograph.cli.console import note, out, table
from tempograph.data.timeline import Timeline
from tempograph.device import environment, resolve_device
from tempograph.evaluation.reliability import calibration_error, reliability, reliability_cells
from tempograph.io import write_json
from tempograph.models.recurrency import DECAYS
from tempograph.training.answering import measured_answering
from tempograph.training.occurrence_proposals import OccurrenceProposals
from tempograph.training.runs import Run

FIRST: Final = (10, 100, 1000)
MIN_BIN: Final = 100
"""Bins of probability with fewer proposals do not count."""
MAX_CALIBRATION_ERROR: Final = 0.03


def main() -> None:
    """Forecast, count, print; exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", required=True, help="run folders, separated by commas")
    parser.add_argument("--split", choices=("valid", "test"), default="test")
    parser.add_argument("--ahead", type=int, default=1, help="how many steps ahead to look")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    found: dict[str, Any] = {"environment": environment(device), "results": []}
    for folder in arguments.runs.split(","):
        found["results"] += measure(Run.load(folder, device), arguments)
    show_results(found["results"])
    if arguments.json is not None:
        write_json(arguments.json, found)
    sys.exit(not all(result["reached"] for result in found["results"] if "reached" in result))


def measure(run: Run, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A result for each ranking; the first one also has the calibration and the target."""
    start = time.perf_counter()
    classifier = run.questions.occurrence(progress(f"fitting {run.config.name}"))
    fit_seconds = time.perf_counter() - start
    answering = measured_answering(run)
    timeline = answering.timeline
    source = OccurrenceProposals(answering.model, timeline, run.questions.calibrator())
    ahead = arguments.ahead
    steps = np.unique(run.graph.facts(arguments.split)[:, 3]).tolist()
    probability: list[Tensor] = []
    happened: list[Tensor] = []
    start = time.perf_counter()
    for step in steps:
        proposals = source.propose(classifier, step, step + 1 - ahead)
        log_probs = source.log_probs(proposals.facts, step + 1 - ahead)
        probability.append(
            classifier.probability(proposals.features, log_probs, proposals.recurring)
        )
        happened.append(source.features.happened(proposals.facts))
        progress(f"forecasting by {run.config.name}")(len(happened), len(steps))
    seconds = time.perf_counter() - start
    ranked = [
        outcome[torch.argsort(chance, descending=True, stable=True)]
        for chance, outcome in zip(probability, happened, strict=True)
    ]
    weights: dict[str, Callable[[Tensor], Tensor]] = {
        "last": lambda gap: torch.exp2(-gap) + 1e-6,
        "recurrence": best_recurrence(run, source, timeline, ahead),
    }
    shares = {"forecast": precision(ranked)} | {
        name: precision(rank_triples(source, timeline, steps, ahead, weight))
        for name, weight in weights.items()
    }
    results: list[dict[str, Any]] = [
        {
            "model": run.config.name,
            "dataset": run.graph.name,
            "split": arguments.split,
            "ahead": ahead,
            "ranking": name,
            "precision": dict(zip(map(str, FIRST), each, strict=True)),
        }
        for name, each in shares.items()
    ]
    chance, outcome = torch.cat(probability).cpu(), torch.cat(happened).cpu()
    bins = [row for row in reliability(chance, outcome) if row["questions"] >= MIN_BIN]
    error = calibration_error(bins)
    facts = sum(int(timeline.step_start[step + 1] - timeline.step_start[step]) for step in steps)
    results[0] |= {
        "steps": len(steps),
        "facts": facts,
        "proposals": len(outcome),
        "expected": float(chance.sum()),
        "happened": int(outcome.sum()),
        "brier": float((chance - outcome.double()).square().mean()),
        "calibration_error": error,
        "reliability": bins,
        "fit_seconds": fit_seconds,
        "seconds_per_step": seconds / len(steps),
        "reached": error <= MAX_CALIBRATION_ERROR
        and shares["forecast"][-1] >= max(each[-1] for each in shares.values()),
    }
    return results


def progress(text: str) -> Callable[[int, int], None]:
    """Report every tenth of some work."""

    def report(done: int, total: int) -> None:
        if done * 10 // total > (done - 1) * 10 // total:
            note(f"{text}: {done} of {total}")

    return report


def precision(ranked: Sequence[Tensor]) -> list[float]:
    """The mean share of facts that happened among the first of each step."""
    return [float(np.mean([float(each[:k].double().sum()) / k for each in ranked])) for k in FIRST]


def rank_triples(
    source: OccurrenceProposals,
    timeline: Timeline,
    steps: Sequence[int],
    ahead: int,
    weight: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    """For each step, which triples of the past happened, by the sum of the weights of gaps."""
    triples, number = torch.unique(timeline.facts[:, :3], dim=0, return_inverse=True)
    ranked = []
    for step in steps:
        past = int(timeline.step_start[step + 1 - ahead])
        gap = (step - timeline.facts[:past, 3]).double()
        value = gap.new_zeros(len(triples)).index_add_(0, number[:past], weight(gap))
        best = value.topk(min(FIRST[-1], len(value))).indices
        at_step = torch.full((len(best), 1), step, device=best.device)
        ranked.append(source.features.happened(torch.cat([triples[best], at_step], dim=1)))
    return ranked


def best_recurrence(
    run: Run, source: OccurrenceProposals, timeline: Timeline, ahead: int
) -> Callable[[Tensor], Tensor]:
    """The decay with which most of the first 1,000 facts of each step of valid happened."""
    steps = np.unique(run.graph.valid[:, 3]).tolist()

    def decayed(decay: float) -> Callable[[Tensor], Tensor]:
        return lambda gap: torch.exp2(-decay * gap)

    def share(decay: float) -> float:
        return precision(rank_triples(source, timeline, steps, ahead, decayed(decay)))[-1]

    return decayed(max(DECAYS, key=share))


def show_results(results: Sequence[dict[str, Any]]) -> None:
    """Print who found how much, and how far the probabilities can be trusted."""
    rows = [
        [
            each["model"],
            each["dataset"],
            each["ranking"],
            *(f"{each['precision'][str(k)]:.1%}" for k in FIRST),
        ]
        for each in results
    ]
    columns = ["model", "dataset", "ranking", *(f"of first {k:,}" for k in FIRST)]
    out.print(table("Facts that happened among the most likely of a step", columns, rows, left=3))
    for each in results:
        if "reliability" not in each:
            continue
        columns, cells = reliability_cells(each["reliability"])
        columns[1:] = ["proposals", "mean", "happened"]
        caption = (
            f"calibration error {each['calibration_error']:.4f}, Brier {each['brier']:.4f}; "
            f"{each['expected']:,.0f} expected, {each['happened']:,} of {each['facts']:,} facts "
            f"found; fitted in {each['fit_seconds']:.0f} s, {each['seconds_per_step']:.1f} s a step"
        )
        title = f"Probability that a fact happens, {each['model']} on {each['dataset']}"
        out.print(table(title, columns, cells, caption=caption))


if __name__ == "__main__":
    main()
