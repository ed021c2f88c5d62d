"""What an answer rests on: facts are taken out one at a time, and the answer is scored again."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Evidence, Model
from tempograph.prediction.answers import EvidenceFact

_OF_PAIR: Final = 12
"""Facts of subject and object that are tried for an answer at most; likewise below."""
_OF_RELATION: Final = 4
_OF_ENTITY: Final = 4
_OF_MODEL: Final = 8


class Explained(NamedTuple):
    """Train facts as positions in a timeline, best first, with their effects on the score of an answer, [n] each."""

    position: Tensor
    effect: Tensor | None


def worth_trying(timeline: Timeline, fact: tuple[int, int, int, int], support: Evidence) -> Tensor:
    """Facts that an answer may depend on, nearest in time of each kind: positions in the timeline, distinct.

    Facts of subject and object, in either direction; of the relation with the subject or the object in its place; of
    the subject or the object; and those that the model names.
    """
    subject, relation, object_, time = fact
    s, r, o, t = timeline.facts.unbind(1)
    gap = (t - time).abs()
    of_subject, of_object = (s == subject) | (o == subject), (s == object_) | (o == object_)
    kinds = (
        (of_subject & of_object, _OF_PAIR),
        ((s == subject) & (r == relation), _OF_RELATION),
        ((o == object_) & (r == relation), _OF_RELATION),
        (of_subject, _OF_ENTITY),
        (of_object, _OF_ENTITY),
    )
    chosen = [_nearest(kind.nonzero()[:, 0], gap, most) for kind, most in kinds]
    chosen.append(positions(timeline, support.facts[:_OF_MODEL]))
    distinct: Tensor = torch.unique(torch.cat(chosen))
    return distinct


def _nearest(position: Tensor, gap: Tensor, most: int) -> Tensor:
    order = torch.argsort(gap[position], stable=True)
    return position.index_select(0, order[:most])


def positions(timeline: Timeline, facts: Tensor) -> Tensor:
    """Where facts [n, 4] of a timeline stand in it, [n]."""
    if not len(facts):
        return facts.new_empty(0)
    steps = timeline.step_start
    found = []
    for fact in facts.to(timeline.device):
        first, stop = int(steps[fact[3]]), int(steps[fact[3] + 1])
        found.append(first + int((timeline.facts[first:stop] == fact).all(1).nonzero()[0, 0]))
    return torch.tensor(found, device=timeline.device)


def explain(
    model: Model,
    timeline: Timeline,
    query: Queries,
    candidates: list[int],
    both_signs: bool = False,
) -> list[tuple[Evidence, Explained]]:
    """For each candidate what the model says for it, and which facts have an effect on its score.

    The effect of a fact is the score with all facts less the score without it: above 0 it speaks for the answer. Facts
    for an answer stand first, or with both signs those with the largest effect; then the nearest.
    """
    supports = [model.evidence(query, candidate) for candidate in candidates]
    if not model.uses_train_facts or not candidates:
        shown = [positions(timeline, support.facts[:64]) for support in supports]
        return [
            (s, Explained(p, torch.zeros(len(p)))) for s, p in zip(supports, shown, strict=True)
        ]
    relation, entity, time = int(query.relation), int(query.entity), int(query.time)
    pools = []
    for candidate, support in zip(candidates, supports, strict=True):
        inverted = relation >= timeline.num_relations
        subject, object_ = (candidate, entity) if inverted else (entity, candidate)
        pools.append(
            worth_trying(
                timeline, (subject, relation % timeline.num_relations, object_, time), support
            )
        )
    every = torch.unique(torch.cat(pools))
    scores = model.counterfactual_scores(
        query, every, torch.tensor(candidates, device=timeline.device)
    )
    if scores is None:
        return [(s, Explained(positions(timeline, s.facts[:64]), None)) for s in supports]
    # An answer that no fact speaks for scores -inf; as 0, the lowest that such models give, its effects are finite.
    rounding = 1e-9 if scores.dtype == torch.float64 else 1e-6
    scores = torch.nan_to_num(scores.double(), neginf=0.0)
    effects = scores[:1] - scores[1:]
    # What differs in the last digits is rounding.
    effects[effects.abs() <= rounding * scores.abs().max()] = 0.0
    explained = []
    for column, (support, pool) in enumerate(zip(supports, pools, strict=True)):
        effect = effects[torch.searchsorted(every, pool), column]
        near = (timeline.facts[pool, 3] - time).abs()
        order = torch.argsort(near, stable=True)
        size = (effect.abs() if both_signs else effect)[order]
        order = order[torch.argsort(size, descending=True, stable=True)]
        # Facts without an effect are worth showing where the model names them.
        order = order[
            (effect[order] != 0)
            | torch.isin(pool[order], positions(timeline, support.facts[:_OF_MODEL]))
        ]
        found = Explained(pool[order], effect[order])
        if support.shares is None and bool((effect != 0).any()):
            support = Evidence("facts with an effect", timeline.facts[pool[effect != 0]], None)
        explained.append((support, found))
    return explained


def named_evidence(
    graph: TemporalGraph, timeline: Timeline, support: Evidence, found: Explained | None, most: int
) -> tuple[EvidenceFact, ...]:
    """Facts with names, effects and the model's own shares, at most so many."""
    own = [tuple(row) for row in support.facts.tolist()]
    shares = {} if support.shares is None else dict(zip(own, support.shares.tolist(), strict=True))
    if found is None:
        rows, effects = own[:most], None
    else:
        rows = [tuple(row) for row in timeline.facts[found.position[:most]].tolist()]
        effects = None if found.effect is None else found.effect.tolist()
    return tuple(
        EvidenceFact(
            **graph.describe(np.array(row)),
            share=shares.get(row),
            effect=None if effects is None else effects[number],
        )
        for number, row in enumerate(rows)
    )
