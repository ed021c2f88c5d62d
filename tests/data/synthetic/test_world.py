from __future__ import annotations

import hashlib
import math
import re
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from messages import raises
from tempograph.data.graph import TemporalGraph
from tempograph.data.synthetic.world import World, make_world
from tempograph.errors import ConfigError, DataError
from tempograph.typing import SPLITS

Array = NDArray[np.int64]


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


def origins(world: World) -> Array:
    return np.concatenate([world.origins[split] for split in SPLITS])


def kinds(world: World) -> NDArray[np.str_]:
    return np.array([rule.kind for rule in world.rules])[origins(world)[:, 0]]


def earlier(facts: Array) -> Array:
    """How many facts of the same (s, r, o) each fact has before it in time."""
    _, triple = np.unique(facts[:, :3], axis=0, return_inverse=True)
    order = np.lexsort((facts[:, 3], triple))
    first = np.searchsorted(triple[order], triple[order])
    count = np.empty(len(facts), np.int64)
    count[order] = np.arange(len(facts)) - first
    return count


def assert_consistent(world: World) -> None:
    """Every world has distinct facts, no loops, entities alive, and an origin for each fact."""
    facts, names = world.graph.all_facts, world.graph.entities
    assert len(np.unique(facts, axis=0)) == len(facts)
    assert (facts[:, 0] != facts[:, 2]).all()
    assert len(set(names)) == len(names)
    assert len(set(world.graph.relations)) == len(world.graph.relations)

    births, deaths = world.lifetimes.T
    assert (births >= 0).all()
    assert (births < deaths).all()
    assert (deaths <= len(world.graph.times)).all()
    for participant in (facts[:, 0], facts[:, 2]):
        assert (births[participant] <= facts[:, 3]).all()
        assert (facts[:, 3] < deaths[participant]).all()

    for split in SPLITS:
        assert len(world.origins[split]) == len(world.graph.facts(split)) > 0
    for number, rule in enumerate(world.rules):
        mine = origins(world)[:, 0] == number
        effect, cause = facts[mine], origins(world)[mine, 1]
        assert (effect[:, 1] == rule.relation).all()
        if rule.kind in ("reciprocal", "chain"):
            assert (cause >= 0).all()
            pair = [2, 0] if rule.inverted else [0, 2]
            expected = np.column_stack([facts[cause][:, pair], facts[cause, 3] + rule.lag])
            np.testing.assert_array_equal(effect[:, [0, 2, 3]], expected)
            assert (facts[cause, 1] == rule.cause).all()
        else:
            assert (cause == -1).all()


def test_default_world_is_consistent(world: World) -> None:
    assert_consistent(world)


def test_sizes_and_shares_are_exact(world: World) -> None:
    assert world.graph.sizes == (300, 20, 300, 120)
    assert [len(world.graph.facts(split)) for split in SPLITS] == [12_000, 1_500, 1_500]
    other = make_world(facts=2_001, valid_share=0.2, test_share=0.05, name="other").graph
    assert [len(other.facts(split)) for split in SPLITS] == [1_501, 400, 100]
    assert other.name == "other"


def test_splits_are_random_over_times_and_rules(world: World) -> None:
    for split in SPLITS:
        assert len(np.unique(world.graph.facts(split)[:, 3])) == 120
        kind = np.array([rule.kind for rule in world.rules])[world.origins[split][:, 0]]
        assert 0.06 < (kind == "noise").mean() < 0.12


def test_a_seed_fixes_everything(world: World) -> None:
    again, other = make_world(), make_world(seed=1)
    assert again.graph.entities == world.graph.entities != other.graph.entities
    np.testing.assert_array_equal(again.graph.all_facts, world.graph.all_facts)
    np.testing.assert_array_equal(origins(again), origins(world))
    assert (other.graph.all_facts != world.graph.all_facts).any(axis=1).mean() > 0.9


def test_a_seed_gives_the_same_world_on_every_machine() -> None:
    small = make_world(seed=7, entities=60, relations=23, steps=40, facts=1_000)
    data = np.concatenate([small.graph.all_facts, origins(small)], axis=1).astype("<i8").tobytes()
    names = "\n".join(small.graph.entities).encode()
    assert (
        hashlib.sha256(data + names).hexdigest()
        == "4f763973b62aea224a88eec9344fd4601247276d0bcf49fe7b7f4cd29017f80e"
    )


