"""Measure with the present code what the tables show: train, test and save every run that is due.

A run is due unless results/ has it, measured with this very code. Stop at any time, or after some
minutes, and repeat the command to go on. Copy the results folder back from a machine without git.

python scripts/measure.py icews14 --seeds 0 1 2 --jobs 14 --minutes 9
python scripts/measure.py icews05-15 --models temp-gru pointer --what table figures
python scripts/measure.py icews14-forecast --what forecasts
python scripts/measure.py yago11k --what intervals --seeds 0 1 2
"""

from __future__ import annotations

import _thread
import argparse
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tempograph.cli.console import note
from tempograph.data.catalog import load_dataset
from tempograph.errors import TempographError
from tempograph.evaluation.rank_table import RankTable
from tempograph.experiments.paper.required_runs import (
    MEASURED,
    forecast_runs,
    interval_runs,
    missing_runs,
    named_runs,
    required_runs,
    train_required,
    without_duplicates,
)
from tempograph.experiments.results import load_results, save_result
from tempograph.experiments.specs import RunSpec
from tempograph.io import make_folder
from tempograph.provenance import source_version
from tempograph.typing import ARTEFACTS, COMPLETION_PROTOCOLS, Protocol

NAMES = "names"
FORECASTS = "forecasts"
INTERVALS = "intervals"


def wanted_runs(
    dataset: str,
    artefacts: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    protocols: Sequence[Protocol] = COMPLETION_PROTOCOLS,
) -> list[RunSpec]:
    """Return the runs behind some tables and figures, of all models or of some."""
    specs = [
        spec
        for artefact in ARTEFACTS
        if artefact in artefacts
        for spec in required_runs(artefact, dataset, protocols, seeds)
    ]
    if NAMES in artefacts and "strict" in protocols:
        specs += named_runs(dataset, seeds)
    if FORECASTS in artefacts:
        specs += forecast_runs(dataset, seeds)
    if INTERVALS in artefacts and "strict" in protocols:
        specs += interval_runs(dataset, seeds)
    return [spec for spec in without_duplicates(specs) if not models or spec.model in models]


def copy_current(results: Path, folder: Path, code: str) -> None:
    """Copy the results that were measured with this code, and ranks that agree with them.

    A result without relations and times is of a run that was stopped, so the run is due again.
    """
    make_folder(folder)
    files = sorted(results.glob("*/*.json"))
    for path, result in zip(files, load_results(results), strict=True):
        if result.code != code or result.test is None or not result.is_measured(MEASURED):
            continue
        target = folder / path.relative_to(results)
        make_folder(target.parent)
        shutil.copy(path, target)
        ranks = path.parent / "ranks" / f"{path.stem}.parquet"
        if ranks.is_file():
            mrr = float(np.mean(1 / RankTable.read(ranks).rank))
            if abs(mrr - result.test["metrics"]["mrr"]) < 1e-5:
                make_folder(target.parent / "ranks")
                shutil.copy(ranks, target.parent / "ranks")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is due, as far as the time allows; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", help="a dataset folder, or a known name such as icews14")
    parser.add_argument(
        "--what",
        default=["table"],
        nargs="+",
        choices=(*ARTEFACTS, NAMES, FORECASTS, INTERVALS),
        help="tables and figures; names are the rows with names, forecasts those of forecasters, "
        "intervals those of facts that hold for a while",
    )
    parser.add_argument("--models", default=[], nargs="+", help="by default, all")
    parser.add_argument(
        "--protocols", default=COMPLETION_PROTOCOLS, nargs="+", choices=COMPLETION_PROTOCOLS
    )
    parser.add_argument("--seeds", type=int, default=[0], nargs="+")
    parser.add_argument("--jobs", type=int, default=1, help="runs to train side by side")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out", type=Path, default=Path("runs/measured"), help="folder for runs")
    options = parser.parse_args(arguments)
    timer = None
    try:
        graph = load_dataset(options.dataset)
        specs = [
            replace(
                spec,
                source=options.dataset,
                folder=options.out / graph.name / spec.name,
                device=options.device,
            )
            for spec in wanted_runs(
                graph.name, options.what, options.models, options.seeds, options.protocols
            )
        ]
        current = options.out / "results"
        copy_current(options.results, current, source_version().code)
        if options.minutes is not None:
            timer = threading.Timer(60 * options.minutes, _thread.interrupt_main)
            timer.daemon = True
            timer.start()
        try:
            failed = train_required(specs, graph, current, options.jobs, note, None)
        except KeyboardInterrupt:
            note("stopped; repeat the command to go on")
            failed = []
        for spec in missing_runs(specs, current):
            results = spec.read_results(graph)
            if results is not None and results.finished and results.is_ranked(MEASURED):
                note(f"{spec.name}: relations and times are missing; saved without them")
                save_result(results, options.results, spec.variant)
        for path in sorted((current / graph.name).rglob("*.*")):
            target = options.results / path.relative_to(current)
            make_folder(target.parent)
            shutil.copy(path, target)
        for run in failed:
            note(f"{run.name}: failed: {run.reason}")
        left = missing_runs(specs, current)
        note(f"{len(specs) - len(left)} of {len(specs)} runs are measured with this code")
    except TempographError as error:
        note(f"error: {error}")
        return 2
    finally:
        if timer is not None:
            timer.cancel()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
