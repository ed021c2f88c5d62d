"""How far long work is: a bar in a terminal or notebook, or lines in a log."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Final

import rich.progress
from rich.console import Console
from rich.text import Text

from tempograph.typing import Progress, ProgressOption

_LINE_SECONDS: Final = 10.0
"""Seconds before the first line in a log, and between two of them."""
_NOTEBOOK_DELAY: Final = 0.5
"""Seconds before a notebook shows anything: short work leaves no trace in it."""
_NOTEBOOK_INTERVAL: Final = 0.2


class Work:
    """Some work, how much of it is done, and how long the rest takes."""

    def __init__(self, description: str) -> None:
        self.description, self.detail = description, ""
        self.redraw: Callable[[], None] = lambda: None
        """Called after each change."""
        self.started = self.last_line = time.monotonic()
        """When the work began, and when a line about it was last printed."""
        self.done = self.total = 0.0
        """How much is done, and of how much; a total of 0 is unknown."""
        self._first_count = (self.started, 0.0)
        """When the count began, and where: its speed is measured from there."""
        self._left: tuple[float, float] | None = None
        """The seconds left, and when they were estimated."""
        self._at_most = False

    def update(self, done: float, total: float) -> None:
        """Set how much is done; the time left is estimated from the time so far."""
        now = time.monotonic()
        if self.total and (done < self.done or total != self.total):
            # The next count: it did not begin with the work.
            self._first_count = (now, done)
        self.done, self.total, self._left = done, total, None
        began, first = self._first_count
        if done > first:
            self._left = ((now - began) * max(0.0, total - done) / (done - first), now)
        self.redraw()

    def update_left(self, seconds: float) -> None:
        """Set a bound on the time left; the bar shows how much of all the time has passed."""
        now = time.monotonic()
        self.done = now - self.started
        self.total, self._left, self._at_most = self.done + seconds, (seconds, now), True
        self.redraw()

    @property
    def text(self) -> str:
        """What is done, such as `training ted: epoch 3`."""
        return ": ".join(filter(None, (self.description, self.detail)))

    @property
    def status(self) -> str:
        """How far it is, such as `40%, about 20 s left`."""
        parts = []
        if self.total and not self._at_most:
            parts.append(f"{min(1.0, self.done / self.total):.0%}")
        if self._left is not None and self.done < self.total:
            seconds, estimated = self._left
            left = max(0.0, seconds - (time.monotonic() - estimated))
            word = "at most" if self._at_most else "about"
            parts.append(f"{word} {format_duration(left)} left")
        return ", ".join(parts)

    @property
    def line(self) -> str:
        """Everything in a line, such as `training ted: epoch 3, at most 20 s left`."""
        state = ", ".join(filter(None, (self.detail, self.status)))
        return ": ".join(filter(None, (self.description, state)))


def format_duration(seconds: float) -> str:
    """A duration for people: 20 s, 12 min, 2 h 5 min."""
    if seconds < 99.5:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def show_progress(description: str, progress: ProgressOption) -> Iterator[Progress | None]:
    """The function to call with (done, total), or None if nobody looks.

    It is the caller's own, or that of a bar, if the caller wants one and there is a terminal or
    notebook to show it.
    """
    if not isinstance(progress, bool):
        yield progress
        return
    with show_work(description, progress) as work:
        yield None if work is None else work.update


@contextmanager
def show_work(description: str, wanted: bool = True) -> Iterator[Work | None]:
    """Work with a bar in the notebook or terminal of this program; None without either."""
    console = Console(stderr=True)
    if wanted and in_notebook():
        with _notebook_bar(Work(description)) as work:
            yield work
    elif wanted and is_interactive(console):
        with _terminal_bar(Work(description), console) as work:
            yield work
    else:
        yield None


@contextmanager
def show_on_console(
    description: str, console: Console, write: Callable[[str], None]
) -> Iterator[Work]:
    """Work with a bar on a console or, if it is not interactive, a line now and then."""
    work = Work(description)
    with _terminal_bar(work, console) if is_interactive(console) else _lines(work, write):
        yield work


def is_interactive(console: Console) -> bool:
    """Whether a console can redraw a bar: a terminal can, a file or a dumb terminal cannot."""
    # isatty too: FORCE_COLOR makes any file a terminal for rich.
    return console.is_interactive and console.file.isatty()


def in_notebook() -> bool:
    """Whether this program is the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _StatusColumn(rich.progress.ProgressColumn):
    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    def render(self, task: rich.progress.Task) -> Text:
        return Text(self._work.status, style="progress.remaining")


@contextmanager
def _terminal_bar(work: Work, console: Console) -> Iterator[Work]:
    columns = (
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(),
        _StatusColumn(work),
    )
    # What is printed meanwhile goes above the bar, unless it goes to a file.
    redirect = sys.stdout.isatty()
    with rich.progress.Progress(
        *columns, console=console, transient=True, redirect_stdout=redirect
    ) as bar:
        task = bar.add_task(work.text, total=None)

        def redraw() -> None:
            total = work.total or None
            bar.update(task, description=work.text, completed=work.done, total=total)

        work.redraw = redraw
        yield work


@contextmanager
def _lines(work: Work, write: Callable[[str], None]) -> Iterator[Work]:
    def redraw() -> None:
        if time.monotonic() - work.last_line >= _LINE_SECONDS:
            write(work.line)
            work.last_line = time.monotonic()

    work.redraw = redraw
    yield work


@contextmanager
def _notebook_bar(work: Work) -> Iterator[Work]:
    """A bar that is replaced by one line when the work ends."""
    display: Any = importlib.import_module("IPython.display").display
    handle: Any = None
    drawn = work.started + _NOTEBOOK_DELAY - _NOTEBOOK_INTERVAL

    def redraw() -> None:
        nonlocal handle, drawn
        now = time.monotonic()
        if now - drawn < _NOTEBOOK_INTERVAL:
            return
        drawn = now
        value = f' value="{work.done / work.total:.3f}"' if work.total else ""
        page = f"<div><progress{value}></progress> {escape(work.line)}</div>"
        content = {"text/html": page, "text/plain": work.line}
        if handle is None:
            handle = display(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)

    work.redraw, ended = redraw, "stopped"
    try:
        yield work
        ended = "done"
    finally:
        if handle is not None:
            text = f"{work.text}, {ended} after {format_duration(time.monotonic() - work.started)}"
            page = f'<div style="opacity:.7">{escape(text)}</div>'
            handle.update({"text/html": page, "text/plain": text}, raw=True)
