"""export: the vectors of a trained run, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempograph.cli.console import out, print_json, progress_bar
from tempograph.cli.shared_options import Device, Json, RunFolder


def export(
    run: RunFolder,
    path: Annotated[Path, typer.Option("--out", help="The Parquet file to write.")],
    times: Annotated[
        str | None,
        typer.Option(
            help="Time steps, separated by commas, or 'all'; by default, the last step.",
            metavar="T,T,...",
        ),
    ] = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Write the embeddings of all entities to a Parquet file: time, entity and vector.

    Example: **tempograph export runs/mine --out vectors.parquet --times 2014-06-01,2014-06-02**
    """
    from tempograph.device import resolve_device
    from tempograph.prediction.vectors import export_vectors
    from tempograph.training.runs import Run

    loaded = Run.load(run, resolve_device(device))
    labels = None if times is None else [time.strip() for time in times.split(",")]
    if times == "all":
        labels = list(loaded.graph.times)
    with progress_bar("exporting") as progress:
        schema = export_vectors(loaded, path, labels, progress)
    entities, width = len(loaded.graph.entities), schema.field("vector").type.list_size
    if json_output:
        print_json({"file": str(path), "entities": entities, "width": width})
    else:
        out.print(f"{entities:,} entities, vectors of {width} numbers: {path}", soft_wrap=True)
