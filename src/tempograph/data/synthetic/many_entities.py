"""A synthetic world of any size, drawn day by day, with structure for models to learn."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.folder import DATASET_MARKER, format_facts, write_names
from tempograph.data.graph import Facts, TemporalGraph, rows_in
from tempograph.io import atomic_folder
from tempograph.typing import SPLITS, PositiveInt, check_bounds

Ids = NDArray[np.int64]

_LIFETIME: Final = 0.4
"""The part of all days during which a pair may meet."""
_FACTS_OF_PAIR: Final = 8.0
"""Facts of a pair over its lifetime, in the mean."""
_FACTS_OF_MEETING: Final = 2.0
"""Facts of a pair on a day on which it meets, in the mean over all pairs that might."""
_NEWCOMERS: Final = 0.35
"""The share of meetings of pairs that meet once."""
_HEAD: Final = 10.0
"""Zipf's law holds from about this rank on; the entities before it are about as frequent."""
_FAMILY: Final = 8
"""Relations of a family, of which a pair uses all."""
_FAVORITE: Final = 0.6
"""The share of a pair's facts that have its favorite relation, in the mean."""
_REPLIES: Final = 0.125
"""The share of facts that lead from the object of a pair to its subject."""
_STRANGERS: Final = 0.1
"""The share of pairs whose object is not where its relation leads."""
_COMMUNITY: Final = 16
"""Entities of a community."""
_NEIGHBORS: Final = 8
"""How many communities the relations lead to from each one."""
_QUARTERS: Final = 4
"""The parts of all days in which relations lead to different communities."""


