"""Files of weights whose rows are shared out over processes, without a copy of any whole table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import torch
from safetensors import safe_open
from torch import Tensor, distributed

from tempograph.io import atomic_file
from tempograph.models.base import Model
from tempograph.nn.row_shards import RowShards
from tempograph.nn.sharded_entities import sharded_weights
from tempograph.training.run_folder import FORMAT

_BLOCK_BYTES: Final = 2**26
"""How much of a table a process reads or receives at a time."""


def read_rows(files: Sequence[Path], name: str, shards: RowShards) -> Tensor:
    """The own rows of a table; file k holds the rows that process k of len(files) had."""
    parts = [RowShards(rank, len(files)) for rank in range(len(files))]
    shapes = []
    for file in files:
        with safe_open(file, "pt") as tensors:
            shapes.append(tensors.get_slice(name).get_shape())
    rows = sum(shape[0] for shape in shapes)
    own: Tensor | None = None
    for part, file, shape in zip(parts, files, shapes, strict=True):
        with safe_open(file, "pt") as tensors:
            values = tensors.get_slice(name)
            for positions in _blocks(shape[0], 4 * shape[1]):
                block = values[positions.start : positions.stop]
                row = torch.arange(positions.start, positions.stop) * part.size + part.rank
                mine = shards.owned(row)
                if own is None:
                    own = block.new_empty(shards.count(rows), *shape[1:])
                own[row[mine] // shards.size] = block[mine]
    return torch.empty(0, *shapes[0][1:]) if own is None else own


def load_sharded_weights(model: Model, file: Path) -> None:
    """Load the own rows of sharded tables, and all other weights, of a run folder."""
    assert model.shards is not None
    sharded = sharded_weights(model)
    with safe_open(file, "pt") as tensors:
        weights = {name: tensors.get_tensor(name) for name in {*tensors.keys()} - {*sharded}}
    rows = {name: read_rows([file], name, model.shards) for name in sharded}
    model.load_state_dict(weights | rows)


def write_sharded_weights(model: Model, shards: RowShards, file: Path | None) -> None:
    """Write the weights of all processes into the file that process 0 names, if it names one.

    Processes send their rows block by block to process 0, which writes them in order. All of them
    must call this.
    """
    wanted = torch.tensor([shards.rank == 0 and file is not None], dtype=torch.int64)
    if not int(shards.total(wanted.to(model.device))):
        return
    if shards.rank or file is None:
        for _ in _tables(model, shards):
            pass
        return
    with atomic_file(file) as temporary, temporary.open("wb") as out:
        header, offset = dict[str, object]({"__metadata__": {"format": FORMAT}}), 0
        for name, shape in _shapes(model).items():
            end = offset + 4 * shape.numel()
            header[name] = {"dtype": "F32", "shape": [*shape], "data_offsets": [offset, end]}
            offset = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        out.write(len(text).to_bytes(8, "little") + text)
        for values in _tables(model, shards):
            out.write(values.numpy().tobytes())


def _shapes(model: Model) -> dict[str, torch.Size]:
    """The shapes of all weights, as one process would have them."""
    sharded = sharded_weights(model)
    return {
        name: torch.Size([sharded[name].count, *value.shape[1:]])
        if name in sharded
        else value.shape
        for name, value in model.state_dict().items()
    }


def _tables(model: Model, shards: RowShards) -> Iterator[Tensor]:
    """All weights in the order of the model's state, sharded ones in blocks, at process 0."""
    sharded = sharded_weights(model)
    for name, value in model.state_dict().items():
        if name in sharded:
            yield from _gathered(value, sharded[name].count, shards)
        else:
            yield value.detach().float().cpu()


def _gathered(own: Tensor, rows: int, shards: RowShards) -> Iterator[Tensor]:
    """The rows of a table in order, at process 0; others get their own rows back."""
    most = RowShards(0, shards.size).count(rows)
    for positions in _blocks(most, 4 * own.shape[1] * shards.size):
        block = own[positions.start : positions.stop].detach().float()
        if len(block) < len(positions):
            block = torch.cat([block, block.new_zeros(1, own.shape[1])])
        if shards.rank:
            distributed.gather(block)
            continue
        parts = [torch.empty_like(block) for _ in range(shards.size)]
        distributed.gather(block, parts)
        first = positions.start * shards.size
        yield torch.stack(parts, 1).flatten(0, 1)[: rows - first].cpu()


def _blocks(rows: int, row_bytes: int) -> Iterator[range]:
    """Ranges of rows that take a limited number of bytes."""
    size = max(1, _BLOCK_BYTES // row_bytes)
    return (range(first, min(first + size, rows)) for first in range(0, rows, size))
