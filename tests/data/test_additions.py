"""Names, steps and facts that come after those of a graph, and names that a batch brings."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import make_graph
from intervals import interval_graphs, random_intervals
from messages import message, raises
from tempograph import ImportOptions, TemporalGraph
from tempograph.data.additions import Additions, AdditionSizes
from tempograph.data.catalog import load_with_options
from tempograph.data.closed_facts import close_facts
from tempograph.data.fact_ids import read_facts
from tempograph.data.name_tokens import name_tokens
from tempograph.data.spans import Bounds
from tempograph.data.timeline import Timeline
from tempograph.errors import DataError

GRAPH = replace(
    make_graph([(0, 0, 1, 0), (1, 1, 2, 4)]),
    times=tuple(map(str, range(5))),
    attributes={"type": ("a", "b", "", "a")},
)
ONE = Additions(("x", "y"), (), ("5",), np.array([[4, 0, 5, 5], [0, 1, 4, 2]]))
TWO = Additions((), ("s",), (), np.array([[1, 2, 0, 1]]))


def same(one: Additions, other: Additions) -> bool:
    names = ("entities", "relations", "times")
    return np.array_equal(one.facts, other.facts) and all(
        getattr(one, name) == getattr(other, name) for name in names
    )


def test_additions_come_after_what_a_graph_has() -> None:
    grown = ONE.then(TWO).onto(GRAPH)
    assert grown.entities == (*GRAPH.entities, "x", "y") and grown.times[-1] == "5"
    assert grown.relations == ("r0", "r1", "s") and len(grown.train) == 5
    assert grown.attributes == {"type": ("a", "b", "", "a", "", "")}
    assert grown.same_as(TWO.onto(ONE.onto(GRAPH))) and grown.vocabulary_names == 4
    assert same(ONE.then(TWO).first(ONE.sizes), ONE)
    assert ONE.then(TWO).first(AdditionSizes()).onto(GRAPH).same_as(GRAPH)
    assert same(Additions.between(GRAPH, grown, grown.train[2:]), ONE.then(TWO))


@pytest.mark.parametrize("additions", [ONE, ONE.then(TWO), Additions()])
def test_written_additions_are_read(tmp_path: Path, additions: Additions) -> None:
    additions.write(tmp_path)
    assert same(Additions.read(tmp_path, GRAPH), additions)


def test_facts_outside_the_data_are_refused(tmp_path: Path) -> None:
    ONE.write(tmp_path)
    (tmp_path / "entities.txt").write_text("x\n")
    path = tmp_path / "facts.tsv.gz"
    with raises(
        DataError, "folder.out_of_range", path=path, line=1, column="object", value=5, last=4
    ):
        Additions.read(tmp_path, GRAPH)


NAMES = st.lists(st.text(alphabet="abcéß日1 ()-", max_size=9), max_size=6)


@given(NAMES, NAMES, st.data())
def test_later_names_do_not_change_the_tokens_of_earlier_ones(
    names: list[str], later: list[str], data: st.DataObject
) -> None:
    value = st.sampled_from(["", "person", "state"])
    kinds = data.draw(st.lists(value, min_size=len(names), max_size=len(names)))
    known = name_tokens(names, [kinds])
    both = name_tokens([*names, *later], [[*kinds, *[""] * len(later)]], len(names))
    assert both.num_tokens == known.num_tokens
    assert np.array_equal(both.start[: len(names) + 1], known.start)
    assert np.array_equal(both.token[: known.start[-1]], known.token)
    # A later name that repeats one of the earlier names has all of its tokens.
    for number, name in enumerate(later):
        if name in names and not any(kinds):
            mine, first = len(names) + number, names.index(name)
            tokens = [
                both.token[both.start[each] : both.start[each + 1]].tolist()
                for each in (mine, first)
            ]
            assert tokens[0] == tokens[1]


def test_a_timeline_reads_new_names_by_known_words() -> None:
    graph = replace(GRAPH, entities=("New York", "York", "Old Town", "Town"), attributes={})
    grown = Additions(("Old York", "Moon"), (), (), np.array([[4, 0, 5, 0]])).onto(graph)
    tokens = Timeline(grown).name_tokens
    assert tokens.num_tokens == Timeline(graph).name_tokens.num_tokens
    assert tokens.start[5] - tokens.start[4] > 0 and tokens.start[6] == tokens.start[5]


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["e0", "e1", " e2", "zoe", "Zoe", "amy ", "kim"]),
        st.sampled_from(["r0", "r1", "new", "R0"]),
        st.sampled_from(["e3", "zoe", "amy", "lee", "e1"]),
        st.sampled_from(["0", "4", "7"]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=20)
@given(ROWS)
def test_new_names_are_numbered_as_in_an_import(rows: list[tuple[str, ...]]) -> None:
    """An import of all rows, those that made the graph first, finds the same names and ids."""
    columns = ("subject", "relation", "object", "time")
    base = [("e0", "r0", "e1", "0"), ("e2", "r1", "e3", "4")]
    options = ImportOptions(split="chronological", valid_share=0, test_share=0)

    def load(facts: list[tuple[str, ...]]) -> TemporalGraph:
        table = [dict(zip(columns, fact, strict=True)) for fact in facts]
        return load_with_options(table, options)[0]

    batch = read_facts(load(base), rows, {}, None, extend=True, new_names=True)
    whole = load([*base, *rows])
    assert batch.valid.all()
    assert batch.graph.entities == whole.entities and batch.graph.relations == whole.relations
    assert {tuple(row) for row in batch.ids.tolist()} <= {*map(tuple, whole.train.tolist())}


def test_names_of_refused_rows_are_not_added() -> None:
    rows = [("amy", "r0", "zoe", "99999999"), ("lee", "", "kim", "1"), ("zoe", "r0", "e1", 1)]
    batch = read_facts(GRAPH, rows, {}, None, extend=True, new_names=True)
    assert batch.graph.entities == (*GRAPH.entities, "zoe") and batch.valid.tolist() == [
        *[False] * 2,
        True,
    ]
    assert batch.ids[0, [0, 2]].tolist() == [-2, 4]
    assert batch.names()["subject"].to_pylist() == ["amy", "lee", "zoe"]
    batch = read_facts(GRAPH, [("a\nb", "r0", 77, "1")], {}, None, new_names=True)
    broken = message("new_names.line_break", kind="entity", value="a\nb")
    assert batch.errors.texts.to_pylist() == [broken]


@settings(max_examples=20)
@given(interval_graphs(), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_open_ends_follow_the_axis(graph: TemporalGraph, seed: int, more: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = (len(graph.entities), len(graph.relations))
    steps = len(graph.times) + np.array([0, more])
    one, two = (
        Additions(times=graph.times[:0], facts=random_intervals(rng, 4, *sizes, int(count)))
        for count in steps
    )
    later = tuple(str(step) for step in range(len(graph.times), int(steps[1])))
    both = one.then(replace(two, times=later))
    grown = both.onto(graph)
    facts = close_facts(close_facts(graph.train, one.facts).facts, two.facts).facts
    is_open = (facts[:, 5] & Bounds.OPEN_END) > 0
    assert np.array_equal(grown.train[:, :3], facts[:, :3])
    assert grown.train[:, 4].tolist() == np.where(is_open, steps[1] - 1, facts[:, 4]).tolist()
    earlier = both.first(one.sizes)
    assert earlier.same_facts(one) and earlier.onto(graph).same_as(one.onto(graph))
    assert not both.same_facts(one)
    with tempfile.TemporaryDirectory() as folder:
        both.write(Path(folder))
        read = Additions.read(Path(folder), graph)
    assert read.same_facts(both) and read.onto(graph).same_as(grown)
