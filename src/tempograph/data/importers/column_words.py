"""The words in the name of a column."""

from __future__ import annotations


def plain_words(name: str) -> list[str]:
    """The words of a column's name, in lower case and without signs."""
    return "".join(sign if sign.isalnum() else " " for sign in name.lower()).split()
