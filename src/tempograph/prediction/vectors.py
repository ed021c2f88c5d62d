"""Entity vectors of a trained run as a table, for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from tempograph.io import atomic_file
from tempograph.training.runs import Run
from tempograph.typing import Progress

_AT_ONCE: Final = 8
"""Times whose vectors are made at once."""


def export_vectors(
    run: Run, path: Path, times: Sequence[str] | None = None, progress: Progress | None = None
) -> pa.Schema:
    """Write the vectors of every entity at some times, by default the last, as Parquet: time, entity, vector.

    Vectors that are the same at all times are written once, with no time.
    """
    graph = run.graph
    chosen = (
        [len(graph.times) - 1]
        if times is None
        else [graph.time_id(time) for time in dict.fromkeys(times)]
    )
    steps = torch.tensor(chosen, device=run.model.device)
    with torch.inference_mode():
        first = run.model.entity_vectors(steps[:1])
        # Two times tell whether time is anything to this model.
        timed = (
            len(graph.times) > 1
            and len(run.model.entity_vectors(torch.tensor([0, 1], device=steps.device))) > 1
        )
        schema = pa.schema(
            [
                ("time", pa.string()),
                ("entity", pa.string()),
                ("vector", pa.list_(pa.float32(), first.shape[-1])),
            ]
        )
        with (
            atomic_file(path) as temporary,
            pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
        ):
            for part in torch.split(steps if timed else steps[:1], _AT_ONCE):
                tables = run.model.entity_vectors(part).float().cpu().numpy()
                for step, vectors in zip(part.tolist(), tables, strict=True):
                    writer.write_table(
                        _table(
                            graph.times[step] if timed else None, graph.entities, vectors, schema
                        )
                    )
                if progress is not None:
                    progress(int((steps == part[-1]).nonzero()[0]) + 1, len(steps))
    return schema


def _table(
    time: str | None, entities: tuple[str, ...], vectors: np.ndarray, schema: pa.Schema
) -> pa.Table:
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    columns = [
        pa.array([time] * len(entities), pa.string()),
        pa.array(entities, pa.string()),
        pa.FixedSizeListArray.from_arrays(flat, vectors.shape[-1]),
    ]
    return pa.Table.from_arrays(columns, schema=schema)
