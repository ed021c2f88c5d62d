"""Three letters in a row, to find words that contain others or are spelled like them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Letters = NDArray[np.uint32]

_SHIFT: Final = 21
"""The bits of a letter."""
_BEFORE: Final = "  "
_AFTER: Final = "  "
"""With two blanks after a word, each of its letters starts a trigram."""
_MAX_CANDIDATES: Final = 2000
"""Words to compare with a misspelled one: those that share the most trigrams."""


class WordTrigrams:
    """The trigrams of distinct words, which are known by their index."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._lengths = np.fromiter(map(len, words), np.int64, len(words))
        self._first_letter = np.cumsum(self._lengths) - self._lengths
        self._letters = letters_of("".join(words))
        trigrams, owners = _trigrams(words)
        by_trigram = np.argsort(trigrams, kind="stable")
        self._trigrams, self._owners = trigrams[by_trigram], owners[by_trigram]
        self.counts = self._lengths + 1
        """The number of trigrams of each word that `of` returns, [words]."""

    def of(self, words: Sequence[str]) -> Integers:
        """The distinct trigrams of some words, the blank before and after them included."""
        found = [_trigrams([word])[0][:-1] for word in words]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def sharing(self, trigrams: Integers) -> tuple[Integers, Integers]:
        """The words that share the most trigrams with some, and how many they share."""
        owners = [self._owners[self._range(trigram)] for trigram in trigrams.tolist()]
        words, shared = np.unique(
            np.concatenate([np.empty(0, np.int32), *owners]), return_counts=True
        )
        if len(words) > _MAX_CANDIDATES:
            best = np.argpartition(-shared, _MAX_CANDIDATES)[:_MAX_CANDIDATES]
            words, shared = words[best], shared[best]
        return words.astype(np.int64), shared

    def containing(self, part: str) -> NDArray[np.bool_]:
        """Which words contain a part, [words]."""
        contain = np.zeros(len(self._words), bool)
        codes = letters_of(part).tolist()
        if len(codes) < 3:
            low = sum(code << _SHIFT * (2 - index) for index, code in enumerate(codes))
            width = 1 << _SHIFT * (3 - len(codes))
            first, last = np.searchsorted(self._trigrams, [low, low + width])
            contain[self._owners[first:last]] = True
            return contain
        inside = _trigrams([part])[0][len(_BEFORE) : -len(_AFTER)]
        lists = [self._owners[self._range(trigram)] for trigram in inside.tolist()]
        lists.sort(key=len)
        found = np.unique(lists[0])
        for owners in lists[1:]:
            at = np.searchsorted(owners, found)
            found = found[owners[np.minimum(at, len(owners) - 1)] == found]
        contain[[word for word in found.tolist() if part in self._words[word]]] = True
        return contain

    def letters(self, words: Integers, most: int) -> tuple[Letters, Integers]:
        """The first letters of some words, [words, at most `most`], and how many each has.

        What lies behind the end of a word is 0.
        """
        lengths = np.minimum(self._lengths[words], most)
        columns = np.arange(max(1, lengths.max(initial=1)))
        inside = columns < lengths[:, None]
        positions = np.where(inside, self._first_letter[words][:, None] + columns, 0)
        if not len(self._letters):
            return np.zeros(positions.shape, np.uint32), lengths
        return np.where(inside, self._letters[positions], np.uint32(0)), lengths

    def _range(self, trigram: int) -> slice:
        first, last = np.searchsorted(self._trigrams, [trigram, trigram + 1])
        return slice(int(first), int(last))


def letters_of(text: str) -> Letters:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _trigrams(words: Sequence[str]) -> tuple[Integers, NDArray[np.int32]]:
    """Three letters in a row as one number, and the index of their word."""
    lengths = np.fromiter(map(len, words), np.int64, len(words)) + len(_BEFORE) + len(_AFTER)
    owners = np.repeat(np.arange(len(words), dtype=np.int32), lengths)
    letters = letters_of("".join(f"{_BEFORE}{word}{_AFTER}" for word in words)).astype(np.int64)
    within = owners[:-2] == owners[2:]
    trigrams = (letters[:-2] << 2 * _SHIFT) | (letters[1:-1] << _SHIFT) | letters[2:]
    return trigrams[within], owners[:-2][within]
