"""The words of names, to find names by words, by parts of words and by misspelled words."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.word_trigrams import WordTrigrams, letters_of

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_WORD: Final = re.compile(r"[^\W_]+")
_LAST: Final = "\U0010ffff"
"""Comes after all letters."""
_MAX_WORDS: Final = 8
"""Words of a text; a longer text has no misspelled words."""
_MAX_LETTERS: Final = 32
_UNTYPED_LETTER: Final = 0.01
"""What a letter beyond the typed ones adds to the number of edits: full words come first."""
_FEW: Final = 5000
"""So many names are read one by one."""
_MANY: Final = 10
"""Of more than a tenth of all words, names are found faster by going through all words."""
_INSIDE, _AFTER_BLANK, _FIRST = range(3)
"""Where a word of a name stands: after a sign such as a bracket, after a blank, at the start."""


class WordIndex:
    """The distinct words of `names`, which are folded. Names are known by their index."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        words, name_ids, positions = _find_words(names)
        self._vocabulary = sorted(set(words))
        numbers = {word: number for number, word in enumerate(self._vocabulary)}
        word_ids = np.array([numbers[word] for word in words], np.int32)
        by_word = np.argsort(word_ids, kind="stable")
        self._name_ids, self._positions = name_ids[by_word], positions[by_word]
        self._sizes = np.bincount(word_ids, minlength=len(numbers))
        self._first_name = np.append(0, np.cumsum(self._sizes))
        self._trigrams = WordTrigrams(self._vocabulary)
        lengths = self._trigrams.counts[word_ids]
        self._name_trigrams = np.bincount(name_ids, lengths, len(names))

    def at_start(self, word: str, whole: bool) -> Mask:
        """Which names start with a word without blanks; other letters may follow unless `whole`."""
        if _is_plain(word):
            names, positions = self._places(word, word if whole else word + _LAST)
            return self._mask(names[positions == _FIRST])
        return self._filter(self.containing(word), lambda name: name.startswith(word))

    def after_blank(self, word: str) -> Mask:
        """Which names have a word without blanks after a blank or at the start."""
        if _is_plain(word):
            names, positions = self._places(word, word + _LAST)
            return self._mask(names[positions != _INSIDE])
        return self._filter(self.containing(word), lambda name: f" {word}" in f" {name}")

    def containing(self, word: str) -> Mask:
        """Which names contain a word without blanks, also inside longer words."""
        found = np.ones(len(self._names), bool)
        for part in _WORD.findall(word):
            contain = self._trigrams.containing(part)
            words = np.flatnonzero(contain)
            if _MANY * len(words) < len(contain):
                found &= self._mask(self._names_of(words))
            else:
                found &= self._mask(self._name_ids[np.repeat(contain, self._sizes)])
        return found if _is_plain(word) else self._filter(found, lambda name: word in name)

    def containing_all(self, words: Sequence[str]) -> Integers:
        """The names that contain each of some words without blanks, at least one."""
        first, *others = sorted(words, key=len, reverse=True)
        found = np.flatnonzero(self.containing(first))
        for word in others:
            if len(found) > _FEW:
                found = found[self.containing(word)[found]]
            else:
                kept = [word in self._names[name_id] for name_id in found.tolist()]
                found = found[np.array(kept, bool)]
        return found

    def edits(self, text: str) -> NDArray[np.float32]:
        """The letters to change in a text so that its words start words of each name, [names].

        A change adds, removes or replaces a letter, or swaps two neighbors. A word of 3 to 5
        letters may have one change and a longer one two; infinite if a name needs more.
        """
        words = _short_words(text)
        if not 0 < len(words) <= _MAX_WORDS:
            return np.full(len(self._names), np.inf, np.float32)
        total = np.zeros(len(self._names), np.float32)
        for word in words:
            total += self._edits_of_word(word)
        return total

    def similar(self, text: str, count: int) -> list[int]:
        """The names whose words share the largest part of their trigrams with those of a text."""
        typed = self._trigrams.of(_short_words(text)[:_MAX_WORDS])
        words, shared = self._trigrams.sharing(typed)
        names = self._names_of(words)
        close, member = np.unique(names, return_inverse=True)
        common = np.bincount(member, np.repeat(shared, self._sizes[words]), len(close))
        similarity = common / (self._name_trigrams[close] + len(typed) - common)
        best: list[int] = close[np.lexsort((close, -similarity))[:count]].tolist()
        return best

    def _edits_of_word(self, word: str) -> NDArray[np.float32]:
        candidates, _ = self._trigrams.sharing(self._trigrams.of([word]))
        prefix, whole = self._distances(word, candidates)
        close = prefix <= (0 if len(word) < 3 else 1 if len(word) <= 5 else 2)
        cost = (prefix + _UNTYPED_LETTER * whole).astype(np.float32)[close]
        matched = candidates[close]
        best = np.full(len(self._names), np.inf, np.float32)
        np.minimum.at(best, self._names_of(matched), np.repeat(cost, self._sizes[matched]))
        return best

    def _distances(
        self, word: str, candidates: Integers
    ) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
        """Edits from a word to the closest prefix of each candidate, and to the whole, [n] each.

        These are optimal string alignment distances, for all candidates at a time. An insertion
        depends on the column before, which the running minimum of (distance - column) resolves.
        """
        letters, lengths = self._trigrams.letters(candidates, _MAX_LETTERS)
        typed = letters_of(word)
        column = np.arange(letters.shape[1] + 1, dtype=np.int16)
        before, row = np.zeros((2, len(candidates), len(column)), np.int16)
        row[:] = column
        for index, letter in enumerate(typed):
            new = row + np.int16(1)
            new[:, 1:] = np.minimum(new[:, 1:], row[:, :-1] + (letters != letter))
            if index:
                swapped = (letters[:, :-1] == letter) & (letters[:, 1:] == typed[index - 1])
                new[:, 2:] = np.where(
                    swapped, np.minimum(new[:, 2:], before[:, :-2] + np.int16(1)), new[:, 2:]
                )
            new = column + np.minimum.accumulate(new - column, axis=1)
            before, row = row, new
        return row.min(axis=1), row[np.arange(len(row)), lengths]

    def _names_of(self, words: Integers) -> NDArray[np.int32]:
        """The names with some words, word by word."""
        return self._name_ids[_ranges(self._first_name[words], self._first_name[words + 1])]

    def _places(self, first: str, last: str) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        """The names with each word from the first to the last, and where these stand in them."""
        start = self._first_name[bisect_left(self._vocabulary, first)]
        stop = self._first_name[bisect_right(self._vocabulary, last)]
        return self._name_ids[start:stop], self._positions[start:stop]

    def _filter(self, found: Mask, holds: Callable[[str], bool]) -> Mask:
        """Which of some names a condition holds for."""
        name_ids = np.flatnonzero(found)
        kept = [holds(self._names[name_id]) for name_id in name_ids.tolist()]
        return self._mask(name_ids[np.array(kept, bool)])

    def _mask(self, name_ids: NDArray[np.integer]) -> Mask:
        found = np.zeros(len(self._names), bool)
        found[name_ids] = True
        return found


