"""How long does an update take? A day of new facts enters a run on ICEWS05-15.

Without a trained run the weights are random. The facts repeat triples of the data on the day after
the last one; one in twenty has a new entity. Measured are, in seconds of the clock and of the
processor, the median of --repeat times:

- update: of the run folder, in a process that has imported tempograph
- in memory: of a loaded run, without writing
- ready: what the updated run in memory takes until its model can answer
- command: `tempograph update`, from start to end, without new relations

PYTHONPATH=src OMP_NUM_THREADS=2 python benchmarks/update_speed.py --json update-speed.json
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tempograph
from tempograph.cli.console import out, table
from tempograph.data.catalog import load_dataset
from tempograph.data.graph import COLUMNS, TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import environment, resolve_device
from tempograph.io import write_json
from tempograph.training.callbacks import Callbacks
from tempograph.training.runs import Run
from tempograph.training.setup import configure, prepare_run


def main() -> None:
    """Load or build a run, update it, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, help="a trained run; by default an untrained one")
    parser.add_argument("--dataset", default="icews05-15")
    parser.add_argument("--model", default="pointer")
    parser.add_argument("--facts", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(arguments, Path(folder))
    rows = [[name, f"{wall:.2f}", f"{cpu:.2f}"] for name, (wall, cpu) in results.items()]
    what = arguments.run or f"{arguments.model} on {arguments.dataset}"
    title = f"{arguments.facts:,} facts, {what}, {torch.get_num_threads()} threads"
    out.print(table(title, ["what", "seconds", "of the processor"], rows))
    if arguments.json is not None:
        found = {"environment": environment(torch.device("cpu")), "results": results}
        write_json(arguments.json, found)


def measure(arguments: Any, folder: Path) -> dict[str, tuple[float, float]]:
    """Return seconds of the clock and of the processor for everything that is measured."""
    path = arguments.run or untrained(arguments.dataset, arguments.model, folder / "untrained")
    run = Run.load(path, resolve_device("cpu"))
    day = write_day(run.known_graph, arguments.facts, folder / "day.csv")
    copy = folder / "copy"

    def fresh() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)

    def in_memory() -> Run:
        return tempograph.update(run, day, save=False).run

    updated = in_memory()
    command = [sys.executable, "-m", "tempograph", "update", str(copy), str(day), "--json"]
    work: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "update": (fresh, lambda: tempograph.update(copy, day)),
        "in memory": (lambda: None, in_memory),
        "ready": (lambda: None, updated.answering),
        "command": (fresh, lambda: subprocess.run(command, check=True, capture_output=True)),
    }
    return {name: timed(*each, repeat=arguments.repeat) for name, each in work.items()}


def timed(
    before: Callable[[], object], work: Callable[[], object], repeat: int
) -> tuple[float, float]:
    """Median seconds of the clock and of the processor, child processes included."""
    figures = []
    for _ in range(repeat):
        before()
        wall, cpu = time.perf_counter(), sum(os.times()[:4])
        work()
        figures.append((time.perf_counter() - wall, sum(os.times()[:4]) - cpu))
    walls, cpus = zip(*figures, strict=True)
    return round(statistics.median(walls), 3), round(statistics.median(cpus), 3)


def untrained(dataset: str, model: str, folder: Path) -> Path:
    """A run folder of a model with the weights it has before training."""
    graph = load_dataset(dataset)
    config = configure(graph, model, torch.device("cpu"))
    run = prepare_run(config, graph, Timeline(graph), Callbacks(None, None))
    for each in (*run.parts.values(), run):
        each.results.finished = True
    run.save(folder)
    return folder


def write_day(graph: TemporalGraph, count: int, path: Path) -> Path:
    """A file of facts of the day after the last one."""
    rng = np.random.default_rng(0)
    triples = np.unique(graph.train[:, :3], axis=0)
    day = str(date.fromisoformat(graph.times[-1]) + timedelta(1))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number, (subject, relation, object_) in enumerate(
            rng.permutation(triples)[:count].tolist()
        ):
            name = graph.entities[subject] if number % 20 else f"New Entity {number}"
            writer.writerow([name, graph.relations[relation], graph.entities[object_], day])
    return path


if __name__ == "__main__":
    main()
