"""Votes for time steps: facts vote for the steps around them."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

_MAX_TABLE: Final = 2**22
"""Weights up to which every pair of relations has its own."""
_RANK: Final = 16
"""Rank of the table beyond that."""


class TimeVotes(nn.Module):
    """contribution(t) = u_r log(1 + c_r V(t)),

    V(t) = exp(b_0) x(t) + sum over windows k of exp(b_k) y(t - h_k .. t + h_k). x(t) is the sum of
    exp(A[r, r']) over the voting facts (r', t), and y the same with another table: a fact of the
    same step tells more, and something else, than one of the days before. The windows double.
    """

    def __init__(self, num_relations: int, num_steps: int, initial_gain: float) -> None:
        super().__init__()
        self.num_relations = num_relations
        self.half_widths = window_half_widths(num_steps)
        self.low_rank = 4 * num_relations**2 > _MAX_TABLE
        if self.low_rank:
            self.left = nn.Parameter(0.1 * torch.randn(num_relations, _RANK))
            self.right = nn.Parameter(torch.zeros(2 * num_relations, _RANK, 2))
        else:
            self.own = nn.Parameter(torch.zeros(num_relations * 2 * num_relations, 2))
        # For any other relation, the same relation and its inverse; same step, then window.
        self.shared = nn.Parameter(torch.tensor([[-1.0, -1.0], [0.0, 0.0], [-0.5, -0.5]]))
        self.by_window = nn.Parameter(-0.7 * torch.arange(1 + len(self.half_widths)).float())
        self.gain = nn.Parameter(torch.tensor([[initial_gain, 0.0]]).repeat(num_relations, 1))
        """u and log c of each relation."""

    def forward(
        self, asked: Tensor, query: Tensor, relation: Tensor, time: Tensor, num_steps: int
    ) -> Tensor:
        """The contributions to every step, [queries, steps].

        asked [queries]: the relation r of each query; query, relation, time [votes]: the query of
        each vote, the directed relation r' and the step of the fact.
        """
        weights = self._weights(asked[query], relation).exp()
        cells = weights.new_zeros(len(asked) * num_steps, 2)
        cells = cells.index_add(0, query * num_steps + time, weights)
        same, near = cells.view(len(asked), num_steps, 2).unbind(2)
        first, *others = self.by_window.exp()
        votes, widest = first * same, self.half_widths[-1]
        # Running sums, continued beyond both ends, so that every window is a slice: the gradient
        # of a slice is cheap, that of indexing is not.
        total = near.cumsum(1)
        total = torch.cat([pad(total, (widest + 1, 0)), total[:, -1:].expand(-1, widest)], dim=1)
        for weight, half_width in zip(others, self.half_widths, strict=True):
            after = total.narrow(1, widest + half_width + 1, num_steps)
            before = total.narrow(1, widest - half_width, num_steps)
            votes = votes + weight * (after - before)
        u, log_c = self.gain.index_select(0, asked).unbind(1)
        # Differences of running sums may be slightly below 0.
        return u[:, None] * torch.log1p(log_c.exp()[:, None] * votes.clamp(min=0))

    def _weights(self, asked: Tensor, relation: Tensor) -> Tensor:
        """A of pairs of relations, for the same step and for windows, [votes, 2]."""
        same = relation == asked
        inverse = relation == asked + self.num_relations
        # Not by indexing: on a GPU, its gradient adds up the rows of each kind one by one.
        other, own, inverted = self.shared
        shared = torch.where(inverse[:, None], inverted, other)
        shared = torch.where(same[:, None], own, shared)
        if self.low_rank:
            left, right = self.left[asked], self.right[relation]
            return shared + (left[:, :, None] * right).sum(1)
        return shared + self.own.index_select(0, asked * 2 * self.num_relations + relation)


def window_half_widths(num_steps: int) -> tuple[int, ...]:
    """1, 3, 7, ... up to the first that covers half of the time axis, and at most a thousand."""
    widths = [1]
    while widths[-1] < min(num_steps // 2, 1000):
        widths.append(2 * widths[-1] + 1)
    return tuple(widths)
