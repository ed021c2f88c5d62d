"""Scores of many candidates without a matrix: those that differ from the rest, and the rest."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import equal_range

BYTES_PER_CELL: Final = 256
"""Memory of a candidate that is laid out, with what speaks for it."""

MANY_ENTITIES: Final = 30_000
"""Entities from which a model does not score all of them where it need not: few candidates of a
query differ from the rest, and embeddings are trained against a sample."""

Pairs = tuple[Tensor, Tensor]
"""Rows of queries and candidates, [n] each."""


class Rest(ABC):
    """What every candidate of a query scores unless it is laid out, with few numbers per query."""

    @abstractmethod
    def at(self, row: Tensor, candidate: Tensor) -> Tensor:
        """The scores of candidates [n] for the queries at rows [n]."""

    @abstractmethod
    def count(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """How many of all candidates score above a value [rows], and how many exactly that."""

    @abstractmethod
    def best(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Scores, candidates, and whether no better one is missing, [rows, at most count] each.

        The candidates of a row are distinct where none is missing, which is so for all of them if
        `count` is the number of candidates.
        """

    @abstractmethod
    def log_sums(self, temperature: float) -> tuple[Tensor, Tensor]:
        """Shift m and the sum over all candidates of exp(score / temperature - m), [rows] each."""


