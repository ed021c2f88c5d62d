"""The command fit: import files of events, train a model that suits them, and test it."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from tempograph.cli import import_options as importing
from tempograph.cli.console import note, out, print_json, progress_bar, show
from tempograph.cli.train import Device, Json, MaxTime, refuse_unfinished, training_progress
from tempograph.report.text_table import TextTable

if TYPE_CHECKING:
    from tempograph.experiments.autofit import FitResult


def fit(
    files: importing.Files,
    folder: Annotated[Path, typer.Option("--out", help="The run folder to make.")],
    model: Annotated[
        str | None, typer.Option(help="The model; by default one that suits the data.")
    ] = None,
    max_time: MaxTime = None,
    device: Device = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run folder if it exists.")
    ] = False,
    json_output: Json = False,
    format: importing.FormatOption = None,
    subject: importing.GuessedSubject = None,
    relation: importing.GuessedRelation = None,
    object_: importing.GuessedObject = None,
    time: importing.GuessedTime = None,
    header: importing.Header = True,
    delimiter: importing.Delimiter = None,
    time_format: importing.TimeFormat = None,
    skip_bad: importing.SkipBad = False,
    entity: importing.EntityOption = None,
    relation_level: importing.Level = None,
    granularity: importing.Step = None,
    split: importing.Split = "random",
    valid: importing.Valid = 0.1,
    test: importing.Test = 0.1,
    seed: Annotated[int, typer.Option(help="Of the random split and of training.")] = 0,
) -> None:
    """Import files of events, train a model that suits them, and report how good its answers are.

    Columns that are not named are guessed. Next: tempograph complete, missing, surprising.

    Example: **tempograph fit events.csv --out runs/mine**
    """
    from tempograph.experiments.autofit import fit as run_fit

    options = importing.import_options(
        format,
        (subject or "subject", relation or "relation", object_ or "object", time or "time"),
        (header, delimiter, time_format),
        (entity, relation_level),
        granularity,
        (split, valid, test, seed),
        skip_bad,
    )
    if not overwrite:
        refuse_unfinished(folder)
    with (
        progress_bar("importing") as reading,
        training_progress(folder, str(folder), quiet=json_output) as (report, progress),
    ):
        result = run_fit(
            files,
            out=folder,
            options=options,
            model=model,
            seed=seed,
            device=device,
            overwrite=overwrite,
            max_seconds=None if max_time is None else 60 * max_time,
            importing=reading,
            report=report,
            progress=progress,
            note=None if json_output else note,
        )
    if json_output:
        print_json(result.summary())
        return
    _print_result(result, folder)


def _print_result(result: FitResult, folder: Path) -> None:
    """Print the data, the model and why, how well it answers, and what to do next."""
    from tempograph.report.reliability_table import reliability_table

    graph, imported, run = result.run.graph, result.imported, quote(str(folder))
    skipped = {"repeated": imported.duplicates, "skipped": sum(s.rows for s in imported.skipped)}
    left_out = ", ".join(f"{count:,} {what}" for what, count in skipped.items() if count)
    out.print(
        f"{len(graph.all_facts):,} facts of {imported.rows:,} rows"
        f"{f' ({left_out})' if left_out else ''}: {len(graph.entities):,} entities, "
        f"{len(graph.relations):,} relations, {len(graph.times):,} steps "
        f"from {graph.times[0]} to {graph.times[-1]}.",
        soft_wrap=True,
    )
    out.print(f"Model: {result.choice.model}, because {result.choice.why}.", soft_wrap=True)
    if result.evaluation is None:
        out.print(f"Stopped by --max-time; resume with: tempograph resume {run}", soft_wrap=True)
        return
    out.print(result.describe(), soft_wrap=True)
    rows = [
        [row.relation, f"{row.queries:,}", f"{row.hits_1:.0%}", f"{row.hits_10:.0%}"]
        for row in result.relations()
    ]
    title, columns = "How often the right answer is first, or in ten", ("relation", "queries")
    caption = f"Protocol {result.evaluation.protocol}, held-out facts; the most frequent relations."
    show(TextTable(title, (*columns, "first", "in ten"), rows, 1, caption))
    calibration = result.run.results.calibration
    if calibration is not None:
        caption = "Probability of the first answer, on the validation facts."
        show(reliability_table(calibration, "How far a probability can be trusted", caption))
    names = (graph.entities[0], graph.relations[0], graph.times[-1])
    subject, relation, time = map(quote, names)
    out.print(
        f"Next: tempograph complete {run} --subject {subject} --relation {relation} --time {time}, "
        f"or tempograph missing {run}",
        soft_wrap=True,
    )
