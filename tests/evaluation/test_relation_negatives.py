"""Sampled candidates against the sets of the rule, written out with sets and loops."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphs import graphs, make_graph
from messages import raises
from tempograph import Queries, TemporalGraph
from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import fact_queries
from tempograph.errors import ConfigError
from tempograph.evaluation.relation_negatives import RelationNegatives

Query = tuple[int, int, int]


def all_queries(graph: TemporalGraph) -> tuple[Queries, torch.Tensor]:
    return fact_queries(torch.from_numpy(graph.all_facts), len(graph.relations))


def rows_of(queries: Queries) -> list[Query]:
    return list(zip(*(part.tolist() for part in queries), strict=True))


def sets_of_the_rule(graph: TemporalGraph) -> tuple[dict[int, set[int]], dict[Query, set[int]]]:
    """The answers to each relation at any time, and the answers to each query."""
    pools, answers = defaultdict[int, set[int]](set), defaultdict[Query, set[int]](set)
    for s, r, o, t in graph.all_facts.tolist():
        for entity, relation, answer in ((s, r, o), (o, r + len(graph.relations), s)):
            pools[relation].add(answer)
            answers[entity, relation, t].add(answer)
    return pools, answers


@given(graphs(), st.integers(1, 6), st.integers(0, 5))
def test_negatives_come_from_the_sets_of_the_rule(
    graph: TemporalGraph, count: int, seed: int
) -> None:
    count = min(count, len(graph.entities))
    queries, _ = all_queries(graph)
    negatives = RelationNegatives(KnownAnswers.from_graph(graph), count, seed)(queries)
    assert negatives.shape == (len(queries.entity), count)
    pools, answers = sets_of_the_rule(graph)
    for query, drawn in zip(rows_of(queries), negatives.tolist(), strict=True):
        others = pools[query[1]] - answers[query]
        assert len(set(drawn)) == count and set(drawn) <= set(range(len(graph.entities)))
        assert set(drawn) <= others or set(drawn) >= others


def many_facts() -> TemporalGraph:
    """Sixty entities; relation 0 has objects 0 to 39, relation 1 has objects 0 to 4."""
    rng = np.random.default_rng(3)
    facts = np.stack([rng.integers(60, size=900), rng.integers(2, size=900)], 1)
    objects = rng.integers(np.where(facts[:, 1] == 0, 40, 5))
    facts = np.column_stack([facts, objects, rng.integers(30, size=900)])
    return make_graph(np.unique(facts, axis=0), entities=60, steps=30)


def test_every_candidate_is_drawn_equally_often() -> None:
    graph = many_facts()
    known = KnownAnswers.from_graph(graph)
    (queries, _), (pools, answers) = all_queries(graph), sets_of_the_rule(graph)
    drawn, possible = torch.zeros(4, 60), torch.zeros(4, 60)
    for seed in range(40):
        negatives = RelationNegatives(known, 10, seed)(queries)
        for relation in range(4):
            chosen = negatives[queries.relation == relation]
            drawn[relation] += torch.bincount(chosen.flatten(), minlength=60)
    for query in rows_of(queries):
        others = pools[query[1]] - answers[query]
        # What is not in the pool of a small relation is drawn from all that is left.
        left = set(range(60)) - others
        for entity in others:
            possible[query[1], entity] += 40 * min(1.0, 10 / len(others))
        for entity in left if len(others) < 10 else ():
            possible[query[1], entity] += 40 * (10 - len(others)) / len(left)
    deviation = (drawn - possible).abs() / possible.clamp(min=1).sqrt()
    assert deviation.max() < 5 and deviation.square().mean() < 1.5


def test_negatives_depend_on_the_query_alone() -> None:
    graph = many_facts()
    queries, _ = all_queries(graph)
    draw = RelationNegatives(KnownAnswers.from_graph(graph), 10)
    together = draw(queries)
    some = torch.tensor([5, 5, 1, 700])
    assert torch.equal(draw(queries.take(some)), together[some])
    other = RelationNegatives(KnownAnswers.from_graph(graph), 10, seed=1)(queries)
    assert not torch.equal(other, together)
    same = (queries.entity == queries.entity[0]) & (queries.relation == queries.relation[0])
    later = same & (queries.time != queries.time[0])
    assert later.any() and (together[later] != together[0]).any()


def test_too_many_negatives_are_refused() -> None:
    graph = make_graph([(0, 0, 1, 0)])
    with raises(ConfigError, "relation_negatives.too_many", count="1,000", entities="4"):
        RelationNegatives(KnownAnswers.from_graph(graph), 1_000)
