"""A demo world generated from a seed: an invented diplomacy with a known rule for every fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.graph import TemporalGraph
from tempograph.data.synthetic.entity_names import entity_names
from tempograph.data.synthetic.rules import BURSTS, RELATIONS, Rule, make_rules, relation_names
from tempograph.errors import ConfigError, DataError
from tempograph.typing import SPLITS, Split

__all__ = ["Rule", "World", "make_world"]

Ids = NDArray[np.int64]

# During generation a fact is a row (subject, relation, object, time, rule, row of its cause or -1).
_SUBJECT, _RELATION, _OBJECT, _TIME, _RULE, _CAUSE = range(6)

_NOISE_SHARE: Final = 0.09
# With their consequences these two give more facts than needed; the surplus is trimmed.
_RECURRING_SHARE: Final = 0.66
_PERIODIC_SHARE: Final = 0.22

# Partners of an entity; denser worlds give it more, or pairs would have nothing new to do.
_LEAST_CIRCLE: Final = 18
# How many steps an alliance lasts, and how much of an entity's dealings goes to it meanwhile.
_ERA: Final = 20
_LOYALTY: Final = 0.8


@dataclass(frozen=True, eq=False)
class World:
    """A generated graph and how it was generated.

    `origins` holds [facts, 2] for each split: the fact's rule, and the row in `graph.all_facts` of
    the fact that caused it, -1 unless the rule is reciprocal or chain. `lifetimes` [entities, 2]
    holds the first step of each entity and the step after its last; no fact has a participant
    outside its lifetime.
    """

    graph: TemporalGraph
    rules: tuple[Rule, ...]
    origins: dict[Split, Ids]
    lifetimes: Ids


def make_world(
    seed: int = 0,
    entities: int = 300,
    relations: int = 20,
    steps: int = 120,
    facts: int = 15_000,
    valid_share: float = 0.1,
    test_share: float = 0.1,
    name: str = "demo",
) -> World:
    """Generate a world of exactly `facts` distinct facts on daily steps from 2030-01-01.

    The split is random. About a tenth of the facts is noise, more in small worlds, whose patterns
    repeat themselves.
    """
    _at_least(0, seed=seed)
    _at_least(1, steps=steps)
    _at_least(2, entities=entities)
    _at_least(3, facts=facts)
    _at_least(4, relations=relations)
    bounds = _split_bounds(facts, valid_share, test_share)
    rng = np.random.Generator(np.random.PCG64(seed))
    names, lasting = entity_names(rng, entities)
    society = _Society.draw(
        rng, entities, lasting, steps, circle=_LEAST_CIRCLE + 4 * facts // (entities * steps)
    )
    _check_room(society, relations, facts)
    rules = make_rules(relations)
    rows = _distinct(_patterns(rng, society, rules, facts))
    rows = _trim(rng, rows, int((1 - _NOISE_SHARE) * facts))
    rows = _fill_with_noise(rng, society, rules, rows, facts)
    rows = _take(rows, rng.permutation(facts))
    parts = dict(zip(SPLITS, np.split(rows, bounds), strict=True))
    days = np.datetime64("2030-01-01") + np.arange(steps)
    train, valid, test = (part[:, :_RULE].copy() for part in parts.values())
    graph = TemporalGraph(
        name, names, relation_names(relations), tuple(days.astype(str).tolist()), train, valid, test
    )
    origins = {split: part[:, _RULE:].copy() for split, part in parts.items()}
    return World(graph, rules, origins, np.stack([society.births, society.deaths], axis=1))


@dataclass(frozen=True, eq=False)
class _Society:
    """When each entity exists, and which partners it has.

    `circle` [entities, size] lists the partners of each entity. It favours the first third of them
    in one era, the second in the next, the last in the third, then the first again; the eras of an
    entity are shifted by `turn` steps.
    """

    births: Ids
    deaths: Ids
    circle: Ids
    turn: Ids
    steps: int

    @classmethod
    def draw(
        cls, rng: np.random.Generator, entities: int, lasting: int, steps: int, circle: int
    ) -> _Society:
        """The first `lasting` entities exist throughout, others for 1/4 to 3/4 of the time."""
        length = rng.integers(1 + steps // 4, 1 + max(1, 3 * steps // 4), entities)
        births = rng.integers(-(length // 2), steps - length // 2)
        deaths = np.minimum(births + length, steps)
        births[:lasting], deaths[:lasting] = 0, steps
        others = _skewed(rng, entities - 1, (entities, circle))
        others += others >= np.arange(entities)[:, None]
        return cls(np.maximum(births, 0), deaths, others, rng.integers(0, _ERA, entities), steps)

    def pairs(self, rng: np.random.Generator, time: Ids) -> tuple[Ids, Ids]:
        """A subject and an object for each time, both [times]."""
        entities, size = self.circle.shape
        subject = _skewed(rng, entities, len(time))
        era = (time + self.turn[subject]) // _ERA
        favoured = era % 3 * (size // 3) + _skewed(rng, size // 3, len(time))
        rank = np.where(rng.random(len(time)) < _LOYALTY, favoured, _skewed(rng, size, len(time)))
        return subject, self.circle[subject, rank]

    def allows(self, rows: Ids) -> NDArray[np.bool_]:
        """Whether both participants live at the time of each row, [rows]."""
        pair, time = rows[:, [_SUBJECT, _OBJECT]], rows[:, _TIME, None]
        alive: NDArray[np.bool_] = (self.births[pair] <= time) & (time < self.deaths[pair])
        return alive[:, 0] & alive[:, 1]


def _skewed(rng: np.random.Generator, size: int, shape: int | tuple[int, int]) -> Ids:
    """Numbers below `size`, the smaller the likelier."""
    # Products rather than a power: they round the same way on every machine.
    uniform = rng.random(shape)
    return (size * (uniform * uniform)).astype(np.int64)


def _check_room(society: _Society, relations: int, facts: int) -> None:
    """Refuse more than half of the possible facts: beyond that no pattern is left to learn."""
    born, dead = (
        np.bincount(ends, minlength=society.steps + 1) for ends in (society.births, society.deaths)
    )
    alive = np.cumsum(born - dead)
    room = relations * int((alive * (alive - 1)).sum())
    if facts > room // 2:
        raise DataError(
            f"{facts} facts do not fit: {len(society.births)} entities, {relations} relations and "
            f"{society.steps} steps leave room for {room} and at most half of it is filled; "
            f"ask for {room // 2} facts or fewer"
        )


def _patterns(
    rng: np.random.Generator, society: _Society, rules: tuple[Rule, ...], facts: int
) -> Ids:
    """Facts of every rule but noise, [rows, 6]: causes come first, facts may repeat."""
    kinds = [rule.kind for rule in rules]
    recurring = 1 + int(_RECURRING_SHARE * facts / kinds.count("recurring"))
    periodic = 1 + int(_PERIODIC_SHARE * facts / kinds.count("periodic"))
    blocks = []
    for number, rule in enumerate(rules):
        if rule.kind == "recurring":
            block = _bursts(rng, society, number, rule, recurring)
        elif rule.kind == "periodic":
            block = _beats(rng, society, number, rule, periodic)
        else:
            continue
        blocks.append(block[society.allows(block)])
    rows = np.concatenate(blocks)
    for number, rule in enumerate(rules):
        if rule.kind in ("reciprocal", "chain"):
            block = _consequences(rng, rows, number, rule)
            rows = np.concatenate([rows, block[society.allows(block)]])
    return rows


def _bursts(
    rng: np.random.Generator, society: _Society, number: int, rule: Rule, count: int
) -> Ids:
    """`count` facts in episodes of one to three weeks; a pair has one or several episodes."""
    size, episodes = BURSTS[RELATIONS[rule.relation % len(RELATIONS)]]
    pairs = 1 + count // (size * episodes)
    start = rng.integers(-7, society.steps, pairs)
    subject, object_ = society.pairs(rng, start)
    length = rng.integers(7, 22, pairs)
    # About three eras later the pair is in favour again.
    again = (start + rng.integers(2 * _ERA, 4 * _ERA, pairs)) % society.steps
    pair = rng.integers(0, pairs, count)
    begin = np.where(rng.integers(0, episodes, count) == 0, start[pair], again[pair])
    return _rows(number, rule, subject[pair], object_[pair], begin + rng.integers(0, length[pair]))


def _beats(rng: np.random.Generator, society: _Society, number: int, rule: Rule, count: int) -> Ids:
    """About `count` facts: a pair has one every `lag` steps for a while, at times a step off."""
    assert rule.lag is not None
    beats = 1 + society.steps // rule.lag
    start = rng.integers(1 - rule.lag, society.steps, 1 + 2 * count // beats)
    subject, object_ = society.pairs(rng, start)
    # One rhythm per pair: two rhythms together would look random.
    pair = np.unique(subject * len(society.births) + object_, return_index=True)[1]
    jitter = rng.integers(0, 10, (len(pair), beats))
    time = start[pair, None] + rule.lag * np.arange(beats) + (jitter == 9) - (jitter == 0)
    lasts = np.arange(beats) < rng.integers(1, 1 + beats, len(pair))[:, None]
    who = np.nonzero(lasts)[0]
    return _rows(number, rule, subject[pair][who], object_[pair][who], time[lasts])


def _consequences(rng: np.random.Generator, rows: Ids, number: int, rule: Rule) -> Ids:
    """(s, cause, o, t) gives (s, relation, o, t + lag), with s and o swapped if inverted."""
    assert rule.lag is not None
    cause = np.flatnonzero(rows[:, _RELATION] == rule.cause)
    cause = cause[rng.random(len(cause)) < rule.probability]
    subject, _, object_, time = rows[cause, :_RULE].T
    if rule.inverted:
        subject, object_ = object_, subject
    return _rows(number, rule, subject, object_, time + rule.lag, cause)


def _fill_with_noise(
    rng: np.random.Generator, society: _Society, rules: tuple[Rule, ...], rows: Ids, facts: int
) -> Ids:
    """Add facts drawn evenly from all that are possible until there are exactly `facts`."""
    entities, relations = len(society.births), rules[-1].relation + 1
    first_rule = len(rules) - relations
    while len(rows) < facts:
        count = 16 + 2 * (facts - len(rows))
        subject = rng.integers(0, entities, count)
        object_ = (subject + rng.integers(1, entities, count)) % entities
        relation = rng.integers(0, relations, count)
        time = rng.integers(0, society.steps, count)
        block = np.stack(
            [subject, relation, object_, time, first_rule + relation, np.full(count, -1)], axis=1
        )
        rows = _distinct(np.concatenate([rows, block[society.allows(block)]]))[:facts]
    return rows


def _rows(
    number: int, rule: Rule, subject: Ids, object_: Ids, time: Ids, cause: Ids | int = -1
) -> Ids:
    return np.stack(
        np.broadcast_arrays(subject, rule.relation, object_, time, number, cause), axis=1
    )


def _distinct(rows: Ids) -> Ids:
    """The distinct facts; the first of each becomes the cause of what its copies caused."""
    sizes = rows[:, :_RULE].max(axis=0, initial=0) + 1
    _, first, copy_of = np.unique(
        np.ravel_multi_index(tuple(rows[:, :_RULE].T), tuple(sizes)),
        return_index=True,
        return_inverse=True,
    )
    merged = rows.copy()
    merged[:, _CAUSE] = np.where(rows[:, _CAUSE] < 0, -1, first[copy_of[rows[:, _CAUSE]]])
    return _take(merged, np.sort(first))


def _trim(rng: np.random.Generator, rows: Ids, limit: int) -> Ids:
    """At most `limit` rows; facts are dropped at random, with all that follows from them."""
    root = np.where(rows[:, _CAUSE] < 0, np.arange(len(rows)), rows[:, _CAUSE])
    while (root != root[root]).any():
        root = root[root]
    family = rng.permutation(len(rows))[root]
    return _take(rows, np.sort(np.argsort(family, kind="stable")[:limit]))


def _take(rows: Ids, order: Ids) -> Ids:
    """The rows of `order`, with causes renumbered."""
    position = np.full(len(rows), -1)
    position[order] = np.arange(len(order))
    taken = rows[order]
    taken[:, _CAUSE] = np.where(taken[:, _CAUSE] < 0, -1, position[taken[:, _CAUSE]])
    return taken


def _at_least(least: int, **arguments: int) -> None:
    for argument, value in arguments.items():
        if value < least:
            raise ConfigError(f"{argument} must be at least {least}, found {value}")


def _split_bounds(facts: int, valid_share: float, test_share: float) -> list[int]:
    """Where valid and test begin among `facts` rows, none of the three splits empty."""
    for argument, share in (("valid_share", valid_share), ("test_share", test_share)):
        if not 0 < share < 1:
            raise ConfigError(f"{argument} must be above 0 and below 1, found {share}")
    valid, test = (max(1, round(share * facts)) for share in (valid_share, test_share))
    if valid + test >= facts:
        raise ConfigError(
            f"valid_share {valid_share} and test_share {test_share} leave none of {facts} facts "
            "to train"
        )
    return [facts - valid - test, facts - test]
