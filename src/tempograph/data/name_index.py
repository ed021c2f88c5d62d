"""Look-up and search of entity and relation names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograph.data.suggestions import closest_names, fold
from tempograph.data.word_index import WordIndex

_MAX_SIMILAR: Final = 30
_MAX_LETTERS: Final = 100
_MAX_WORDS: Final = 32


class NameMatch(NamedTuple):
    """A name that a search found, and the number of facts it occurs in."""

    name: str
    facts: int


class NameIndex:
    """An index of entity or relation names; `counts` [names] is the number of facts of each."""

    def __init__(self, names: Sequence[str], counts: NDArray[np.int64]) -> None:
        self.names = names
        self.counts = counts

    def find_exact(self, name: str) -> int | None:
        """The id of a name in exactly this spelling, or None."""
        return self._ids.get(name)

    def find(self, name: str) -> int | None:
        """The id of a name, or None; case and accents may differ if the match is unique."""
        if name in self._ids:
            return self._ids[name]
        matches = self._by_fold.get(" ".join(fold(name).split()), [])
        if len(matches) > 1:
            matches = [
                name_id for name_id in matches if self.names[name_id].casefold() == name.casefold()
            ]
        return matches[0] if len(matches) == 1 else None

    def search(self, text: str, limit: int) -> list[NameMatch]:
        """Names that contain all words of a text, whatever their case and accents.

        The name itself comes first, then names that start with the text, then names whose words
        start with its words, then the rest; within each group, frequent names first. If no name
        contains them, the result is the names whose words are spelled like them, closest first.
        Only the first 32 different words count.
        """
        start = " ".join(fold(text).split())
        words = list(dict.fromkeys(start.split()))[:_MAX_WORDS]
        containing = self._folded
        for word in words:
            containing = [(name, name_id) for name, name_id in containing if word in name]
        groups: tuple[list[int], list[int], list[int]] = ([], [], [])
        for name, name_id in containing:
            starts_words = all(f" {word}" in f" {name}" for word in words)
            groups[0 if name.startswith(start) else 1 if starts_words else 2].append(name_id)
            if len(groups[0]) == limit:
                break
        found = dict.fromkeys([*self._by_fold.get(start, []), *groups[0], *groups[1], *groups[2]])
        found = found or dict.fromkeys(self._misspelled(start, limit))
        return [
            NameMatch(self.names[name_id], int(self.counts[name_id]))
            for name_id in list(found)[:limit]
        ]

    def _misspelled(self, text: str, limit: int) -> list[int]:
        """The ids of names whose words are spelled like those of a folded text."""
        edits = self._word_index.edits(text)
        matches = np.flatnonzero(np.isfinite(edits))
        order = np.lexsort((-self.counts[matches], edits[matches]))
        best: list[int] = matches[order[:limit]].tolist()
        return best

    def closest(self, name: str) -> list[str]:
        """The names closest to one that does not exist, at most three, as `closest_names`."""
        name = name[:_MAX_LETTERS]
        containing = [match.name for match in self.search(name, _MAX_SIMILAR)] if name else []
        return closest_names(name, [*containing, *self._share_trigrams(name)])

    def _share_trigrams(self, name: str) -> list[str]:
        """The names that share the largest part of their trigrams with a name."""
        trigrams = _trigrams(fold(name))
        shared = np.zeros(len(self.names))
        for trigram in trigrams:
            shared[self._names_with_trigram.get(trigram, [])] += 1
        similarity = shared / (self._num_trigrams + len(trigrams) - shared)
        best = np.argsort(-similarity, kind="stable")[:_MAX_SIMILAR]
        return [self.names[name_id] for name_id in best if shared[name_id]]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: name_id for name_id, name in enumerate(self.names)}

    @cached_property
    def _folded(self) -> list[tuple[str, int]]:
        """Folded names with their ids, frequent names first."""
        by_count = np.argsort(-self.counts, kind="stable").tolist()
        return [(fold(self.names[name_id]), name_id) for name_id in by_count]

    @cached_property
    def _by_fold(self) -> dict[str, list[int]]:
        ids: dict[str, list[int]] = {}
        for name, name_id in self._folded:
            ids.setdefault(" ".join(name.split()), []).append(name_id)
        return ids

    @cached_property
    def _word_index(self) -> WordIndex:
        return WordIndex([fold(name) for name in self.names])

    @cached_property
    def _names_with_trigram(self) -> dict[str, NDArray[np.int64]]:
        ids: dict[str, list[int]] = {}
        for name, name_id in self._folded:
            for trigram in _trigrams(name):
                ids.setdefault(trigram, []).append(name_id)
        return {trigram: np.array(each) for trigram, each in ids.items()}

    @cached_property
    def _num_trigrams(self) -> NDArray[np.float64]:
        return np.array([len(_trigrams(fold(name))) for name in self.names], np.float64)


def _trigrams(name: str) -> set[str]:
    padded = f"  {name} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}
