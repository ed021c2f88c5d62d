"""Proposals of missing facts that hold for a while, and their features, against loops."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from intervals import directed, interval_graph, interval_graphs
from tempograph import TemporalGraph
from tempograph.data.frequency import PatternFrequencies
from tempograph.data.timeline import Queries, Timeline
from tempograph.evaluation.probabilities import Calibrator
from tempograph.models.base import Model
from tempograph.models.heads.fact_candidates import Search
from tempograph.models.heads.fact_classifier import FactClassifier
from tempograph.models.heads.held_candidates import HeldCandidates
from tempograph.models.heads.held_classifier import HeldClassifier
from tempograph.models.heads.held_features import HELD_FEATURES, held_features
from tempograph.models.heads.relation_rates import NO_RATE, RelationRates

Triple = tuple[int, int, int]
SEARCHES = (
    Search(),
    Search(entity=0),
    Search(relations=[0]),
    Search(relations=[]),
    Search(steps=range(1)),
    Search(entity=0, relations=[0], steps=range(1)),
)


class FixedScores(Model):
    """Random scores that depend on the whole query."""

    bytes_per_candidate = 4

    def __init__(self, timeline: Timeline, seed: int) -> None:
        super().__init__()
        self.timeline = timeline
        generator = torch.Generator().manual_seed(seed)
        entities, relations, steps = timeline.num_entities, timeline.num_relations, 10
        shape = (entities, 2 * relations, steps, entities)
        self.table = torch.randn(shape, generator=generator)

    def scores(self, queries: Queries) -> torch.Tensor:
        return self.table[queries.entity, queries.relation, queries.time].clone()


def undirected(entity: int, relation: int, other: int, relations: int) -> Triple:
    if relation < relations:
        return entity, relation, other
    return other, relation - relations, entity


def slow_rates(graph: TemporalGraph) -> dict[tuple[int, int], float]:
    """P(other | relation) of directed relations that some pair of entities has both of."""
    pairs = defaultdict(set)
    for entity, relation, other, *_ in directed(graph.train, len(graph.relations)):
        pairs[entity, other].add(relation)
    number: dict[int, int] = defaultdict(int)
    both: dict[tuple[int, int], int] = defaultdict(int)
    for own in pairs.values():
        for relation in own:
            number[relation] += 1
            for other in own - {relation}:
                both[relation, other] += 1
    return {key: count / (number[key[0]] + 2) for key, count in both.items()}


@settings(max_examples=25)
@given(interval_graphs())
def test_relation_rates_equal_those_of_loops(graph: TemporalGraph) -> None:
    rates, relations = slow_rates(graph), len(graph.relations)
    found = RelationRates(Timeline(graph))
    wanted = torch.arange(2 * relations)
    row, other, log_rate = (column.tolist() for column in found.related(wanted, 100))
    assert dict(zip(zip(row, other, strict=True), log_rate, strict=True)) == pytest.approx(
        {key: math.log(rate) for key, rate in rates.items()}
    )
    one = dict(zip(*(column.tolist() for column in found.related(wanted, 1)[::2]), strict=True))
    for relation, value in one.items():
        best = max(rate for (given, _), rate in rates.items() if given == relation)
        assert value == pytest.approx(math.log(best))
    facts = [(s, r, o, 0) for s in range(2) for r in range(relations) for o in range(2)]
    facts = [fact for fact in facts if max(fact[0], fact[2]) < len(graph.entities)]
    rows = directed(graph.train, relations)
    for fact, value in zip(facts, found.log_rate(torch.tensor(facts)).tolist(), strict=True):
        own = {row[1] for row in rows if (row[0], row[2]) == (fact[0], fact[2])}
        every = [math.log(rates[r, fact[1]]) for r in own if (r, fact[1]) in rates]
        assert value == pytest.approx(max(every, default=NO_RATE))


@settings(max_examples=25)
@given(graph=interval_graphs(), search=st.sampled_from(SEARCHES), seed=st.integers(0, 9))
def test_proposals_are_what_the_model_and_other_relations_say(
    graph: TemporalGraph, search: Search, seed: int
) -> None:
    timeline, relations = Timeline(graph), len(graph.relations)
    model, calibrator = FixedScores(timeline, seed), Calibrator(2.0, 0.1)
    known = {tuple(row[:3]) for row in graph.all_facts.tolist()}
    steps = search.steps or range(len(graph.times))
    entities, rates = range(len(graph.entities)), slow_rates(graph)
    asked_at: dict[Triple, set[int]] = defaultdict(set)
    by_rate: dict[Triple, set[int]] = defaultdict(set)
    for entity, relation, other, start, end, _ in directed(graph.train, relations):
        first, last = max(start, steps.start), min(end, steps.stop - 1)
        if first > last:
            continue
        middle = (first + last) // 2
        if search.entity in (None, entity):
            for answer in entities:
                asked_at[undirected(entity, relation, answer, relations)].add(middle)
        if search.entity in (None, entity, other):
            for given, wanted in rates:
                if given == relation:
                    by_rate[undirected(entity, wanted, other, relations)].add(middle)
    found = HeldCandidates(timeline, torch.from_numpy(graph.all_facts)).propose(
        model, calibrator.log_probs, 1000, search
    )
    triples = [tuple(row[:3]) for row in found.tolist()]
    assert len(set(triples)) == len(triples) and not known & set(triples)

    def allowed(triple: Triple) -> bool:
        return search.relations is None or triple[1] in search.relations

    every = {triple for triple in {*asked_at, *by_rate} - known if allowed(triple)}
    assert set(triples) == every
    for *triple, step in found.tolist():
        own = asked_at[tuple(triple)] or by_rate[tuple(triple)]
        assert step in own


def test_few_proposals_are_the_best() -> None:
    """Of answers, those with the highest probability among the triples that are not known."""
    rng = np.random.default_rng(3)
    triples = np.unique(rng.integers(0, [6, 2, 6], (20, 3)), axis=0)
    facts = np.column_stack([triples, *np.zeros((2, len(triples)), np.int64)])
    graph = interval_graph(np.column_stack([facts, facts[:, 3]]), entities=6)
    timeline, calibrator = Timeline(graph), Calibrator()
    model = FixedScores(timeline, 1)
    known = {tuple(row[:3]) for row in graph.train.tolist()}
    value: dict[Triple, float] = {}
    for entity, relation in {row[:2] for row in directed(graph.train, 2)}:
        log_probs = torch.log_softmax(model.table[entity, relation, 0], 0).tolist()
        for answer, log_prob in enumerate(log_probs):
            triple = undirected(entity, relation, answer, 2)
            if triple not in known:
                value[triple] = max(value.get(triple, -math.inf), log_prob)
    best = sorted(value, key=lambda triple: -value[triple])
    candidates = HeldCandidates(timeline, timeline.rows)
    found = candidates.propose(model, calibrator.log_probs, 5, Search()).tolist()
    assert [tuple(row[:3]) for row in found[:5]] == best[:5] and len(found) <= 10
    nothing = candidates.propose(model, calibrator.log_probs, 5, Search(relations=[]))
    assert nothing.shape == (0, 4)


@settings(max_examples=25)
@given(graph=interval_graphs(), seed=st.integers(0, 99))
def test_features_equal_those_of_loops(graph: TemporalGraph, seed: int) -> None:
    rng, timeline = np.random.default_rng(seed), Timeline(graph)
    facts = rng.integers(0, graph.sizes, (6, 4))
    log_probs = torch.from_numpy(rng.normal(-15, 10, (6, 2)))
    rates = RelationRates(timeline)
    asked = torch.from_numpy(facts)
    found = held_features(asked, PatternFrequencies(timeline), rates, log_probs)
    assert found.shape == (6, len(HELD_FEATURES))
    train = [tuple(row) for row in np.unique(graph.train, axis=0).tolist()]

    def count(fact: list[int], pattern: str, at_step: bool) -> float:
        time = fact[3]
        total = 0
        for s, r, o, start, end, _ in train:
            row = {"s": s, "r": r, "o": o}
            wanted = dict(zip("sro", fact[:3], strict=True))
            if pattern.startswith("o") and "s" in pattern:
                wanted |= {"s": fact[2], "o": fact[0]}
            same = all(row[letter] == wanted[letter] for letter in pattern)
            holds = start <= time <= end
            elsewhere = start < time or end > time
            total += same and (holds if at_step else elsewhere)
        return math.log1p(total)

    log_rate = rates.log_rate(asked).tolist()
    for number, fact in enumerate(facts.tolist()):
        own = dict(zip(HELD_FEATURES, found[number].tolist(), strict=True))
        expected = dict(zip(("object", "subject"), log_probs[number].clamp(min=-20), strict=True))
        expected["related"] = log_rate[number]
        for name in HELD_FEATURES[3:]:
            pattern, _, at_step = name[2:-1].partition(", ")
            expected[name] = count(fact, pattern, bool(at_step))
        assert own == pytest.approx({name: float(value) for name, value in expected.items()})


def test_hidden_facts_raise_probabilities_to_a_bound() -> None:
    classifier = HeldClassifier(torch.Generator().manual_seed(1)).requires_grad_(False)
    plain = FactClassifier(len(HELD_FEATURES))
    state = classifier.state_dict()
    plain.load_state_dict({key: state[key] for key in plain.state_dict()})
    features, log_probs = torch.randn(9, len(HELD_FEATURES)), -torch.rand(9, 2)
    valid = plain.probability(features, log_probs)
    assert torch.equal(classifier.probability(features, log_probs), valid)
    classifier.hidden.fill_(0.9)
    classifier.largest.fill_(0.8)
    expected = [min(0.8, q / (1 - 0.9 * q)) for q in valid.tolist()]
    assert classifier.probability(features, log_probs).tolist() == pytest.approx(expected)
