"""How long does `fit` take, and how good is the model? CSV files in, a trust report out.

Data are named as in benchmarks/defaults.py, and written as CSV files first:

- icews14: the splits of the benchmark, so that the MRR can be compared with that of its presets
- icews14/60000: so many facts of it, drawn at random and split by `fit`
- world/470000x23000: a synthetic world of so many facts and entities, split by `fit`

The clock starts before the files are read and stops when the trust report is written. Results are
added to those in the file, after each stage, so that something is left of a fit that is stopped.

PYTHONPATH=src python benchmarks/fit_speed.py icews14 --json fit-speed.json
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from defaults import load, read_measured
from speed_tables import fit_speed_table

from tempograph.cli.console import note, show
from tempograph.data.catalog import load_dataset
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.device import environment, peak_memory_bytes, resolve_device
from tempograph.experiments.autofit import fit
from tempograph.io import write_json
from tempograph.typing import SPLITS, Progress


def main() -> None:
    """Write CSV files, fit them, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="such as icews14, icews14/60000 or world/470000x23000")
    parser.add_argument("--minutes", type=float, default=0, help="of a search; 0 for the rules")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="the run folder; by default a temporary one")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    found, here = read_measured(arguments.json, device), environment(device)
    result: dict[str, Any] = {
        "data": arguments.data,
        "minutes": arguments.minutes,
        "set": arguments.set,
        "hardware": here["hardware"],
    }
    others = [
        each for each in found["results"] if any(each[name] != result[name] for name in result)
    ]
    result |= {"commit": here["commit"], "stages": {}}
    found["results"] = [*others, result]

    def save() -> None:
        if arguments.json is not None:
            write_json(arguments.json, found)

    with tempfile.TemporaryDirectory() as folder:
        files = write_files(arguments.data, arguments.seed, Path(folder))
        clock = Stages(result["stages"], save)
        fitted = fit(
            files,
            out=arguments.out or Path(folder) / "run",
            overrides=arguments.set,
            seed=arguments.seed,
            device=arguments.device,
            minutes=arguments.minutes,
            importing=lambda *_: None,
            report=lambda line: clock.start(f"training {line.get('part', '')}".strip()),
            progress=lambda *_: None,
            on_stage=clock.on_stage,
            note=note,
        )
    clock.start("")
    assert fitted.trust is not None
    seconds, cpu_seconds = map(sum, zip(*result["stages"].values(), strict=True))
    who = fitted.trust.figures.questions[0]
    graph = fitted.run.graph
    result |= {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_bytes": peak_memory_bytes(device),
        "model": fitted.choice.model,
        "facts": len(graph.all_facts),
        "entities": len(graph.entities),
        "mrr": who["metrics"]["mrr"],
        "ted_mrr": who["baseline_metrics"]["mrr"] if who["baseline_metrics"] else None,
        "hard": fitted.run.results.test["hard"] if fitted.run.results.test else {},
        "parts": {
            name: part.results.valid["metrics"]["mrr"]
            for name, part in fitted.run.parts.items()
            if part.results.valid is not None
        },
        "part_seconds": {
            name: part.results.train_seconds for name, part in fitted.run.parts.items()
        },
    }
    save()
    for name, (seconds, cpu_seconds) in result["stages"].items():
        note(f"{seconds:7.1f} s {cpu_seconds:7.1f} s of CPU  {name}")
    show(fit_speed_table(found))


class Stages:
    """How many seconds each stage took, by the clock and of all cores together."""

    def __init__(self, stages: dict[str, list[float]], save: Callable[[], None]) -> None:
        self._stages, self._save = stages, save
        self._last = read_clocks()
        self._name = "reading and preparing"

    def start(self, name: str) -> None:
        """End the stage before, and begin another."""
        now, before = read_clocks(), self._stages.get(self._name, [0.0, 0.0])
        passed = zip(before, now, self._last, strict=True)
        self._stages[self._name] = [sofar + end - start for sofar, end, start in passed]
        self._last, self._name = now, name
        self._save()

    def on_stage(self, name: str) -> Progress:
        """Begin a stage; its progress is not shown."""
        self.start(name)
        return lambda *_: None


def read_clocks() -> tuple[float, float]:
    """The time, and the time that this process has spent on all cores, in seconds."""
    return time.perf_counter(), time.process_time()


def write_files(data: str, seed: int, folder: Path) -> Path | dict[str, Path]:
    """Write the facts behind a name as one CSV file, or as one for each split of a benchmark."""
    base, _, part = data.partition("/")
    if base == "world" or part.endswith("%"):
        graph, _ = load(data, seed)
        return write_csv(graph, graph.all_facts, folder / "facts.csv")
    graph = load_dataset(base)
    if part:
        rng = np.random.default_rng(seed)
        facts = np.unique(graph.all_facts, axis=0)
        return write_csv(graph, rng.permutation(facts)[: int(part)], folder / "facts.csv")
    return {
        split: write_csv(graph, graph.facts(split), folder / f"{split}.csv") for split in SPLITS
    }


def write_csv(graph: TemporalGraph, facts: Facts, path: Path) -> Path:
    """Write facts [n, 4] with their names."""
    names = (graph.entities, graph.relations, graph.entities, graph.times)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["subject", "relation", "object", "date"])
        rows.writerows([each[i] for each, i in zip(names, fact, strict=True)] for fact in facts)
    return path


if __name__ == "__main__":
    main()
