"""Output of the commands: consoles, JSON, tables, progress."""

from __future__ import annotations

import json
import math
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table

from tempograph.errors import TempographWarning
from tempograph.progress import show_on_console
from tempograph.report.text_table import TextTable
from tempograph.training.distributed import Processes
from tempograph.typing import Progress

_processes = Processes.from_environment()
_is_main = _processes.is_main
# Names from the data are printed verbatim: brackets are not markup, and colons not emoji.
_console = partial(Console, highlight=False, markup=False, emoji=False, quiet=not _is_main)

out = _console()
"""Results, for people and for pipes."""

err = _console(stderr=True)
"""Progress, notes and errors."""

every_process = _console(stderr=True, quiet=False)
"""Why a process ends, which of several processes each says for itself."""


def process_name() -> str:
    """The rank of this process as the beginning of a line; nothing if it is the only one."""
    return f"process {_processes.rank} of {_processes.size}: " if _processes.size > 1 else ""


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output; infinite numbers become null."""
    if _is_main:
        print(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def note(line: str) -> None:
    """Print a line for people on standard error."""
    err.print(line, soft_wrap=True)


def print_note(text: str) -> None:
    """Print a remark on the results on standard error."""
    note(f"note: {text}")


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Print each warning of ours in one line on standard error."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, TempographWarning):
            note(f"warning: {message}")
        else:
            usual(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.simplefilter("always", TempographWarning)
        warnings.showwarning = show
        yield


@contextmanager
def progress_bar(description: str) -> Iterator[Progress]:
    """Show progress on standard error: a bar in a terminal, else a line every ten seconds.

    Yields a function of (done, total).
    """
    with show_on_console(description, err, note) as work:
        yield work.update


@contextmanager
def stoppable(next_step: Callable[[], str | None]) -> Iterator[None]:
    """Let SIGTERM stop long work as Ctrl-C does, and then print `next_step()` on standard error."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        if hint := next_step():
            note(f"stopped; {hint}")
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


def table(
    title: str,
    columns: Sequence[RenderableType],
    rows: Sequence[Sequence[RenderableType]],
    left: int = 1,
    caption: str = "",
) -> Table:
    """A table whose first `left` columns are text and the others numbers; numbers never wrap.

    The first column does not wrap either, unless it is the only text column.
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
        is_text = index < left
        no_wrap = not is_text or (index == 0 and left > 1)
        made.add_column(
            column, justify="left" if is_text else "right", overflow="fold", no_wrap=no_wrap
        )
    for row in rows:
        made.add_row(*row)
    return made


def show(text_table: TextTable) -> bool:
    """Print a table, in its narrow form if the full one is too wide; return whether it fitted.

    In a file or a pipe, a table that has no form that fits keeps its width, so that nothing is cut.
    """

    def made(form: TextTable) -> Table:
        rows, caption = form.marked_rows, form.full_caption
        return table(form.title, form.columns, rows, left=form.text_columns, caption=caption)

    def natural_width(shown: Table) -> int:
        return out.measure(shown, options=out.options.update(max_width=1000)).maximum

    full = made(text_table)
    if natural_width(full) <= out.width:
        out.print(full)
        return True
    narrow = made(text_table.narrow())
    if out.is_terminal or natural_width(narrow) <= out.width:
        out.print(narrow)
    else:
        _console(width=natural_width(narrow)).print(narrow)
    return False


def metric_columns(metrics: Mapping[str, float]) -> list[str]:
    """Headings for a row of metrics: MRR, MR, Hits@k."""
    return [name.upper() if name in ("mrr", "mr") else name.capitalize() for name in metrics]


def metric_cells(metrics: Mapping[str, float]) -> list[str]:
    """A row of metrics: MRR with three digits, mean rank with one, Hits in percent."""
    formats = {"mrr": "{:.3f}", "mr": "{:,.1f}"}
    return [
        formats[name].format(value) if name in formats else f"{100 * value:.1f}"
        for name, value in metrics.items()
    ]