@dataclass(frozen=True)
class SyntheticWorld:
    """The sizes of a world. Its facts follow from the seed alone.

    It imitates what makes event data such as ICEWS14 predictable. A fact is an event of a pair
    (s, r, o). Pairs appear and are forgotten, so that those of one day recur soon and rarely later
    (drift). A pair that meets has several facts on one day, with relations of one family, such as
    to make a visit and to host one; its favorite one is the most frequent, and some facts are
    replies from o to s. The frequencies of entities follow Zipf's law (popularity). A favorite
    relation leads from one community of entities to another, elsewhere in each quarter of the days,
    and a pair's object lives there (neighbors).
    """

    entities: PositiveInt = 433_000
    relations: PositiveInt = 500
    days: PositiveInt = 1_000
    train: PositiveInt = 3_800_000
    valid: PositiveInt = 25_000
    test: PositiveInt = 25_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_bounds(self)

    @property
    def facts(self) -> int:
        """Facts of all splits."""
        return self.train + self.valid + self.test

    def day(self, day: int) -> Facts:
        """The distinct facts of one day, [n, 4]; the sizes of two days differ by one at most."""
        count = self.facts * (day + 1) // self.days - self.facts * day // self.days
        rng = np.random.default_rng((self.seed, day))
        found = np.empty((0, 3), dtype=np.int64)
        # Busy pairs meet repeatedly on a day, and count once.
        for _ in range(60):
            missing = count - len(found)
            if not missing:
                break
            more = np.unique(self._events(rng, day, missing), axis=0)
            more = more[~rows_in(more, found)] if len(found) else more
            found = np.concatenate([found, rng.permutation(more)[:missing]])
        return np.column_stack([found, np.full(len(found), day)])

    def write(self, path: Path) -> None:
        """Write a dataset folder day by day, in memory for one day's facts."""
        rng = np.random.default_rng((self.seed, self.days))
        left = np.array([self.train, self.valid, self.test])
        with atomic_folder(path, DATASET_MARKER) as folder:
            write_names(folder / "entities.txt", self._names("entity", self.entities))
            write_names(folder / "relations.txt", self._names("relation", self.relations))
            write_names(folder / "times.txt", self._dates())
            with ExitStack() as files:
                opened = [
                    files.enter_context((folder / f"{split}.tsv").open("wb")) for split in SPLITS
                ]
                for number in range(self.days):
                    facts = self.day(number)
                    dealt = rng.multivariate_hypergeometric(left, len(facts))
                    left -= dealt
                    parts = np.split(rng.permutation(facts), dealt.cumsum()[:-1])
                    for file, part in zip(opened, parts, strict=True):
                        file.write(format_facts(part, compress=False))

    def graph(self, name: str = "made") -> TemporalGraph:
        """The world as a graph, split at random."""
        facts = np.concatenate([self.day(number) for number in range(self.days)])
        order = np.random.default_rng((self.seed, self.days)).permutation(len(facts))
        bounds = [self.valid, self.valid + self.test]
        valid, test, train = (np.sort(part) for part in np.split(order, bounds))
        return TemporalGraph(
            name,
            self._names("entity", self.entities),
            self._names("relation", self.relations),
            self._dates(),
            facts[train],
            facts[valid],
            facts[test],
        )

    @staticmethod
    def _names(kind: str, count: int) -> tuple[str, ...]:
        return tuple(f"{kind} {number}" for number in range(count))

    def _dates(self) -> tuple[str, ...]:
        dates = np.datetime64("2000-01-01") + np.arange(self.days)
        return tuple(dates.astype(str).tolist())

    def _events(self, rng: np.random.Generator, day: int, count: int) -> Facts:
        """Events (s, r, o) of a day, [count, 3]."""
        # Pairs are numbered as they appear; those of a day are some of a window that moves on.
        window = max(1, int(self.facts * _LIFETIME / _FACTS_OF_PAIR))
        meetings = max(1, int(count / _FACTS_OF_MEETING))
        pair = int(self.facts * day / self.days / _FACTS_OF_PAIR) + rng.integers(
            0, window, meetings
        )
        once = rng.random(meetings) < _NEWCOMERS
        pair = np.where(once, rng.integers(2**40, 2**60, meetings), pair)
        pair = pair[rng.integers(0, meetings, count)]
        subject, relation, object_ = self._members(pair, _QUARTERS * day // self.days)
        first = relation - relation % _FAMILY
        size = np.minimum(_FAMILY, self.relations - first)
        other = first + (size * rng.random(count)).astype(np.int64)
        relation = np.where(rng.random(count) < _FAVORITE, relation, other)
        events = np.stack([subject, relation, object_], axis=1)
        reply = rng.random(count) < _REPLIES
        return np.where(reply[:, None], events[:, [2, 1, 0]], events)

    def _members(self, pair: Ids, quarter: int) -> tuple[Ids, Ids, Ids]:
        """The subject, the relation and the object of pairs, [n] each."""
        draws = [_noise(pair, 8 * self.seed + column) for column in range(4)]
        # The first ids are frequent.
        subject = self._popular(draws[0])
        relation = (self.relations * draws[1] ** 2).astype(np.int64)
        communities = max(1, self.entities // _COMMUNITY)
        leads = _noise(_QUARTERS * relation + quarter, 8 * self.seed + 4)
        community = (subject + 1 + (_NEIGHBORS * leads).astype(np.int64)) % communities
        members = (self.entities - 1 - community) // communities + 1
        neighbor = community + communities * (members * draws[2] ** 3).astype(np.int64)
        stranger = self._popular(np.minimum(draws[3] / _STRANGERS, 1))
        return subject, relation, np.where(draws[3] < _STRANGERS, stranger, neighbor)

    def _popular(self, draw: NDArray[np.float64]) -> Ids:
        """Entities of which number e is drawn with a frequency of about 1 / (e + _HEAD)."""
        entity = _HEAD * ((1 + self.entities / _HEAD) ** draw - 1)
        return np.minimum(entity.astype(np.int64), self.entities - 1)


def _noise(number: Ids, stream: int) -> NDArray[np.float64]:
    """A number from [0, 1) for each whole number, always the same one (SplitMix64)."""
    word = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    word += np.uint64((stream * 0xD1B54A32D192ED03) % 2**64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (word ^ (word >> np.uint64(31))).astype(np.float64) / 2.0**64
