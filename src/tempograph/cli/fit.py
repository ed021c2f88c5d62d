"""The command fit: import event files, train a suitable model, measure it and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tempograph.cli.console import note, print_json
from tempograph.cli.fit_output import print_fit
from tempograph.cli.import_options import (
    AttributesFile,
    Files,
    TestFiles,
    ValidFiles,
    fact_source,
    takes_import_options,
)
from tempograph.cli.shared_options import Device, Json, MaxTime, OverwriteRun, TaskOption
from tempograph.cli.train import refuse_unfinished, training_progress

if TYPE_CHECKING:
    from tempograph.data.importers.options import ImportOptions


@takes_import_options()
def fit(
    files: Files,
    folder: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    options: ImportOptions,
    valid_files: ValidFiles = None,
    test_files: TestFiles = None,
    attributes: AttributesFile = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The model; by default, one that suits the data. With --minutes, only its "
            "settings vary."
        ),
    ] = None,
    task: TaskOption = "complete",
    keep_holdout: Annotated[
        bool,
        typer.Option(
            "--keep-holdout",
            help="Answer from the train facts alone; by default, once the model is measured, "
            "answers rest on all facts.",
        ),
    ] = False,
    minutes: Annotated[
        float,
        typer.Option(
            help="Search for the best model and train it within this many minutes; measuring and "
            "the report come after them. With 0, rules choose the model."
        ),
    ] = 0,
    max_time: MaxTime = None,
    device: Device = "auto",
    overwrite: OverwriteRun = False,
    json_output: Json = False,
) -> None:
    """Import event files, train a suitable model, and report how far to trust its answers.

    The model is measured on facts that are held out. After that, it answers from all facts. The
    report is trust.html in the run folder. Next: tempograph complete, missing, surprising; with
    --task forecast, tempograph forecast and backtest.

    Example: **tempograph fit events.csv --out runs/mine**
    """
    from tempograph.experiments.autofit import fit as run_fit

    if not overwrite:
        refuse_unfinished(folder)
    with training_progress(folder, f"fitting {folder}", quiet=json_output) as bar:
        result = run_fit(
            fact_source(files, valid_files, test_files),
            out=folder,
            options=options,
            attributes=attributes,
            model=model,
            task=task,
            seed=options.seed,
            device=device,
            overwrite=overwrite,
            keep_holdout=keep_holdout,
            minutes=minutes,
            max_seconds=None if max_time is None else 60 * max_time,
            importing=bar.read,
            report=bar.report,
            progress=bar.rank,
            on_stage=bar.stage,
            note=None if json_output else note,
        )
    if json_output:
        print_json(result.summary())
        return
    print_fit(result, folder)