class ConstantRest(Rest):
    """The same score for every candidate."""

    def __init__(self, score: float, rows: int, num_candidates: int, like: Tensor) -> None:
        self.score, self.rows, self.num_candidates, self.like = score, rows, num_candidates, like

    def at(self, row: Tensor, candidate: Tensor) -> Tensor:
        return self.like.new_full((len(row),), self.score)

    def count(self, value: Tensor) -> tuple[Tensor, Tensor]:
        above, equal = value.lt(self.score), value.eq(self.score)
        return above.long() * self.num_candidates, equal.long() * self.num_candidates

    def best(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        every = torch.arange(min(count, self.num_candidates), device=self.like.device)
        scores = self.like.new_full((self.rows, len(every)), self.score)
        return scores, every.expand(self.rows, -1), torch.ones_like(scores, dtype=torch.bool)

    def log_sums(self, temperature: float) -> tuple[Tensor, Tensor]:
        like = self.like.new_zeros(self.rows, dtype=torch.float64)
        if self.score == -math.inf:
            return like, like
        return like + self.score / temperature, like + self.num_candidates


@dataclass(frozen=True, eq=False)
class SparseScores:
    """The scores of all candidates of some queries; what is not laid out scores as the rest."""

    row: Tensor
    """The query of each candidate that is laid out, [cells]; with the candidate, ascending."""
    candidate: Tensor
    """[cells], distinct for each query."""
    score: Tensor
    """[cells]"""
    rest: Rest
    rows: int
    num_candidates: int

    def at(self, row: Tensor, candidate: Tensor) -> Tensor:
        """The scores of candidates [n] for the queries at rows [n]."""
        cell = self._find(row, candidate)
        scores = self.rest.at(row, candidate)
        if not len(self.score):
            return scores
        return torch.where(cell >= 0, self.score[cell.clamp(min=0)], scores)

    def _find(self, row: Tensor, candidate: Tensor) -> Tensor:
        """The positions of candidates [n] among those laid out, -1 for the others, [n]."""
        return find_cells(
            self.row * self.num_candidates + self.candidate, row * self.num_candidates + candidate
        )

    def counts(self, answer: Tensor, known: Pairs) -> tuple[Tensor, Tensor]:
        """How many candidates score above each answer [rows], and how many others the same.

        known: distinct pairs of candidates that do not count, the answers themselves aside.
        """
        own = self.at(torch.arange(self.rows, device=answer.device), answer)
        if torch.isnan(own).any() or torch.isnan(self.score).any():
            raise FloatingPointError("a score is NaN, so its rank is undefined")
        greater, equal = self.rest.count(own)
        row, candidate = known
        others = candidate != answer[row]
        row, candidate = row[others], candidate[others]
        for rows, scores, sign in (
            (self.row, self.score, 1),
            (self.row, self.rest.at(self.row, self.candidate), -1),
            (row, self.at(row, candidate), -1),
        ):
            greater.index_add_(0, rows, (scores > own[rows]).long(), alpha=sign)
            equal.index_add_(0, rows, (scores == own[rows]).long(), alpha=sign)
        return greater, equal - 1

    def top(self, count: int, excluded: Pairs) -> tuple[Tensor, Tensor]:
        """Scores and candidates of the best of each query, [rows, count] each, the best first.

        excluded: distinct pairs that are left out. Where there are fewer, the score is -inf.
        """
        count = min(count, self.num_candidates)
        out = _sorted_keys(excluded, self.num_candidates)
        shown = find_cells(out, self.row * self.num_candidates + self.candidate) < 0
        laid_row, laid = self.row[shown], self.candidate[shown]
        scores, candidates = _best_of_rows(laid_row, laid, self.score[shown], self.rows, count)
        either = torch.cat([self.row * self.num_candidates + self.candidate, out]).sort().values
        wanted = count
        while True:
            rest, others, sure = self.rest.best(wanted)
            rows = torch.arange(self.rows, device=laid.device)[:, None]
            taken = find_cells(either, (rows * self.num_candidates + others).flatten()) >= 0
            free = sure & ~taken.view_as(rest)
            rest = rest.masked_fill(~free, -math.inf)
            enough = free.sum(1) >= count
            if wanted >= self.num_candidates or bool(enough.all()):
                break
            wanted = min(4 * wanted, self.num_candidates)
        every = torch.cat([scores, rest], 1)
        best = every.topk(count, 1)
        return best.values, torch.cat([candidates, others], 1).gather(1, best.indices)

    def log_sums(self, temperature: float, excluded: Pairs) -> Tensor:
        """log of the sum over candidates of exp(score / temperature), [rows], in double precision.

        excluded: distinct pairs that are left out.
        """
        shift, total = self.rest.log_sums(temperature)
        keys = self.row * self.num_candidates + self.candidate
        out = _sorted_keys(excluded, self.num_candidates)
        kept = find_cells(out, keys) < 0
        score = self.score.double() / temperature
        highest = shift.scatter_reduce(0, self.row[kept], score[kept], "amax")
        total = total * torch.exp(shift - highest)
        new = find_cells(keys, out) < 0
        for row, candidate in (
            (self.row, self.candidate),
            (out[new] // self.num_candidates, out[new] % self.num_candidates),
        ):
            base = self.rest.at(row, candidate).double() / temperature
            total.index_add_(0, row, torch.exp(base - highest[row]), alpha=-1)
        total.clamp_(min=0)
        total.index_add_(0, self.row[kept], torch.exp(score[kept] - highest[self.row[kept]]))
        return highest + total.log()

    def dense(self) -> Tensor:
        """The scores as a matrix, [rows, candidates]."""
        row = torch.arange(self.rows, device=self.row.device).repeat_interleave(self.num_candidates)
        every = torch.arange(self.num_candidates, device=self.row.device).repeat(self.rows)
        return self.at(row, every).view(self.rows, self.num_candidates)


def split_by_size(ids: Tensor, sizes: Tensor, most: int) -> tuple[Tensor, ...]:
    """Split ids [n] into parts whose sizes [n] add up to `most`, give or take the size of one."""
    part = (sizes.cumsum(0) - 1) // max(1, most)
    counts = torch.unique_consecutive(part, return_counts=True)[1]
    return torch.split(ids, counts.tolist())


def find_cells(keys: Tensor, wanted: Tensor) -> Tensor:
    """The positions of wanted keys [n] among ascending distinct keys, -1 for the others, [n]."""
    found = equal_range(keys, wanted)
    return torch.where(found.lengths > 0, found.start, -1)


def _sorted_keys(pairs: Pairs, num_candidates: int) -> Tensor:
    keys: Tensor = (pairs[0] * num_candidates + pairs[1]).sort().values
    return keys


def _best_of_rows(
    row: Tensor, candidate: Tensor, score: Tensor, rows: int, count: int
) -> tuple[Tensor, Tensor]:
    """The best `count` of each row, [rows, count]; -inf where there are fewer. Rows ascend."""
    order = torch.argsort(score, descending=True, stable=True)
    order = order[torch.argsort(row[order], stable=True)]
    row = row[order]
    within = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)
    few = within < count
    row, within, order = row[few], within[few], order[few]
    scores = score.new_full((rows, count), -math.inf)
    candidates = candidate.new_zeros(rows, count)
    scores[row, within], candidates[row, within] = score[order], candidate[order]
    return scores, candidates
