"""Slow, obvious twins in plain Python over lists of facts, one query at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tempograph import TemporalGraph

Fact = tuple[int, int, int, int]
Question = tuple[int, int, int]


def facts_of(rows: np.ndarray) -> list[Fact]:
    return [tuple(row) for row in rows.tolist()]


def directed(facts: Iterable[Fact], num_relations: int) -> list[Fact]:
    """Each fact, then each fact turned round with its relation's inverse."""
    facts = list(facts)
    return facts + [(o, r + num_relations, s, t) for s, r, o, t in facts]


def active(facts: Iterable[Fact], entity: int, time: int) -> bool:
    return any(t == time and entity in (s, o) for s, _, o, t in facts)


def active_steps(facts: list[Fact], entity: int, first: int, last: int) -> list[int]:
    return sorted({t for s, _, o, t in facts if first <= t <= last and entity in (s, o)})


def frequencies(train: list[Fact], fact: Fact, past: int, future: int) -> list[int]:
    """s, o, r, sr, ro, so, sro."""
    s, r, o, t = fact
    near = [f for f in train if t - past <= f[3] <= t + future and f[3] != t]
    return [
        sum(f[0] == s for f in near),
        sum(f[2] == o for f in near),
        sum(f[1] == r for f in near),
        sum(f[0] == s and f[1] == r for f in near),
        sum(f[1] == r and f[2] == o for f in near),
        sum(f[0] == s and f[2] == o for f in near),
        sum(f[:3] == (s, r, o) for f in near),
    ]


def known_answers(graph: TemporalGraph, question: Question, filter: str) -> set[int]:
    if filter == "raw":
        return set()
    entity, relation, time = question
    facts = directed(facts_of(graph.all_facts), len(graph.relations))
    return {
        o
        for s, r, o, t in facts
        if (s, r) == (entity, relation) and (filter == "static" or t == time)
    }


def ranks(scores: list[float], target: int, known: set[int]) -> tuple[float, int, int]:
    """Realistic, optimistic and pessimistic rank."""
    rivals = [
        score for entity, score in enumerate(scores) if entity != target and entity not in known
    ]
    better = sum(score > scores[target] for score in rivals)
    level = sum(score == scores[target] for score in rivals)
    return better + 1 + level / 2, better + 1, better + 1 + level


def ted(graph: TemporalGraph, question: Question, sigma: float) -> list[tuple[int, float]]:
    """For each entity (set, log of its sum): set 3 is best, set 0 has no facts."""
    entity, relation, time = question
    count = len(graph.relations)
    facts = [f for f in directed(facts_of(graph.train), count) if f[3] != time]
    sets = {
        3: [f for f in facts if f[0] == entity and f[1] == relation],
        2: [f for f in facts if f[0] == entity and f[1] // count == relation // count],
        1: [f for f in facts if f[1] == relation],
    }
    result = []
    for candidate in range(len(graph.entities)):
        for level, members in sets.items():
            distances = [abs(time - f[3]) for f in members if f[2] == candidate]
            if distances:
                # The nearest fact is taken out of the sum, so that nothing underflows.
                nearest = min(distances)
                rest = math.fsum(math.exp(-sigma * (distance - nearest)) for distance in distances)
                result.append((level, round(math.log(rest) - sigma * nearest, 9)))
                break
        else:
            result.append((0, 0.0))
    return result


def interval_ted(graph: TemporalGraph, question: Question, sigma: float) -> list[tuple[int, float]]:
    """`ted` of facts that hold for a while: 0 steps away while they hold."""
    entity, relation, time = question
    count = len(graph.relations)
    rows = {tuple(row) for row in graph.train.tolist()}
    facts = [
        (s, r, o, max(0, a - t, t - b), side)
        for s, r, o, a, b, t, side in (
            (*((s, r, o) if side == 0 else (o, r + count, s)), a, b, time, side)
            for s, r, o, a, b, _ in rows
            for side in (0, 1)
            if (a, b) != (time, time)
        )
    ]
    result = []
    for candidate in range(len(graph.entities)):
        sets = {
            3: [f for f in facts if f[0] == entity and f[1] == relation],
            2: [f for f in facts if f[0] == entity and f[4] == relation // count],
            1: [f for f in facts if f[1] == relation],
        }
        for level, members in sets.items():
            distances = [f[3] for f in members if f[2] == candidate]
            if distances:
                nearest = min(distances)
                rest = math.fsum(math.exp(-sigma * (distance - nearest)) for distance in distances)
                result.append((level, round(math.log(rest) - sigma * nearest, 9)))
                break
        else:
            result.append((0, 0.0))
    return result
