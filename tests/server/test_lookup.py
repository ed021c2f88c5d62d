"""Facts are found as a scan of all of them would."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from graphs import graphs
from tempograph import TemporalGraph
from tempograph.server.fact_lookup import FactLookup
from tempograph.server.graph_browser import GraphBrowser
from tempograph.typing import SPLITS


@given(graphs())
def test_facts_of_an_entity_match_a_scan_of_all_facts(graph: TemporalGraph) -> None:
    lookup, steps = FactLookup(graph), len(graph.times)
    rows = [(*fact, split) for split in SPLITS for fact in graph.facts(split).tolist()]
    for entity in range(len(graph.entities)):
        for first, last in ((0, steps - 1), (steps // 2, steps // 2), (1, 0)):
            wanted = [row for row in rows if entity in (row[0], row[2]) and first <= row[3] <= last]
            positions = lookup.of_entity(entity, first, last)
            found = [(*lookup.facts[i].tolist(), SPLITS[lookup.split[i]]) for i in positions]
            assert sorted(found) == sorted(wanted)
            assert [row[3] for row in found] == sorted(row[3] for row in wanted)
            assert sum(each.facts for each in lookup.step_counts(positions)) == len(wanted)
    assert graph.entity_index.counts.sum() == sum(len({row[0], row[2]}) for row in rows)


@given(graphs(), st.integers(1, 4))
def test_examples_are_held_out_facts_of_frequent_subjects_near_the_middle(
    graph: TemporalGraph, count: int
) -> None:
    lookup = FactLookup(graph)
    held_out = [*graph.facts("valid").tolist(), *graph.facts("test").tolist()]
    eligible = held_out or graph.facts("train").tolist()
    middle = (len(graph.times) - 1) / 2
    found = lookup.facts[lookup.examples(count)].tolist()
    assert len(found) == min(count, len({fact[0] for fact in eligible}))
    assert len(found) == len({fact[0] for fact in found})
    for fact in found:
        assert fact in eligible
        own = [other for other in eligible if other[0] == fact[0]]
        assert abs(fact[3] - middle) == min(abs(other[3] - middle) for other in own)
    counts = [int(graph.entity_index.counts[fact[0]]) for fact in found]
    left = {fact[0] for fact in eligible} - {fact[0] for fact in found}
    assert counts == sorted(counts, reverse=True)
    assert all(graph.entity_index.counts[subject] <= counts[-1] for subject in left)


@given(graphs(), st.integers(1, 3), st.integers(0, 3), st.data())
def test_a_neighborhood_contains_the_edges_of_a_period_among_entities_and_their_neighbors(
    graph: TemporalGraph, max_neighbors: int, max_edges: int, data: st.DataObject
) -> None:
    browser = GraphBrowser("run", graph, None)
    centers = data.draw(st.lists(st.sampled_from(graph.entities), min_size=1, max_size=3))
    first, last = sorted(data.draw(st.integers(0, len(graph.times) - 1)) for _ in "12")
    found = browser.neighborhood(centers, range(first, last + 1), max_neighbors, max_edges)
    assert (found.from_, found.to) == (graph.times[first], graph.times[last])
    here = [graph.describe(fact) for fact in graph.all_facts if first <= fact[3] <= last]
    nodes = [node.name for node in found.nodes]
    distinct = list(dict.fromkeys(centers))
    assert nodes[: len(distinct)] == distinct and len(nodes) == len(set(nodes))
    expected = set(distinct)
    for center, count in zip(distinct, found.neighbors, strict=True):
        shared = Counter(
            fact["object"] if fact["subject"] == center else fact["subject"]
            for fact in here
            if center in (fact["subject"], fact["object"]) and fact["subject"] != fact["object"]
        )
        expected |= {name for name, _ in shared.most_common(max_neighbors)}
        assert (count.name, count.facts) == (center, len(shared))
        least = min((facts for _, facts in shared.most_common(max_neighbors)), default=0)
        assert all(name in nodes for name, facts in shared.items() if facts > least)
    assert len(nodes) == len(expected) or max_neighbors < len(graph.entities)
    for node in found.nodes:
        assert node.facts == sum(node.name in (f["subject"], f["object"]) for f in here)
    times: dict[tuple[str, ...], list[int]] = {}
    for fact in here:
        if fact["subject"] in nodes and fact["object"] in nodes:
            key = (fact["subject"], fact["relation"], fact["object"])
            times.setdefault(key, []).append(graph.times.index(fact["time"]))
    assert found.total_edges == len(times) and len(found.edges) == min(max_edges, len(times))
    for edge in found.edges:
        own = times[edge.subject, edge.relation, edge.object]
        assert edge.facts == len(own)
        assert (edge.first, edge.last) == (graph.times[min(own)], graph.times[max(own)])
    counts = sorted(map(len, times.values()), reverse=True)
    assert [edge.facts for edge in found.edges] == counts[:max_edges]


@given(graphs(), st.integers(1, 4), st.integers(0, 5))
def test_a_snapshot_contains_the_facts_among_an_entity_and_its_neighbors(
    graph: TemporalGraph, max_nodes: int, max_edges: int
) -> None:
    browser = GraphBrowser("run", graph, None)
    for entity in graph.entities:
        for step, time in enumerate(graph.times):
            found = browser.snapshot(entity, time, max_nodes, max_edges)
            here = [graph.describe(fact) for fact in graph.all_facts if fact[3] == step]
            others = {fact["subject"] for fact in here if fact["object"] == entity}
            others |= {fact["object"] for fact in here if fact["subject"] == entity}
            others -= {entity}
            nodes = [node.name for node in found.nodes]
            assert nodes[0] == entity and set(nodes[1:]) <= others
            assert len(nodes) == min(max_nodes, 1 + len(others))
            assert found.neighbors == len(others)
            among = [fact for fact in here if fact["subject"] in nodes and fact["object"] in nodes]
            assert found.facts == len(among) and len(found.edges) == min(max_edges, len(among))
            edges = [edge.model_dump(exclude={"split"}) for edge in found.edges]
            assert all(edge in among for edge in edges)
            own = [entity in (edge["subject"], edge["object"]) for edge in edges]
            assert own == sorted(own, reverse=True), "facts of the entity come first"
