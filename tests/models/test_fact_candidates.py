"""Proposals of missing facts and their features against loops over all facts that could be."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graphs import graphs, make_graph
from tempograph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.models.heads.cross_fitted_head import half_of
from tempograph.models.heads.fact_candidates import ProposalSearch, Search, propose_facts
from tempograph.models.heads.fact_classifier import FactClassifier
from tempograph.models.heads.fact_features import FEATURES, fact_features
from tempograph.models.heads.question_head import QuestionHead
from tempograph.training.run_heads import Heads, build_heads

Fact = tuple[int, ...]
SEARCHES = (
    Search(),
    Search(entity=0),
    Search(relations=[0]),
    Search(relations=[]),
    Search(steps=range(1, 3)),
    Search(entity=1, relations=[0, 1], steps=range(0, 2)),
)


def random_heads(timeline: Timeline, seed: int, tied: bool = False) -> Heads:
    """Heads with random weights; with weights of 0, all candidates have equal scores."""
    heads, generator = build_heads(timeline, seed), torch.Generator().manual_seed(seed)
    for head in heads:
        for weight in head.parameters():
            weight.data = torch.randn(weight.shape, generator=generator) * (0.5 * (not tied))
        head.requires_grad_(False)
    return heads


def log_probs(head: QuestionHead, fact: Fact) -> list[float]:
    scores = head.scores(torch.tensor([fact]))[0].double()
    return torch.log_softmax(scores, 0).tolist()


def allowed(fact: Fact, search: Search) -> bool:
    subject, relation, object_, time = fact
    return (
        (search.entity is None or search.entity in (subject, object_))
        and (search.relations is None or relation in search.relations)
        and (search.steps is None or time in search.steps)
    )


def slow_values(
    heads: Heads, train: list[Fact], known: set[Fact], search: Search
) -> tuple[dict[Fact, float], dict[Fact, float]]:
    """The value of each fact that may be proposed as a relation, and as a time of a triple."""
    _, relations, _, steps = heads.time.timeline.sizes
    by_relation, by_time = {}, {}
    pairs = {pair for s, _, o, t in train for pair in ((s, o, t), (o, s, t))}
    for subject, object_, time in pairs:
        values = log_probs(heads.relation, (subject, 0, object_, time))
        for relation in range(relations):
            fact = (subject, relation, object_, time)
            if fact not in known and allowed(fact, search):
                by_relation[fact] = values[relation]
    counts = Counter(fact[:3] for fact in train)
    for triple, count in counts.items():
        values = log_probs(heads.time, (*triple, 0))
        for time in range(steps):
            fact = (*triple, time)
            if fact not in known and allowed(fact, search):
                by_time[fact] = math.log(count) + values[time]
    return by_relation, by_time


@pytest.mark.parametrize("tied", [False, True])
@settings(max_examples=8)
@given(graph=graphs(), seed=st.integers(0, 2**16), number=st.integers(0, len(SEARCHES) - 1))
def test_proposals_equal_a_loop_over_all_facts(
    tied: bool, graph: TemporalGraph, seed: int, number: int
) -> None:
    heads, search = random_heads(Timeline(graph), seed, tied), SEARCHES[number]
    train = [tuple(fact) for fact in graph.train.tolist()]
    known = {tuple(fact) for fact in graph.all_facts.tolist()}
    every = torch.from_numpy(graph.all_facts)
    expected = slow_values(heads, train, known, search)
    found = propose_facts(heads.relation, heads.time, every, 10_000, search)
    assert facts_of(found.facts) == set(expected[0]) | set(expected[1])
    assert len(found.facts) == len(facts_of(found.facts))
    assert found.lowest_relation == found.lowest_time == -math.inf
    parts = ProposalSearch(heads.relation, heads.time, every, 10_000, search)
    for start in range(0, len(parts), 2):
        parts.answer(range(start, min(start + 2, len(parts))))
    assert facts_of(parts.proposals().facts) == facts_of(found.facts)
    limit = 3
    found = propose_facts(heads.relation, heads.time, every, limit, search)
    chosen, sure = facts_of(found.facts), set[Fact]()
    for values, lowest in zip(expected, found[1:], strict=True):
        best = sorted(values.values(), reverse=True)[:limit]
        threshold = best[-1] if len(best) == limit else -math.inf
        assert lowest == pytest.approx(threshold, abs=1e-4)
        sure |= {fact for fact, value in values.items() if value > threshold + 1e-4}
        # With ties, any of the tied facts may be the last.
        kept = {fact for fact, value in values.items() if value >= threshold - 1e-4}
        assert len(kept & chosen) >= min(limit, len(values))
    assert sure <= chosen <= set(expected[0]) | set(expected[1]) and len(chosen) <= 2 * limit


def facts_of(rows: Tensor) -> set[Fact]:
    return {tuple(row) for row in rows.tolist()}


def test_the_best_relations_of_a_pair_are_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tempograph.models.heads import fact_candidates

    monkeypatch.setattr(fact_candidates, "_RELATIONS_PER_PAIR", 2)
    graph = make_graph([(0, 0, 1, 3)], relations=5)
    heads = random_heads(Timeline(graph), 0)
    train = torch.from_numpy(graph.train)
    found = facts_of(propose_facts(heads.relation, heads.time, train, 100).facts)
    for subject, object_ in ((0, 1), (1, 0)):
        values = log_probs(heads.relation, (subject, 0, object_, 3))
        new = [relation for relation in range(5) if (subject, relation, object_) != (0, 0, 1)]
        best = sorted(new, key=lambda relation: -values[relation])[:2]
        proposed = {r for s, r, o, t in found if (s, o, t) == (subject, object_, 3)}
        assert proposed == set(best)


def slow_features(heads: Heads, fact: Fact, train: list[Fact]) -> list[float]:
    """The features of a fact; train facts without the fact itself, as are those of the heads."""
    subject, relation, object_, time = fact
    known = {r for s, r, o, t in train if (s, o, t) == (subject, object_, time)} - {relation}
    values = [math.exp(value) for value in log_probs(heads.relation, fact)]
    mass = sum(values[each] for each in known)
    rest = sum(value for each, value in enumerate(values) if each not in known)
    own = values[relation] / rest
    odds = math.log(own) - math.log(max(1e-9, 1 - own))
    result = [max(-20, min(20, odds)), mass, max(-20, log_probs(heads.time, fact)[time])]

    def count(pattern: str, gaps: range, other: Fact = fact) -> int:
        columns = ["sro".index(part) for part in pattern]
        return sum(
            all(each[column] == other[column] for column in columns) and each[3] - time in gaps
            for each in train
        )

    steps = heads.time.num_candidates
    near, reverse = range(-1, 2), (object_, relation, subject, time)
    patterns = ("s", "o", "r", "sr", "ro", "so", "sro")
    same = [count(pattern, range(1)) for pattern in patterns]
    counts = [count(p, range(-steps, steps)) - own for p, own in zip(patterns, same, strict=True)]
    counts += same
    counts += [count(pattern, near) - count(pattern, range(1)) for pattern in ("so", "sro")]
    counts += [count(pattern, range(1), reverse) for pattern in ("so", "sro")]
    counts += [count("sro", near, reverse) - count("sro", range(1), reverse)]
    return result + [math.log1p(each) for each in counts]


@pytest.mark.parametrize("tied", [False, True])
@settings(max_examples=8)
@given(graph=graphs(), seed=st.integers(0, 2**16))
def test_features_equal_a_loop_over_facts(tied: bool, graph: TemporalGraph, seed: int) -> None:
    timeline = Timeline(graph)
    heads = random_heads(timeline, seed, tied)
    train = [tuple(fact) for fact in timeline.facts.tolist()]
    every = list(itertools.product(*map(range, graph.sizes)))
    some = np.random.default_rng(seed).permutation(every)[:8].tolist()
    new = [tuple(fact) for fact in some if tuple(fact) not in set(train)]
    found = fact_features(torch.tensor(new).view(-1, 4).long(), *heads)
    assert found.shape == (len(new), len(FEATURES))
    for row, fact in zip(found.tolist(), new, strict=True):
        assert row == pytest.approx(slow_features(heads, fact, train), abs=2e-3)
    if len(train) == 1:
        return
    position = torch.arange(0, len(train), 3)
    found = fact_features(timeline.facts[position], *heads, position)
    for row, place in zip(found.tolist(), position.tolist(), strict=True):
        rest = [fact for fact in train if fact != train[place]]
        sizes = (graph.sizes[0], graph.sizes[1], graph.sizes[3])
        smaller = heads.with_timeline(Timeline(make_graph(rest, (), (), *sizes)))
        # The member that was not trained on the fact.
        member = 1 - int(half_of(timeline.facts[[place]]))
        own = Heads(*(head.heads[member] for head in smaller))  # type: ignore[arg-type]
        assert row == pytest.approx(slow_features(own, train[place], rest), abs=2e-3)


def test_probabilities_rise_with_log_odds() -> None:
    classifier = FactClassifier(len(FEATURES))
    with torch.no_grad():
        classifier.log_slopes.copy_(torch.tensor([1.0, -1.0, 0.5, 0.0, 2.0]))
        odds = torch.linspace(-9, 9, 200)
        found = classifier.combine(odds, torch.zeros(200, 2))
        expected, slopes = [], [1, *classifier.log_slopes.exp().tolist()]
        for value in odds.tolist():
            low, total = -4.0, min(value, -4.0)
            for slope, end in zip(slopes[1:], (-2, -1, 0, 1, math.inf), strict=True):
                total += slope * max(0.0, min(value, end) - low)
                low = end
            expected.append(total)
    assert (found.diff() > 0).all() and found.tolist() == pytest.approx(expected, abs=1e-5)
