"""Invented names for the demo world: countries, offices, bodies, movements and people."""

from __future__ import annotations

import tomllib
from importlib import resources
from itertools import product
from typing import Final

import numpy as np

_FILE: Final = resources.files("tempograph") / "data" / "synthetic" / "entity_names.toml"


def entity_names(rng: np.random.Generator, count: int) -> tuple[tuple[str, ...], int]:
    """The names of `count` entities, and how many of them exist at all steps.

    Those that exist at all steps come first, movements and people last.
    """
    words = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    lands = _draw(rng, _spell(**words["land"]), 1 + count // 12)
    pairs = product(words["bodies"], words["concerns"])
    bodies = _draw(rng, [f"{body} of {concern}" for body, concern in pairs], count // 30)
    lasting = (
        lands + bodies + [office.format(land) for office in words["offices"] for land in lands]
    )
    passing = [movement.format(land) for movement in words["movements"] for land in lands]
    pairs = product(_spell(**words["given_name"]), _spell(**words["family_name"]))
    people = [f"{given} {family}" for given, family in pairs]
    names = lasting + passing + _draw(rng, people, max(0, count - len(lasting) - len(passing)))
    return tuple(names[:count]), min(count, len(lasting))


def _spell(starts: str, ends: str) -> list[str]:
    return [start + end for start, end in product(starts.split(), ends.split())]


def _draw(rng: np.random.Generator, pool: list[str], count: int) -> list[str]:
    """`count` distinct names in random order, numbered if the pool is too small."""
    order = rng.permutation(len(pool))
    rounds = (divmod(number, len(pool)) for number in range(count))
    return [pool[order[at]] + (f" ({turn + 1})" if turn else "") for turn, at in rounds]
