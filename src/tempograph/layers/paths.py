"""Paths of two steps: candidates gain by the entities that both they and a question's entity have met."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from tempograph.ranges import equal_range, key_range
from tempograph.timeline import Queries, Timeline
from tempograph.weights import sharing_weights

_DENSE: Final = 8
"""A table of all pairs of entities is made where at least one of so many has met."""
_STEEPNESS: Final = 7.0
"""log c before training: sums over shared acquaintances are mostly between a thousandth and ten."""


class Asked(NamedTuple):
    """Whose acquaintances are looked at, and the train fact that is as if it were not there, -1 for none, [n] each."""

    entity: Tensor
    fact: Tensor

    def pack(self) -> Tensor:
        """Both in one tensor of half the size, [2, n]."""
        return torch.stack(self).int()


class Acquaintances:
    """Which entities have met in train facts, whatever the relation and the time, and how often.

    s knows o through others by the sum over x of w(s, x) w(x, o) / (1 + d(x)), with w = log(1 + facts of the two) and d
    the number of entities that one has met; nobody meets himself.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.facts, self.entities = timeline.facts, timeline.num_entities
        subject, object_ = self._met(self.facts)
        both = torch.cat([subject * self.entities + object_, object_ * self.entities + subject])
        self.keys, self.count = torch.unique(both[both >= 0], return_counts=True)
        """Pairs of those who have met as entity * entities + other, ascending, and their facts, [pairs] each."""
        one, other = self.keys // self.entities, self.keys % self.entities
        self.degree = torch.bincount(one, minlength=self.entities)
        met = torch.sparse_coo_tensor(
            torch.stack([one, other]),
            self.count.float(),
            2 * [self.entities],
            is_coalesced=True,
            check_invariants=False,
        )
        self.met = met.to_dense() if _DENSE * len(one) >= self.entities**2 else met
        """The facts of every pair, [entities, entities]."""

    def _met(self, facts: Tensor) -> tuple[Tensor, Tensor]:
        """Subject and object of facts, where they are one entity far below 0."""
        subject, object_ = facts[:, 0], facts[:, 2]
        nobody = subject == object_
        return torch.where(nobody, -self.entities, subject), torch.where(nobody, -self.entities, object_)

    def through_others(self, asked: Asked, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """How well questions' entities know every entity through others, and whether they have met, [n, entities] each.

        As if a fact were not there: its two entities have met once less, and if that was the only time each of them has
        met one fewer.
        """
        entity, every = asked.entity, torch.arange(len(asked.entity), device=asked.entity.device)
        subject, object_ = self._met(self.facts[asked.fact.clamp(min=0)])
        gone = (asked.fact >= 0) & (subject >= 0)
        subject, object_ = subject.clamp(min=0), object_.clamp(min=0)
        times = self._times(subject, object_) * gone
        row, position = key_range(self.keys, entity * self.entities, (entity + 1) * self.entities - 1).expand()
        other = self.keys[position] % self.entities
        of_fact = (other == subject[row]) | (other == object_[row])
        own = (entity == subject) | (entity == object_)
        count = self.count[position] - ((gone & own)[row] & of_fact).long()
        degree = self.degree[other] - ((times == 1)[row] & of_fact).long()
        near = torch.zeros(self.entities, len(entity), dtype=dtype, device=entity.device)
        near[other, row] = count.to(dtype).log1p() / (1 + degree)
        sums = (self.met.to(dtype).log1p() @ near).T.contiguous()
        less = torch.where(gone, (times - 1).clamp(min=0).to(dtype).log1p() - times.to(dtype).log1p(), 0)
        sums[every, object_] += near[subject, every] * less
        sums[every, subject] += near[object_, every] * less
        sums[every, entity] = 0
        return sums.clamp_(min=0), (near > 0).T.contiguous()

    def _times(self, one: Tensor, other: Tensor) -> Tensor:
        """How many facts pairs have, [n]."""
        place = equal_range(self.keys, one * self.entities + other)
        if not len(self.count):
            return torch.zeros_like(one)
        return torch.where(place.lengths > 0, self.count[place.start.clamp(max=len(self.count) - 1)], 0)

    def facts_between(self, entity: int, others: Tensor) -> tuple[Tensor, Tensor]:
        """The train facts of an entity with any of others, a mask [entities], and with whom each is, [facts] each."""
        subject, object_ = self._met(self.facts)
        whom = torch.where(subject == entity, object_, torch.where(object_ == entity, subject, -1))
        fact = ((whom >= 0) & others[whom.clamp(min=0)]).nonzero()[:, 0]
        return fact, whom[fact]


class Paths(nn.Module):
    """gain(o) = u_r log(1 + c_r times how well the question's entity knows o through others).

    u_r is one for those that the entity has met and another for those that it has not; these gain b_r as well.
    """

    def __init__(self, timeline: Timeline, start: float) -> None:
        super().__init__()
        self.known = Acquaintances(timeline)
        # u of those that were met, u of the others, log c, b.
        self.shared_gain = nn.Parameter(torch.tensor([start, start, _STEEPNESS, 0.0]))
        self.gain = nn.Parameter(torch.zeros(2 * timeline.num_relations, 4))

    def over(self, timeline: Timeline) -> Paths:
        """The same weights for other facts."""
        twin = sharing_weights(self)
        twin.known = Acquaintances(timeline)
        return twin

    def ballot(self, queries: Queries, left_out: Tensor | None = None) -> Asked:
        """What the questions look at; the train facts left_out [n] do not count."""
        return Asked(queries.entity, torch.full_like(queries.entity, -1) if left_out is None else left_out)

    @staticmethod
    def unpack(packed: Tensor) -> Asked:
        """What was packed, or some columns of it."""
        return Asked(*packed.long())

    def forward(self, scores: Tensor, relation: Tensor, asked: Asked, kept: Tensor | None = None) -> Tensor:
        """Add what candidates gain to the scores [n, entities] of questions for relations [n], and return them.

        Facts that are not kept count: they are not counted again in every step.
        """
        gain = (self.shared_gain + self.gain).index_select(0, relation)
        known = self.known.through_others(asked, scores.dtype)
        found: Tensor = _AddLogs.apply(scores, gain, *known)  # type: ignore[no-untyped-call]
        return found

    def votes_for(self, query: Queries, candidate: int) -> tuple[Tensor, Tensor]:
        """The train facts on paths to a candidate of one question, and what each adds to its gain, [facts] each.

        Half of what a path adds goes to the facts of each of its steps, in equal parts.
        """
        known, entity, entities = self.known, int(query.entity), self.known.entities
        ends = torch.zeros(2, entities, dtype=self.gain.dtype, device=query.entity.device)
        for end, whose in zip(ends, (entity, candidate), strict=True):
            mine = key_range(
                known.keys,
                *(torch.tensor([n], device=end.device) for n in (whose * entities, (whose + 1) * entities - 1)),
            )
            _, position = mine.expand()
            end[known.keys[position] % entities] = known.count[position].to(end.dtype)
        path = ends.log1p().prod(0) / (1 + known.degree) * (entity != candidate)
        of_met, of_others, steepness, _ = (self.shared_gain + self.gain[query.relation]).unbind(-1)
        height = of_met if ends[0, candidate] else of_others
        each = height * torch.log1p(steepness.exp() * path.sum()) * path / path.sum().clamp(min=1e-30)
        found = [known.facts_between(whose, path > 0) for whose in (entity, candidate)]
        shares = [each[whom] / 2 / end[whom] for end, (_, whom) in zip(ends, found, strict=True)]
        return torch.cat([fact for fact, _ in found]), torch.cat(shares)


class _AddLogs(torch.autograd.Function):
    """What `Paths` gains added in place; of what is as large as the scores only what is given is kept."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, gain: Tensor, sums: Tensor, met: Tensor) -> Tensor:
        ctx.save_for_backward(gain, sums, met)
        ctx.mark_dirty(scores)
        of_met, of_others, steepness, offset = gain[:, :, None].unbind(1)
        logs = (sums * steepness.exp()).log1p_()
        return scores.add_(torch.where(met, of_met * logs, of_others * logs + offset))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        gain, sums, met = ctx.saved_tensors
        of_met, of_others, steepness, _ = gain[:, :, None].unbind(1)
        scaled = sums * steepness.exp()
        by_logs = slopes[0] * scaled.log1p()
        of_gain = [
            (by_logs * met).sum(1),
            (by_logs * ~met).sum(1),
            (slopes[0] * torch.where(met, of_met, of_others) * scaled / (1 + scaled)).sum(1),
            (slopes[0] * ~met).sum(1),
        ]
        return slopes[0], torch.stack(of_gain, 1), None, None
