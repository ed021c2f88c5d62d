"""Protocols: what a model may know of a dataset when it is asked about a fact.

To complete facts, all train facts are known, before and after the query. Under `strict` only they
make an entity active at a step. Under `paper` facts of valid and test do as well, as in the
authors' code: a leak, kept only to compare with the published figures.

To forecast, only facts before the query are known. Under `forecast-single` these are all facts of
earlier steps, those of valid and test included. Under `forecast-multi` history ends with the split
before the one that is asked about.
"""

from __future__ import annotations

import numpy as np

from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.suggestions import refuse_unknown
from tempograph.errors import ConfigError
from tempograph.typing import FORECAST_PROTOCOLS, PROTOCOLS, TASKS, Protocol, Task


def task_of(protocol: Protocol) -> Task:
    """The task that a protocol belongs to."""
    return "forecast" if protocol in FORECAST_PROTOCOLS else "complete"


def protocol_for(task: Task | None, protocol: Protocol | None) -> Protocol:
    """The protocol of a run, given its task, its protocol, both or neither."""
    if task is not None:
        refuse_unknown("task", task, TASKS)
    if protocol is None:
        return "forecast-single" if task == "forecast" else "strict"
    refuse_unknown("protocol", protocol, PROTOCOLS)
    if task not in (None, task_of(protocol)):
        raise ConfigError(
            f"protocol {protocol} is for task {task_of(protocol)}, not {task}; "
            "leave one of them out"
        )
    return protocol


def active_pairs(graph: TemporalGraph, protocol: Protocol) -> tuple[Facts, Facts]:
    """Keys entity * steps + step of active pairs: those in train, and those the protocol adds.

    Both are sorted and distinct, [pairs] each. Facts that hold for a while count at their start,
    and a protocol adds none of them.
    """
    refuse_unknown("protocol", protocol, PROTOCOLS)
    held_out = np.concatenate([graph.valid, graph.test])
    leaks = protocol == "paper" and not graph.has_intervals
    added = held_out if leaks else held_out[:0]
    return _pair_keys(graph.train, graph.sizes[3]), _pair_keys(added, graph.sizes[3])


def _pair_keys(facts: Facts, num_steps: int) -> Facts:
    """Keys of all (entity, step) pairs in some facts, sorted, [pairs]."""
    return np.unique(facts[:, [0, 2]] * num_steps + facts[:, [3]])
