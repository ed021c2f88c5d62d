"""What commands share: where output goes, tables, progress."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from tempograph.report.text_table import TextTable
from tempograph.training.distributed import Processes

_is_main = Processes.from_environment().is_main
# Names from data are printed as they are: brackets in them are no markup, and colons no pictures.
_plain = partial(Console, highlight=False, markup=False, emoji=False, quiet=not _is_main)

out = _plain()
"""Results, for people and for pipes."""

err = _plain(stderr=True)
"""Progress, notes and errors."""


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on standard output, and nothing else."""
    if _is_main:
        print(json.dumps(value, ensure_ascii=False, allow_nan=False))


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with an estimate on standard error; yields a function of (done, total). Silent when nobody watches."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(description, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def stoppable(way_on: Callable[[], str | None]) -> Iterator[None]:
    """Long work that a polite end stops as Ctrl-C does; what `way_on` then says follows on standard error."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        if said := way_on():
            err.print(f"stopped; {said}", soft_wrap=True)
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


def note(line: str) -> None:
    """A line for people on standard error."""
    err.print(line, soft_wrap=True)


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[RenderableType]],
    left: int = 1,
    caption: str = "",
) -> Table:
    """A table whose first `left` columns are text and the others numbers; numbers are never broken.

    Nor is the first column, unless it is the only text: then it gives way where the table is too wide.
    """
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        caption=caption or None,
    )
    made.caption_justify = "left"
    for index, column in enumerate(columns):
        text = index < left
        whole = not text or (index == 0 and left > 1)
        made.add_column(column, justify="left" if text else "right", overflow="fold", no_wrap=whole)
    for row in rows:
        made.add_row(*row)
    return made


def show(sheet: TextTable) -> bool:
    """Print a sheet, in its narrow form where the whole one does not fit; say whether it did."""

    def made(form: TextTable) -> Table:
        return table(
            form.title, form.columns, form.rows, left=form.text_columns, caption=form.caption
        )

    whole = made(sheet)
    fits = out.measure(whole, options=out.options.update(max_width=1000)).maximum <= out.width
    out.print(whole if fits else made(sheet.narrow()))
    return fits


def metric_columns(metrics: Mapping[str, float]) -> list[str]:
    """Headings for a row of metrics: MRR, MR, Hits@k."""
    return [name.upper() if name in ("mrr", "mr") else name.capitalize() for name in metrics]


def metric_cells(metrics: Mapping[str, float]) -> list[str]:
    """A row of metrics: MRR to three digits, mean rank to one, Hits in per cent."""
    shown = {"mrr": "{:.3f}", "mr": "{:,.1f}"}
    return [
        shown[name].format(value) if name in shown else f"{100 * value:.1f}"
        for name, value in metrics.items()
    ]
