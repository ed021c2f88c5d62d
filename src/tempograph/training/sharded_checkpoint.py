"""Checkpoints of several processes: a file of rows from each, and a manifest that is renamed last.

The manifest is the checkpoint file itself. It holds what all processes have in common and names the
other files, so a kill at any moment leaves the checkpoint before or the new one, each whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor

from tempograph.io import atomic_file
from tempograph.nn.row_shards import RowShards
from tempograph.training.sharded_files import read_rows

_SHARDS: Final = "shards"
"""The entry of the manifest's metadata that lists the files with rows, as JSON."""


def save_sharded_checkpoint(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    is_sharded: Callable[[str], bool],
    epoch: int,
    shards: RowShards,
) -> None:
    """Write a checkpoint together; all processes must call this."""
    files = [
        path.with_name(f"{path.stem}-{epoch}-{rank}-of-{shards.size}{path.suffix}")
        for rank in range(shards.size)
    ]
    rows = {name: value for name, value in tensors.items() if is_sharded(name)}
    with atomic_file(files[shards.rank]) as temporary:
        safetensors.torch.save_file(rows, temporary)
    # The manifest may name the files when all of them are there.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    written = shards.total(torch.ones(1, device=device))
    assert int(written) == shards.size
    if shards.rank:
        return
    copied = {name: value for name, value in tensors.items() if name not in rows}
    names = json.dumps([file.name for file in files])
    with atomic_file(path) as temporary:
        safetensors.torch.save_file(copied, temporary, {**metadata, _SHARDS: names})
    remove_shards(path, files)


def read_checkpoint(
    path: Path, is_sharded: Callable[[str], bool], shards: RowShards | None
) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a checkpoint that any number of processes wrote.

    Of sharded tables only the own rows are read; without shards, all of them.
    """
    own = shards or RowShards(0, 1)
    with safe_open(path, "pt") as file:
        metadata: dict[str, str] = file.metadata()
        names = set(file.keys())
        tables = {name for name in names if shards is not None and is_sharded(name)}
        tensors = {name: file.get_tensor(name) for name in names - tables}
    files = [path]
    if _SHARDS in metadata:
        files = [path.with_name(name) for name in json.loads(metadata[_SHARDS])]
        with safe_open(files[0], "pt") as file:
            tables = set(file.keys())
    return metadata, tensors | {name: read_rows(files, name, own) for name in tables}


def remove_shards(path: Path, but: Iterable[Path] = ()) -> None:
    """Remove the files with rows beside a checkpoint, but those that it names."""
    for file in {*path.parent.glob(f"{path.stem}-*-of-*{path.suffix}")} - {*but}:
        file.unlink(missing_ok=True)
