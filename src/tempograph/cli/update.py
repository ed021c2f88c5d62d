"""The command update: new facts enter a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from tempograph.cli.console import out, print_json, print_note
from tempograph.cli.import_options import BATCH_OPTIONS, takes_import_options
from tempograph.cli.shared_options import Device, Json, OverwriteRun, RunFolder
from tempograph.cli.train import training_progress
from tempograph.typing import MetricsCallback, ProgressOption

if TYPE_CHECKING:
    from tempograph.training.update_result import UpdateResult


class UpdateCommand(TyperCommand):
    """A command whose option --train may stand alone, for one epoch."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        args = list(args)
        for index in [number for number, each in enumerate(args) if each == "--train"][::-1]:
            if not args[index + 1 : index + 2] or not args[index + 1].isdecimal():
                args.insert(index + 1, "1")
        return super().parse_args(ctx, args)


@takes_import_options((*BATCH_OPTIONS, "skip_bad", "max_bad"), remembered=True)
def update(
    run: RunFolder,
    facts: Annotated[
        Path, typer.Argument(help="A file with one fact per row, of any kind that can be imported.")
    ],
    options: Mapping[str, Any],
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Write the updated run here, and leave RUN as it is."),
    ] = None,
    train: Annotated[
        int,
        typer.Option(
            "--train",
            min=0,
            metavar="[EPOCHS]",
            help="Also train the model on all facts, from the weights it has; by default for one "
            "epoch.",
        ),
    ] = 0,
    device: Device = "auto",
    overwrite: OverwriteRun = False,
    json_output: Json = False,
) -> None:
    """Add new facts to a run, with their new names and time steps; answers use them at once.

    The folder of the run changes as a whole or not at all. Facts that are known are left out. A
    faulty row stops the update, unless --skip-bad is given. The run is not measured again: its
    figures are marked as from before the update.

    Example: **tempograph update runs/mine tomorrow.csv**
    """
    import tempograph.training.run_update

    def run_update(
        report: MetricsCallback | None = None, progress: ProgressOption = False
    ) -> UpdateResult:
        return tempograph.training.run_update.update(
            run,
            facts,
            out=folder,
            train=train,
            options=options,
            overwrite=overwrite,
            device=device,
            note=None if json_output else print_note,
            report=report,
            progress=progress,
        )

    if train:
        with training_progress(run, f"updating {run}", quiet=json_output) as bar:
            result = run_update(bar.report, bar.rank)
    else:
        result = run_update()
    if json_output:
        print_json(result.summary())
        return
    for skip in result.skipped:
        print_note(f"skipped, {skip}")
    for line in result.describe():
        out.print(line, soft_wrap=True)
    path = quote(str(result.path))
    if folder is not None:
        out.print(f"Written to {path}.", soft_wrap=True)
    elif not result.changed:
        out.print(f"{path} is as it was.", soft_wrap=True)
