"""Invented names for the demo world: countries, offices, bodies, movements and people."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

# The beginnings and the endings of a name.
_LANDS: Final = (
    "Vel Dor Kas Mir Tal Ost Bren Lun Cal Zer Hal Quen Il Seph Tor Ar Nev Pel Rov Sol Ther Ul "
    "Wen Yar Bel Cor Eld Fen",
    "mora dria vane lund thea quor essa rune nesh lis ondo imar ostra enne ithia ovar eva orin usk "
    "alba irel oth elle",
)
_GIVEN: Final = ("Il Ta Ore Mav Se Ny Eli Ru Ka Jo Thi Bel", "vara lin nel sko dira meth ro vi")
_FAMILY: Final = ("Tess Orv Quill Hask Brim Dovr Lenk Marr Sild Vant", "en ikar ow aldi esk une")
_OFFICES: Final = (
    "President of {}",
    "Foreign Minister of {}",
    "Parliament of {}",
    "Central Bank of {}",
    "Armed Forces of {}",
    "High Court of {}",
)
_MOVEMENTS: Final = ("Reform Movement ({})", "Farmers' Union ({})")
_BODIES: Final = ("Assembly", "Council", "League", "Commission", "Forum", "Tribunal")
_CONCERNS: Final = (
    "the Northern Ports",
    "Shared Rivers",
    "Open Skies",
    "the Lantern Coast",
    "Grain and Salt",
)


def entity_names(rng: np.random.Generator, count: int) -> tuple[tuple[str, ...], int]:
    """The names of `count` entities, and how many of them exist at all steps.

    Those that exist at all steps come first, movements and people last.
    """
    lands = _draw(rng, _spell(*_LANDS), 1 + count // 12)
    bodies = _draw(
        rng, [f"{body} of {concern}" for body, concern in product(_BODIES, _CONCERNS)], count // 30
    )
    lasting = lands + bodies + [office.format(land) for office in _OFFICES for land in lands]
    passing = [movement.format(land) for movement in _MOVEMENTS for land in lands]
    people = [f"{given} {family}" for given, family in product(_spell(*_GIVEN), _spell(*_FAMILY))]
    names = lasting + passing + _draw(rng, people, max(0, count - len(lasting) - len(passing)))
    return tuple(names[:count]), min(count, len(lasting))


def _spell(starts: str, ends: str) -> list[str]:
    return [start + end for start, end in product(starts.split(), ends.split())]


def _draw(rng: np.random.Generator, pool: list[str], count: int) -> list[str]:
    """`count` distinct names in random order, numbered if the pool is too small."""
    order = rng.permutation(len(pool))
    return [
        _numbered(pool[order[number % len(pool)]], number // len(pool)) for number in range(count)
    ]


def _numbered(name: str, rounds: int) -> str:
    return f"{name} ({rounds + 1})" if rounds else name
