"""The pointer's candidates that differ from the rest, and the loss against all entities by them.

A fact may speak for a candidate of a query, or a known answer be asked of it: these are laid out.
All other entities score what their relation gives them, `RelationPrior`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from tempograph.models.pointer.copying import Copying
from tempograph.models.pointer.recent_paths import RecentPaths
from tempograph.models.pointer.relation_prior import RelationPrior, RelationRest, SortedPrior
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.models.sparse_scores import MANY_ENTITIES, Pairs, SparseScores
from tempograph.nn.kept_value import KeptValue
from tempograph.nn.path_sums import PathQueries, PathVotes
from tempograph.nn.sparse_votes import Cells, VoteRows
from tempograph.nn.votes import VoteRanges


def uses_sparse_layout(layout: str, num_entities: int, sources: Iterable[object]) -> bool:
    """Whether only the candidates that differ from the rest are laid out.

    Paths and names give every entity a score of its own, so these need all of them. So do facts
    that hold for a while: what is laid out comes from ranges of events.
    """
    if layout == "auto":
        layout = "sparse" if num_entities >= MANY_ENTITIES else "dense"
    return layout == "sparse" and all(
        each.bins.intervals is None if isinstance(each, Copying) else isinstance(each, RecentPaths)
        for each in sources
    )


Lookups = Sequence[VoteRanges | PathQueries]
"""What each source looked up for some queries."""


class LaidOut(NamedTuple):
    """The cells of some queries, and what names them: for each source its rows and their cells."""

    cells: Cells
    rows: Sequence[VoteRows | PathVotes]
    slots: Sequence[Tensor]


class SparseLayout:
    """Lays out the candidates of a pointer with these sources and P0, entity [entities]."""

    def __init__(self, entity: Tensor, sources: Iterable[object]) -> None:
        self.entity = entity
        self.sources = tuple(cast("Iterable[Copying | RecentPaths]", sources))

    def relation_source(self) -> Copying:
        """The source that has the prior of relations."""
        return next(
            source
            for source in self.sources
            if isinstance(source, Copying) and source.prior is not None
        )

    def prior(self) -> RelationPrior:
        """The scores of candidates that are not laid out."""
        return RelationPrior(self.entity, self.relation_source())

    def sorted_prior(self, kept: KeptValue[SortedPrior]) -> SortedPrior:
        """The same, sorted once until the weights change."""
        source = self.relation_source()
        weights = cast(
            "tuple[Tensor, ...]", (self.entity, source.prior, source.shared_gain, source.gain)
        )
        return kept(weights, lambda: SortedPrior(self.prior()))

    def sizes(self, lookups: Lookups) -> Tensor:
        """How many candidates are laid out for each query at most, answers aside, [n]."""
        total: Tensor | int = 1
        for source, lookup in zip(self.sources, lookups, strict=True):
            if isinstance(source, RecentPaths):
                total = total + source.max_facts**2
            else:
                ranges = cast(VoteRanges, lookup)
                total = total + ranges.facts.lengths + len(ranges.removed)
                if not len(source.bins.row_count):
                    total = total + ranges.candidates.lengths * (source.prior is None)
        return cast(Tensor, total)

    def lay_out(self, lookups: Lookups, extra: Pairs, sample: VoteSample | None) -> LaidOut:
        """The candidates that the looked up facts name, and extra pairs (query, candidate)."""
        rows: list[VoteRows | PathVotes] = []
        pairs = []
        for source, lookup in zip(self.sources, lookups, strict=True):
            if isinstance(source, RecentPaths):
                votes = source.votes(cast(PathQueries, lookup), sample)
                rows.append(votes)
                pairs.append((votes.query, votes.candidate))
            else:
                ranges = cast(VoteRanges, lookup)
                rows.append(found := source.vote_rows(ranges))
                pairs.append(found.pairs(source.bins, ranges))
        keys = [query * len(self.entity) + candidate for query, candidate in (*pairs, extra)]
        distinct, slots = torch.unique(torch.cat(keys), return_inverse=True)
        *slots, _ = torch.split(slots, [len(each) for each in keys])
        return LaidOut(Cells(distinct, len(self.entity)), rows, slots)

    def scores(
        self,
        relation: Tensor,
        lookups: Lookups,
        laid_out: LaidOut,
        pair: Tensor,
        sample: VoteSample | None,
    ) -> Tensor:
        """The scores of the cells, whose (relation, candidate) pairs are at `pair`, [cells]."""
        cells = laid_out.cells
        scores = self.entity.index_select(0, cells.candidate)
        for source, lookup, rows, slots in zip(
            self.sources, lookups, laid_out.rows, laid_out.slots, strict=True
        ):
            if isinstance(source, RecentPaths):
                votes, queries = cast(PathVotes, rows), cast(PathQueries, lookup)
                scores = scores + source.at_cells(cells, slots, votes, relation, queries)
            else:
                found, ranges = cast(VoteRows, rows), cast(VoteRanges, lookup)
                scores = scores + source.at_cells(
                    cells, slots, found, relation, ranges, sample, pair
                )
        return scores

    def losses(
        self,
        relation: Tensor,
        lookups: Lookups,
        answer: Tensor,
        known: Pairs,
        sample: VoteSample | None,
    ) -> Tensor:
        """`softmax_loss` of queries with relations and answers [n], without all the scores, [n]."""
        rows = torch.arange(len(answer), device=answer.device)
        extra = torch.cat([known[0], rows]), torch.cat([known[1], answer])
        laid_out, prior = self.lay_out(lookups, extra, sample), self.prior()
        cells = laid_out.cells
        its_relation = relation[cells.query]
        pair = prior.pairs(its_relation, cells.candidate)
        scores = self.scores(relation, lookups, laid_out, pair, sample)
        base = prior.at(its_relation, cells.candidate, pair)
        counts = torch.ones_like(scores, dtype=torch.bool)
        counts[cells.find(*known)] = False
        own = cells.find(rows, answer)
        counts[own] = True
        shift, total = prior.log_sums(relation)
        gone = torch.exp(base.double() - shift[cells.query])
        rest = total.index_add(0, cells.query, gone, alpha=-1)
        # Rounding may leave less than nothing if almost all entities are laid out.
        rest = shift + torch.log(rest.clamp(min=torch.finfo(rest.dtype).tiny))
        kept = counts.nonzero()[:, 0]
        score, query = scores.index_select(0, kept).double(), cells.query[kept]
        highest = rest.detach().scatter_reduce(0, query, score.detach(), "amax")
        named = torch.zeros_like(rest).index_add(0, query, torch.exp(score - highest[query]))
        log_sum = highest + torch.log(torch.exp(rest - highest) + named)
        return log_sum - scores.index_select(0, own).double()

    def sparse_scores(self, relation: Tensor, lookups: Lookups, prior: SortedPrior) -> SparseScores:
        """The scores of all entities for queries with relations [n]."""
        none = relation[:0]
        laid_out = self.lay_out(lookups, (none, none), None)
        cells = laid_out.cells
        pair = prior.prior.pairs(relation[cells.query], cells.candidate)
        scores = self.scores(relation, lookups, laid_out, pair, None)
        rest = RelationRest(prior, relation)
        return SparseScores(
            cells.query, cells.candidate, scores, rest, len(relation), cells.num_entities
        )
