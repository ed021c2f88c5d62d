"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tempograph.typing import CompletionProtocol, Task


def _complete_dataset(incomplete: str) -> list[str]:
    from tempograph.data.catalog import available

    return [entry.name for entry in available() if entry.name.startswith(incomplete)]


Dataset = Annotated[
    str,
    typer.Argument(
        help="A dataset folder, or a known name such as demo or icews14.",
        autocompletion=_complete_dataset,
    ),
]
Device = Annotated[str, typer.Option(help="The device: auto, cpu or cuda.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
MaxTime = Annotated[
    float | None,
    typer.Option(min=0, help="Stop after this many minutes; 'resume' continues the run."),
]
OverwriteDataset = Annotated[
    bool, typer.Option("--overwrite", help="Replace the dataset folder if it exists.")
]
OverwriteRun = Annotated[
    bool, typer.Option("--overwrite", help="Replace the run folder if it exists.")
]
ParquetFile = Annotated[
    Path | None, typer.Option("--out", help="Also write the facts to this Parquet file.")
]
TableFile = Annotated[
    Path | None, typer.Option("--out", help="Also write the table to this .parquet or .csv file.")
]
Plot = Annotated[
    Path | None, typer.Option(help="Draw a figure of the result (.png, .svg or .pdf).")
]
TaskOption = Annotated[
    Task,
    typer.Option(
        "--task",
        help="Complete facts inside the period of the data, or forecast from earlier facts alone, "
        "which needs splits by time.",
    ),
]
ProtocolOption = Annotated[
    CompletionProtocol,
    typer.Option(
        "--protocol",
        help="Facts that make an entity active: train facts only (strict), "
        "or facts of all splits (paper).",
    ),
]
TrainProtocol = Annotated[
    CompletionProtocol | None,
    typer.Option(
        "--protocol",
        help="For task complete, the facts that make an entity active: train facts only (strict, "
        "the default), or facts of all splits (paper).",
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, written by 'train' or 'fit'.")
]
ScoreMemory = Annotated[
    int | None,
    typer.Option(min=1, help="Memory for scores in MiB; by default 512, or 4096 on a GPU."),
]
TensorBoard = Annotated[
    bool, typer.Option("--tensorboard", help="Also write TensorBoard events to the run folder.")
]
Top = Annotated[int, typer.Option(min=1, help="Maximum number of facts to show.")]
