"""export: the vectors of a trained run, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempograph.cli.console import out, print_json, progress_bar
from tempograph.cli.train import Device, Json, RunFolder


def export(
    run: RunFolder,
    path: Annotated[Path, typer.Option("--out", help="The Parquet file to write.")],
    times: Annotated[
        str | None,
        typer.Option(
            help="Time steps separated by commas, or all; by default the last.", metavar="T,T,..."
        ),
    ] = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Write the vectors of all entities as Parquet: time, entity, vector.

    Example: **tempograph export runs/mine --out vectors.parquet --times 2014-06-01,2014-06-02**
    """
    from tempograph.device import resolve_device
    from tempograph.prediction.vectors import export_vectors
    from tempograph.training.runs import Run

    loaded = Run.load(run, resolve_device(device))
    every = loaded.graph.times
    wanted = (
        None
        if times is None
        else every
        if times == "all"
        else [time.strip() for time in times.split(",")]
    )
    with progress_bar("exporting") as progress:
        schema = export_vectors(loaded, path, wanted, progress)
    width = schema.field("vector").type.list_size
    if json_output:
        print_json({"file": str(path), "entities": len(loaded.graph.entities), "width": width})
    else:
        out.print(
            f"{len(loaded.graph.entities):,} entities, {width} numbers each, in {path}",
            soft_wrap=True,
        )
