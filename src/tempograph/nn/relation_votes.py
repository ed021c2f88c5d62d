"""Votes for relations: facts near a time vote for the relation of another fact."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from tempograph.nn.gap_bins import GAP_CLASSES, gap_bin, gap_class, num_gap_bins
from tempograph.nn.votes import PHASES

_MAX_TABLE: Final = 2**24
"""Weights up to which every (voting relation, gap, relation) has its own."""
_RANK: Final = 16
"""Rank of the table beyond that."""


class RelationVotes(nn.Module):
    """contribution(r) = u_r log(1 + c_r V(r)),

    V(r) = sum over voting facts (r', t') of exp(A[r', gap, r] + B[t' - t]): r' is a directed
    relation, gap a coarse class of t' - t, and B a table over signed logarithmic bins. A is the sum
    of a table and of weights shared by all relations for r' = r, r' = r inverted, and others. With
    `phases`, a fact that holds for a while has a further summand C[r', phase] (`nn.votes.phase`).
    """

    def __init__(
        self, num_relations: int, num_steps: int, initial_gain: float, phases: bool = False
    ) -> None:
        super().__init__()
        self.num_relations, self.num_steps = num_relations, num_steps
        cells = 2 * num_relations * GAP_CLASSES
        self.low_rank = cells * num_relations > _MAX_TABLE
        if self.low_rank:
            self.left = nn.Parameter(0.1 * torch.randn(cells, _RANK))
            self.right = nn.Parameter(torch.zeros(_RANK, num_relations))
        else:
            self.own = nn.Parameter(torch.zeros(cells, num_relations))
        # For any other relation, the same relation and its inverse.
        self.shared = nn.Parameter(torch.tensor([[-1.0], [1.0], [-0.5]]).repeat(1, GAP_CLASSES))
        bins = num_gap_bins(num_steps)
        self.by_gap = nn.Parameter(-0.15 * (torch.arange(bins) - bins // 2).abs().float())
        self.by_phase = nn.Parameter(torch.zeros(2 * num_relations, PHASES)) if phases else None
        self.gain = nn.Parameter(torch.tensor([[initial_gain, 0.0]]).repeat(num_relations, 1))
        """u and log c of each relation."""

    def forward(
        self,
        num_queries: int,
        query: Tensor,
        relation: Tensor,
        gap: Tensor,
        phase: Tensor | None = None,
    ) -> Tensor:
        """The contributions to every relation, [queries, relations].

        query [votes]: the query of each vote, ascending; relation, gap and phase [votes]: r',
        t' - t and the phase of the fact at t.
        """
        if not len(query):
            return self.gain.new_zeros(num_queries, self.num_relations)
        cell, index = torch.unique(relation * GAP_CLASSES + gap_class(gap), return_inverse=True)
        exponent = self.by_gap.index_select(0, gap_bin(gap, self.num_steps))
        if self.by_phase is not None and phase is not None:
            # Phase 0 says nothing more, and has no weight.
            known = (phase > 0).to(exponent.dtype)
            by_phase = self.by_phase.flatten().index_select(0, relation * PHASES + phase)
            exponent = exponent + known * by_phase
        weight = exponent.exp()
        start = torch.searchsorted(query, torch.arange(num_queries, device=query.device))
        votes = embedding_bag(
            index, self._table(cell).exp(), start, mode="sum", per_sample_weights=weight
        )
        u, log_c = self.gain.unbind(1)
        contributions: Tensor = u * torch.log1p(log_c.exp() * votes)
        return contributions

    def _table(self, cell: Tensor) -> Tensor:
        """A of some cells (r', gap), [cells, relations]."""
        relation, kind_of_gap = cell // GAP_CLASSES, cell % GAP_CLASSES
        other, same, inverse = self.shared.index_select(1, kind_of_gap)
        own = self.left[cell] @ self.right if self.low_rank else self.own.index_select(0, cell)
        table = own + other[:, None]
        row = torch.arange(len(cell), device=cell.device)
        extra = torch.where(relation < self.num_relations, same, inverse) - other
        result: Tensor = table.index_put(
            (row, relation % self.num_relations), extra, accumulate=True
        )
        return result
