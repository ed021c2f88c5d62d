"""Suggestions for misspelled names: "did you mean 'visit'?"."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence

from tempograph.errors import ConfigError, TempographError


def fold(text: str) -> str:
    """The text without case and accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()


def closest_names(value: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """Names that contain the value, then names spelled like it, else names with a similar word.

    Case and accents do not matter. `NameIndex.closest` selects the entities to compare.
    """
    folded = fold(value)
    by_fold: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        by_fold.setdefault(fold(name), []).append(name)
    containing = sorted((name for name in by_fold if folded and folded in name), key=len)
    similar = difflib.get_close_matches(folded, by_fold, n=limit, cutoff=0.6)
    matches = dict.fromkeys(containing[:limit] + similar)
    if not matches:
        words = {word: name for name in by_fold for word in name.split()}
        similar = difflib.get_close_matches(folded, words, n=limit, cutoff=0.7)
        matches = dict.fromkeys(words[word] for word in similar)
    return [name for match in matches for name in by_fold[match]][:limit]


def suggest(names: Sequence[str]) -> str:
    """The end of an error message that offers names: "; did you mean 'a' or 'b'?"."""
    if not names:
        return ""
    *others, last = (f"'{name}'" for name in names)
    return f"; did you mean {' or '.join([', '.join(others), last] if others else [last])}?"


def did_you_mean(value: str, names: Iterable[str]) -> str:
    """The end of an error message that offers the names closest to a misspelled one, if any."""
    return suggest(closest_names(value, names))


def refuse_unknown(
    what: str, name: str, names: Iterable[str], error: type[TempographError] = ConfigError
) -> None:
    """Raise an error with suggestions unless the name is among `names`."""
    known = list(names)
    if name not in known:
        offer = did_you_mean(name, known) or f"; choose from {', '.join(known)}"
        raise error(f"there is no {what} '{name}'{offer}")
