"""Names and facts are found as a slow reader would find them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphs import graphs
from tempograph import TemporalGraph
from tempograph.data.name_index import Names, fold
from tempograph.server.fact_book import FactBook
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


def test_the_name_itself_comes_first_then_beginnings_then_words_then_the_rest_and_frequent_names_among_equals() -> (
    None
):
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
def test_search_finds_all_names_that_hold_every_word(
    names: list[str], text: str, data: st.DataObject
) -> None:
    counts = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=len(names), max_size=len(names)))
    )
    held = {name for name in names if all(word in fold(name) for word in fold(text).split())}
    every = found(Names(names, counts), text, len(names))
    assert set(every) == held and len(every) == len(held)
    assert found(Names(names, counts), text, 2) == every[:2]


def test_case_may_differ_where_that_leaves_no_doubt() -> None:
    names = Names(("Ann", "BOB", "Bob", "bob"), np.zeros(4, dtype=np.int64))
    assert (
        names.id("Ann"),
        names.id("ann"),
        names.id("Bob"),
        names.id("boB"),
        names.id("Cai"),
    ) == (0, 0, 2, None, None)


def test_misspelled_names_bring_those_spelled_like_them() -> None:
    names = Names(NAMES, np.zeros(len(NAMES), dtype=np.int64))
    assert names.like("Angela Merkle")[0] == "Angela Merkel"
    assert names.like("Mexiko") == ["México"]
    assert names.like("") == names.like("zzzz") == []
    assert len(names.like("merkel" * 10_000)) <= 3


@given(graphs())
def test_facts_of_an_entity(graph: TemporalGraph) -> None:
    book, steps = FactBook(graph), len(graph.times)
    tagged = [(*fact, split) for split in SPLITS for fact in graph.facts(split).tolist()]
    for entity in range(len(graph.entities)):
        for first, last in ((0, steps - 1), (steps // 2, steps // 2), (1, 0)):
            wanted = [
                row for row in tagged if entity in (row[0], row[2]) and first <= row[3] <= last
            ]
            places = book.of_entity(entity, first, last)
            got = [(*book.facts[place].tolist(), SPLITS[book.split[place]]) for place in places]
            assert sorted(got) == sorted(wanted)
            assert [row[3] for row in got] == sorted(row[3] for row in wanted)
            counted = {count["time"]: count["facts"] for count in book.counts(places)}
            assert sum(counted.values()) == len(wanted)
    assert book.entity_counts.sum() == sum(len({row[0], row[2]}) for row in tagged)


@given(graphs(), st.integers(1, 4))
def test_examples_are_of_the_busiest_subjects_held_out_and_near_the_middle(
    graph: TemporalGraph, most: int
) -> None:
    book = FactBook(graph)
    held_out = [*graph.facts("valid").tolist(), *graph.facts("test").tolist()]
    eligible = held_out or graph.facts("train").tolist()
    middle = (len(graph.times) - 1) / 2
    found = book.facts[book.examples(most)].tolist()
    assert (
        len(found)
        == min(most, len({fact[0] for fact in eligible}))
        == len({fact[0] for fact in found})
    )
    for fact in found:
        assert fact in eligible
        own = [other for other in eligible if other[0] == fact[0]]
        assert abs(fact[3] - middle) == min(abs(other[3] - middle) for other in own)
    counts = [int(book.entity_counts[fact[0]]) for fact in found]
    left = {fact[0] for fact in eligible} - {fact[0] for fact in found}
    assert counts == sorted(counts, reverse=True)
    assert all(book.entity_counts[subject] <= counts[-1] for subject in left)


@given(graphs(), st.integers(1, 4), st.integers(0, 5))
def test_a_snapshot_holds_the_facts_among_an_entity_and_its_neighbours(
    graph: TemporalGraph, most_nodes: int, most_edges: int
) -> None:
    book = FactBook(graph)
    for entity in range(len(graph.entities)):
        for time in range(len(graph.times)):
            found = book.snapshot(entity, time, most_nodes, most_edges)
            here = [graph.describe(fact) for fact in graph.all_facts if fact[3] == time]
            me = graph.entities[entity]
            others = {fact["subject"] for fact in here if fact["object"] == me}
            others |= {fact["object"] for fact in here if fact["subject"] == me}
            nodes = [node["name"] for node in found["nodes"]]
            assert nodes[0] == me and set(nodes[1:]) <= others - {me}
            assert len(nodes) == min(most_nodes, 1 + len(others - {me})) and found[
                "neighbours"
            ] == len(others - {me})
            among = [fact for fact in here if fact["subject"] in nodes and fact["object"] in nodes]
            assert found["facts"] == len(among) and len(found["edges"]) == min(
                most_edges, len(among)
            )
            edges = [
                {part: edge[part] for part in fact} for edge in found["edges"] for fact in among[:1]
            ]
            assert all(edge in among for edge in edges)
