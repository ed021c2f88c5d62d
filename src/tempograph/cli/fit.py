"""The command fit: import event files, train a suitable model, and test it."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from tempograph.cli.console import note, out, print_json, show
from tempograph.cli.import_options import (
    Files,
    TestFiles,
    ValidFiles,
    fact_source,
    takes_import_options,
)
from tempograph.cli.shared_options import Device, Json, MaxTime, OverwriteRun
from tempograph.cli.train import refuse_unfinished, training_progress
from tempograph.report.text_table import TextTable

if TYPE_CHECKING:
    from tempograph.data.importers.options import ImportOptions
    from tempograph.experiments.autofit import FitResult


@takes_import_options()
def fit(
    files: Files,
    folder: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    options: ImportOptions,
    valid_files: ValidFiles = None,
    test_files: TestFiles = None,
    model: Annotated[
        str | None, typer.Option(help="The model; by default, one that suits the data.")
    ] = None,
    max_time: MaxTime = None,
    device: Device = "auto",
    overwrite: OverwriteRun = False,
    json_output: Json = False,
) -> None:
    """Import event files, train a suitable model, and report how good its answers are.

    Next: tempograph complete, missing, surprising.

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
            model=model,
            seed=options.seed,
            device=device,
            overwrite=overwrite,
            max_seconds=None if max_time is None else 60 * max_time,
            importing=bar.read,
            report=bar.report,
            progress=bar.rank,
            note=None if json_output else note,
        )
    if json_output:
        print_json(result.summary())
        return
    _print_result(result, folder)


def _print_result(result: FitResult, folder: Path) -> None:
    """Print the data, the model and why, how well it answers, and what to do next."""
    from tempograph.evaluation.reliability import reliability_cells

    graph, imported, run = result.run.graph, result.imported, quote(str(folder))
    skipped = {"repeated": imported.duplicates, "skipped": sum(s.rows for s in imported.skipped)}
    left_out = ", ".join(f"{count:,} {what}" for what, count in skipped.items() if count)
    out.print(
        f"{len(graph.all_facts):,} facts from {imported.rows:,} rows"
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
        [relation, f"{queries:,}", f"{hits_1:.0%}", f"{hits_10:.0%}"]
        for relation, queries, hits_1, hits_10 in result.relations()
    ]
    title, columns = (
        "How often the right answer is first, or among the first ten",
        ("relation", "queries"),
    )
    caption = f"Protocol {result.evaluation.protocol}, held-out facts; the most frequent relations."
    show(TextTable(title, (*columns, "first", "first ten"), rows, 1, caption))
    calibration = result.run.results.calibration
    if calibration is not None:
        caption = "Probability of the first answer, on the validation facts."
        title = "How far to trust a probability"
        cells = reliability_cells(calibration["reliability"])
        show(TextTable(title, *cells, caption=caption))
    names = (graph.entities[0], graph.relations[0], graph.times[-1])
    subject, relation, time = map(quote, names)
    out.print(
        f"Next: tempograph complete {run} --subject {subject} --relation {relation} --time {time}, "
        f"or tempograph missing {run}",
        soft_wrap=True,
    )
