"""evaluate, calibration and report: how good a run is."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from tempograph.cli.console import (
    metric_cells,
    metric_columns,
    out,
    print_json,
    print_note,
    progress_bar,
    show,
    table,
)
from tempograph.cli.shared_options import Device, Json, Plot, RunFolder, ScoreMemory
from tempograph.cli.train import is_finished
from tempograph.report.text_table import TextTable
from tempograph.typing import Filter, Split

if TYPE_CHECKING:
    from tempograph.evaluation.evaluator import Evaluation


def evaluate(
    run: RunFolder,
    split: Annotated[Split, typer.Option(help="The facts to rank.")] = "test",
    filter: Annotated[
        Filter,
        typer.Option(
            help="Other known answers to remove before ranking: those at the same time (time), "
            "those at any time (static), or none (raw)."
        ),
    ] = "time",
    hits: Annotated[
        str, typer.Option(help="Values of k for Hits@k, separated by commas.")
    ] = "1,3,10",
    memory: ScoreMemory = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with code 1 if the run misses a target of its preset."),
    ] = False,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Rank the object and subject of every fact in a split, and store ranks and metrics."""
    import tempograph.training.trainer
    from tempograph.errors import ConfigError
    from tempograph.training.run_folder import target_metrics

    try:
        ks = [int(k) for k in hits.split(",")]
    except ValueError:
        ks = []
    if min(ks, default=0) < 1:
        raise ConfigError(f"--hits takes whole numbers from 1, separated by commas, found '{hits}'")
    targets = target_metrics(run, split, filter) if check else {}
    with progress_bar(f"ranking {split}") as progress:
        evaluation = tempograph.training.trainer.evaluate(
            run,
            split,
            filter=filter,
            device=device,
            budget=memory * 2**20 if memory else None,
            progress=progress,
        )
    if is_finished(run) is False:
        resume = f"tempograph resume {quote(str(run))}"
        print_note(f"training is not finished; continue with: {resume}")
    # Published figures have three digits.
    reached = {name: round(evaluation.summary()["metrics"][name], 3) for name in targets}
    missed = {name: value for name, value in targets.items() if reached[name] < value}
    if json_output:
        print_json(evaluation.summary(ks) | ({"missed": missed} if check else {}))
    else:
        _print_evaluation(evaluation, ks)
        for name, value in targets.items():
            verdict = "missed" if name in missed else "reached"
            out.print(f"{name} {value:.3f} {verdict}: {reached[name]:.3f}")
    if missed:
        raise typer.Exit(1)


def _print_evaluation(evaluation: Evaluation, ks: list[int]) -> None:
    """Print the metrics of both sides together and of each."""
    from tempograph.evaluation.evaluator import METRIC_LABELS

    summary = evaluation.summary(ks)
    rows = [[label, *metric_cells(summary[key])] for key, label in METRIC_LABELS.items()]
    title = (
        f"{evaluation.model} on {evaluation.dataset}, {evaluation.split}: "
        f"{len(evaluation.facts):,} facts"
    )
    caption = (
        f"protocol {evaluation.protocol}, filter {evaluation.filter}, Hits in percent, "
        f"{evaluation.seconds:.1f} s"
    )
    out.print(table(title, ["ranked", *metric_columns(summary["metrics"])], rows, caption=caption))
    if evaluation.note is not None:
        out.print(evaluation.note, soft_wrap=True)


def calibration(
    run: RunFolder, plot: Plot = None, device: Device = "auto", json_output: Json = False
) -> None:
    """Show how far the probabilities of a run can be trusted.

    The temperature is fitted once, on the validation split, and stored in the run folder.
    """
    from tempograph.device import resolve_device
    from tempograph.errors import QueryError
    from tempograph.evaluation.calibration import reliability_cells
    from tempograph.training.runs import Run

    loaded = Run.load(run, resolve_device(device))
    config = loaded.config
    with progress_bar("scoring the valid split") as progress:
        if loaded.fit_temperature(progress) is None:
            raise QueryError(f"the scores of {config.name} are not probabilities; nothing to check")
    if loaded.results.calibration is None:
        raise QueryError(f"{run}: its valid split has no facts, so nothing can be calibrated")
    found = loaded.results.calibration
    if plot is not None:
        from tempograph.report.drawing import save
        from tempograph.report.model_plots import reliability_figure

        save(reliability_figure(found, config.about), plot)
    if json_output:
        print_json({"run": str(run), "model": config.name} | found)
        return
    title = (
        f"{config.name} on {config.dataset}: probability of the best answer, "
        "and how often it is right"
    )
    caption = (
        f"{found['facts']:,} {found['split']} facts, both query directions, "
        f"protocol {config.protocol}, filter time; temperature {found['temperature']:.3f}; "
        f"expected calibration error {found['calibration_error']:.3f} "
        f"({found['calibration_error_before']:.3f} without temperature)"
    )
    show(TextTable(title, *reliability_cells(found["reliability"]), caption=caption))


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders that have been evaluated.")
    ],
    path: Annotated[
        Path,
        typer.Option(
            "--out", help="The report file: .html, or .md with a folder of figures beside it."
        ),
    ],
    window: Annotated[
        int,
        typer.Option(min=1, help="Count frequencies in this many steps on each side of a query."),
    ] = 8,
) -> None:
    """Write a report on runs: metrics, where each model is right, training and settings.

    Example: **tempograph report runs/ted runs/temp --out report.html**
    """
    from tempograph.report.run_report import write_report

    write_report(runs, path, window)
    out.print(f"written: {path}", soft_wrap=True)
