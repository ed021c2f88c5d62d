"""data list, get, import, stats."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from tempograph.cli import import_options as importing
from tempograph.cli.console import err, out, print_json, progress_bar, table
from tempograph.cli.train import Json
from tempograph.typing import Protocol

app = typer.Typer(help="Datasets: list, download, import, describe.", no_args_is_help=True)


Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the dataset folder if it exists.")
]


@app.command("list")
def list_datasets(json_output: Json = False) -> None:
    """Show the datasets that can be named, and where they lie."""
    from tempograph.data.catalog import available, dataset_roots

    found = available()
    if json_output:
        rows = [
            dataclasses.asdict(entry) | {"path": str(entry.path) if entry.path else None}
            for entry in found
        ]
        print_json({"datasets": rows, "roots": [str(root) for root in dataset_roots()]})
        return
    cells = [
        [
            entry.name,
            entry.description,
            str(entry.path) if entry.path else _how_to_get(entry.name),
            _facts(entry.counts),
        ]
        for entry in found
    ]
    out.print(table("Datasets", ["name", "what", "where", "facts"], cells, left=3))


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="icews14, icews05-15 or gdelt.")],
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Where to; by default $TEMPOGRAPH_DATA or the user cache."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Download a published benchmark; every file is checked against its published id before anything is written."""
    from tempograph.data.benchmarks import download, find_benchmark
    from tempograph.data.catalog import download_target

    target = folder or download_target(name)
    with progress_bar(f"downloading {name}") as progress:
        graph = download(name, target, overwrite, lambda _, done, total: progress(done, total or 0))
    out.print(f"{graph.name}: {len(graph.all_facts):,} facts, every file as published: {target}")
    out.print(f"Source: {find_benchmark(name).source}", soft_wrap=True)


@app.command("import")
def import_events(
    files: importing.Files,
    folder: Annotated[Path, typer.Option("--out", help="The dataset folder to make.")],
    format: importing.FormatOption = None,
    overwrite: Overwrite = False,
    json_output: Json = False,
    subject: importing.Subject = "subject",
    relation: importing.Relation = "relation",
    object_: importing.Object = "object",
    time: importing.Time = "time",
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
    seed: importing.Seed = 0,
) -> None:
    """Turn a table of dated events, or files of ICEWS or GDELT, into a dataset folder.

    Examples: **tempograph data import events.csv --subject actor --object target --time date --out mydata**,
    **tempograph data import 'gdelt/*.export.CSV.zip' --relation-level root --out mydata**
    """
    from tempograph.data.folder import DATASET_MARKER, write_folder
    from tempograph.data.importers.importer import import_files
    from tempograph.io import refuse_existing

    refuse_existing(folder, DATASET_MARKER, overwrite)
    options = importing.import_options(
        format,
        (subject, relation, object_, time),
        (header, delimiter, time_format),
        (entity, relation_level),
        granularity,
        (split, valid, test, seed),
        skip_bad,
    )
    with progress_bar("importing") as progress:
        imported = import_files(files, options, folder.resolve().name, progress)
    write_folder(imported.graph, folder, overwrite)
    graph = imported.graph
    counts = {
        "rows": imported.rows,
        "skipped": sum(skip.rows for skip in imported.skipped),
        "duplicates": imported.duplicates,
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "steps": len(graph.times),
        "train": len(graph.train),
        "valid": len(graph.valid),
        "test": len(graph.test),
    }
    if json_output:
        reasons = [dataclasses.asdict(skip) for skip in imported.skipped]
        print_json(
            {"dataset": str(folder), "format": imported.format} | counts | {"reasons": reasons}
        )
        return
    importing.tell_import(imported, format)
    out.print(
        table(str(folder), ["", "count"], [[name, f"{count:,}"] for name, count in counts.items()])
    )
    # Without facts to choose on, there is one model that needs none.
    model = "pointer" if len(graph.valid) else "ted model.sigma=0.1"
    way_on = f"next: tempograph train {quote(str(folder))} --model {model}"
    out.print(f"steps from {graph.times[0]} to {graph.times[-1]}; {way_on}", soft_wrap=True)


@app.command("stats")
def stats(
    datasets: Annotated[list[str], typer.Argument(help="Dataset folders or known names.")],
    protocol: Annotated[
        Protocol, typer.Option(help="Whose facts make an entity active.")
    ] = "strict",
    window: Annotated[int, typer.Option(min=1, help="How many steps count as recent.")] = 15,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the curves of one dataset (.png, .svg, .pdf).")
    ] = None,
    json_output: Json = False,
) -> None:
    """Count facts, and how many entities are active at a time, now and recently."""
    from tempograph.data.catalog import load_dataset
    from tempograph.data.statistics import Statistics, statistics
    from tempograph.errors import ConfigError

    if plot is not None and len(datasets) > 1:
        raise ConfigError(f"--plot draws one dataset, found {len(datasets)}")
    graphs = [load_dataset(dataset) for dataset in datasets]
    found = [statistics(graph, protocol, window) for graph in graphs]
    if plot is not None:
        from tempograph.report.dataset_plots import statistics_figure
        from tempograph.report.drawing import save

        save(statistics_figure(found[0], graphs[0]), plot)
    if json_output:
        print_json({"datasets": [entry.summary() for entry in found]})
        return
    counts = ("entities", "relations", "steps", "train", "valid", "test", "total")
    rows = [[entry.name, *(f"{getattr(entry, column):,}" for column in counts)] for entry in found]
    out.print(table("Facts", ["dataset", *counts], rows))

    def cells(entry: Statistics) -> list[str]:
        curves = (entry.active, entry.active_recently, entry.facts_per_active)
        shares = [
            f"{curve.mean():,.1f} ({curve.min():,.0f}-{curve.max():,.0f})" for curve in curves
        ]
        return [entry.name, *shares, f"{entry.active.mean() / entry.entities:.1%}"]

    columns = ["dataset", "active", f"also in last {window}", f"facts in last {window}", "share"]
    meaning = f"entities active at a step; those active in the last {window} as well; train facts there naming one"
    caption = (
        f"{meaning}. Mean (smallest-largest) over steps; share of all entities; protocol {protocol}"
    )
    out.print(table("Activity", columns, [cells(entry) for entry in found], caption=caption))
    for entry in found:
        if entry.repeated:
            err.print(
                f"note: {entry.name} repeats {entry.repeated:,} facts, within a split or across two"
            )
        unseen = ", ".join(
            f"{count:,} of {split}" for split, count in entry.unseen.items() if count
        )
        if unseen:
            err.print(
                f"note: {entry.name} has facts with an entity that train never names: {unseen}"
            )


def _how_to_get(name: str) -> str:
    return "made when asked for" if name == "demo" else f"tempograph data get {name}"


def _facts(counts: object) -> str:
    from tempograph.data.benchmarks import Counts

    return f"{counts.train + counts.valid + counts.test:,}" if isinstance(counts, Counts) else ""
