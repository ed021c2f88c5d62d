"""Names found by a few letters, or by a spelling that is nearly right."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Names:
    """The names of entities or of relations; `counts` [names] says in how many facts each is."""

    def __init__(self, names: Sequence[str], counts: NDArray[np.int64]) -> None:
        self.names = names
        self.counts = counts
        self._ids = {name: number for number, name in enumerate(names)}
        self._by_case: dict[str, int] = {}
        for number, name in enumerate(names):
            # A spelling that two names share leaves a doubt, so neither is meant.
            self._by_case[name.casefold()] = -1 if name.casefold() in self._by_case else number
        self._folded = [
            (fold(names[number]), int(number)) for number in np.argsort(-counts, kind="stable")
        ]
        self._by_fold: dict[str, list[int]] = {}
        for name, number in self._folded:
            self._by_fold.setdefault(" ".join(name.split()), []).append(number)
        holders: dict[str, list[int]] = {}
        self._num_triples = np.ones(len(names))
        for name, number in self._folded:
            own = _triples(name)
            self._num_triples[number] = len(own)
            for triple in own:
                holders.setdefault(triple, []).append(number)
        self._with_triple = {triple: np.array(numbers) for triple, numbers in holders.items()}

    def id(self, name: str) -> int | None:
        """The id behind a name; case may differ where that leaves no doubt."""
        if name in self._ids:
            return self._ids[name]
        number = self._by_case.get(name.casefold(), -1)
        return None if number < 0 else number

    def search(self, text: str, most: int) -> list[dict[str, Any]]:
        """Names that hold all words of a text: itself first, then those it begins, then those with a word it begins.

        Among equals, those with more facts come first.
        """
        wanted = fold(text).split()
        start = " ".join(wanted)
        inside = self._folded
        for word in wanted:
            inside = [(name, number) for name, number in inside if word in name]
        ranked: tuple[list[int], list[int], list[int]] = ([], [], [])
        for name, number in inside:
            place = (
                0
                if name.startswith(start)
                else 1
                if all(f" {word}" in f" {name}" for word in wanted)
                else 2
            )
            ranked[place].append(number)
            if len(ranked[0]) == most:
                break
        itself = self._by_fold.get(start, [])
        found = [
            *itself,
            *(number for numbers in ranked for number in numbers if number not in itself),
        ][:most]
        return [{"name": self.names[number], "facts": int(self.counts[number])} for number in found]

    def like(self, name: str, most: int = 3) -> list[str]:
        """The names spelled most like one that is not there, by the letter triples that they share."""
        shared = np.zeros(len(self.names))
        triples = _triples(fold(name)[:100])
        for triple in triples:
            shared[self._with_triple.get(triple, [])] += 1
        alike = shared / (self._num_triples + len(triples) - shared)
        best = np.argsort(-alike, kind="stable")[:most]
        return [self.names[number] for number in best if alike[number] > 0.2]


def fold(name: str) -> str:
    """A name without case and accents."""
    return "".join(
        char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char)
    ).casefold()


def _triples(name: str) -> set[str]:
    padded = f"  {name} "
    return {padded[place : place + 3] for place in range(len(padded) - 2)}
