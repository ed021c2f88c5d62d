"""Evidence for answers: leave known facts out one at a time and score the answer again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from tempograph.data.spans import EVENT_COLUMNS
from tempograph.data.timeline import Queries, Timeline, undirected_facts
from tempograph.device import memory_budget
from tempograph.models.base import Evidence, Model
from tempograph.models.heads.question_head import QuestionHead

_MAX_PAIR_FACTS: Final = 12
_MAX_RELATION_FACTS: Final = 4
_MAX_ENTITY_FACTS: Final = 4
_MAX_MODEL_FACTS: Final = 8
"""How many facts are tested for one answer: of the pair, of the entity and relation, of the entity
alone, and of those that the model itself names."""

Counterfactual = Callable[[Tensor], Tensor | None]
"""From positions in the timeline [n] to the scores of all answers with every fact, then without
each of these, [1 + n, answers]; None if they are unknown."""


def explain(
    model: Model,
    timeline: Timeline,
    query: Queries,
    candidates: list[int],
    by_magnitude: bool = False,
) -> list[Evidence]:
    """Evidence for each candidate answer to one query, with the effect of each fact.

    The effect of a fact is the score with all known facts minus the score without this fact. The
    largest effect comes first, or with `by_magnitude` the largest absolute effect; ties are broken
    by the distance in time.
    """
    named = [model.evidence(query, candidate) for candidate in candidates]
    if not model.uses_train_facts or not candidates:
        return [replace(each, effects=torch.zeros(len(each.facts))) for each in named]
    entities = torch.tensor(candidates, device=timeline.device)
    entity, relation, time = (part.expand_as(entities) for part in query)
    completed = torch.stack([entity, relation, entities, time], dim=1)
    return _with_effects(
        timeline,
        undirected_facts(completed, timeline.num_relations),
        named,
        lambda tested: model.counterfactual_scores(query, tested, entities),
        by_magnitude,
    )


def explain_question(head: QuestionHead, fact: Tensor, candidates: list[int]) -> list[Evidence]:
    """Evidence for each candidate relation or time of a fact [4], with the effect of each fact."""
    timeline = head.timeline
    answers = torch.tensor(candidates, dtype=torch.int64, device=timeline.device)
    completed = fact.repeat(len(answers), 1)
    completed[:, head.column] = answers

    def score_without(tested: Tensor) -> Tensor:
        left_out = torch.cat([tested.new_full((1,), -1), tested])
        size = max(1, memory_budget("heads", timeline.device) // head.bytes_per_question)
        return torch.cat(
            [
                head.scores(fact.repeat(len(part), 1), part)[:, answers]
                for part in torch.split(left_out, size)
            ]
        )

    nothing = Evidence("no fact has an effect", timeline.facts[:0])
    return _with_effects(timeline, completed, [nothing] * len(candidates), score_without, False)


def _with_effects(
    timeline: Timeline,
    completed: Tensor,
    named: list[Evidence],
    counterfactual: Counterfactual,
    by_magnitude: bool,
) -> list[Evidence]:
    """The evidence of completed facts [n, 4], given what the model itself names for each."""
    if not len(completed):
        return []
    facts = completed.tolist()
    pools = [_facts_to_test(timeline, *pair) for pair in zip(facts, named, strict=True)]
    tested = torch.unique(torch.cat(pools))
    scores = counterfactual(tested)
    if scores is None:
        return named
    # A candidate without evidence scores -inf. The lowest finite score of such a model is 0, so
    # replacing -inf by 0 keeps effects finite.
    rounding = 1e-9 if scores.dtype == torch.float64 else 1e-6
    scores = torch.nan_to_num(scores.double(), neginf=0.0)
    effects = scores[:1] - scores[1:]
    # Differences in the last digits are rounding errors.
    effects[effects.abs() <= rounding * scores.abs().max()] = 0.0
    return [
        _sort_by_effect(
            timeline,
            each,
            pool,
            effects[torch.searchsorted(tested, pool), column],
            fact[3],
            by_magnitude,
        )
        for column, (fact, each, pool) in enumerate(zip(facts, named, pools, strict=True))
    ]


def _sort_by_effect(
    timeline: Timeline, named: Evidence, pool: Tensor, effect: Tensor, time: int, by_magnitude: bool
) -> Evidence:
    """Evidence of the tested facts `pool`, [n] positions in the timeline, with effects [n].

    `named` is what the model itself reports; its facts are listed even without an effect.
    """
    matters = effect != 0
    order = torch.argsort(_distance(timeline, time, pool), stable=True)
    size = (effect.abs() if by_magnitude else effect)[order]
    order = order[torch.argsort(size, descending=True, stable=True)]
    shown = matters | torch.isin(pool, _positions(timeline, named.facts[:_MAX_MODEL_FACTS]))
    order = order[shown[order]]
    facts = with_spans(timeline, pool[order])
    reason, shares, total = named.reason, None, len(named.facts)
    if named.shares is not None:
        share = dict(
            zip(
                map(tuple, named.facts[:, :EVENT_COLUMNS].tolist()),
                named.shares.tolist(),
                strict=True,
            )
        )
        known = [share.get(tuple(fact[:EVENT_COLUMNS]), math.nan) for fact in facts.tolist()]
        shares = torch.tensor(known, dtype=torch.float64)
    elif bool(matters.any()):
        reason, total = "facts with an effect", int(matters.sum())
    return Evidence(reason, facts, shares, effect[order], total)


def _facts_to_test(timeline: Timeline, fact: list[int], named: Evidence) -> Tensor:
    """Distinct positions in the timeline of the facts that an answer may depend on.

    These are the nearest in time of each kind: facts of subject and object in either direction, of
    the relation with the same subject or object, of either entity, and those the model names. A
    forecast does not depend on facts at its time or later.
    """
    subject, relation, object_, time = fact
    s, r, o, t = timeline.facts.unbind(1)
    distance = _distance(timeline, time)
    of_subject, of_object = (s == subject) | (o == subject), (s == object_) | (o == object_)
    kinds = (
        (of_subject & of_object, _MAX_PAIR_FACTS),
        ((s == subject) & (r == relation), _MAX_RELATION_FACTS),
        ((o == object_) & (r == relation), _MAX_RELATION_FACTS),
        (of_subject, _MAX_ENTITY_FACTS),
        (of_object, _MAX_ENTITY_FACTS),
    )
    chosen = [_positions(timeline, named.facts[:_MAX_MODEL_FACTS])]
    for mask, max_facts in kinds:
        position = (mask & (t < time) if timeline.past_only else mask).nonzero()[:, 0]
        order = torch.argsort(distance[position], stable=True)
        chosen.append(position[order[:max_facts]])
    distinct: Tensor = torch.unique(torch.cat(chosen))
    return distinct


def _distance(timeline: Timeline, time: int, positions: Tensor | slice = slice(None)) -> Tensor:
    """The steps from a time to facts at positions, by default all; 0 if a fact holds then."""
    before = timeline.facts[positions, 3] - time
    after = time - timeline.fact_end[positions]
    return torch.maximum(before, after).clamp(min=0)


def with_spans(timeline: Timeline, positions: Tensor) -> Tensor:
    """The facts at positions [n], [n, 4], or [n, 6] with their bounds if they hold for a while."""
    facts = timeline.facts[positions]
    if timeline.fact_bounds is None:
        return facts
    return torch.column_stack(
        [facts, timeline.fact_end[positions], timeline.fact_bounds[positions]]
    )


def spans_of_facts(timeline: Timeline, facts: Tensor) -> Tensor:
    """Train facts [n, 4] with their bounds if they hold for a while; [n, 6] stay as they are.

    Of several facts that differ in their bounds alone, each stands for the first one.
    """
    if timeline.fact_bounds is None or facts.shape[1] > EVENT_COLUMNS:
        return facts
    return with_spans(timeline, _positions(timeline, facts))


def _positions(timeline: Timeline, facts: Tensor) -> Tensor:
    """Positions [n] of a few facts [n, 4] in the timeline."""
    start = timeline.step_start
    positions = []
    for fact in facts[:, :EVENT_COLUMNS].to(timeline.device):
        first, stop = int(start[fact[3]]), int(start[fact[3] + 1])
        positions.append(first + int((timeline.facts[first:stop] == fact).all(1).nonzero()[0, 0]))
    return torch.tensor(positions, dtype=torch.int64, device=timeline.device)
