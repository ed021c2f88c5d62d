"""The synthetic world of any size: its sizes, its repeatability and the structure it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tempograph.data.folder import read_folder
from tempograph.data.graph import rows_in
from tempograph.data.synthetic.many_entities import SyntheticWorld
from tempograph.errors import ConfigError

WORLD = SyntheticWorld(entities=2000, relations=20, days=60, train=9000, valid=300, test=700)
GRAPH = WORLD.graph()


def test_a_world_has_the_sizes_asked_for_and_distinct_facts() -> None:
    assert GRAPH.sizes == (2000, 20, 2000, 60)
    assert [len(GRAPH.facts(split)) for split in ("train", "valid", "test")] == [9000, 300, 700]
    assert len(np.unique(GRAPH.all_facts, axis=0)) == 10_000
    per_day = np.bincount(GRAPH.all_facts[:, 3])
    assert per_day.max() - per_day.min() <= 1


def test_a_world_follows_from_its_seed() -> None:
    assert WORLD.graph().same_as(GRAPH)
    assert not np.array_equal(
        SyntheticWorld(2000, 20, 60, 9000, 300, 700, seed=1).day(3), WORLD.day(3)
    )


def test_a_folder_written_day_by_day_holds_the_same_facts(tmp_path: Path) -> None:
    WORLD.write(tmp_path / "world")
    read = read_folder(tmp_path / "world")
    assert (read.entities, read.relations, read.times) == (
        GRAPH.entities,
        GRAPH.relations,
        GRAPH.times,
    )
    assert [len(read.facts(split)) for split in ("train", "valid", "test")] == [9000, 300, 700]
    every, expected = (np.unique(graph.all_facts, axis=0) for graph in (read, GRAPH))
    assert np.array_equal(every, expected)
    # Each split is spread over all days.
    assert len(np.unique(read.valid[:, 3])) > 50


def test_there_is_structure_to_learn() -> None:
    facts = GRAPH.all_facts
    days = [facts[facts[:, 3] == day][:, [0, 2]] for day in (10, 11, 59)]
    soon, late = (rows_in(days[0], other).mean() for other in days[1:])
    assert soon > 3 * late
    popularity = np.sort(np.bincount(facts[:, 0], minlength=2000))[::-1]
    assert popularity[:200].sum() > 0.5 * len(facts) and np.median(popularity) <= 3
    # The objects of a community's subjects live in a few others.
    lives = facts[facts[:, 0] % 125 == 7, 2] % 125
    assert np.sort(np.bincount(lives, minlength=125))[-8:].sum() > 0.6 * len(lives)


def test_pairs_that_meet_have_several_facts_with_relations_of_one_family() -> None:
    facts = GRAPH.all_facts
    pair = np.sort(facts[:, [0, 2]], axis=1) @ [2000, 1]
    _, meeting, size = np.unique(pair * 60 + facts[:, 3], return_inverse=True, return_counts=True)
    assert (size[meeting] > 1).mean() > 0.5
    # Of two facts of a meeting, most have another relation, nearly all one of the same family.
    order = np.argsort(meeting, kind="stable")
    same = meeting[order][1:] == meeting[order][:-1]
    relation = facts[order, 1]
    one, other = relation[1:][same], relation[:-1][same]
    assert (one != other).mean() > 0.4 and (one // 8 == other // 8).mean() > 0.8
    # Popular entities meet in several families on one day, but replies stay in theirs.
    replies = np.unique(facts[:, [2, 0, 3]], axis=0)
    assert 0.05 < rows_in(facts[:, [0, 2, 3]], replies).mean() < 0.5


def test_sizes_have_bounds() -> None:
    with pytest.raises(ConfigError, match="entities must be at least 1, found 0"):
        SyntheticWorld(entities=0)