def test_every_kind_has_its_share(world: World) -> None:
    share = {kind: (kinds(world) == kind).mean() for kind in np.unique(kinds(world))}
    assert 0.08 < share["noise"] < 0.11
    assert 0.3 < share["recurring"] < 0.5
    assert 0.08 < share["periodic"] < 0.2
    assert 0.3 < share["reciprocal"] + share["chain"] < 0.45


def test_consequences_often_have_no_past_of_their_own(world: World) -> None:
    derived = np.isin(kinds(world), ["reciprocal", "chain"])
    assert (derived & (earlier(world.graph.all_facts) <= 2)).mean() > 0.3


def test_periodic_facts_keep_their_period(world: World) -> None:
    facts, rule_of = world.graph.all_facts, origins(world)[:, 0]
    compared = 0
    for number, rule in enumerate(world.rules):
        if rule.kind == "periodic":
            mine = facts[rule_of == number]
            mine = mine[np.lexsort((mine[:, 3], mine[:, 2], mine[:, 0]))]
            same = (mine[1:, [0, 2]] == mine[:-1, [0, 2]]).all(axis=1)
            off = (mine[1:, 3] - mine[:-1, 3])[same] % rule.lag
            off = np.minimum(off, rule.lag - off)
            assert off.max() <= 2
            assert (off == 0).mean() > 0.5
            compared += len(off)
    assert compared > 500


def test_recurring_facts_come_in_bursts_that_return(world: World) -> None:
    praise = world.graph.relation_id("praises")
    facts = world.graph.all_facts[
        (kinds(world) == "recurring") & (world.graph.all_facts[:, 1] == praise)
    ]
    facts = facts[np.lexsort((facts[:, 3], facts[:, 2], facts[:, 0]))]
    same = (facts[1:, [0, 2]] == facts[:-1, [0, 2]]).all(axis=1)
    gap = (facts[1:, 3] - facts[:-1, 3])[same]
    assert np.median(gap) <= 3
    pairs = 1 + (~same).sum()
    assert 0.4 < (gap > 20).sum() / pairs < 1.2


def test_alliances_drift_across_relations(world: World) -> None:
    facts = world.graph.all_facts[kinds(world) == "recurring"]
    facts = facts[facts[:, 0] < 20]
    one, other = (facts[side] for side in np.triu_indices(len(facts), 1))
    comparable = (one[:, 0] == other[:, 0]) & (one[:, 1] != other[:, 1])
    same_partner, gap = (
        (one[:, 2] == other[:, 2])[comparable],
        np.abs(one[:, 3] - other[:, 3])[comparable],
    )
    assert same_partner[gap <= 5].mean() > 1.7 * same_partner[(gap > 15) & (gap <= 40)].mean()


def test_some_entities_come_and_go_and_are_active_meanwhile(world: World) -> None:
    births, deaths = world.lifetimes.T
    passing = np.flatnonzero(deaths - births < 120)
    assert 0.2 < len(passing) / 300 < 0.6
    assert (births > 0).any()
    assert (deaths < 120).any()
    active = np.unique(world.graph.all_facts[:, [0, 2]])
    assert np.isin(passing, active).mean() > 0.9


def reciprocal_ranks(graph: TemporalGraph, decay: float) -> NDArray[np.float64]:
    """1 / filtered rank of each test object, scored by its train facts (s, r, o, t').

    The score is the sum of exp(-decay |t - t'|).
    """
    train, test, known = graph.train, graph.test, graph.all_facts
    query = np.arange(len(test))
    weight = np.exp(-decay * np.abs(test[:, 3:] - train[:, 3]))
    weight[(test[:, :1] != train[:, 0]) | (test[:, 1:2] != train[:, 1])] = 0
    score = weight @ np.eye(len(graph.entities))[train[:, 2]]
    target = score[query, test[:, 2]].copy()
    row, fact = np.nonzero((test[:, None, [0, 1, 3]] == known[:, [0, 1, 3]]).all(axis=2))
    score[row, known[fact, 2]] = -1
    above, tied = (score > target[:, None]).sum(axis=1), (score == target[:, None]).sum(axis=1)
    return 1 / (1 + above + tied / 2)


