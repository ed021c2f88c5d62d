"""compare: a list of models, trained, tested and set beside the published figures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.text import Text

from tempograph.cli.console import err, note, out, print_json, show, stoppable
from tempograph.cli.train import Dataset, Device, Json
from tempograph.report.text_table import TextTable
from tempograph.typing import Protocol

if TYPE_CHECKING:
    from tempograph.experiments.comparison import Comparison
    from tempograph.experiments.status import Standing, Watch


_SELDOM = 60
"""Seconds between two words on runs at work where nobody watches."""

_STATES = {
    "finished": "finished",
    "unfinished": "out of time",
    "failed": "failed",
    "running": "running",
    "waiting": "waiting",
}


def compare(
    dataset: Dataset,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Settings for every model that has them, such as train.epochs=20.",
        ),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Models separated by commas; by default all there are.", metavar="A,B,..."
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Seeds separated by commas; a run for each.", metavar="N,N,...")
    ] = "0",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The folder for the runs and the table; by default runs/DATASET-compare."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="A shipped preset, for models that have it for this dataset; the others get suggested settings. "
            "By default tuned, or else paper."
        ),
    ] = None,
    protocol: Annotated[
        Protocol, typer.Option(help="Whose facts make an entity active.")
    ] = "strict",
    jobs: Annotated[
        int, typer.Option(min=1, help="How many runs at once, each a process of its own.")
    ] = 1,
    max_time: Annotated[
        float | None,
        typer.Option(min=0, help="Stop each run after so many minutes; the same command goes on."),
    ] = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Train models, test each run once, and set the published figures beside ours.

    Stopped or called again, it takes over finished runs and goes on with the others.

    Example: **tempograph compare icews14 --models ted,temp-gru --seeds 0,1,2 --out runs/table**
    """
    from tempograph.experiments.comparing import compare as compared

    names = None if models is None else _parts(models)
    target = folder or Path("runs") / f"{Path(dataset).name}-compare"
    most = None if max_time is None else 60 * max_time
    with (
        stoppable(lambda: "the same command goes on"),
        watching(jobs, most, quiet=json_output) as watch,
    ):
        comparison = compared(
            dataset,
            names,
            out=target,
            seeds=numbers(seeds),
            protocol=protocol,
            preset=preset,
            overrides=overrides or (),
            device=device,
            jobs=jobs,
            max_seconds=most,
            note=None if json_output else note,
            watch=watch,
        )
    if json_output:
        print_json(comparison.summary())
    else:
        _print(comparison)
    if comparison.failed:
        raise typer.Exit(1)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(text: str) -> list[int]:
    """The seeds of an option."""
    from tempograph.errors import ConfigError

    parts = _parts(text)
    if not parts or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--seeds takes whole numbers separated by commas, found '{text}'")
    return [int(part) for part in parts]


@contextmanager
def watching(jobs: int, most: float | None, quiet: bool) -> Iterator[Watch]:
    """Say on standard error how the runs stand: each one that ends, and in a terminal those at work all the time."""
    from tempograph.experiments.status import seconds_left

    runs: list[Standing] = []
    said = time.monotonic()

    def overview() -> str:
        counts = {state: sum(run.state == state for run in runs) for state in _STATES}
        parts = [f"{count} {_STATES[state]}" for state, count in counts.items() if count]
        left = seconds_left(runs, jobs, time.monotonic(), most)
        about = [f"about {_duration(left)} left"] if left else []
        return f"runs: {', '.join(parts + about)}"

    def shown() -> Text:
        lines = [_at_work(run) for run in runs if run.state == "running"]
        return Text(
            "\n".join([overview(), *lines] if runs else []), no_wrap=True, overflow="ellipsis"
        )

    def watch(now: Sequence[Standing], changed: Standing) -> None:
        nonlocal said
        runs[:] = now
        if quiet:
            return
        if changed.state != "running":
            why = (
                f": {changed.reason}"
                if changed.reason
                else f" after {_duration(changed.seconds or 0)}"
            )
            err.print(Text(f"{changed.name} {_STATES[changed.state]}{why}"), soft_wrap=True)
        if not err.is_terminal and (
            changed.state != "running" or time.monotonic() > said + _SELDOM
        ):
            err.print(shown(), soft_wrap=True)
            said = time.monotonic()

    if not err.is_terminal:
        yield watch
        return
    with Live(get_renderable=shown, console=err, transient=True, refresh_per_second=2):
        yield watch


def _at_work(run: Standing) -> str:
    """How far a run at work is."""
    told, left = run.told, run.left(time.monotonic())
    parts = [told["part"]] if "part" in told else []
    parts += [f"epoch {told['epoch']:.0f}"] if "epoch" in told else []
    parts += [f"valid MRR {told['valid/mrr']:.3f}"] if "valid/mrr" in told else []
    parts += [f"at most {_duration(left)} left"] if left else []
    return f"  {run.name}  {'  '.join(parts) or 'starting'}"


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _print(comparison: Comparison) -> None:
    """The table, what it cannot show, and where it is kept."""
    from tempograph.experiments.comparison import COLUMNS

    if not show(comparison.sheet()):
        rows = [row.cells() for row in comparison.rows]
        show(
            TextTable(
                "What they cost",
                COLUMNS[:2] + COLUMNS[11:],
                [row[:2] + row[11:] for row in rows],
                2,
            )
        )
    for line in comparison.notes():
        err.print(f"note: {line}", soft_wrap=True)
    out.print(
        f"The table is in {comparison.folder / 'compare.md'}, the runs are beside it.",
        soft_wrap=True,
    )
