"""What speaks for a fact that holds for a while, whatever its interval."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tempograph.data.frequency import PATTERNS, PatternFrequencies
from tempograph.models.heads.relation_rates import RelationRates

_COUNTED: Final = PATTERNS[:-1]
"""The whole triple is never among the train facts."""
_PAIR: Final = PATTERNS.index("so")
_TRIPLE: Final = PATTERNS.index("sro")
HELD_FEATURES: Final = (
    *("object", "subject", "related"),
    *(f"N({pattern}, t)" for pattern in _COUNTED),
    *(f"N({pattern})" for pattern in _COUNTED),
    *("N(os, t)", "N(ors, t)", "N(os)", "N(ors)"),
)
"""The features of a triple (s, r, o) that is asked about at a step t: log P(o | s, r, t) and
log P(s | r, o, t); the highest log P(r | r') over the relations r' that the two entities have; and
log(1 + number of train facts) with a pattern, of those that hold at t, and of those that hold at
another step."""
_LARGEST: Final = 20.0
"""Bound of logarithms of probabilities."""


def held_features(
    facts: Tensor, frequencies: PatternFrequencies, rates: RelationRates, log_probs: Tensor
) -> Tensor:
    """The features of facts [n, 4], whose time is the step asked about, [n, features].

    log_probs [n, 2]: of the objects and of the subjects.
    """
    steps, reversed_ = frequencies.num_steps, facts[:, [2, 1, 0, 3]]
    own, other = (
        (frequencies.count_at(each), frequencies.count(each, steps, steps))
        for each in (facts, reversed_)
    )
    counts = torch.cat(
        [
            *(each[:, : len(_COUNTED)] for each in own),
            *(each[:, [_PAIR, _TRIPLE]] for each in other),
        ],
        dim=1,
    )
    logs = torch.column_stack([log_probs.clamp(min=-_LARGEST), rates.log_rate(facts)])
    return torch.cat([logs, counts.double().log1p()], dim=1)