def test_recency_beats_all_time_counts(world: World) -> None:
    recent, all_time = (reciprocal_ranks(world.graph, decay).mean() for decay in (0.1, 0.0))
    assert 0.35 < recent < 0.6
    assert recent > all_time + 0.05


def test_time_steps_are_days_from_2030(world: World) -> None:
    assert world.graph.times == tuple(
        str(date(2030, 1, 1) + timedelta(days=day)) for day in range(120)
    )


def test_relations_beyond_the_named_ones_repeat_with_a_number_and_the_same_rules() -> None:
    wide = make_world(relations=43, facts=3_000)
    assert_consistent(wide)
    assert wide.graph.relations[20:22] == ("visits (2)", "hosts a visit from (2)")
    assert wide.graph.relations[42] == "accuses (3)"
    patterns = [
        {
            rule.relation - first
            for rule in wide.rules
            if first <= rule.relation < first + 20 and rule.cause is not None
        }
        for first in (0, 20)
    ]
    assert patterns[0] == patterns[1] == set(range(20))
    assert set(np.unique(wide.graph.all_facts[:, 1])) == set(range(43))


def test_names_stay_distinct_in_a_large_sparse_world() -> None:
    large = make_world(entities=20_000, relations=230, steps=365, facts=30_000)
    assert_consistent(large)
    assert not any(re.search(r"\d", name) for name in make_world().graph.entities)


def test_a_crowded_world_is_consistent_and_filled_up_with_noise() -> None:
    crowded = make_world(entities=12, relations=20, steps=30, facts=15_000)
    assert_consistent(crowded)
    assert len(crowded.graph.all_facts) == 15_000
    assert 0.15 < (kinds(crowded) == "noise").mean() < 0.7


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    entities=st.integers(2, 40),
    relations=st.integers(4, 45),
    steps=st.integers(1, 40),
    share=st.floats(0, 0.5),
)
def test_small_worlds_are_consistent(
    seed: int, entities: int, relations: int, steps: int, share: float
) -> None:
    facts = max(3, min(300, int(share * relations * steps)))
    made = make_world(seed, entities, relations, steps, facts)
    assert_consistent(made)
    assert made.graph.sizes == (entities, relations, entities, steps)
    assert len(made.graph.all_facts) == facts


def test_a_world_holds_at_most_half_of_the_possible_facts() -> None:
    # Four entities are all lasting: 4 * 3 pairs, 4 relations, 3 steps make 144 possible facts.
    half = make_world(entities=4, relations=4, steps=3, facts=72)
    assert_consistent(half)
    assert len(half.graph.all_facts) == 72
    too_many = {"entities": 4, "relations": 4, "steps": 3, "facts": 73}
    with raises(DataError, "world.too_many_facts", **too_many, room=144, limit=72):
        make_world(**too_many)


@pytest.mark.parametrize(
    ("arguments", "name", "values"),
    [
        ({"seed": -1}, "world.at_least", {"argument": "seed", "least": 0, "value": -1}),
        ({"entities": 1}, "world.at_least", {"argument": "entities", "least": 2, "value": 1}),
        ({"relations": 3}, "world.at_least", {"argument": "relations", "least": 4, "value": 3}),
        ({"steps": 0}, "world.at_least", {"argument": "steps", "least": 1, "value": 0}),
        ({"facts": 2}, "world.at_least", {"argument": "facts", "least": 3, "value": 2}),
        ({"valid_share": 0.0}, "world.share", {"argument": "valid_share", "value": 0.0}),
        ({"test_share": math.nan}, "world.share", {"argument": "test_share", "value": "nan"}),
        (
            {"valid_share": 0.5, "test_share": 0.5},
            "world.no_train_facts",
            {"valid": 0.5, "test": 0.5, "facts": 15000},
        ),
    ],
)
def test_bad_arguments_are_named_with_their_value(
    arguments: dict[str, float], name: str, values: dict[str, object]
) -> None:
    with raises(ConfigError, name, **values):
        make_world(**arguments)  # type: ignore[arg-type]
