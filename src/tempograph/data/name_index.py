"""Look-up and search of entity and relation names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempograph.data.suggestions import closest_names, fold
from tempograph.data.word_index import WordIndex

_MAX_SIMILAR: Final = 30
_MAX_LETTERS: Final = 100
_MAX_WORDS: Final = 32
_FREQUENT: Final = 1000
"""How many names, the most frequent ones, are looked through before the index is."""


class NameMatch(NamedTuple):
    """A name that a search found, and the number of facts it occurs in."""

    name: str
    facts: int


class NameIndex:
    """An index of entity or relation names; `counts` [names] is the number of facts of each.

    What a search needs is built when it is first needed, within ten seconds for a million names.
    """

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
        ranks = self._spelled(" ".join(fold(name).split()))
        matches = self._by_count[ranks].tolist()
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
        found = dict.fromkeys(self._spelled(start))
        for group in self._groups(start, words, limit):
            if len(found) >= limit:
                break
            found |= dict.fromkeys(group)
        if not found:
            found = dict.fromkeys(self._misspelled(start, limit))
        return [
            NameMatch(self.names[name_id], int(self.counts[name_id]))
            for name_id in self._by_count[list(found)[:limit]].tolist()
        ]

    def _groups(self, start: str, words: Sequence[str], limit: int) -> Iterator[list[int]]:
        """The ranks of names that start with a text, have its words at the start of words, or
        contain them; the last ones take longest to find.
        """
        if not words:
            yield list(range(min(limit, len(self.names))))
            return
        words_start = self._words.after_blank(words[0])
        for word in words[1:]:
            words_start &= self._words.after_blank(word)
        at_start = words_start & self._words.at_start(words[0], whole=len(words) > 1)
        ranks = np.flatnonzero(at_start).tolist()
        begins = (rank for rank in ranks if self._folded[rank].startswith(start))
        yield list(islice(begins, limit))
        yield np.flatnonzero(words_start).tolist()
        # Many names may contain the words: then the most frequent ones are enough.
        frequent = [
            rank
            for rank, name in enumerate(self._folded[:_FREQUENT])
            if all(word in name for word in words)
        ]
        enough = len(frequent) >= 2 * limit
        yield frequent if enough else self._words.containing_all(words).tolist()

    def _misspelled(self, text: str, limit: int) -> list[int]:
        """The ranks of names whose words are spelled like those of a folded text."""
        edits = self._words.edits(text)
        matches = np.flatnonzero(np.isfinite(edits))
        best: list[int] = matches[np.argsort(edits[matches], kind="stable")[:limit]].tolist()
        return best

    def closest(self, name: str) -> list[str]:
        """The names closest to one that does not exist, at most three, as `closest_names`."""
        name = name[:_MAX_LETTERS]
        containing = [match.name for match in self.search(name, _MAX_SIMILAR)] if name else []
        ranks = self._words.similar(fold(name), _MAX_SIMILAR)
        similar = [self.names[name_id] for name_id in self._by_count[ranks].tolist()]
        return closest_names(name, [*containing, *similar])

    def prepare(self) -> None:
        """Build what searches need, so that the first one does not wait for it."""
        self.find("")
        self.closest("a")

    def _spelled(self, folded: str) -> list[int]:
        """The ranks of the names that are a folded text, apart from blanks."""
        hashes, ranks = self._by_hash
        wanted = hash(folded)
        first, last = np.searchsorted(hashes, wanted), np.searchsorted(hashes, wanted, "right")
        found = ranks[first:last].tolist()
        return [rank for rank in found if " ".join(self._folded[rank].split()) == folded]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: name_id for name_id, name in enumerate(self.names)}

    @cached_property
    def _by_count(self) -> NDArray[np.int64]:
        """The ids of names by rank, which counts from the most frequent one."""
        return np.argsort(-self.counts, kind="stable")

    @cached_property
    def _folded(self) -> list[str]:
        """The folded names by rank."""
        return [fold(self.names[name_id]) for name_id in self._by_count.tolist()]

    @cached_property
    def _by_hash(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sorted hashes of folded names, and the rank of each: less memory than a dict."""
        hashes = np.array([hash(" ".join(name.split())) for name in self._folded], np.int64)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order

    @cached_property
    def _words(self) -> WordIndex:
        """The words of the folded names by rank."""
        return WordIndex(self._folded)