def _find_words(names: Sequence[str]) -> tuple[list[str], NDArray[np.int32], NDArray[np.int8]]:
    """All words of names one after the other, their names, and where they stand in them."""
    text = "\n".join([*names, ""])
    codes = letters_of(text)
    present = np.zeros(0x110000, bool)
    present[codes] = True
    is_letter = np.zeros(len(present), bool)
    for code in np.flatnonzero(present).tolist():
        is_letter[code] = _WORD.match(chr(code)) is not None
    inside = is_letter[codes]
    starts = np.flatnonzero(inside & ~np.append(False, inside[:-1]))
    lengths = np.fromiter(map(len, names), np.int64, len(names)) + 1
    first = np.cumsum(lengths) - lengths
    name_ids = np.searchsorted(first, starts, side="right") - 1
    at_start = first[name_ids] == starts
    # The letter before the first one does not matter: it is at the start of a name.
    after_blank = codes[starts - 1] == ord(" ")
    positions = np.where(at_start, _FIRST, np.where(after_blank, _AFTER_BLANK, _INSIDE))
    return _WORD.findall(text), name_ids.astype(np.int32), positions.astype(np.int8)


def _is_plain(word: str) -> bool:
    """Whether a word is all letters and digits."""
    return _WORD.fullmatch(word) is not None


def _short_words(text: str) -> list[str]:
    return [word[:_MAX_LETTERS] for word in _WORD.findall(text)]


def _ranges(first: Integers, last: Integers) -> Integers:
    """All integers from each `first` up to its `last`, which is left out."""
    sizes = last - first
    start = np.cumsum(sizes) - sizes
    integers: Integers = np.arange(sizes.sum()) + np.repeat(first - start, sizes)
    return integers
