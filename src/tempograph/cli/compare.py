"""The command compare, and the progress of many runs that reproduce shows too."""

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
from tempograph.cli.shared_options import Dataset, Device, Json, TaskOption, TrainProtocol
from tempograph.report.text_table import TextTable

if TYPE_CHECKING:
    from tempograph.experiments.comparison import Comparison
    from tempograph.experiments.status import RunStatus, Watch

_LOG_SECONDS = 60
"""Seconds between progress lines when standard error is not a terminal."""

_STATES = {"finished": "finished", "unfinished": "out of time", "failed": "failed"}
_STATES |= {"running": "running", "waiting": "waiting"}

RunMaxTime = Annotated[
    float | None,
    typer.Option(
        "--max-time",
        min=0,
        help="Stop each run after this many minutes; repeat the command to resume.",
    ),
]

Slurm = Annotated[
    str | None,
    typer.Option(
        "--slurm",
        metavar="OPTIONS",
        help="Submit the runs to Slurm as an array with these options of sbatch, such as "
        "'--partition=gpu --gpus=1'; repeat the command when it has ended.",
    ),
]


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
        typer.Option(help="Models, separated by commas; by default, all.", metavar="A,B,..."),
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Seeds, separated by commas; one run per seed.", metavar="N,N,...")
    ] = "0",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for the runs and the table; by default, runs/DATASET-compare."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="A shipped preset, for models that have it for this dataset; the others get "
            "suggested settings. By default, tuned or, if there is none, paper."
        ),
    ] = None,
    task: TaskOption = "complete",
    protocol: TrainProtocol = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Number of parallel runs, each in its own process.")
    ] = 1,
    max_time: RunMaxTime = None,
    slurm: Slurm = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Train several models, test each run once, and show our results beside the published ones.

    Repeat the command to reuse finished runs and resume the others.

    Example: **tempograph compare icews14 --models ted,temp-gru --seeds 0,1,2 --out runs/table**
    """
    from tempograph.experiments.comparison import compare as run_comparison
    from tempograph.experiments.slurm import SlurmArray

    max_seconds = None if max_time is None else 60 * max_time
    with show_progress(jobs, max_seconds, quiet=json_output) as watch:
        comparison = run_comparison(
            dataset,
            None if models is None else _split(models),
            out=folder or Path("runs") / f"{Path(dataset).name}-compare",
            seeds=parse_seeds(seeds),
            task=task,
            protocol=protocol,
            preset=preset,
            overrides=overrides or (),
            device=device,
            jobs=jobs,
            max_seconds=max_seconds,
            slurm=None if slurm is None else SlurmArray(slurm, jobs if jobs > 1 else None),
            note=None if json_output else note,
            watch=watch,
            progress=False,
        )
    if json_output:
        print_json(comparison.summary())
    else:
        _print_comparison(comparison)
    if comparison.failed:
        raise typer.Exit(1)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_seeds(text: str) -> list[int]:
    """Return the numbers of the option --seeds."""
    from tempograph.errors import ConfigError

    parts = _split(text)
    if not parts or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--seeds takes whole numbers separated by commas, found '{text}'")
    return [int(part) for part in parts]


@contextmanager
def show_progress(jobs: int, max_seconds: float | None, quiet: bool) -> Iterator[Watch]:
    """Print each run on standard error as it ends; on a terminal, also show running ones.

    An interrupt says that the same command resumes.
    """
    from tempograph.experiments.status import seconds_left

    runs: list[RunStatus] = []
    logged = time.monotonic()

    def overview() -> Text:
        counts = {state: sum(run.state == state for run in runs) for state in _STATES}
        parts = [f"{count} {_STATES[name]}" for name, count in counts.items() if count]
        left = seconds_left(runs, jobs, time.monotonic(), max_seconds)
        parts += [f"about {_duration(left)} left"] if left else []
        lines = [f"runs: {', '.join(parts)}"] if runs else []
        lines += [_progress(run) for run in runs if run.state == "running"]
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")

    def watch(now: Sequence[RunStatus], changed: RunStatus) -> None:
        nonlocal logged
        runs[:] = now
        if quiet:
            return
        ended = changed.state != "running"
        if ended:
            duration = f" after {_duration(changed.seconds or 0)}"
            why = f": {changed.reason}" if changed.reason else duration
            note(f"{changed.name} {_STATES[changed.state]}{why}")
        if not err.is_terminal and (ended or time.monotonic() > logged + _LOG_SECONDS):
            err.print(overview(), soft_wrap=True)
            logged = time.monotonic()

    with stoppable(lambda: "the same command resumes"):
        if not err.is_terminal:
            yield watch
            return
        with Live(get_renderable=overview, console=err, transient=True, refresh_per_second=2):
            yield watch


def _progress(run: RunStatus) -> str:
    """Return the epoch, the figures and the estimate of a running run."""
    left = run.seconds_left(time.monotonic())
    parts = [run.part] if run.part is not None else []
    parts += [f"epoch {run.epoch:.0f}"] if run.epoch is not None else []
    parts += [f"valid MRR {run.valid_mrr:.3f}"] if run.valid_mrr is not None else []
    parts += [f"at most {_duration(left)} left"] if left else []
    return f"  {run.name}  {'  '.join(parts) or 'starting'}"


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _print_comparison(comparison: Comparison) -> None:
    """Print the table, the runs without figures, and the folder."""
    table = comparison.text_table()
    if not show(table):
        columns, rows = table.columns, table.rows
        costs = [[*row[:2], *row[11:]] for row in rows]
        show(TextTable("What they cost", [*columns[:2], *columns[11:]], costs, 2))
    for line in comparison.notes():
        note(f"note: {line}")
    path = comparison.folder / "compare.md"
    out.print(f"The table is in {path}, with the runs beside it.", soft_wrap=True)
