"""The timeline against plain loops, and which facts each protocol shows to a model."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from graphs import graphs, make_graph
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.timeline import Queries, Timeline, both_directions, undirected_facts
from tempograph.errors import ConfigError
from tempograph.models.ted import TED
from tempograph.typing import COMPLETION_PROTOCOLS, Protocol


def all_pairs(graph: TemporalGraph) -> tuple[torch.Tensor, torch.Tensor]:
    entity, time = np.divmod(np.arange(len(graph.entities) * len(graph.times)), len(graph.times))
    return torch.from_numpy(entity), torch.from_numpy(time)


def visible_facts(graph: TemporalGraph, protocol: Protocol) -> list[oracle.Fact]:
    return oracle.facts_of(graph.train if protocol == "strict" else graph.all_facts)


@settings(max_examples=30)
@given(graphs(), st.sampled_from(COMPLETION_PROTOCOLS))
def test_active_entities_equal_a_loop(graph: TemporalGraph, protocol: Protocol) -> None:
    timeline, facts = Timeline(graph, protocol), visible_facts(graph, protocol)
    pairs = zip(timeline.pair_entity.tolist(), timeline.pair_time.tolist(), strict=True)
    steps, entities = range(len(graph.times)), range(len(graph.entities))
    assert list(pairs) == [(e, t) for e in entities for t in steps if oracle.active(facts, e, t)]


@settings(max_examples=30)
@given(graphs(), st.sampled_from(COMPLETION_PROTOCOLS), st.integers(0, 10), st.integers(-2, 10))
def test_windows_are_contiguous_ranges(
    graph: TemporalGraph, protocol: Protocol, past: int, future: int
) -> None:
    timeline, facts = Timeline(graph, protocol), visible_facts(graph, protocol)
    entity, time = all_pairs(graph)
    windows = timeline.window(entity, time - past, time + future)
    for e, t, start, stop in zip(
        *(column.tolist() for column in (entity, time, *windows)), strict=True
    ):
        assert timeline.pair_time[start:stop].tolist() == oracle.active_steps(
            facts, e, t - past, t + future
        )
        assert (timeline.pair_entity[start:stop] == e).all()


@settings(max_examples=200)
@given(graphs(), st.sampled_from(COMPLETION_PROTOCOLS), st.data())
def test_snapshots_equal_a_loop(
    graph: TemporalGraph, protocol: Protocol, data: st.DataObject
) -> None:
    timeline = Timeline(graph, protocol)
    steps = data.draw(st.lists(st.integers(0, len(graph.times) - 1), max_size=5))
    times = torch.tensor(steps, dtype=torch.int64)
    row, position = timeline.edges(times)
    train = oracle.facts_of(graph.train)
    for index, step in enumerate(steps):
        edges = [tuple(fact) for fact in timeline.facts[position[row == index]].tolist()]
        assert sorted(edges) == sorted(fact for fact in train if fact[3] == step)


def test_both_directions_by_hand() -> None:
    facts = torch.tensor([[0, 1, 2, 3], [4, 0, 4, 1]])
    assert torch.equal(undirected_facts(both_directions(facts, 2), 2), facts.repeat(2, 1))
    assert both_directions(facts, 5).tolist() == [
        [0, 1, 2, 3],
        [4, 0, 4, 1],
        [2, 6, 0, 3],
        [4, 5, 4, 1],
    ]


def visible_tensors(graph: TemporalGraph, protocol: Protocol) -> list[torch.Tensor]:
    """Every tensor of a timeline, and every score of a model built on it."""
    timeline = Timeline(graph, protocol)
    tensors = [value for value in vars(timeline).values() if isinstance(value, torch.Tensor)]
    sizes = (len(graph.entities), 2 * len(graph.relations), len(graph.times))
    entity, relation, time = (torch.from_numpy(column.ravel()) for column in np.indices(sizes))
    return [*tensors, TED(timeline, 0.1).scores(Queries(entity, relation, time))]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@settings(max_examples=30)
@given(graphs(), st.data())
def test_the_strict_protocol_hides_valid_and_test_facts(
    graph: TemporalGraph, data: st.DataObject
) -> None:
    sizes = graph.sizes
    fact = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    valid, test = (data.draw(st.lists(fact, max_size=6)) for _ in range(2))
    changed = make_graph(graph.train, valid, test, sizes[0], sizes[1], sizes[3])
    assert same(visible_tensors(graph, "strict"), visible_tensors(changed, "strict"))


def test_the_paper_protocol_shows_active_entities_of_valid_and_test() -> None:
    without = make_graph([(0, 0, 1, 0)])
    for changed in (
        make_graph([(0, 0, 1, 0)], valid=[(2, 0, 3, 1)]),
        make_graph([(0, 0, 1, 0)], test=[(0, 1, 1, 4)]),
    ):
        assert same(visible_tensors(without, "strict"), visible_tensors(changed, "strict"))
        assert not same(visible_tensors(without, "paper"), visible_tensors(changed, "paper"))
    leaked = Timeline(make_graph([(0, 0, 1, 0)], test=[(2, 0, 3, 1)]), "paper")
    assert leaked.pair_entity[leaked.pair_time == 1].tolist() == [2, 3]
    assert leaked.facts.tolist() == [[0, 0, 1, 0]], "facts themselves never leak, under no protocol"


def test_an_unknown_protocol_is_named() -> None:
    typo = {"kind": "protocol", "value": "strikt", "names": "'strict'"}
    with raises(ConfigError, "suggestions.did_you_mean", **typo):
        Timeline(make_graph([(0, 0, 1, 0)]), "strikt")  # type: ignore[arg-type]


def test_a_fact_that_train_repeats_is_one_edge() -> None:
    facts = [(2, 0, 3, 1), (0, 0, 1, 2), (1, 1, 3, 4), (0, 0, 1, 2), (0, 0, 1, 2)]
    assert Timeline(make_graph(facts)).facts.tolist() == [[2, 0, 3, 1], [0, 0, 1, 2], [1, 1, 3, 4]]
