"""Latency of a query to the Predictor and time to score many facts, with TeMP-GRU on ICEWS14.

Without a trained run the weights are random. A query is timed for a new time step and for one that
is cached, without evidence and with the effects of facts on ten answers. Facts of some days are
scored without and with ranks, with an empty cache and again.

PYTHONPATH=src OMP_NUM_THREADS=2 python benchmarks/predictor_speed.py --json speed.json
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tempograph.cli.console import out, table
from tempograph.data.catalog import load_dataset
from tempograph.data.timeline import Timeline
from tempograph.device import environment, resolve_device
from tempograph.io import write_json
from tempograph.prediction.predictor import Predictor
from tempograph.training.config import make_config
from tempograph.training.run_results import RunResults
from tempograph.training.runs import Run
from tempograph.training.setup import build_model


def main() -> None:
    """Load or build a run, query, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, help="a trained run; by default an untrained one")
    parser.add_argument("--dataset", default="icews14")
    parser.add_argument("--model", default="temp-gru")
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument(
        "--days", type=int, default=30, help="number of days of the facts; 0 for all"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    results = measure(arguments)
    rows = [[name, f"{value:.1f} {unit}"] for name, (value, unit) in results.items()]
    what = arguments.run or f"{arguments.model} on {arguments.dataset}"
    where = f"{what}, {torch.get_num_threads()} threads, {arguments.device}"
    out.print(table(where, ["what", "median"], rows))
    if arguments.json is not None:
        found = {"environment": environment(resolve_device(arguments.device)), "results": results}
        write_json(arguments.json, found)


def measure(arguments: Any) -> dict[str, tuple[float, str]]:
    """Return every figure with its unit."""
    device = resolve_device(arguments.device)
    run = untrained(arguments, device) if arguments.run is None else Run.load(arguments.run, device)
    graph = run.graph
    rng = np.random.default_rng(0)
    queries = graph.test[rng.choice(len(graph.test), arguments.queries, replace=False)].tolist()

    def ask(evidence: int) -> Callable[[list[int]], object]:
        return lambda fact: predictor.objects(fact[0], fact[1], fact[3], evidence=evidence)

    predictor = Predictor(run)
    results = {"a query about a new day": (1000 * median(ask(0), queries), "ms")}
    results["a query"] = 1000 * median(ask(0), queries), "ms"
    results["a query with effects on ten answers"] = 1000 * median(ask(3), queries), "ms"
    facts = np.concatenate([graph.test, graph.valid])
    facts = facts[rng.choice(len(facts), min(len(facts), arguments.facts), replace=False)]
    what = f"{len(facts):,} facts"
    if arguments.days:
        days = rng.choice(len(graph.times), arguments.days, replace=False)
        facts[:, 3] = days[rng.integers(0, len(days), len(facts))]
        what += f" of {arguments.days} days"
    predictor = Predictor(run)
    for how, ranks in (
        (", scores alone", False),
        (" with ranks", True),
        (" with ranks, again", True),
    ):
        start = time.perf_counter()
        predictor.score(facts, progress=False, ranks=ranks)
        results[what + how] = time.perf_counter() - start, "s"
    return results


def untrained(arguments: Any, device: torch.device) -> Run:
    """Return a run with random weights."""
    graph = load_dataset(arguments.dataset)
    config, timeline = (
        make_config(arguments.model, graph.name, preset="tuned"),
        Timeline(graph, "strict", device),
    )
    # Without valid facts the temperature is 1.
    graph = replace(graph, valid=graph.valid[:0])
    results = RunResults(
        graph.name, config.name, config.protocol, config.seed, config.preset, config.settings()
    )
    return Run(config, graph, build_model(config, timeline, {}).eval(), timeline, [], results)


def median(ask: Callable[[list[int]], object], queries: list[list[int]]) -> float:
    """Return the median of the seconds that queries take."""
    seconds = []
    for fact in queries:
        start = time.perf_counter()
        ask(fact)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
