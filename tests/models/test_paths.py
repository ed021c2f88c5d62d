"""Paths against loops over entities, and against graphs without the fact that is left out."""

from __future__ import annotations

import dataclasses
import gc
import math
import weakref
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from graphs import make_graph
from tempograph import TemporalGraph
from tempograph.data import common_neighbors
from tempograph.data.common_neighbors import CommonNeighbors, NeighborQueries
from tempograph.data.timeline import Queries, Timeline
from tempograph.device import MEMORY_BUDGETS, Budget
from tempograph.models.pointer.paths import Paths

SEEDS = st.integers(0, 2**32 - 1)
ENTITIES = 7


def random_graph(seed: int, facts: int = 14) -> TemporalGraph:
    """Few facts of few entities: some pairs meet once, some more often, some loop."""
    rng = np.random.default_rng(seed)
    drawn = np.unique(rng.integers(0, [ENTITIES, 2, ENTITIES, 3], (facts, 4)), axis=0)
    return make_graph(rng.permutation(drawn), entities=ENTITIES, relations=2, steps=3)


def slow(graph: TemporalGraph, entity: int, other: int) -> float:
    """How well one knows the other through third ones."""
    is_neighbor: Counter[tuple[int, int]] = Counter()
    for s, _, o, _ in graph.train.tolist():
        if s != o:
            is_neighbor.update([(s, o), (o, s)])
    degree = Counter(one for one, _ in is_neighbor)
    through = [
        x
        for x in range(ENTITIES)
        if (entity, x) in is_neighbor and (x, other) in is_neighbor and entity != other
    ]
    return sum(
        math.log1p(is_neighbor[entity, x]) * math.log1p(is_neighbor[x, other]) / (1 + degree[x])
        for x in through
    )


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.booleans(), st.booleans())
def test_path_scores_equal_a_loop_over_entities_without_the_fact(
    seed: int, at_once: bool, leave_out: bool
) -> None:
    graph = random_graph(seed)
    timeline = Timeline(graph)
    known = CommonNeighbors(timeline)
    fact = (
        torch.arange(len(timeline.facts)) if leave_out else torch.full((len(timeline.facts),), -1)
    )
    entity = torch.arange(len(fact)) % ENTITIES
    # Of every second fact its own subject is asked about.
    entity[::2] = timeline.facts[::2, 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common_neighbors, "_MIN_QUERIES_FOR_TABLES", 0)
        patch.setattr(common_neighbors, "_TABLE_ROWS_PER_CHUNK", 3)
        actual, is_neighbor = known.path_scores(
            known.queries(entity, fact), torch.float32 if at_once else torch.float64
        )
    assert tables_are_used(known) == at_once
    for row, who in enumerate(entity.tolist()):
        world = graph
        if leave_out:
            world = dataclasses.replace(graph, train=np.delete(timeline.facts.numpy(), row, axis=0))
        pairs = {
            tuple(pair)
            for s, _, o, _ in world.train.tolist()
            for pair in ((s, o), (o, s))
            if s != o
        }
        assert is_neighbor[row].tolist() == [(who, o) in pairs for o in range(ENTITIES)]
        wanted = [slow(world, who, o) for o in range(ENTITIES)]
        assert actual[row].tolist() == pytest.approx(wanted, abs=1e-6 if at_once else 1e-12)
        assert (actual[row] > 0).tolist() == [how_well > 0 for how_well in wanted], (
            "nothing is left of what is gone"
        )


def tables_are_used(known: CommonNeighbors) -> bool:
    """Whether a single query is looked up in the tables of all pairs."""
    one = known.queries(torch.zeros(1, dtype=torch.int64))
    return len(known.tables(one, torch.float32).path_scores) == ENTITIES


def test_tables_of_all_pairs_are_used_for_many_queries_if_they_fit() -> None:
    timeline = Timeline(random_graph(0))
    few, many = torch.zeros(255, dtype=torch.int64), torch.zeros(256, dtype=torch.int64)
    known = CommonNeighbors(timeline)
    known.path_scores(known.queries(few))
    assert not tables_are_used(known)
    by_table = known.path_scores(known.queries(many))
    assert tables_are_used(known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MEMORY_BUDGETS, "pair_tables", Budget(8 * ENTITIES**2 - 1, 0))
        known = CommonNeighbors(timeline)
    assert_close(by_table, known.path_scores(known.queries(many)))
    assert not tables_are_used(known) and not known.make_rows(ENTITIES)


