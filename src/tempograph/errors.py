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


def did_you_mean(value: str, known: Iterable[str], most: int = 3) -> str:
    """A clause for the end of an error message that offers the names closest to a mistyped one, or nothing."""
    names = list(dict.fromkeys(known))
    folded = value.casefold()
    inside = sorted((name for name in names if folded and folded in name.casefold()), key=len)
    matches = list(dict.fromkeys(inside[:most] + difflib.get_close_matches(value, names, n=most, cutoff=0.6)))[:most]
    if not matches:
        return ""
    quoted = [f"'{match}'" for match in matches]
    return (
        "; did you mean " + (" or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]) + "?"
    )
