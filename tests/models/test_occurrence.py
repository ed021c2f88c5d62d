"""What may happen and what the past says about it, against loops over all facts."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import graphs, make_graph
from tempograph import TemporalGraph
from tempograph.data.calendar import weekdays
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Model
from tempograph.models.heads.fact_candidates import Search
from tempograph.models.heads.occurrence_candidates import OccurrenceCandidates
from tempograph.models.heads.occurrence_features import (
    FEATURES,
    PATTERNS,
    WINDOWS,
    OccurrenceFeatures,
)

Fact = tuple[int, ...]
FIRST = date(2030, 1, 1)
SEARCHES = (Search(), Search(entity=0), Search(relations=[0]), Search(entity=1, relations=[0, 1]))


def with_days(graph: TemporalGraph) -> TemporalGraph:
    days = (FIRST + timedelta(days=step) for step in range(len(graph.times)))
    return replace(graph, times=tuple(day.isoformat() for day in days))


def parts(fact: Fact, pattern: str) -> Fact:
    return tuple(fact["sro".index(letter)] for letter in pattern)


def slow_features(past: list[Fact], fact: Fact, now: int, daily: bool) -> list[float]:
    """The features of one fact, by loops over the facts before `now`."""
    scale = WINDOWS[-1] / max(WINDOWS[-1], now)
    counts, since = [], []
    for pattern in PATTERNS:
        plain = {"ors": "sro", "os": "so"}.get(pattern, pattern)
        same = [each[3] for each in past if parts(each, plain) == parts(fact, pattern)]
        counts += [math.log1p(sum(time >= now - window for time in same)) for window in WINDOWS]
        counts.append(math.log1p(scale * len(same)))
        since.append(math.log(now - max(same, default=-1)))
    times = sorted(each[3] for each in past if each[:3] == fact[:3])
    sums = [sum((now - time) ** -decay for time in times) for decay in (0.3, 0.7, 1.0, 1.5)]
    decayed = [math.log(max(total, 1e-3)) for total in sums]
    gaps = np.diff(times)
    regularity = [0.0, 0.0, 0.0]
    if len(gaps):
        mean = float(gaps.mean())
        regularity = [
            math.log(mean),
            float(gaps.std()) / mean,
            math.log(max(1, now - times[-1]) / mean),
        ]
    weekday = [0.0] * 10
    if daily:
        day = (FIRST + timedelta(days=fact[3])).weekday()
        weekday = [float(number == day) for number in range(7)]
        for pattern in ("sro", "sr", "r"):
            same_day = sum(
                parts(each, pattern) == parts(fact, pattern)
                and (FIRST + timedelta(days=each[3])).weekday() == day
                for each in past
            )
            weekday.append(math.log1p(scale * same_day))
    rates = [
        (1 + sum(each[3] >= now - window for each in past)) / min(window, max(1, now))
        for window in (1, 7, 30)
    ]
    activity = [math.log(rates[0] / rates[1]), math.log(rates[1] / rates[2])]
    horizon = math.log(fact[3] + 1 - now)
    return [*counts, *since, *decayed, *regularity, *weekday, *activity, horizon]


@settings(max_examples=25)
@given(graph=graphs(), daily=st.booleans(), data=st.data())
def test_features_equal_those_of_loops(
    graph: TemporalGraph, daily: bool, data: st.DataObject
) -> None:
    graph = with_days(graph) if daily else graph
    steps = len(graph.times)
    now = data.draw(st.integers(0, steps - 1))
    step = data.draw(st.integers(now, steps - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    facts = np.concatenate([graph.train[:5], rng.integers(0, graph.sizes, (4, 4))])
    facts[:, 3] = step
    features = OccurrenceFeatures(Timeline(graph))
    found = features(torch.from_numpy(facts), now)
    assert found.shape == (len(facts), len(FEATURES))
    past = [tuple(fact) for fact in np.unique(graph.train, axis=0).tolist() if fact[3] < now]
    known = {tuple(fact) for fact in graph.train.tolist()}
    for row, fact in zip(found.tolist(), map(tuple, facts.tolist()), strict=True):
        assert row == pytest.approx(slow_features(past, fact, now, daily), abs=1e-9)
    last = features.last_before(torch.from_numpy(facts), now).tolist()
    assert last == [
        max((each[3] for each in past if each[:3] == tuple(fact[:3])), default=-1)
        for fact in facts.tolist()
    ]
    happened = features.happened(torch.from_numpy(facts)).tolist()
    assert happened == [tuple(fact) in known for fact in facts.tolist()]


def test_weekdays_are_those_of_the_calendar() -> None:
    days = [FIRST + timedelta(days=number) for number in range(40)]
    found = weekdays([day.isoformat() for day in days])
    assert found is not None and found.tolist() == [day.weekday() for day in days]
    assert weekdays(["2030-01", "2030-02"]) is None and weekdays(["2030-01-01T05"]) is None


class FixedScores(Model):
    """Random scores that depend on the query alone."""

    bytes_per_candidate = 4

    def __init__(self, timeline: Timeline, seed: int) -> None:
        super().__init__()
        self.timeline = timeline
        generator = torch.Generator().manual_seed(seed)
        entities, relations = timeline.num_entities, timeline.num_relations
        self.table = torch.randn(entities, 2 * relations, entities, generator=generator)

    def scores(self, queries: Queries) -> torch.Tensor:
        return self.table[queries.entity, queries.relation].clone()


def recency(past: list[Fact], key: Fact, columns: slice | list[int], now: int) -> float:
    same = [
        each[3]
        for each in past
        if (each[columns] if isinstance(columns, slice) else tuple(each[c] for c in columns)) == key
    ]
    return sum((now - time) ** -0.7 for time in same)


def allowed(triple: Fact, search: Search) -> bool:
    subject, relation, object_ = triple
    return (search.entity is None or search.entity in (subject, object_)) and (
        search.relations is None or relation in search.relations
    )


@settings(max_examples=25)
@given(graph=graphs(), search=st.sampled_from(SEARCHES), data=st.data())
def test_recurring_candidates_are_all_triples_of_the_past(
    graph: TemporalGraph, search: Search, data: st.DataObject
) -> None:
    now = data.draw(st.integers(0, len(graph.times) - 1))
    past = [tuple(fact) for fact in np.unique(graph.train, axis=0).tolist() if fact[3] < now]
    candidates = OccurrenceCandidates(Timeline(graph))
    found = list(map(tuple, candidates.recurring(now, 1000, search).tolist()))
    triples = {fact[:3] for fact in past if allowed(fact[:3], search)}
    assert set(found) == triples and len(found) == len(triples)
    weights = [recency(past, triple, slice(0, 3), now) for triple in found]
    assert weights == pytest.approx(sorted(weights, reverse=True))
    few = candidates.recurring(now, 2, search).tolist()
    assert [recency(past, tuple(triple), slice(0, 3), now) for triple in few] == pytest.approx(
        weights[:2]
    )


@settings(max_examples=25)
@given(graph=graphs(), search=st.sampled_from(SEARCHES), data=st.data())
def test_new_candidates_are_the_best_answers_that_never_were(
    graph: TemporalGraph, search: Search, data: st.DataObject
) -> None:
    now = data.draw(st.integers(0, len(graph.times) - 1))
    past = [tuple(fact) for fact in np.unique(graph.train, axis=0).tolist() if fact[3] < now]
    timeline = Timeline(graph)
    model = FixedScores(timeline, data.draw(st.integers(0, 9)))
    relations = timeline.num_relations
    value: dict[Fact, float] = defaultdict(lambda: -math.inf)
    directed = [*past, *((o, r + relations, s, t) for s, r, o, t in past)]
    for entity, relation in {fact[:2] for fact in directed}:
        if not allowed((entity, relation % relations, entity), search):
            continue
        weight = math.log(recency(directed, (entity, relation), slice(0, 2), now))
        known = {fact[2] for fact in directed if fact[:2] == (entity, relation)}
        log_probs = torch.log_softmax(model.table[entity, relation], 0).tolist()
        best = sorted(set(range(timeline.num_entities)) - known, key=lambda e: -log_probs[e])[:10]
        for answer in best:
            pair = (entity, answer) if relation < relations else (answer, entity)
            triple = (pair[0], relation % relations, pair[1])
            value[triple] = max(value[triple], weight + log_probs[answer])
    candidates = OccurrenceCandidates(timeline)
    found = candidates.new(model, lambda s: torch.log_softmax(s, 1), now, 1000, 1000, search)
    triples = list(map(tuple, found.tolist()))
    assert set(triples) == set(value) and not {fact[:3] for fact in past} & set(triples)
    values = [value[triple] for triple in triples]
    assert values == pytest.approx(sorted(values, reverse=True), abs=1e-5)


def test_nothing_is_proposed_before_the_first_fact() -> None:
    timeline = Timeline(make_graph([(0, 0, 1, 3)]))
    candidates, model = OccurrenceCandidates(timeline), FixedScores(timeline, 0)
    assert len(candidates.recurring(3, 10, Search())) == 0
    assert len(candidates.new(model, lambda scores: scores, 3, 10, 10, Search())) == 0
