"""The relations of the demo world and the rules that bring its facts about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["recurring", "periodic", "reciprocal", "chain", "noise"]

RELATIONS: Final = (
    "visits",
    "hosts a visit from",
    "accuses",
    "denies an accusation by",
    "imposes sanctions on",
    "negotiates with",
    "signs an agreement with",
    "lifts sanctions on",
    "requests aid from",
    "promises aid to",
    "sends aid to",
    "praises",
    "threatens",
    "mobilises against",
    "agrees a ceasefire with",
    "appeals to",
    "mediates with",
    "criticises",
    "consults",
    "issues a statement on",
)

# Facts of an episode and episodes of a pair. Relations that start a chain come in single short
# bursts, so that the cause predicts what follows better than its own past does.
BURSTS: Final = {
    "visits": (1, 1),
    "accuses": (1, 1),
    "requests aid from": (1, 1),
    "threatens": (1, 1),
    "appeals to": (1, 1),
    "praises": (5, 2),
    "criticises": (5, 2),
    "negotiates with": (5, 2),
}
_PERIODS: Final = {"visits": 14, "consults": 7, "issues a statement on": 10, "mediates with": 18}

# Kind, cause, relation, lag, inverted, chance. A rule comes after those that produce its cause.
_CONSEQUENCES: Final[tuple[tuple[Kind, str, str, int, bool, float], ...]] = (
    ("reciprocal", "visits", "hosts a visit from", 0, True, 0.75),
    ("reciprocal", "visits", "hosts a visit from", 1, True, 0.15),
    ("chain", "accuses", "denies an accusation by", 1, True, 0.85),
    ("chain", "denies an accusation by", "imposes sanctions on", 2, True, 0.75),
    ("chain", "imposes sanctions on", "negotiates with", 3, True, 0.7),
    ("chain", "negotiates with", "signs an agreement with", 2, False, 0.3),
    ("chain", "signs an agreement with", "lifts sanctions on", 1, True, 0.6),
    ("chain", "requests aid from", "promises aid to", 1, True, 0.85),
    ("chain", "promises aid to", "sends aid to", 2, False, 0.75),
    ("reciprocal", "sends aid to", "praises", 1, True, 0.5),
    ("chain", "threatens", "mobilises against", 2, False, 0.7),
    ("chain", "mobilises against", "agrees a ceasefire with", 4, True, 0.6),
    ("reciprocal", "appeals to", "mediates with", 0, True, 0.7),
)


@dataclass(frozen=True)
class Rule:
    """The rule that produces a fact.

    A reciprocal or chain fact follows a fact of the relation `cause` after `lag` steps with
    probability `chance`; if `inverted`, with subject and object swapped. Recurring and periodic
    facts follow earlier ones of their own relation, periodic ones every `lag` steps, give or take
    one. Noise follows nothing.
    """

    kind: Kind
    relation: int
    cause: int | None
    lag: int | None = None
    inverted: bool = False
    chance: float = 1.0


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
            for name, period in _PERIODS.items()
            if name in ids
        ]
        rules += [
            Rule(kind, ids[name], ids[cause], lag, inverted, chance)
            for kind, cause, name, lag, inverted, chance in _CONSEQUENCES
            if cause in ids and name in ids
        ]
    return (*rules, *(Rule("noise", relation, None) for relation in range(relations)))
