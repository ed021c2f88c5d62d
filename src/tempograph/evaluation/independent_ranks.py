"""Filtered ranks computed a second time: raw files, plain Python, one candidate after another.

Nothing here uses the data code, the filter or the ranking of this package, so that an error in any
of them shows as a difference.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow.parquet

_SPLITS: Final = ("train", "valid", "test")

RawFact = tuple[int, int, int, int]
"""Ids of subject, relation, object and time."""


class SlowRank(NamedTuple):
    """The rank of one answer, computed by a loop over candidates."""

    rank: float
    """Filtered by time; ties share their mean rank."""
    rank_without_time: float
    """Filtered by the answers of any time."""
    near_ties: int
    """Candidates whose score is within rounding of the answer's, but not equal to it."""


class RawDataset:
    """The facts in the files of a dataset folder, and the known answers among them."""

    def __init__(self, folder: Path) -> None:
        self.facts = {split: _read_facts(folder, split) for split in _SPLITS}
        self._objects = defaultdict[tuple[int, int, int], set[int]](set)
        self._subjects = defaultdict[tuple[int, int, int], set[int]](set)
        self._objects_of_any_time = defaultdict[tuple[int, int], set[int]](set)
        self._subjects_of_any_time = defaultdict[tuple[int, int], set[int]](set)
        for facts in self.facts.values():
            for subject, relation, object_, time in facts:
                self._objects[subject, relation, time].add(object_)
                self._subjects[relation, object_, time].add(subject)
                self._objects_of_any_time[subject, relation].add(object_)
                self._subjects_of_any_time[relation, object_].add(subject)

    def rank(
        self, fact: RawFact, asks_subject: bool, scores: Sequence[float], rounding: float
    ) -> SlowRank:
        """The rank of a fact's object or subject, given the scores of all entities.

        Scores within `rounding` times the largest finite one count as nearly tied.
        """
        subject, relation, object_, time = fact
        if asks_subject:
            answer, known = subject, self._subjects[relation, object_, time]
            known_at_any_time = self._subjects_of_any_time[relation, object_]
        else:
            answer, known = object_, self._objects[subject, relation, time]
            known_at_any_time = self._objects_of_any_time[subject, relation]
        scale = max((abs(score) for score in scores if math.isfinite(score)), default=0.0)
        near = sum(
            score != scores[answer] and abs(score - scores[answer]) <= rounding * scale
            for candidate, score in enumerate(scores)
            if candidate not in known
        )
        return SlowRank(
            _rank(scores, answer, known), _rank(scores, answer, known_at_any_time), near
        )


def slow_metrics(ranks: Sequence[float]) -> dict[str, float]:
    """MRR and Hits@1, 3 and 10 of some ranks."""
    figures = {"mrr": math.fsum(1 / rank for rank in ranks) / len(ranks)}
    for k in (1, 3, 10):
        figures[f"hits@{k}"] = sum(rank <= k for rank in ranks) / len(ranks)
    return figures


def _rank(scores: Sequence[float], answer: int, known: set[int]) -> float:
    """1 + better candidates + half of the ties, among the answer and all that are not known."""
    better = ties = 0
    for candidate, score in enumerate(scores):
        if candidate == answer or candidate in known:
            continue
        better += score > scores[answer]
        ties += score == scores[answer]
    return 1 + better + ties / 2


def _read_facts(folder: Path, split: str) -> list[RawFact]:
    plain, packed = folder / f"{split}.tsv", folder / f"{split}.tsv.gz"
    if (columns := folder / f"{split}.parquet").exists():
        found = pyarrow.parquet.read_table(columns, use_threads=False).to_pylist()
        return [(row["subject"], row["relation"], row["object"], row["time"]) for row in found]
    with gzip.open(packed, "rt") if packed.exists() else plain.open() as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(int(s), int(r), int(o), int(t)) for s, r, o, t in rows]
