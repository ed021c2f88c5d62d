"""Copying: train facts that share a key with a query vote for candidates with trained weights."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from tempograph.data.fact_index import FactIndex
from tempograph.data.nearest_intervals import NearestIntervals
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.kept_value import KeptValue
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.nn.sparse_votes import Cells, VoteRows, cell_contributions
from tempograph.nn.votes import (
    PHASES,
    VoteBins,
    VoteList,
    VoteLookup,
    VoteRanges,
    VoteWeights,
    add_contributions_torch,
    fact_weights,
    listed_facts,
    voting_facts,
)

_GAPS: Final = (1, 2, 4, 9, 23, 61, 161)
"""Gaps in steps, before or after, at which the class of a gap changes."""
MAX_RELATIONS: Final = 1024
"""Directed relations up to which every pair has its own weights: 16 million with the gaps."""
_RANK: Final = 16
"""Rank of the pair table beyond that."""


class Copying(nn.Module):
    """contribution(o) = u_r log(1 + c_r S(o)) + v_r log(1 + N(o)) + prior(o)

    N(o) counts all facts of the key with candidate o; S(o) sums the weights of the nearest of them.
    If only the past counts, N(o) counts the facts before t, and is 0 if none of them may vote; so
    it is, for facts of all times, without `count_all`.
    A fact (x, r', o, t') weighs exp(A[r, r'] + C[r, r', gap] + B[r, t' - t] + M[r, n]): gap is a
    coarse class of t' - t, n counts the facts of the key between t and t', B and M are tables over
    signed logarithmic bins. Each table is the sum of a shared one and one per relation.

    Of facts that hold for a while, t' - t is 0 while they hold, else the steps since the end or
    until the start, and the weight has one more term, D[r, r', phase] (`nn.votes.phase`).
    """

    def __init__(
        self,
        fact_index: FactIndex,
        max_facts: int,
        initial_gain: float,
        intervals: NearestIntervals | None = None,
        *,
        prior: bool = False,
        count_all: bool = True,
    ) -> None:
        super().__init__()
        self.max_facts, self.count_all = max_facts, count_all
        relations = fact_index.num_directed_relations
        self.bins = _vote_bins(fact_index, max_facts, count_all, intervals)
        time_bins, count_bins = (
            int(bins.max()) + 1 for bins in (self.bins.time_bin, self.bins.count_bin)
        )
        self.pair = PairTable(relations, self.bins.num_classes)
        self.shared_time = nn.Parameter(
            -0.15 * (torch.arange(time_bins) - time_bins // 2).abs().float()
        )
        self.shared_count = nn.Parameter(torch.zeros(count_bins))
        self.shared_gain = nn.Parameter(torch.tensor([initial_gain, 0.0, 0.1 * initial_gain]))
        self.by_time = nn.Parameter(torch.zeros(relations, time_bins))
        self.by_count = nn.Parameter(torch.zeros(relations, count_bins))
        self.gain = nn.Parameter(torch.zeros(relations, 3))
        """u, log c and v of each relation."""
        self.prior = nn.Parameter(torch.zeros(len(fact_index.candidates))) if prior else None
        self.phase: PairTable | None = None
        if intervals is not None:
            self.phase = PairTable(relations, PHASES)
            nn.init.zeros_(self.phase.shared)

    @property
    def fact_index(self) -> FactIndex:
        """The facts that may vote."""
        return self.bins.fact_index

    def with_timeline(self, timeline: Timeline) -> Copying:
        """The same weights for other facts; new candidates have no prior."""
        twin, old = copy_sharing_weights(self), self.fact_index
        index = FactIndex(timeline, old.key, None if self.prior is None else old)
        intervals = None if self.phase is None else NearestIntervals(timeline, index)
        bins = _vote_bins(index, self.max_facts, self.count_all, intervals)
        known = self.by_time.shape[1] // 2
        middle = len(torch.unique(bins.time_bin)) // 2
        twin.bins = bins._replace(time_bin=(bins.time_bin - middle).clamp(-known, known) + known)
        if self.prior is not None:
            prior = self.prior.detach().new_zeros(len(index.candidates))
            position = index.candidate_positions(old, timeline.num_entities)
            twin.prior = nn.Parameter(prior.index_copy(0, position, self.prior.detach()))
        return twin

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> VoteLookup:
        """The facts that vote on each query, without the train facts left_out [n]."""
        index, time = self.fact_index, queries.time
        key = index.key_ids(queries)
        removed, candidates = index.positions_of(key, left_out), index.candidates_of(key)
        if self.bins.intervals is not None:
            return VoteList(
                self.bins.intervals.nearest(key, time, self.max_facts, removed),
                candidates,
                time,
                removed.T.contiguous(),
            )
        pivot = index.first_row_at(key, time)
        return VoteRanges(
            facts=index.nearest_rows(key, time, self.max_facts, removed),
            pivot=pivot - (removed < pivot[:, None]).sum(1),
            candidates=candidates,
            time=time.contiguous(),
            removed=removed.T.contiguous(),
        )

    unpack = staticmethod(VoteRanges.unpack)

    def forward(
        self, scores: Tensor, relation: Tensor, ranges: VoteLookup, sample: VoteSample | None = None
    ) -> Tensor:
        """Add the contributions to scores [n, entities] of queries with relations [n], in place.

        With a sample, only train facts in its mask vote.
        """
        fact_mask = None if sample is None else sample.fact_mask
        return add_contributions(scores, self.bins, ranges, self.weights(relation), fact_mask)

    def vote_rows(self, ranges: VoteRanges) -> VoteRows:
        """What makes candidates of the queries differ from the rest.

        Where there is a prior, the rest has the counts of the relation, and the prior.
        """
        every_candidate = self.prior is None and not len(self.bins.row_count)
        return VoteRows.of(self.bins, ranges, every_candidate)

    def at_cells(
        self,
        cells: Cells,
        slots: Tensor,
        rows: VoteRows,
        relation: Tensor,
        ranges: VoteRanges,
        sample: VoteSample | None,
        pair: Tensor,
    ) -> Tensor:
        """The contributions that `forward` adds, to candidates that are laid out, [cells].

        slots: the cell of each row; pair: the positions of the cells' (relation, candidate) pairs.
        """
        fact_mask = None if sample is None else sample.fact_mask
        weights = self.weights(relation)
        return cell_contributions(cells, slots, rows, self.bins, ranges, weights, fact_mask, pair)

    def weights(self, relation: Tensor) -> VoteWeights:
        """The tables for queries with relations [n]."""
        pair, relations, row = self.pair(relation)
        by_time: Tensor = self.by_time
        by_count: Tensor = self.by_count
        if relations is not None:
            by_time, by_count = (table.index_select(0, relations) for table in (by_time, by_count))
        return VoteWeights(
            pair,
            by_time + self.shared_time,
            by_count + self.shared_count,
            row,
            (self.shared_gain + self.gain).index_select(0, relation),
            self.prior,
            None if self.phase is None else self.phase(relation)[0],
        )

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """Train facts for a candidate of one query, and their contributions, [facts] each.

        The term in S is divided by weight, the term in N in equal parts.
        """
        index, ranges, key = self.fact_index, self.look_up(query), self.fact_index.key_ids(query)
        stop = index.key_start[key + 1]
        if isinstance(ranges, VoteRanges) and index.past_only:
            stop = ranges.facts.stop
        rows = torch.arange(int(index.key_start[key]), int(stop), device=index.time.device)
        named = index.candidates[ranges.candidates.start + index.candidate_slot[rows]]
        rows = rows[named == candidate]
        weights = self.weights(query.relation)
        _, weight, _ = fact_weights(self.bins, ranges, weights, None)
        all_weights = torch.zeros(len(index.time), dtype=weight.dtype, device=weight.device)
        if isinstance(ranges, VoteList):
            voting = listed_facts(ranges, index, None)[1]
        else:
            voting = voting_facts(ranges, index, None)[1]
        own = all_weights.index_copy(0, voting, weight)[rows]
        u, log_c, v = weights.coefficients[0]
        by_weight = u * torch.log1p(torch.exp(log_c) * own.sum()) * own
        by_count = v * math.log1p(len(rows)) / max(1, len(rows))
        return index.fact_id[rows], by_weight / own.sum().clamp(min=1e-30) + by_count


def _vote_bins(
    fact_index: FactIndex, max_facts: int, count_all: bool, intervals: NearestIntervals | None
) -> VoteBins:
    device, steps = fact_index.time.device, fact_index.num_steps
    gaps = torch.arange(steps + 1, device=device)
    distance = torch.bucketize(gaps, torch.tensor(_GAPS, device=device), right=True)
    return VoteBins(
        fact_index,
        gap_class=len(_GAPS) + torch.cat([-distance[1:].flip(0), distance]),
        time_bin=signed_bins(steps, per_octave=3).to(device),
        count_bin=signed_bins(max_facts, per_octave=2).to(device),
        num_classes=2 * len(_GAPS) + 1,
        row_count=fact_index.row_counts(count_all),
        intervals=intervals,
    )


class PairTable(nn.Module):
    """A[r, r'] + C[r, r', gap] for directed relations: a shared part and one for each pair.

    With many relations the part of each pair is a product of two tables of low rank.
    """

    kinds: Tensor

    def __init__(self, relations: int, classes: int) -> None:
        super().__init__()
        self.relations, self.classes = relations, classes
        self.low_rank = relations > MAX_RELATIONS
        # For any other relation, the same relation and its inverse.
        self.shared = nn.Parameter(torch.tensor([[0.0], [1.0], [0.5]]).repeat(1, classes))
        if self.low_rank:
            self.left = nn.Parameter(0.1 * torch.randn(relations, _RANK))
            self.right = nn.Parameter(torch.zeros(_RANK, relations * classes))
        else:
            self._kept_table = KeptValue[Tensor]()
            self.own = nn.Parameter(torch.zeros(relations, relations, classes))
            kinds = _pair_kinds(torch.arange(relations), relations)
            self.register_buffer("kinds", kinds, persistent=False)

    @property
    def bytes_per_query(self) -> int:
        """Memory of the rows made for one query; none if the whole table exists."""
        return 12 * self.relations * self.classes if self.low_rank else 0

    def forward(self, relation: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Relations [n] -> table [rows, relations, classes], relations of its rows, rows [n].

        The relations of the rows are None if the table has a row for each relation. Outside of
        training that table is kept: it would take longer than the votes of a few queries.
        """
        if not self.low_rank:
            if torch.is_grad_enabled():
                return self._all_pairs(), None, relation
            return self._kept_table((self.own, self.shared), self._all_pairs), None, relation
        relations, row = torch.unique(relation, return_inverse=True)
        own = self.left.index_select(0, relations) @ self.right
        own = own.view(len(relations), self.relations, self.classes)
        kinds = _pair_kinds(relations, self.relations).to(own.dtype)
        return self._add_shared(own, kinds), relations, row

    def _all_pairs(self) -> Tensor:
        return self._add_shared(self.own, self.kinds)

    def _add_shared(self, own: Tensor, kinds: Tensor) -> Tensor:
        table: Tensor = torch.addmm(own.view(-1, self.classes), kinds, self.shared)
        return table.view_as(own)


def _pair_kinds(relation: Tensor, num_relations: int) -> Tensor:
    """One-hot kind of all pairs with relations [n]: other, same, inverse, [n * relations, 3]."""
    every = torch.arange(num_relations, device=relation.device)
    inverse = (relation + num_relations // 2) % num_relations
    kind = (every == relation[:, None]).long() + 2 * (every == inverse[:, None])
    return one_hot(kind.flatten(), 3).float()


def signed_bins(largest: int, per_octave: int) -> Tensor:
    """The bin of each difference from -largest to largest, finer near 0, [2 largest + 1]."""
    distance = torch.arange(largest + 1, dtype=torch.float64)
    bins = torch.floor(per_octave * torch.log2(1 + distance)).long()
    # Some bins of small distances are empty; number those that occur.
    numbered = torch.unique(bins, return_inverse=True)[1]
    return torch.cat([numbered.max() - numbered[1:].flip(0), numbered.max() + numbered])


def add_contributions(
    scores: Tensor,
    bins: VoteBins,
    ranges: VoteLookup,
    weights: VoteWeights,
    fact_mask: Tensor | None,
) -> Tensor:
    """Add u log(1 + c S) + v log(1 + N) + prior to the scores [n, entities], in place."""
    if scores.device.type == "cuda" and isinstance(ranges, VoteRanges):
        from tempograph.nn.kernels.votes_kernel import add_contributions as fused

        return fused(scores, bins, ranges, weights, fact_mask)
    return add_contributions_torch(scores, bins, ranges, weights, fact_mask)
