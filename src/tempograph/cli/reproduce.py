"""The command reproduce: tables and pictures of the paper, with our figures in them."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tempograph.cli.compare import RunMaxTime, Slurm, parse_seeds, show_progress
from tempograph.cli.console import note, out, print_json, show
from tempograph.cli.shared_options import Device, Json
from tempograph.typing import ARTEFACTS, Artefact, CompletionProtocol

if TYPE_CHECKING:
    from tempograph.experiments.paper.reproduction import Reproduction


def reproduce(
    what: Annotated[
        Literal[Artefact, "all"],
        typer.Argument(help="The table or figures to build, or all of them."),
    ],
    dataset: Annotated[str, typer.Option(help="The dataset, by name or path.")] = "icews14",
    protocol: Annotated[
        Literal[CompletionProtocol, "both"],
        typer.Option(help="Protocol, for models that depend on it."),
    ] = "both",
    seeds: Annotated[
        str,
        typer.Option(
            help="Seeds, separated by commas; missing ones are trained.", metavar="N,N,..."
        ),
    ] = "0",
    results: Annotated[
        Path, typer.Option(help="Folder with stored results; new ones are added.")
    ] = Path("results"),
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for tables and runs; by default, reproduced/DATASET."),
    ] = None,
    train: Annotated[
        bool,
        typer.Option("--train/--no-train", help="Train missing runs, or show a dash for them."),
    ] = True,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of parallel runs, each in its own process; by default, 1 on a CPU, or as "
            "many as fit on the GPU.",
        ),
    ] = None,
    max_time: RunMaxTime = None,
    slurm: Slurm = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Build the paper's tables and figures, with our results beside the published ones.

    Tables are written as Markdown, LaTeX and CSV. Stored results are reused, and missing runs are
    trained. Repeat the command to resume.

    Example: **tempograph reproduce table --dataset icews14 --no-train**
    """
    from tempograph.device import max_parallel_runs, resolve_device
    from tempograph.experiments.paper.reproduction import reproduce as run_reproduction
    from tempograph.experiments.slurm import SlurmArray

    max_seconds = None if max_time is None else 60 * max_time
    parallel = jobs or max_parallel_runs(resolve_device(device))
    with show_progress(parallel, max_seconds, quiet=json_output) as watch:
        reproduction = run_reproduction(
            ARTEFACTS if what == "all" else [what],
            dataset,
            results=results,
            out=folder or Path("reproduced") / Path(dataset).name,
            protocols=("paper", "strict") if protocol == "both" else (protocol,),
            seeds=parse_seeds(seeds),
            train=train,
            device=device,
            jobs=parallel,
            max_seconds=max_seconds,
            slurm=None if slurm is None else SlurmArray(slurm, jobs),
            note=None if json_output else note,
            watch=watch,
            progress=False,
        )
    if json_output:
        print_json(reproduction.summary())
    else:
        _print_reproduction(reproduction)
    if reproduction.failed:
        raise typer.Exit(1)


def _print_reproduction(reproduction: Reproduction) -> None:
    """Print the tables, the runs that are missing or failed, and the folder."""
    for table in reproduction.tables.values():
        show(table)
    if reproduction.missing:
        note(f"note: {_count(reproduction.missing, 'run')} missing; their figures are dashes")
    for run in reproduction.failed:
        note(f"note: {run.name}: failed: {run.reason}")
    tables, pictures = reproduction.tables, reproduction.pictures
    made = [f"{_count(tables, 'table')} (.md, .tex, .csv)"] if tables else []
    made += [_count(pictures, "picture")] if pictures else []
    out.print(f"{' and '.join(made) or 'Nothing'} in {reproduction.folder}", soft_wrap=True)


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"
