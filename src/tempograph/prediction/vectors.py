"""Entity vectors of a trained run as a Parquet table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from tempograph.data.timeline import Timeline
from tempograph.io import atomic_file
from tempograph.training.answering import answering_graph, model_over
from tempograph.training.runs import Run
from tempograph.typing import Progress

_CHUNK_SIZE: Final = 8
"""Time steps encoded at once."""


def export_vectors(
    run: Run, path: Path, times: Sequence[str] | None = None, progress: Progress | None = None
) -> pa.Schema:
    """Write time, entity and vector of every entity at some times, by default the last.

    Vectors that are the same at all times are written once, with a null time. Those of an updated
    run are the ones it answers with, new entities included.
    """
    graph, model = run.graph, run.model
    if run.updates is not None:
        graph = answering_graph(run)
        timeline = Timeline(graph, run.config.protocol, model.device)
        model = model_over(run, timeline, rebuild=True)
    steps = [len(graph.times) - 1]
    if times is not None:
        steps = [graph.time_id(time) for time in dict.fromkeys(times)]
    with torch.inference_mode():
        width = model.entity_vectors(torch.tensor(steps[:1], device=model.device)).shape[-1]
        # A model whose vectors do not depend on time returns one table for two times.
        two = torch.arange(min(2, len(graph.times)), device=model.device)
        timed = len(model.entity_vectors(two)) > 1
        vector = pa.list_(pa.float32(), width)
        schema = pa.schema({"time": pa.string(), "entity": pa.string(), "vector": vector})
        with (
            atomic_file(path) as temporary,
            pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
        ):
            if not timed:
                steps = steps[:1]
            for start in range(0, len(steps), _CHUNK_SIZE):
                chunk = steps[start : start + _CHUNK_SIZE]
                tables = model.entity_vectors(torch.tensor(chunk, device=model.device))
                for step, vectors in zip(chunk, tables.float().cpu().numpy(), strict=True):
                    label = graph.times[step] if timed else None
                    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
                    columns = [
                        pa.array([label] * len(graph.entities), pa.string()),
                        pa.array(graph.entities, pa.string()),
                        pa.FixedSizeListArray.from_arrays(flat, width),
                    ]
                    writer.write_table(pa.Table.from_arrays(columns, schema=schema))
                if progress is not None:
                    progress(start + len(chunk), len(steps))
    return schema
