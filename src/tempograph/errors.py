"""One family of errors for every mistake a user can make: each names the thing, the value and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TempographError(Exception):
    """A mistake that one clear line explains; the command line prints that line and exits with code 2."""


class DataError(TempographError):
    """A dataset, or a file that should become one, is not what it should be."""


class ConfigError(TempographError):
    """A setting, model name or option does not exist or has a value it cannot take."""


class RunError(TempographError):
    """A run folder is missing, damaged or does not fit what is asked of it."""


class QueryError(TempographError):
    """A question names something the data do not know."""


class StorageError(TempographError):
    """Something could not be written; what was there before is untouched."""


def did_you_mean(value: str, known: Iterable[str]) -> str:
    """A clause for the end of an error message that offers the names closest to a mistyped one, or nothing."""
    matches = _closest(value, known)
    if not matches:
        return ""
    quoted = [f"'{match}'" for match in matches]
    return (
        f"; did you mean {', '.join(quoted[:-1])}{' or ' if len(quoted) > 1 else ''}{quoted[-1]}?"
    )


def _closest(value: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Names that hold the value, then names spelled like it, then names with a word spelled like it."""
    folded = value.casefold()
    spelled: dict[str, list[str]] = {}
    for name in dict.fromkeys(known):
        spelled.setdefault(name.casefold(), []).append(name)
    inside = sorted((name for name in spelled if folded and folded in name), key=len)
    alike = difflib.get_close_matches(folded, spelled, n=most, cutoff=0.6)
    found = dict.fromkeys(inside[:most] + alike)
    if not found:
        words = {word: name for name in spelled for word in name.split()}
        found = dict.fromkeys(
            words[word] for word in difflib.get_close_matches(folded, words, n=most, cutoff=0.7)
        )
    return [name for same in found for name in spelled[same]][:most]


def refuse_unknown(
    what: str, name: str, names: Iterable[str], error: type[TempographError] = ConfigError
) -> None:
    """Refuse a name that nothing goes by."""
    known = list(names)
    if name not in known:
        offer = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise error(f"there is no {what} '{name}'{offer}")
