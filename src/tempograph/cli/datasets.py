"""data list, get, import and stats."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from tempograph.cli.console import note, out, print_json, print_note, progress_bar, table
from tempograph.cli.import_options import (
    AttributesFile,
    Files,
    TestFiles,
    ValidFiles,
    fact_source,
    takes_import_options,
)
from tempograph.cli.shared_options import Json, OverwriteDataset, Plot, ProtocolOption

if TYPE_CHECKING:
    from tempograph.data.importers.options import ImportOptions
    from tempograph.data.statistics import Statistics

app = typer.Typer(help="List, download, import and describe datasets.", no_args_is_help=True)


@app.command("list")
def list_datasets(json_output: Json = False) -> None:
    """List the datasets that are known by name, and where they are stored."""
    from tempograph.data.catalog import available, dataset_roots

    entries = available()
    if json_output:
        datasets = [
            dataclasses.asdict(entry) | {"path": str(entry.path) if entry.path else None}
            for entry in entries
        ]
        print_json({"datasets": datasets, "roots": [str(root) for root in dataset_roots()]})
        return
    rows = []
    for entry in entries:
        how = "generated on demand" if entry.name == "demo" else f"tempograph data get {entry.name}"
        facts = "" if entry.facts is None else f"{entry.facts:,}"
        rows.append([entry.name, entry.description, str(entry.path or how), facts])
    out.print(table("Datasets", ["name", "description", "where", "facts"], rows, left=3))


@app.command("get")
def get(
    name: Annotated[
        str,
        typer.Argument(
            help="icews14, icews05-15 or gdelt; yago11k or wikidata12k, whose facts have a start "
            "and an end; or tkgl-smallpedia, tkgl-polecat, tkgl-icews or tkgl-wikidata of TGB 2.0."
        ),
    ],
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Read the published files from this folder or archive; no download."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The dataset folder; by default, in $TEMPOGRAPH_DATA or the user cache."
        ),
    ] = None,
    overwrite: OverwriteDataset = False,
) -> None:
    """Get a published benchmark; its files are checked before anything is written.

    Examples: **tempograph data get icews14**,
    **tempograph data get tkgl-smallpedia --from downloads/tkgl-smallpedia.zip**
    """
    from tempograph.data.benchmarks import Benchmark
    from tempograph.data.catalog import download_target
    from tempograph.data.known_datasets import find_known, get_dataset

    known, target = find_known(name), folder or download_target(name)
    with progress_bar(f"getting {known.name}") as progress:
        graph = get_dataset(
            name, target, overwrite, lambda _, done, total: progress(done, total or 0), source
        )
    alike = "every file" if isinstance(known, Benchmark) else "every count"
    out.print(f"{graph.name}: {known.facts:,} facts, {alike} as published: {target}")
    out.print(f"Source: {known.source}", soft_wrap=True)


@app.command("import")
@takes_import_options()
def import_events(
    files: Files,
    folder: Annotated[Path, typer.Option("--out", help="The dataset folder to write.")],
    options: ImportOptions,
    valid_files: ValidFiles = None,
    test_files: TestFiles = None,
    attributes: AttributesFile = None,
    parquet: Annotated[
        bool | None,
        typer.Option(
            "--parquet/--tsv",
            help="How the facts are written; by default, Parquet above 5 million of them.",
        ),
    ] = None,
    overwrite: OverwriteDataset = False,
    json_output: Json = False,
) -> None:
    """Turn tables of dated events, or ICEWS or GDELT event files, into a dataset folder.

    Columns that you do not name are guessed from the header.

    Examples: **tempograph data import events.csv --relation action --out mydata**,
    **tempograph data import train.csv --valid-file valid.csv --test-file test.csv --out mydata**,
    **tempograph data import 'gdelt/*.export.CSV.zip' --relation-level root --out mydata**
    """
    from tempograph.data.folder import DATASET_MARKER
    from tempograph.data.importers.any_source import as_note, import_to_folder
    from tempograph.io import refuse_existing

    refuse_existing(folder, DATASET_MARKER, overwrite)
    source = fact_source(files, valid_files, test_files)
    with progress_bar("importing") as progress:
        imported, columns = import_to_folder(
            source,
            options,
            folder,
            overwrite,
            parquet,
            attributes,
            progress,
            None if json_output else note,
        )
    counts = {
        "rows": imported.rows,
        "skipped": sum(skip.rows for skip in imported.skipped),
        "duplicates": imported.duplicates,
        **({} if imported.overlaps is None else {"overlaps": imported.overlaps}),
        "facts": imported.facts,
        "entities": imported.entities,
        "relations": imported.relations,
        "steps": len(imported.times),
        **{str(split): size for split, size in imported.splits.items()},
    }
    kinds = imported.kinds
    notes = [*columns.notes(), *imported.notes(guessed=options.format is None)]
    if json_output:
        reasons = [dataclasses.asdict(skip) for skip in imported.skipped]
        about = {"dataset": str(folder), "format": imported.format, "columns": columns.columns}
        intervals = {"intervals": kinds} if kinds else {}
        print_json(about | counts | intervals | {"reasons": reasons, "notes": notes})
        return
    for line in notes:
        note(as_note(line))
    counts |= {f"facts, {kind}": count for kind, count in kinds.items() if count}
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    out.print(table(str(folder), ["", "count"], rows))
    out.print(imported.account(), soft_wrap=True)
    # Only TED with a fixed sigma needs no facts to validate on.
    model = "pointer" if imported.splits["valid"] else "ted model.sigma=0.1"
    next_step = f"next: tempograph train {quote(str(folder))} --model {model}"
    out.print(
        f"steps from {imported.times[0]} to {imported.times[-1]}; {next_step}", soft_wrap=True
    )


@app.command("stats")
def stats(
    datasets: Annotated[list[str], typer.Argument(help="Dataset folders or known names.")],
    protocol: ProtocolOption = "strict",
    window: Annotated[int, typer.Option(min=1, help="Number of steps that count as recent.")] = 15,
    plot: Plot = None,
    json_output: Json = False,
) -> None:
    """Count facts and active entities, and show how sparse the data is."""
    from tempograph.data.catalog import load_dataset
    from tempograph.data.statistics import statistics
    from tempograph.errors import ConfigError

    if plot is not None and len(datasets) > 1:
        raise ConfigError(f"--plot draws one dataset, found {len(datasets)}")
    graphs = [load_dataset(dataset) for dataset in datasets]
    entries = [statistics(graph, protocol, window) for graph in graphs]
    if plot is not None:
        from tempograph.report.dataset_plots import statistics_figure
        from tempograph.report.drawing import save

        save(statistics_figure(entries[0], graphs[0]), plot)
    if json_output:
        print_json({"datasets": [entry.summary() for entry in entries]})
    else:
        _print_statistics(entries, protocol, window)


def _print_statistics(entries: Sequence[Statistics], protocol: str, window: int) -> None:
    counts = ("entities", "relations", "steps", "train", "valid", "test", "total")
    rows = [[each.name, *(f"{getattr(each, column):,}" for column in counts)] for each in entries]
    out.print(table("Facts", ["dataset", *counts], rows))
    for entry in entries:
        if entry.spans:
            kinds = [f"{count:,} {kind}" for kind, count in entry.spans.items() if count]
            print_note(f"{entry.name} has facts that hold for a while: {', '.join(kinds)}")
    rows = []
    for entry in entries:
        curves = (entry.active, entry.active_recently, entry.facts_per_active)
        cells = [f"{curve.mean():,.1f} ({curve.min():,.0f}-{curve.max():,.0f})" for curve in curves]
        rows.append([entry.name, *cells, f"{entry.active.mean() / entry.entities:.1%}"])
    columns = ["dataset", "active", f"also in last {window}", f"facts in last {window}", "share"]
    caption = (
        f"Protocol {protocol}. Entities active at a step, those also active in the {window} steps "
        "before, and train facts in those steps per active entity: mean (minimum-maximum) over "
        "steps. Share: the fraction of all entities that are active"
    )
    out.print(table("Activity", columns, rows, caption=caption))
    for entry in entries:
        if entry.repeated:
            print_note(f"{entry.name} repeats {entry.repeated:,} facts, within or across splits")
        unseen = [f"{count:,} in {split}" for split, count in entry.unseen.items() if count]
        if unseen:
            print_note(
                f"{entry.name} has facts with an entity that is in no train fact: "
                f"{', '.join(unseen)}"
            )
