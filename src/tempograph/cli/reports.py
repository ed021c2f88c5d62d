"""report: one page on finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempograph.cli.console import out


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, evaluated before.")
    ],
    page: Annotated[
        Path,
        typer.Option("--out", help="The page: .html, or .md with a folder of pictures beside it."),
    ],
    window: Annotated[
        int, typer.Option(min=1, help="Steps before and after a question for its frequencies.")
    ] = 8,
) -> None:
    """Write a page on runs to be read or sent on: figures, where the answers are found, training, settings.

    Example: **tempograph report runs/ted runs/temp --out report.html**
    """
    from tempograph.report.run_report import write_report

    write_report(runs, page, window)
    out.print(f"written: {page}", soft_wrap=True)
