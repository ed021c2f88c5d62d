"""Names and facts are found as a scan of all of them would."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphs import graphs
from tempograph import TemporalGraph
from tempograph.data.name_index import Names, fold
from tempograph.server.fact_lookup import FactLookup
from tempograph.server.graph_browser import GraphBrowser
from tempograph.typing import SPLITS

NAMES = (
    "Angela Merkel",
    "Merkel",
    "Ángel Gurría",
    "México",
    "Police (Mexico)",
    "Amerkel",
    "merkel (town)",
    "ÅLAND",
)


def found(names: Names, text: str, most: int = 10) -> list[str]:
    return [each["name"] for each in names.search(text, most)]


def test_search_ranks_exact_matches_then_prefixes_then_words_then_frequency() -> None:
    names = Names(NAMES, np.array([5, 1, 0, 2, 7, 9, 3, 0]))
    assert found(names, "MERKEL") == ["Merkel", "merkel (town)", "Angela Merkel", "Amerkel"]
    assert found(names, "merke") == ["merkel (town)", "Merkel", "Angela Merkel", "Amerkel"]
    assert found(names, "merkel", 1) == ["Merkel"] and found(names, "merke", 1) == ["merkel (town)"]
    assert found(names, "mexico") == ["México", "Police (Mexico)"]
    assert found(names, "aland") == ["ÅLAND"]
    assert found(names, "gurria ang") == ["Ángel Gurría"]
    assert found(names, "nobody") == []
    assert found(names, "", 3) == ["Amerkel", "Police (Mexico)", "Angela Merkel"]


@given(
    st.lists(st.text("aAáb ñ", max_size=6), min_size=1, unique=True),
    st.text("aábn ", max_size=3),
    st.data(),
)
def test_search_finds_all_names_that_contain_every_word(
    names: list[str], text: str, data: st.DataObject
) -> None:
    counts = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=len(names), max_size=len(names)))
    )
    held = {name for name in names if all(word in fold(name) for word in fold(text).split())}
    every = found(Names(names, counts), text, len(names))
    assert set(every) == held and len(every) == len(held)
    assert found(Names(names, counts), text, 2) == every[:2]


def test_case_may_differ_unless_it_is_ambiguous() -> None:
    names = Names(("Ann", "BOB", "Bob", "bob"), np.zeros(4, dtype=np.int64))
    assert (
        names.id("Ann"),
        names.id("ann"),
        names.id("Bob"),
        names.id("boB"),
        names.id("Cai"),
    ) == (0, 0, 2, None, None)


def test_misspelled_names_suggest_similar_ones() -> None:
    names = Names(NAMES, np.zeros(len(NAMES), dtype=np.int64))
    assert names.like("Angela Merkle")[0] == "Angela Merkel"
    assert names.like("Mexiko") == ["México"]
    assert names.like("") == names.like("zzzz") == []
    assert len(names.like("merkel" * 10_000)) <= 3


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
    assert lookup.entity_counts.sum() == sum(len({row[0], row[2]}) for row in rows)


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
    counts = [int(lookup.entity_counts[fact[0]]) for fact in found]
    left = {fact[0] for fact in eligible} - {fact[0] for fact in found}
    assert counts == sorted(counts, reverse=True)
    assert all(lookup.entity_counts[subject] <= counts[-1] for subject in left)


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
            assert found.neighbours == len(others)
            among = [fact for fact in here if fact["subject"] in nodes and fact["object"] in nodes]
            assert found.facts == len(among) and len(found.edges) == min(max_edges, len(among))
            edges = [edge.model_dump(exclude={"split"}) for edge in found.edges]
            assert all(edge in among for edge in edges)
            own = [entity in (edge["subject"], edge["object"]) for edge in edges]
            assert own == sorted(own, reverse=True), "facts of the entity come first"
