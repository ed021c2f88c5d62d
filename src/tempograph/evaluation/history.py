"""History: the facts that a forecaster answers from when it is asked about a split."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch

from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.protocol import task_of
from tempograph.data.timeline import Timeline
from tempograph.device import memory_budget
from tempograph.errors import DataError
from tempograph.models.base import Model
from tempograph.typing import SPLITS, Protocol, Split


def with_history(model: Model, graph: TemporalGraph, split: Split, protocol: Protocol) -> Model:
    """The model over the facts that it may know when it is asked about a split.

    A model that completes facts is returned as it is: it knows its train facts. A forecaster gets
    the history, and looks only at the part of it that is before each query.
    """
    if task_of(protocol) == "complete":
        return model
    timeline = _timeline(graph, split, protocol, model.device)
    return model.with_timeline(timeline, memory_budget("history", model.device)).eval()


def history_facts(graph: TemporalGraph, split: Split, protocol: Protocol) -> Facts:
    """The facts of the history of a split, [n, 4]: up to the split itself, or the one before."""
    known = SPLITS.index(split) + (protocol == "forecast-single")
    return np.concatenate([graph.train, *(graph.facts(name) for name in SPLITS[1 : max(1, known)])])


def require_chronological(graph: TemporalGraph) -> None:
    """Raise DataError unless each split starts after the one before it has ended."""
    last, before = int(graph.train[:, 3].max()), "train"
    for split in SPLITS[1:]:
        time = graph.facts(split)[:, 3]
        if not len(time):
            continue
        if int(time.min()) <= last:
            raise DataError(
                f"{graph.name}: a forecast needs splits by time, but {split} starts at "
                f"{graph.times[int(time.min())]}, and {before} ends at {graph.times[last]}; "
                "import the data with --split chronological"
            )
        last, before = int(time.max()), split


# A training validates many times on the same history.
@lru_cache(maxsize=2)
def _timeline(
    graph: TemporalGraph, split: Split, protocol: Protocol, device: torch.device
) -> Timeline:
    facts = history_facts(graph, split, protocol)
    return Timeline(replace(graph, train=facts), protocol, device, int(facts[:, 3].max()))
