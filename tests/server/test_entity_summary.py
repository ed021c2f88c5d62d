"""The summary of an entity is what a scan of all facts finds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from starlette.testclient import TestClient

from graphs import graphs
from tempograph import TemporalGraph
from tempograph.evaluation.rank_table import RankTable
from tempograph.server.entity_summary import summarize_entity
from tempograph.server.graph_browser import GraphBrowser
from tempograph.typing import SPLITS

pytest_plugins = ("serving_fixtures",)


@given(graphs())
def test_a_summary_matches_a_scan_of_all_facts(graph: TemporalGraph) -> None:
    browser, steps = GraphBrowser("run", graph, None), len(graph.times)
    rows = [(*fact, split) for split in SPLITS for fact in graph.facts(split).tolist()]
    for entity, name in enumerate(graph.entities):
        for period in (range(steps), range(steps // 2, steps)):
            own = [row for row in rows if entity in (row[0], row[2]) and row[3] in period]
            found = summarize_entity(browser, {}, name, period, None, 100)
            splits = Counter(row[4] for row in own)
            assert found.facts == {split: splits[split] for split in SPLITS}
            assert found.steps == len({row[3] for row in own})
            assert sum(found.counts) == len(own) and len(found.counts) == len(found.parts)
            assert (found.parts[0].from_, found.parts[-1].to) == (found.from_, found.to)
            assert found.near == [] and found.figures == {}
            relations = Counter((row[1], row[0] == entity) for row in own)
            assert {
                each.relation: (each.as_subject, each.as_object) for each in found.relations
            } == {
                graph.relations[relation]: (relations[relation, True], relations[relation, False])
                for relation, _ in relations
            }
            partners = Counter(row[2] if row[0] == entity else row[0] for row in own)
            del partners[entity]
            assert {each.name: each.facts for each in found.partners} == {
                graph.entities[partner]: count for partner, count in partners.items()
            }
            order = [each.facts for each in found.partners]
            assert order == sorted(order, reverse=True)
            for each in found.partners:
                times = [
                    row[3] for row in own if graph.entities.index(each.name) in (row[0], row[2])
                ]
                if each.name != name:
                    assert (each.first, each.last) == (
                        graph.times[min(times)],
                        graph.times[max(times)],
                    )
                assert sum(each.counts) == each.facts


@given(graphs())
def test_facts_are_those_of_the_step_or_the_nearest_ones(graph: TemporalGraph) -> None:
    browser, steps = GraphBrowser("run", graph, None), len(graph.times)
    rows = [tuple(fact) for split in SPLITS for fact in graph.facts(split).tolist()]
    for entity, name in enumerate(graph.entities):
        times = {row[3] for row in rows if entity in (row[0], row[2])}
        for step in range(steps):
            found = summarize_entity(browser, {}, name, range(steps), graph.times[step], 1).near
            nearest = sorted({time for time in times if time < step})[-1:]
            nearest += sorted({time for time in times if time > step})[:1]
            wanted = {step} if step in times else set(nearest)
            assert {fact.time for fact in found} == {graph.times[time] for time in wanted}
            count = sum(entity in (row[0], row[2]) and row[3] in wanted for row in rows)
            assert len(found) == min(100, count)


def test_figures_are_means_over_the_queries_of_the_entity() -> None:
    facts = np.array([(0, 0, 1, 0), (1, 0, 2, 1), (2, 0, 0, 2)])
    graph = TemporalGraph(
        "small", ("Ann", "Bob", "Cai", "Dan"), ("meets",), ("a", "b", "c"), facts, facts[:0],
        facts[:0],
    )  # fmt: skip
    table = RankTable(np.tile(facts, (2, 1)), np.arange(6) >= 3, np.array([1.0, 2, 4, 20, 5, 2]))
    browser = GraphBrowser("run", graph, None)
    found = summarize_entity(browser, {"valid": table}, "Ann", range(3), None, 10).figures["valid"]
    assert found.queries == 4
    assert found.mrr == pytest.approx((1 + 1 / 4 + 1 / 20 + 1 / 2) / 4)
    assert found.hits_at_10 == pytest.approx(3 / 4)
    assert summarize_entity(browser, {"valid": table}, "Dan", range(3), None, 10).figures == {}


def test_the_route_limits_lists_and_corrects_names(client: TestClient) -> None:
    found = client.get("/api/v1/entity", params={"entity": "corenne", "limit": 2}).json()
    assert found["entity"] == "Corenne" and len(found["partners"]) == 2 < found["total_partners"]
    assert len(found["relations"]) == 2 < found["total_relations"]
    wrong = client.get("/api/v1/entity", params={"entity": "Corene"})
    assert wrong.status_code == 404 and "Corenne" in wrong.json()["suggestions"]
    late = {"entity": "Corenne", "from": "2030-01-05", "to": "2030-01-02"}
    assert client.get("/api/v1/entity", params=late).status_code == 422
