"""Find the bin that contains a date, among labels such as 1926/1931 of joined time steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Final

_LABEL: Final = re.compile(r"(-?\d+)(.*)", re.DOTALL)


def find_bin(labels: Sequence[str], when: str | date) -> str | None:
    """The label of the bin that contains a date or an integer; None if no bin does."""
    text = when if isinstance(when, str) else when.isoformat()
    key = _key(text.strip())
    if key is None:
        return None
    for label in labels:
        first, _, last = label.partition("/")
        low, high = _key(first), _key(last or first)
        if low is None or high is None:
            return None
        # A date is compared as precisely as the label: 1931-05-04 is in 1931.
        within = (key[0], key[1][: len(low[1])])
        if low <= within <= high:
            return label
    return None


def _key(text: str) -> tuple[int, str] | None:
    """A year or an integer, and the rest of a label, in the order of time."""
    found = _LABEL.fullmatch(text)
    return (int(found[1]), found[2]) if found else None
