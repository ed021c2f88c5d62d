"""forecast and backtest: what comes next, and how good such forecasts were."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tempograph.cli.answer_tables import print_forecast
from tempograph.cli.console import out, print_json, print_note, progress_bar, show
from tempograph.cli.import_options import BATCH_OPTIONS, takes_import_options
from tempograph.cli.shared_options import Device, Json, RunFolder, ScoreMemory, TableFile, Top
from tempograph.typing import HeldOutSplit


def forecast(
    run: RunFolder,
    date: Annotated[
        str | None,
        typer.Option(
            help="The first day, or other time step, to forecast, such as 2015-01-01 or +3; by "
            "default the one after the data."
        ),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How many days, or steps, to forecast.")] = 1,
    entity: Annotated[
        str | None, typer.Option(help="Only facts with this entity as subject or object.")
    ] = None,
    relation: Annotated[
        list[str] | None, typer.Option(help="Only this relation; can be repeated.")
    ] = None,
    top: Top = 20,
    min_probability: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out facts that are less likely than this.")
    ] = 0.0,
    evidence: Annotated[int, typer.Option(min=0, help="Number of facts shown per row.")] = 1,
    out_file: TableFile = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Find what is likely to happen after the data, or on any day given what was known before.

    There are at most --top facts for each day: facts that happened before, and new ones. The run
    must be one of task forecast.

    Example: **tempograph forecast runs/next --days 7 --entity China**
    """
    from tempograph.data.table_files import write_table
    from tempograph.prediction.predictor import Predictor

    predictor = Predictor(run, device)
    if not predictor.run.questions.has_occurrence:
        with progress_bar("learning to tell what will happen") as progress:
            predictor.run.questions.occurrence(progress)
    with progress_bar("forecasting") as progress:
        found = predictor.forecast(
            date, days, entity, relation, top, min_probability, evidence, progress=progress
        )
    if out_file is not None:
        write_table(found.to_arrow(), out_file)
    if json_output:
        about = {"run": str(run), "model": predictor.model.name}
        print_json(about | dataclasses.asdict(found))
    else:
        print_forecast(found)


@takes_import_options(BATCH_OPTIONS, remembered=True)
def backtest(
    run: RunFolder,
    options: Mapping[str, Any],
    events: Annotated[
        Path | None,
        typer.Argument(
            metavar="EVENTS",
            help="A file with one fact per row, of any kind that can be imported; by default the "
            "facts of a split of the run's data.",
        ),
    ] = None,
    first: Annotated[
        str | None, typer.Option("--from", help="The first day, or other time step, to replay.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", help="The last day, or other time step, to replay.")
    ] = None,
    split: Annotated[
        HeldOutSplit, typer.Option(help="The facts to replay if there is no file.")
    ] = "test",
    probabilities: Annotated[
        bool,
        typer.Option(
            help="Also compare the probabilities of facts with what happened; "
            "--no-probabilities is faster."
        ),
    ] = True,
    out_folder: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write a table (CSV and Parquet), JSON and a figure into this folder."
        ),
    ] = None,
    memory: ScoreMemory = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Replay a period: forecast each day from the facts before it, and compare.

    The ranks of a day's facts say how well the model knows who and whom; expected and happened say
    how far the probabilities of 'forecast' can be trusted. The facts of a day become history for
    the days after it.

    Example: **tempograph backtest runs/next --from 2014-12-01 --to 2014-12-31 --out replay**
    """
    from tempograph.device import resolve_device
    from tempograph.prediction.backtesting import backtest as run_backtest
    from tempograph.report.backtest_report import backtest_table, write_backtest
    from tempograph.training.runs import Run

    loaded = Run.load(run, resolve_device(device))
    with progress_bar("replaying") as progress:
        found = run_backtest(
            loaded,
            events,
            first,
            last,
            split=split,
            probabilities=probabilities,
            options=options,
            progress=progress,
            budget=memory * 2**20 if memory else None,
        )
    if out_folder is not None:
        write_backtest(found, out_folder)
    if json_output:
        print_json({"run": str(run)} | found.summary())
        return
    show(backtest_table(found))
    for text in found.notes:
        print_note(text)
    if out_folder is not None:
        out.print(f"written: {out_folder}", soft_wrap=True)
