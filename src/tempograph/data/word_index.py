"""The words of names, to find names by misspelled words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_WORD: Final = re.compile(r"[^\W_]+")
_MAX_WORDS: Final = 8
"""Words of a text; a longer text matches nothing."""
_MAX_LETTERS: Final = 32
_MAX_CANDIDATES: Final = 2000
"""Words to compare letter by letter: those that share the most trigrams."""
_UNTYPED_LETTER: Final = 0.01
"""What a letter beyond the typed ones adds to the number of edits: full words come first."""


class WordIndex:
    """The distinct words of `names`, which are folded, by their trigrams."""

    def __init__(self, names: Sequence[str]) -> None:
        self._num_names = len(names)
        words_of_names = [_words(name) for name in names]
        ids: dict[str, int] = {}
        word_ids = [ids.setdefault(word, len(ids)) for words in words_of_names for word in words]
        name_ids = np.repeat(np.arange(len(names)), list(map(len, words_of_names)))
        by_word = np.argsort(np.array(word_ids, np.int64), kind="stable")
        self._name_ids = name_ids[by_word]
        self._first_name = np.searchsorted(np.array(word_ids)[by_word], np.arange(len(ids) + 1))
        self._lengths = np.array(list(map(len, ids)), np.int64)
        self._letters = _letters("".join(ids))
        self._first_letter = np.cumsum(self._lengths) - self._lengths
        trigrams, owners = _trigrams(list(ids))
        by_trigram = np.argsort(trigrams, kind="stable")
        self._trigrams, self._owners = trigrams[by_trigram], owners[by_trigram]

    def edits(self, text: str) -> NDArray[np.float32]:
        """The letters to change in a text so that its words start words of each name, [names].

        A change adds, removes or replaces a letter, or swaps two neighbors. A word of 3 to 5
        letters may have one change and a longer one two; infinite if a name needs more.
        """
        words = _words(text)
        if not 0 < len(words) <= _MAX_WORDS:
            return np.full(self._num_names, np.inf, np.float32)
        total = np.zeros(self._num_names, np.float32)
        for word in words:
            total += self._edits_of_word(word)
        return total

    def _edits_of_word(self, word: str) -> NDArray[np.float32]:
        candidates = self._sharing_trigrams(word)
        prefix, whole = self._distances(word, candidates)
        close = prefix <= (0 if len(word) < 3 else 1 if len(word) <= 5 else 2)
        cost = (prefix + _UNTYPED_LETTER * whole).astype(np.float32)[close]
        matched = candidates[close]
        first, last = self._first_name[matched], self._first_name[matched + 1]
        best = np.full(self._num_names, np.inf, np.float32)
        names = self._name_ids[_ranges(first, last)]
        np.minimum.at(best, names, np.repeat(cost, last - first))
        return best

    def _sharing_trigrams(self, word: str) -> NDArray[np.int64]:
        """The ids of the words that share the most trigrams with a word."""
        trigrams = np.unique(_trigrams([word])[0])
        first = np.searchsorted(self._trigrams, trigrams)
        last = np.searchsorted(self._trigrams, trigrams, "right")
        words, shared = np.unique(self._owners[_ranges(first, last)], return_counts=True)
        if len(words) <= _MAX_CANDIDATES:
            return words
        return words[np.argpartition(-shared, _MAX_CANDIDATES)[:_MAX_CANDIDATES]]

    def _distances(
        self, word: str, candidates: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Edits from a word to the closest prefix of each candidate, and to the whole, [n] each.

        These are optimal string alignment distances, for all candidates at a time. An insertion
        depends on the column before, which the running minimum of (distance - column) resolves.
        """
        lengths = self._lengths[candidates]
        columns = np.arange(max(1, lengths.max(initial=1)))
        inside = columns < lengths[:, None]
        positions = np.where(inside, self._first_letter[candidates][:, None] + columns, 0)
        letters = np.where(inside, self._letters[positions], 0)
        typed = _letters(word)
        column = np.arange(letters.shape[1] + 1)
        before, row = np.zeros((2, len(candidates), len(column)), np.int64)
        row[:] = column
        for index, letter in enumerate(typed):
            new = row + 1
            new[:, 1:] = np.minimum(new[:, 1:], row[:, :-1] + (letters != letter))
            if index:
                swapped = (letters[:, :-1] == letter) & (letters[:, 1:] == typed[index - 1])
                new[:, 2:] = np.where(
                    swapped, np.minimum(new[:, 2:], before[:, :-2] + 1), new[:, 2:]
                )
            new = column + np.minimum.accumulate(new - column, axis=1)
            before, row = row, new
        return row.min(axis=1), row[np.arange(len(row)), lengths]


def _words(text: str) -> list[str]:
    return [word[:_MAX_LETTERS] for word in _WORD.findall(text)]


def _letters(text: str) -> NDArray[np.int64]:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64)


def _trigrams(words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Three letters in a row as one number, and the index of their word; words are padded."""
    padded = [f"  {word} " for word in words]
    owners = np.repeat(np.arange(len(words)), list(map(len, padded)))
    letters = _letters("".join(padded))
    within = owners[:-2] == owners[2:]
    trigrams = (letters[:-2] << 42) | (letters[1:-1] << 21) | letters[2:]
    return trigrams[within], owners[:-2][within]


def _ranges(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """All integers from each `first` up to its `last`, which is left out."""
    sizes = last - first
    start = np.cumsum(sizes) - sizes
    integers: NDArray[np.int64] = np.arange(sizes.sum()) + np.repeat(first - start, sizes)
    return integers
