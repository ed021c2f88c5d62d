"""Time of an epoch on facts that hold for a while, by how many steps they hold.

The cost should grow with facts, not with the steps at which they hold: worlds of the same facts
differ in how long these hold, on average 1, 50 and 500 of 10,000 steps. Settings are the suggested
ones.

PYTHONPATH=src python benchmarks/interval_training.py --facts 1000000 --json intervals.json
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from forecast_speed import take_epoch
from many_entities import reset_peak
from pointer_speed import clock
from speed_tables import interval_training_table

from tempograph.cli.console import note, show
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import environment, peak_memory_bytes, resolve_device
from tempograph.io import write_json
from tempograph.training.setup import configure
from tempograph.training.train_state import TrainState

ENTITIES, RELATIONS = 50_000, 50


def main() -> None:
    """Train an epoch on each world, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 50, 500])
    parser.add_argument("--models", nargs="+", default=["pointer"])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    results: list[dict[str, Any]] = []
    measured = {"environment": environment(device), "results": results}
    for length in arguments.lengths:
        graph = made_intervals(arguments.facts, arguments.steps, length)
        for model in arguments.models:
            results.append(measure(graph, model, length, arguments.epochs, device))
            if arguments.json is not None:
                write_json(arguments.json, measured)
    show(interval_training_table(measured))


def made_intervals(facts: int, steps: int, length: int) -> TemporalGraph:
    """Facts between entities drawn at random, whose lengths are exponentially distributed."""
    generator = np.random.default_rng(0)
    start = generator.integers(steps, size=facts)
    longer = generator.exponential(length - 1, size=facts).astype(np.int64)
    rows = np.column_stack(
        [
            generator.integers(ENTITIES, size=facts),
            generator.integers(RELATIONS, size=facts),
            generator.integers(ENTITIES, size=facts),
            start,
            np.minimum(start + longer, steps - 1),
            np.zeros(facts, np.int64),
        ]
    )
    return TemporalGraph(
        f"intervals of {length}",
        tuple(f"entity {number}" for number in range(ENTITIES)),
        tuple(f"relation {number}" for number in range(RELATIONS)),
        tuple(f"{number:05}" for number in range(steps)),
        np.unique(rows, axis=0),
        rows[:0],
        rows[:0],
    )


def measure(
    graph: TemporalGraph, model: str, length: int, epochs: int, device: torch.device
) -> dict[str, Any]:
    """Seconds and peak memory of the fastest epoch."""
    reset_peak(device)
    config = configure(graph, model, device)
    assert config.recipe.gradient is not None and config.train is not None
    started = time.perf_counter()
    timeline = Timeline(graph, "strict", device)
    torch.manual_seed(0)
    built = config.kind.build(config.model, timeline)
    loss = config.recipe.gradient.loss(built, config.train)
    state = TrainState(built, loss, config.train, seed=0)
    prepared = time.perf_counter() - started
    seconds = []
    for number in range(epochs):
        seconds.append(clock(lambda: take_epoch(loss, state), device))
        note(f"{model}, {graph.name}, epoch {number + 1}: {seconds[-1]:.1f} s")
    return {
        "model": model,
        "facts": len(graph.train),
        "steps": len(graph.times),
        "length": length,
        "timeline_seconds": prepared,
        "epoch_seconds": min(seconds),
        "config": config.settings(),
        "peak_bytes": peak_memory_bytes(device),
    }


if __name__ == "__main__":
    main()
