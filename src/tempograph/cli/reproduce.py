"""reproduce: the tables and pictures of the paper, ours beside the published."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tempograph.cli.compare import numbers, watching
from tempograph.cli.console import err, note, out, print_json, show, stoppable
from tempograph.cli.train import Device, Json
from tempograph.typing import ARTEFACTS, Artefact, Protocol

if TYPE_CHECKING:
    from tempograph.experiments.paper.reproduction import Reproduction


def reproduce(
    what: Annotated[
        Literal[Artefact, "all"],
        typer.Argument(help="Which table or pictures; all makes every one."),
    ],
    dataset: Annotated[str, typer.Option(help="The dataset, by name or path.")] = "icews14",
    protocol: Annotated[
        Literal[Protocol, "both"], typer.Option(help="Protocols of the models that depend on it.")
    ] = "both",
    seeds: Annotated[
        str, typer.Option(help="Seeds that are trained where they are missing.", metavar="N,N,...")
    ] = "0",
    results: Annotated[
        Path, typer.Option(help="The folder of measured results; new ones are added.")
    ] = Path("results"),
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Where tables and runs go; by default reproduced/DATASET."),
    ] = None,
    train: Annotated[
        bool,
        typer.Option("--train/--no-train", help="Train what is missing, or leave it as a dash."),
    ] = True,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many runs at once, each a process of its own; by default as many as a GPU has room for, or 1.",
        ),
    ] = None,
    max_time: Annotated[
        float | None,
        typer.Option(min=0, help="Stop each run after so many minutes; the same command goes on."),
    ] = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Make a table of the paper with our figures beside the published ones, as Markdown, LaTeX and CSV.

    Measured results are reused; what is missing is trained. Stopped or called again, it goes on where it was.

    Example: **tempograph reproduce table --dataset icews14 --no-train**
    """
    from tempograph.device import max_parallel_runs, resolve_device
    from tempograph.experiments.paper.reproduction import reproduce as reproduced

    target = folder or Path("reproduced") / Path(dataset).name
    most = None if max_time is None else 60 * max_time
    at_once = jobs or max_parallel_runs(resolve_device(device))
    with (
        stoppable(lambda: "the same command goes on"),
        watching(at_once, most, quiet=json_output) as watch,
    ):
        found = reproduced(
            ARTEFACTS if what == "all" else [what],
            dataset,
            results=results,
            out=target,
            protocols=("paper", "strict") if protocol == "both" else (protocol,),
            seeds=numbers(seeds),
            train=train,
            device=device,
            jobs=at_once,
            max_seconds=most,
            note=None if json_output else note,
            watch=watch,
        )
    if json_output:
        print_json(found.summary())
    else:
        _print(found)
    if found.failed:
        raise typer.Exit(1)


def _print(found: Reproduction) -> None:
    """The tables, what they lack, and where everything is."""
    for sheet in found.sheets.values():
        show(sheet)
    if found.missing:
        err.print(
            f"note: {_counted(found.missing, 'run')} missing; dashes stand for the figures",
            soft_wrap=True,
        )
    for run in found.failed:
        err.print(f"note: {run.run}: failed: {run.reason}", soft_wrap=True)
    made = [f"{_counted(found.sheets, 'table')} (.md, .tex, .csv)"] if found.sheets else []
    made += [_counted(found.pictures, "picture")] if found.pictures else []
    out.print(f"{' and '.join(made) or 'Nothing'} in {found.folder}", soft_wrap=True)


def _counted(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"
