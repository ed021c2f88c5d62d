"""The two protocols: which facts make an entity active at a time step.

Under `strict` only train facts do. Under `paper` facts of valid and test do as well, as in the
authors' code: a leak, kept only to compare with the published figures.
"""

from __future__ import annotations

import numpy as np

from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.suggestions import refuse_unknown
from tempograph.typing import PROTOCOLS, Protocol


def active_pairs(graph: TemporalGraph, protocol: Protocol) -> tuple[Facts, Facts]:
    """Keys entity * steps + step of active pairs: those in train, and those the protocol adds.

    Both are sorted and distinct, [pairs] each.
    """
    refuse_unknown("protocol", protocol, PROTOCOLS)
    held_out = np.concatenate([graph.valid, graph.test])
    added = held_out if protocol == "paper" else held_out[:0]
    return _pair_keys(graph.train, graph.sizes[3]), _pair_keys(added, graph.sizes[3])


def _pair_keys(facts: Facts, num_steps: int) -> Facts:
    """Keys of all (entity, step) pairs in some facts, sorted, [pairs]."""
    return np.unique(facts[:, [0, 2]] * num_steps + facts[:, [3]])