def test_tables_made_in_parts_equal_those_made_at_once() -> None:
    timeline = Timeline(random_graph(0))
    queries = CommonNeighbors(timeline).queries(torch.arange(ENTITIES))
    parts, once = CommonNeighbors(timeline), CommonNeighbors(timeline)
    with torch.inference_mode():
        assert parts.make_rows(3) and not tables_are_used(parts)
    while parts.make_rows(3):
        assert not tables_are_used(parts)
    assert tables_are_used(parts) and not parts.make_rows(3)
    assert not once.make_rows(ENTITIES)
    tables = [each.tables(queries, torch.float32) for each in (parts, once)]
    for part, whole in zip(*tables, strict=True):
        assert torch.equal(part, whole)
    few = CommonNeighbors(timeline).path_scores(queries)
    assert_close(parts.path_scores(queries), few, rtol=0, atol=0)


def test_a_timeline_has_one_set_of_tables() -> None:
    timeline = Timeline(random_graph(0))
    one = CommonNeighbors.for_timeline(timeline)
    assert (
        CommonNeighbors.for_timeline(timeline) is one
        and CommonNeighbors.for_timeline(Timeline(random_graph(0))) is not one
    )
    gone = weakref.ref(one)
    del one, timeline
    gc.collect()
    assert gone() is None


def test_a_graph_without_facts_has_no_neighbors() -> None:
    known = CommonNeighbors(Timeline(make_graph([(1, 0, 1, 0)])))
    actual, is_neighbor = known.path_scores(
        known.queries(torch.tensor([1, 2]), torch.tensor([0, -1]))
    )
    assert not actual.any() and not is_neighbor.any() and actual.shape == (2, 4)


def test_unpack_inverts_pack() -> None:
    timeline = Timeline(random_graph(0))
    neighbor_queries = CommonNeighbors(timeline).queries(
        timeline.facts[:3, 0], torch.tensor([-1, 1, 2])
    )
    assert neighbor_queries.delta_via_object.any()
    for actual, wanted in zip(
        NeighborQueries.unpack(neighbor_queries.pack()[:, 1:]), neighbor_queries, strict=True
    ):
        assert_close(actual, wanted[1:], check_dtype=False)


def test_gradients_equal_finite_differences() -> None:
    torch.manual_seed(0)
    source = Paths(Timeline(random_graph(1)), initial_gain=0.3).double()
    relation = torch.tensor([0, 3, 1])
    neighbor_queries = source.neighbors.queries(torch.tensor([0, 1, 2]), torch.tensor([0, -1, 4]))
    before = torch.randn(3, ENTITIES, dtype=torch.float64, requires_grad=True)

    def contributions(
        before: torch.Tensor, shared: torch.Tensor, own: torch.Tensor
    ) -> torch.Tensor:
        actual: torch.Tensor = torch.func.functional_call(
            source, {"shared_gain": shared, "gain": own}, (before * 1, relation, neighbor_queries)
        )
        return actual

    own = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        contributions, (before, torch.tensor([0.3, 0.4, 1, 0.1]).double().requires_grad_(), own)
    )


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_fact_contributions_add_up(seed: int) -> None:
    timeline = Timeline(random_graph(seed))
    source = Paths(timeline, initial_gain=0.5)
    query = Queries(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    with torch.no_grad():
        source.shared_gain[1] = 0.7
        contributions = source(torch.zeros(1, ENTITIES), query.relation, source.look_up(query))[0]
        for candidate in range(ENTITIES):
            fact, share = source.fact_contributions(query, candidate)
            assert float(share.sum()) == pytest.approx(float(contributions[candidate]), abs=1e-5)
            assert (share > 0).all() and len(set(fact.tolist())) == len(fact)
            named = timeline.facts[fact][:, [0, 2]].tolist()
            assert all((0 in pair) != (candidate in pair) for pair in named), (
                "each is a step at one end of a path"
            )


def test_with_timeline_keeps_the_weights() -> None:
    graph, other = random_graph(3), random_graph(4)
    source = Paths(Timeline(graph), initial_gain=0.5)
    query = Queries(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    fresh = Paths(Timeline(other), initial_gain=0.5)
    twin = source.with_timeline(Timeline(other))
    nothing = torch.zeros(1, ENTITIES)
    assert_close(
        twin(nothing.clone(), query.relation, twin.look_up(query)),
        fresh(nothing, query.relation, fresh.look_up(query)),
    )
    assert twin.gain is source.gain
