"""fit: from files of events to a model that can be asked."""

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
    from tempograph.experiments.autofit import Fitted


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
    """From files of events to a trained model: import, choose, train, and report how far its answers can be trusted.

    Columns that are not named are guessed by what they are called. Next: tempograph complete, missing, surprising.

    Example: **tempograph fit events.csv --out runs/mine**
    """
    from tempograph.experiments.autofit import fit as fitted

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
        found = fitted(
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
        print_json(found.summary())
        return
    _print(found, folder)


def _print(found: Fitted, folder: Path) -> None:
    from tempograph.experiments.autofit import in_words, relation_rows
    from tempograph.report.reliability_table import reliability_table

    graph, quoted = found.run.graph, quote(str(folder))
    out.print(
        f"{len(graph.all_facts):,} facts of {found.imported.rows:,} rows{_left_out(found)}: "
        f"{len(graph.entities):,} entities, "
        f"{len(graph.relations):,} relations, {len(graph.times):,} steps from {graph.times[0]} to {graph.times[-1]}.",
        soft_wrap=True,
    )
    out.print(f"Model: {found.choice.model}, because {found.choice.why}.", soft_wrap=True)
    if found.evaluation is None:
        out.print(
            f"Training was stopped by --max-time; go on with: tempograph resume {quoted}",
            soft_wrap=True,
        )
        return
    out.print(in_words(found.evaluation, len(graph.entities)), soft_wrap=True)
    rows = [
        [row["relation"], f"{row['questions']:,}", f"{row['hits@1']:.0%}", f"{row['hits@10']:.0%}"]
        for row in relation_rows(found.evaluation, graph)
    ]
    caption = f"Protocol {found.evaluation.protocol}, on facts that were held out; the most frequent relations."
    show(
        TextTable(
            "How often the right answer is first, or in ten",
            ("relation", "questions", "first", "in ten"),
            rows,
            1,
            caption,
        )
    )
    calibration = found.run.results.calibration
    if calibration is not None:
        caption = "Probability of the first answer, on facts held out to choose on."
        show(reliability_table(calibration, "How far a probability can be trusted", caption))
    subject, relation, time = (
        quote(name) for name in (graph.entities[0], graph.relations[0], graph.times[-1])
    )
    out.print(
        f"Next: tempograph complete {quoted} --subject {subject} --relation {relation} --time {time}, "
        f"or tempograph missing {quoted}",
        soft_wrap=True,
    )


def _left_out(found: Fitted) -> str:
    """How many rows are no facts of their own."""
    skipped = sum(skip.rows for skip in found.imported.skipped)
    counts = {"repeated": found.imported.duplicates, "skipped": skipped}
    told = [f"{count:,} {what}" for what, count in counts.items() if count]
    return f" ({', '.join(told)})" if told else ""
