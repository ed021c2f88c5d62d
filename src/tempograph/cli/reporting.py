"""report: pages about runs, to read and to send."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tempograph.cli.console import out, progress_bar
from tempograph.errors import ConfigError


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders that have been evaluated.")
    ],
    path: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The report file: .html, or .md with a folder of figures beside it."
        ),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Write the trust report of one run, by default to RUN/trust.html; "
            "missing measurements are made first.",
        ),
    ] = False,
    window: Annotated[
        int,
        typer.Option(min=1, help="Count frequencies in this many steps on each side of a query."),
    ] = 8,
) -> None:
    """Write a report on runs: metrics, where each model is right, training and settings.

    Example: **tempograph report runs/ted runs/temp --out report.html**
    """
    from tempograph.report.run_report import write_report

    if trust:
        path = _write_trust_report(runs, path)
        out.print(f"written: {path}", soft_wrap=True)
        return
    if path is None:
        raise ConfigError("name the file of the report with --out, or pass --trust")
    write_report(runs, path, window)
    out.print(f"written: {path}", soft_wrap=True)


def _write_trust_report(runs: Sequence[Path], path: Path | None) -> Path:
    """Measure what is not measured yet, and write the trust report of one run."""
    from tempograph.report.run_report import writer_for
    from tempograph.report.trust_report import TRUST_REPORT, make_trust_report, measure_questions
    from tempograph.training.runs import Run

    if len(runs) != 1:
        raise ConfigError(f"a trust report is about one run, found {len(runs)}")
    path = path or runs[0] / TRUST_REPORT
    writer_for(path)
    run = Run.load(runs[0])
    measure_questions(run, progress_bar)
    make_trust_report(run, progress_bar).write(path)
    return path
