"""What a step of training the pointer sees."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class VoteSample(NamedTuple):
    """The train facts that vote, and what counts of the names; None for everything."""

    fact_mask: Tensor | None = None
    """[facts]"""
    name_mask: Tensor | None = None
    """Which numbers of each query's vector of names count, [queries, width], scaled."""
