"""The relations of the demo world and the rules of its facts, read from rules.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Final, Literal

Kind = Literal["recurring", "periodic", "reciprocal", "chain", "noise"]

_FILE: Final = resources.files("tempograph") / "data" / "synthetic" / "rules.toml"
_TABLES: Final = tomllib.loads(_FILE.read_text(encoding="utf-8"))

RELATIONS: Final[tuple[str, ...]] = tuple(_TABLES["relations"])
BURSTS: Final[dict[str, tuple[int, int]]] = {
    relation: (facts, episodes) for relation, (facts, episodes) in _TABLES["bursts"].items()
}
"""Facts of an episode and episodes of a pair, by relation."""


@dataclass(frozen=True)
class Rule:
    """The rule that produces a fact.

    A reciprocal or chain fact follows a fact of the relation `cause` after `lag` steps with
    the given `probability`; if `inverted`, with subject and object swapped. Recurring and periodic
    facts follow earlier ones of their own relation, periodic ones every `lag` steps, give or take
    one. Noise follows nothing.
    """

    kind: Kind
    relation: int
    cause: int | None
    lag: int | None = None
    inverted: bool = False
    probability: float = 1.0


def relation_names(count: int) -> tuple[str, ...]:
    """The names of `count` relations, numbered from the second round of them on."""
    rounds = (divmod(number, len(RELATIONS)) for number in range(count))
    return tuple(f"{RELATIONS[at]} ({turn + 1})" if turn else RELATIONS[at] for turn, at in rounds)


def make_rules(relations: int) -> tuple[Rule, ...]:
    """The rules of the first `relations` relations, repeated for every round of names."""
    rules: list[Rule] = []
    for first in range(0, relations, len(RELATIONS)):
        ids = {
            name: relation for relation, name in enumerate(RELATIONS, first) if relation < relations
        }
        rules += [Rule("recurring", ids[name], ids[name]) for name in BURSTS if name in ids]
        rules += [
            Rule("periodic", ids[name], ids[name], period)
            for name, period in _TABLES["periods"].items()
            if name in ids
        ]
        rules += [
            Rule(kind, ids[name], ids[cause], lag, inverted, probability)
            for kind, cause, name, lag, inverted, probability in _TABLES["consequences"]
            if cause in ids and name in ids
        ]
    return (*rules, *(Rule("noise", relation, None) for relation in range(relations)))
