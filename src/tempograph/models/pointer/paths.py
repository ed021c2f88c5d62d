"""Paths of two steps: candidates gain by the entities that both they and a question's entity have met."""

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
from tempograph.nn.inplace import row_blocks
from tempograph.nn.shared_weights import copy_sharing_weights

_STEEPNESS: Final = 7.0
"""log c before training: sums over shared acquaintances are mostly between a thousandth and ten."""


class Paths(nn.Module):
    """gain(o) = u_r log(1 + c_r times how well the question's entity knows o through others).

    u_r is one for those that the entity has met and another for those that it has not; these gain b_r as well.
    """

    def __init__(self, timeline: Timeline, start: float) -> None:
        super().__init__()
        self.known = CommonNeighbors.for_timeline(timeline)
        # u of those that were met, u of the others, log c, b.
        self.shared_gain = nn.Parameter(torch.tensor([start, start, _STEEPNESS, 0.0]))
        self.gain = nn.Parameter(torch.zeros(2 * timeline.num_relations, 4))

    @property
    def bytes_per_candidate(self) -> int:
        """Memory that a question takes for each entity: none where all is looked up in tables that are there."""
        return 0 if self.known.tables_fit else 40

    def with_timeline(self, timeline: Timeline) -> Paths:
        """The same weights for other facts."""
        twin = copy_sharing_weights(self)
        twin.known = CommonNeighbors.for_timeline(timeline)
        return twin

    def ballot(self, queries: Queries, left_out: Tensor | None = None) -> NeighborQueries:
        """What the questions look at; the train facts left_out [n] do not count."""
        return self.known.queries(queries.entity, left_out)

    unpack = staticmethod(NeighborQueries.unpack)

    def forward(
        self,
        scores: Tensor,
        relation: Tensor,
        asked: NeighborQueries,
        fact_mask: Tensor | None = None,
    ) -> Tensor:
        """Add what candidates gain to the scores [n, entities] of questions for relations [n], and return them.

        Facts that are not kept count: they are not counted again in every step.
        """
        gain = (self.shared_gain + self.gain).index_select(0, relation)
        tables = self.known.tables(asked, scores.dtype)
        found: Tensor = _AddPathScores.apply(scores, gain, tables, asked)  # type: ignore[no-untyped-call]
        return found

    def votes_for(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """The train facts on paths to a candidate of one question, and what each adds to its gain, [facts] each.

        Half of what a path adds goes to the facts of each of its steps, in equal parts.
        """
        known, entity = self.known, int(query.entity)
        everyone = torch.arange(known.num_entities, device=query.entity.device)
        times = [
            known.fact_counts(torch.full_like(everyone, whose), everyone)
            for whose in (entity, candidate)
        ]
        ends = torch.stack(times).to(self.gain.dtype)
        path = ends.log1p().prod(0) / (1 + known.degree) * (entity != candidate)
        of_met, of_others, steepness, _ = (self.shared_gain + self.gain[query.relation]).unbind(-1)
        height = of_met if ends[0, candidate] else of_others
        each = (
            height * torch.log1p(steepness.exp() * path.sum()) * path / path.sum().clamp(min=1e-30)
        )
        found = [known.facts_between(whose, path > 0) for whose in (entity, candidate)]
        shares = [each[whom] / 2 / end[whom] for end, (_, whom) in zip(ends, found, strict=True)]
        return torch.cat([fact for fact, _ in found]), torch.cat(shares)


class _AddPathScores(torch.autograd.Function):
    """What `Paths` gains added in place; nothing as large as the scores is kept, but looked up again."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, gain: Tensor, tables: NeighborTables, asked: NeighborQueries
    ) -> Tensor:
        ctx.looked_up = tables, asked
        ctx.save_for_backward(gain)
        ctx.mark_dirty(scores)
        if scores.is_cuda:
            from tempograph.nn.kernels.paths_kernel import add_path_scores

            return add_path_scores(scores, gain, tables, asked)
        return add_path_scores_torch(scores, gain, tables, asked)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (gain,) = ctx.saved_tensors
        if slopes[0].is_cuda:
            from tempograph.nn.kernels.paths_kernel import grad_path_coefficients

            return slopes[0], grad_path_coefficients(slopes[0], gain, *ctx.looked_up), None, None
        return slopes[0], grad_path_coefficients_torch(slopes[0], gain, *ctx.looked_up), None, None


def add_path_scores_torch(
    scores: Tensor, gain: Tensor, tables: NeighborTables, asked: NeighborQueries
) -> Tensor:
    """Add u log(1 + c sums), and b for those not met, to scores [n, entities] in place; gain as above [n, 4]."""
    for some in row_blocks(scores):
        of_met, of_others, steepness, offset = gain[some, :, None].unbind(1)
        sums, met = look_up_paths(tables.take(some), asked.take(some))
        logs = sums.mul_(steepness.exp()).log1p_()
        scores[some].add_(torch.where(met, of_met * logs, of_others * logs + offset))
    return scores


def grad_path_coefficients_torch(
    slopes: Tensor, gain: Tensor, tables: NeighborTables, asked: NeighborQueries
) -> Tensor:
    """The slopes of the gain, from those of the scores, [n, 4]."""
    found = torch.empty_like(gain)
    for some in row_blocks(slopes):
        of_met, of_others, steepness, _ = gain[some, :, None].unbind(1)
        slope = slopes[some]
        sums, met = look_up_paths(tables.take(some), asked.take(some))
        scaled = sums.mul_(steepness.exp())
        by_logs, height = slope * scaled.log1p(), torch.where(met, of_met, of_others)
        found[some, 0] = (by_logs * met).sum(1)
        found[some, 1] = (by_logs * ~met).sum(1)
        found[some, 2] = (slope * height * scaled / (1 + scaled)).sum(1)
        found[some, 3] = (slope * ~met).sum(1)
    return found
