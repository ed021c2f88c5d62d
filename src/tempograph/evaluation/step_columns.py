"""Columns of tables of ranks whose facts hold for a while and are asked about at several steps."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from tempograph.data.graph import Facts
from tempograph.data.spans import OPEN, UNKNOWN, Bounds
from tempograph.evaluation.ranking import StepRanks

STEP_HITS: Final = (1, 3, 10)
"""Hits@k that tables of ranks have."""
MEASURES: Final = {"mrr": "reciprocal_rank", **{f"hits@{k}": f"hits@{k}" for k in STEP_HITS}}
"""The column that holds the mean over steps of each measure."""
STEP_COLUMNS: Final = ("end", "bounds", "steps", *MEASURES.values())


def step_columns(facts: Facts, step_ranks: StepRanks) -> dict[str, pa.Array]:
    """The columns for facts [n, 6], of which each row is asked about at several steps."""
    means = step_ranks.realistic
    return {
        "end": pa.array(facts[:, 4]),
        "bounds": pa.array(facts[:, 5]),
        "steps": pa.array(step_ranks.steps.numpy()),
        MEASURES["mrr"]: pa.array(means.reciprocal.numpy()),
        **{MEASURES[f"hits@{k}"]: pa.array(means.hits[:, k - 1].numpy()) for k in STEP_HITS},
    }


def with_bound_names(table: pa.Table, times: tuple[str, ...]) -> pa.Table:
    """A table of ranks with start and end as labels in place of its columns time, end and bounds.

    An open bound is `..`, an unknown one is empty. Tables of events stay as they are.
    """
    if "bounds" not in table.column_names:
        return table
    bounds = table["bounds"].to_numpy()
    end = np.array(times, dtype=object)[table["end"].to_numpy()]
    start = table["time"].to_numpy(zero_copy_only=False).copy()
    for column, opened, unknown in (
        (start, Bounds.OPEN_START, Bounds.UNKNOWN_START),
        (end, Bounds.OPEN_END, Bounds.UNKNOWN_END),
    ):
        column[(bounds & opened) > 0] = OPEN
        column[(bounds & unknown) > 0] = UNKNOWN
    place = table.column_names.index("time")
    table = table.drop_columns(["time", "end", "bounds"])
    table = table.add_column(place, "start", pa.array(start, pa.string()))
    return table.add_column(place + 1, "end", pa.array(end, pa.string()))


def fact_columns(table: pa.Table) -> Facts:
    """The facts of a table of ranks in ids, [n, 4], or [n, 6] if they hold for a while."""
    names = [*"srot", *(name for name in ("end", "bounds") if name in table.column_names)]
    return np.stack([table[name].to_numpy().astype(np.int64) for name in names], axis=1)
