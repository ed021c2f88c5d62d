"""Copying: train facts that share a key with a question vote for candidates, each with a learned weight."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from tempograph.data.fact_index import FactIndex
from tempograph.data.timeline import Queries, Timeline
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.votes import (
    VoteBins,
    VoteRanges,
    VoteWeights,
    add_contributions_torch,
    fact_weights,
    voting_facts,
)

_GAPS: Final = (1, 2, 4, 9, 23, 61, 161)
"""Gaps in steps, before or after, at which the weights of pairs of relations change; none is the same step."""
_MOST_RELATIONS: Final = 1024
"""In both directions, of which every pair has weights of its own: 16 million with the gaps."""
_RANK: Final = 16
"""Of the tables of pairs of more relations than that."""


class Copying(nn.Module):
    """gain(o) = u_r log(1 + c_r S(o)) + v_r log(1 + N(o)), N(o) the facts of the key with o, S(o) their weights' sum.

    The weight of a fact (x, r', o, t') is exp(A[r, r'] + C[r, r', gap] + B[r, t' - t] + M[r, n]): gap is a coarse class
    of t' - t, B and M are tables over signed logarithmic bins, and n counts the facts of the key between t and t', so
    that weights follow the pace of the key as well as the calendar. Each table is the sum of one that all relations
    share, by r' = r, r' = r inverted or neither, and one of their own. N counts all facts, S the nearest. With a prior
    each distinct candidate of each key gains a number of its own as well.
    """

    def __init__(self, view: FactIndex, most: int, start: float, *, prior: bool = False) -> None:
        super().__init__()
        self.most = most
        directed = view.num_directed_relations
        self.bins = _vote_bins(view, most)
        time_bins, count_bins = (
            int(bins.max()) + 1 for bins in (self.bins.time_bin, self.bins.count_bin)
        )
        self.pair = PairTable(directed, self.bins.num_classes)
        self.shared_time = nn.Parameter(
            -0.15 * (torch.arange(time_bins) - time_bins // 2).abs().float()
        )
        self.shared_count = nn.Parameter(torch.zeros(count_bins))
        self.shared_gain = nn.Parameter(torch.tensor([start, 0.0, 0.1 * start]))
        self.by_time = nn.Parameter(torch.zeros(directed, time_bins))
        self.by_count = nn.Parameter(torch.zeros(directed, count_bins))
        self.gain = nn.Parameter(torch.zeros(directed, 3))
        self.prior = nn.Parameter(torch.zeros(len(view.candidates))) if prior else None

    @property
    def view(self) -> FactIndex:
        """The facts that may vote."""
        return self.bins.fact_index

    def with_timeline(self, timeline: Timeline) -> Copying:
        """The same weights for other facts; a number learned for a candidate stays its own, and others have 0.

        Differences of time larger than those known are weighed as the largest known.
        """
        twin, entities = copy_sharing_weights(self), timeline.num_entities
        view = FactIndex(timeline, self.view.key, None if self.prior is None else self.view)
        bins, known = _vote_bins(view, self.most), self.by_time.shape[1] // 2
        beyond = len(torch.unique(bins.time_bin)) // 2
        twin.bins = bins._replace(time_bin=(bins.time_bin - beyond).clamp(-known, known) + known)
        if self.prior is not None:
            prior = self.prior.detach().new_zeros(len(view.candidates))
            twin.prior = nn.Parameter(
                prior.index_copy(
                    0, view.candidate_positions(self.view, entities), self.prior.detach()
                )
            )
        return twin

    def forward(
        self, scores: Tensor, relation: Tensor, ballot: VoteRanges, fact_mask: Tensor | None = None
    ) -> Tensor:
        """Add what candidates gain to the scores [n, entities] of questions for relations [n], and return them.

        Train facts that are not kept do not vote.
        """
        return add_contributions(scores, self.bins, ballot, self.weights(relation), fact_mask)

    def ballot(self, queries: Queries, left_out: Tensor | None = None) -> VoteRanges:
        """Which facts the questions look at; the train facts left_out [n] neither vote nor count."""
        view = self.view
        removed = view.fact_positions(queries, left_out)
        pivot = torch.searchsorted(
            view.key_time, view.key_ids(queries) * view.num_steps + queries.time
        )
        return VoteRanges(
            facts=view.nearest(queries, self.most, removed),
            pivot=pivot - (removed < pivot[:, None]).sum(1),
            candidates=view.candidate_ranges(queries),
            time=queries.time.contiguous(),
            removed=removed.T.contiguous(),
        )

    unpack = staticmethod(VoteRanges.unpack)

    def weights(self, relation: Tensor) -> VoteWeights:
        """The tables for questions with relations [n]."""
        pair, row, place = self.pair(relation)
        return VoteWeights(
            pair,
            _rows(self.by_time, row) + self.shared_time,
            _rows(self.by_count, row) + self.shared_count,
            place,
            (self.shared_gain + self.gain).index_select(0, relation),
            self.prior,
        )

    def votes_for(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """The train facts that speak for a candidate of one question, and what each adds to its gain, [facts] each.

        What the sum of weights gives is shared by weight, what the count gives in equal parts.
        """
        view, ballot, key = self.view, self.ballot(query), int(self.view.key_ids(query))
        listed = torch.arange(
            int(view.key_start[key]), int(view.key_start[key + 1]), device=view.time.device
        )
        listed = listed[
            view.candidates[ballot.candidates.start + view.candidate_slot[listed]] == candidate
        ]
        weights = self.weights(query.relation)
        _, weight, _ = fact_weights(self.bins, ballot, weights, None)
        every = torch.zeros(len(view.time), dtype=weight.dtype, device=weight.device)
        mine = every.index_copy(0, voting_facts(ballot, view, None)[1], weight)[listed]
        height, steepness, of_count = weights.coefficients[0]
        by_weight = height * torch.log1p(torch.exp(steepness) * mine.sum())
        by_count = of_count * math.log1p(len(listed))
        return view.fact_id[listed], by_weight * mine / mine.sum().clamp(
            min=1e-30
        ) + by_count / max(1, len(listed))


def _vote_bins(view: FactIndex, most: int) -> VoteBins:
    device = view.time.device
    gaps, edges = (
        torch.arange(view.num_steps + 1, device=device),
        torch.tensor(_GAPS, device=device),
    )
    distance = torch.bucketize(gaps, edges, right=True)
    return VoteBins(
        view,
        gap_class=len(_GAPS) + torch.cat([-distance[1:].flip(0), distance]),
        time_bin=signed_bins(view.num_steps, per_octave=3).to(device),
        count_bin=signed_bins(most, per_octave=2).to(device),
        num_classes=2 * len(_GAPS) + 1,
    )


class PairTable(nn.Module):
    """A[r, r'] + C[r, r', gap] for relations in both directions: a part that all share, and one of each pair.

    With more relations than a table has room for, the part of each pair is a product of two narrow tables.
    """

    kinds: Tensor

    def __init__(self, directed: int, classes: int) -> None:
        super().__init__()
        self.directed, self.classes, self.narrow = directed, classes, directed > _MOST_RELATIONS
        # Of any relation, of the same one, of its inverse.
        self.shared = nn.Parameter(torch.tensor([[0.0], [1.0], [0.5]]).repeat(1, classes))
        if self.narrow:
            self.left = nn.Parameter(0.1 * torch.randn(directed, _RANK))
            self.right = nn.Parameter(torch.zeros(_RANK, directed * classes))
        else:
            self.own = nn.Parameter(torch.zeros(directed, directed, classes))
            self.register_buffer(
                "kinds", _kinds(torch.arange(directed), directed), persistent=False
            )

    @property
    def bytes_per_question(self) -> int:
        """Memory of the row that a question may need for itself; none where all rows are there."""
        return 12 * self.directed * self.classes if self.narrow else 0

    def forward(self, relation: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Relations [n] -> a table [rows, directed, classes], the relation of each row if it is not all, places [n]."""
        if not self.narrow:
            return self._with_shared(self.own, self.kinds), None, relation
        row, place = torch.unique(relation, return_inverse=True)
        own = (self.left.index_select(0, row) @ self.right).view(
            len(row), self.directed, self.classes
        )
        return self._with_shared(own, _kinds(row, self.directed).to(own.dtype)), row, place

    def _with_shared(self, own: Tensor, kinds: Tensor) -> Tensor:
        table: Tensor = torch.addmm(own.view(-1, self.classes), kinds, self.shared)
        return table.view_as(own)


def _kinds(row: Tensor, directed: int) -> Tensor:
    """Whether each relation is any other than that of a row [n], the same, or its inverse, [n * directed, 3]."""
    other = torch.arange(directed, device=row.device)
    turned = (row + directed // 2) % directed
    kind = (other == row[:, None]).long() + 2 * (other == turned[:, None])
    return one_hot(kind.flatten(), 3).float()


def _rows(table: Tensor, row: Tensor | None) -> Tensor:
    return table if row is None else table.index_select(0, row)


def signed_bins(largest: int, per_octave: int) -> Tensor:
    """The bin of each difference from -largest to largest: finer near 0, the sign kept, [2 largest + 1]."""
    distance = torch.arange(largest + 1, dtype=torch.float64)
    bins = torch.floor(per_octave * torch.log2(1 + distance)).long()
    # Bins of small distances may be empty; those that occur are numbered.
    numbered = torch.unique(bins, return_inverse=True)[1]
    return torch.cat([numbered.max() - numbered[1:].flip(0), numbered.max() + numbered])


def add_contributions(
    scores: Tensor,
    bins: VoteBins,
    ballot: VoteRanges,
    weights: VoteWeights,
    fact_mask: Tensor | None,
) -> Tensor:
    """Add to scores [questions, entities], in place, what each candidate gains, and return them.

    u log(1 + c S) + v log(1 + N) + prior, S the sum of exp(pair + by_time + by_count) over the candidate's facts on the
    ballot that are kept, N the number of its facts, near or far.
    """
    if scores.device.type == "cuda":
        from tempograph.nn.kernels.votes_kernel import add_contributions as fused

        return fused(scores, bins, ballot, weights, fact_mask)
    return add_contributions_torch(scores, bins, ballot, weights, fact_mask)
