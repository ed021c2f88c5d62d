"""Paths: candidates gain by the neighbors that they share with the entity of a query."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from tempograph.data.common_neighbors import (
    CommonNeighbors,
    NeighborQueries,
    NeighborTables,
    look_up_paths,
)
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.inplace import row_blocks
from tempograph.nn.shared_weights import copy_sharing_weights

_ROWS_PREPARED: Final = 128
"""Rows of the tables of all pairs that are made at once in advance: they take 0.1 s."""
_INITIAL_LOG_C: Final = 7.0
"""Most path scores are between a thousandth and ten."""


class Paths(nn.Module):
    """contribution(o) = u_r log(1 + c_r path_score(s, o)) if o is a neighbor of s,

    else u'_r log(1 + c_r path_score(s, o)) + b_r; `CommonNeighbors` has the path score.
    """

    def __init__(self, timeline: Timeline, initial_gain: float) -> None:
        super().__init__()
        self.neighbors = CommonNeighbors.for_timeline(timeline)
        # u, u', log c, b.
        self.shared_gain = nn.Parameter(
            torch.tensor([initial_gain, initial_gain, _INITIAL_LOG_C, 0.0])
        )
        self.gain = nn.Parameter(torch.zeros(2 * timeline.num_relations, 4))

    @property
    def bytes_per_candidate(self) -> int:
        """Memory of one (query, entity) pair; none if the tables of all pairs fit."""
        return 0 if self.neighbors.tables_fit else 40

    def with_timeline(self, timeline: Timeline) -> Paths:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin.neighbors = CommonNeighbors.for_timeline(timeline)
        return twin

    def prepare(self) -> bool:
        """Make some rows of the tables of all pairs; return whether more are left to make."""
        return self.neighbors.make_rows(_ROWS_PREPARED)

    def look_up(self, queries: Queries, left_out: Tensor | None = None) -> NeighborQueries:
        """The queries for path scores, without the train facts left_out [n]."""
        return self.neighbors.queries(queries.entity, left_out)

    unpack = staticmethod(NeighborQueries.unpack)

    def forward(
        self,
        scores: Tensor,
        relation: Tensor,
        queries: NeighborQueries,
        sample: VoteSample | None = None,
    ) -> Tensor:
        """Add the contributions to scores [n, entities] of queries with relations [n], in place.

        A sample has no effect: paths are not counted again in every training step.
        """
        coefficients = (self.shared_gain + self.gain).index_select(0, relation)
        tables = self.neighbors.tables(queries, scores.dtype)
        result: Tensor = _AddPathScores.apply(scores, coefficients, tables, queries)
        return result

    def fact_contributions(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """Train facts on paths to a candidate, and their contributions, [facts] each.

        Half of a path's contribution goes to the facts of each of its two steps, in equal parts.
        """
        neighbors, entity = self.neighbors, int(query.entity)
        everyone = torch.arange(neighbors.num_entities, device=query.entity.device)
        ends = (entity, candidate)
        counts = torch.stack(
            [neighbors.fact_counts(torch.full_like(everyone, end), everyone) for end in ends]
        ).to(self.gain.dtype)
        path = counts.log1p().prod(0) / (1 + neighbors.degree) * (entity != candidate)
        u_neighbor, u_other, log_c, _ = (self.shared_gain + self.gain[query.relation]).unbind(-1)
        u = u_neighbor if counts[0, candidate] else u_other
        through = u * torch.log1p(log_c.exp() * path.sum()) * path / path.sum().clamp(min=1e-30)
        steps = [neighbors.facts_between(end, path > 0) for end in ends]
        shares = [
            through[middle] / 2 / count[middle]
            for count, (_, middle) in zip(counts, steps, strict=True)
        ]
        return torch.cat([fact for fact, _ in steps]), torch.cat(shares)


class _AddPathScores(torch.autograd.Function):
    """Adds path scores in place; backward looks them up again instead of saving them."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        coefficients: Tensor,
        tables: NeighborTables,
        queries: NeighborQueries,
    ) -> Tensor:
        ctx.tables_and_queries = tables, queries
        ctx.save_for_backward(coefficients)
        ctx.mark_dirty(scores)
        if scores.is_cuda:
            from tempograph.nn.kernels.paths_kernel import add_path_scores

            return add_path_scores(scores, coefficients, tables, queries)
        return add_path_scores_torch(scores, coefficients, tables, queries)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (coefficients,) = grad_outputs, ctx.saved_tensors
        if grad.is_cuda:
            from tempograph.nn.kernels.paths_kernel import grad_path_coefficients

            own = grad_path_coefficients(grad, coefficients, *ctx.tables_and_queries)
        else:
            own = grad_path_coefficients_torch(grad, coefficients, *ctx.tables_and_queries)
        return grad, own, None, None


def add_path_scores_torch(
    scores: Tensor, coefficients: Tensor, tables: NeighborTables, queries: NeighborQueries
) -> Tensor:
    """Add the contributions of paths to scores [n, entities], in place; coefficients [n, 4]."""
    for rows in row_blocks(scores):
        u_neighbor, u_other, log_c, b = coefficients[rows, :, None].unbind(1)
        path_scores, is_neighbor = look_up_paths(tables.take(rows), queries.take(rows))
        logs = path_scores.mul_(log_c.exp()).log1p_()
        scores[rows].add_(torch.where(is_neighbor, u_neighbor * logs, u_other * logs + b))
    return scores


def grad_path_coefficients_torch(
    grad_scores: Tensor, coefficients: Tensor, tables: NeighborTables, queries: NeighborQueries
) -> Tensor:
    """The gradient of the coefficients from that of the scores, [n, 4]."""
    result = torch.empty_like(coefficients)
    for rows in row_blocks(grad_scores):
        u_neighbor, u_other, log_c, _ = coefficients[rows, :, None].unbind(1)
        grad = grad_scores[rows]
        path_scores, is_neighbor = look_up_paths(tables.take(rows), queries.take(rows))
        scaled = path_scores.mul_(log_c.exp())
        by_logs, u = grad * scaled.log1p(), torch.where(is_neighbor, u_neighbor, u_other)
        result[rows, 0] = (by_logs * is_neighbor).sum(1)
        result[rows, 1] = (by_logs * ~is_neighbor).sum(1)
        result[rows, 2] = (grad * u * scaled / (1 + scaled)).sum(1)
        result[rows, 3] = (grad * ~is_neighbor).sum(1)
    return result
