"""When facts of a relation hold, whatever their subject and object."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tempograph.data.timeline import Timeline

_WIDTH: Final = 3.0
"""Steps after which what a fact adds to its neighbors falls to 1/e."""
_REACH: Final = 30
"""Steps beyond which a fact adds nothing to its neighbors."""
_SHARED: Final = 10.0
"""How many facts of a relation those of all relations are worth."""
_ANYWHERE: Final = 0.1
"""How many facts any step is worth that is as likely as all others."""


def fit_density(timeline: Timeline) -> Tensor:
    """log P(t | r): the share of each step in the train facts of a relation, [relations, steps].

    A fact counts once, in equal parts at the steps at which it is known to hold; neighbors of a
    step count less and less, and relations of few facts resemble the others.
    """
    relations, steps = timeline.num_relations, timeline.num_steps
    relation, start, end = timeline.facts[:, 1], timeline.facts[:, 3], timeline.fact_end
    share = 1 / (end - start + 1).double()
    changes = share.new_zeros(relations, steps + 1)
    changes.index_put_((relation, start), share, accumulate=True)
    changes.index_put_((relation, end + 1), -share, accumulate=True)
    counts = changes.cumsum(1)[:, :steps].clamp(min=0)
    distance = torch.arange(-_REACH, _REACH + 1, device=counts.device).abs().double()
    kernel = torch.exp(-distance / _WIDTH)
    smooth = torch.conv1d(counts[:, None], kernel[None, None] / kernel.sum(), padding=_REACH)[:, 0]
    total = smooth.sum(0) + _ANYWHERE / steps
    density = smooth + _SHARED * total / total.sum()
    return (density / density.sum(1, keepdim=True)).log()
