"""TeMP with its encodings kept: a question about a time that was asked about before takes a few small products."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.models.temp import Questions, TeMP
from tempograph.ranges import equal_range
from tempograph.timeline import Queries


class Rows(NamedTuple):
    """The entities whose vectors differ from the base at one time, rising [n], and these vectors [n, width]."""

    entity: Tensor
    vectors: Tensor

    @property
    def nbytes(self) -> int:
        """Bytes that these take."""
        return self.entity.nbytes + self.vectors.nbytes


class KeptTeMP:
    """A trained TeMP model that keeps what it encodes, up to some bytes; what was asked for last stays longest."""

    def __init__(self, model: TeMP, budget: int) -> None:
        self._model = model
        self._budget = budget
        self._rows: OrderedDict[int, Rows] = OrderedDict()
        self._base = torch.empty(0)
        self.nbytes = 0

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each question, [queries, entities]."""
        times, place = torch.unique(queries.time, return_inverse=True)
        rows = self._at(times.tolist())
        mine = [(place == number).nonzero()[:, 0] for number in range(len(times))]
        given = torch.empty(len(place), self._base.shape[1], device=self._model.device)
        for some, own in zip(mine, rows, strict=True):
            given[some] = self._take(own, queries.entity[some])
        questions = self._questions(queries, given)
        # Most entities are as in the base, whatever the time; scores of the others take the place of these.
        scores = self._model.score(questions, self._base).float()
        for some, own in zip(mine, rows, strict=True):
            alpha = None if questions.alpha is None else questions.alpha[some]
            asked = Questions(questions.vector[some], alpha)
            scores[some[:, None], own.entity] = self._model.score(asked, own.vectors).float()
        return scores

    def relation_scores(self, subject: int, object_: int, time: int) -> Tensor:
        """Scores of every relation for (subject, ?, object, time), [relations]."""
        relations = torch.arange(self._model.timeline.num_relations, device=self._model.device)
        queries = Queries(torch.full_like(relations, subject), relations, torch.full_like(relations, time))
        (own,) = self._at([time])
        questions = self._questions(queries, self._take(own, queries.entity))
        return self._model.score(questions, self._take(own, torch.full_like(relations[:1], object_)))[:, 0]

    def prepare(self) -> bool:
        """Encode the latest time that is not kept yet, and say whether there is room for another."""
        steps = range(self._model.timeline.num_steps)
        latest = next((time for time in reversed(steps) if time not in self._rows), None)
        if latest is None:
            return False
        with torch.inference_mode():
            size = self._at([latest])[0].nbytes
        return self.nbytes + size <= self._budget and len(self._rows) < len(steps)

    def _questions(self, queries: Queries, given: Tensor) -> Questions:
        model = self._model
        counts = model.frequencies.of_queries(queries, *model.reach) if model.gate is not None else None
        return model.questions(queries, given, counts)

    def _at(self, times: list[int]) -> list[Rows]:
        found = []
        for time in times:
            if time not in self._rows:
                self._base, keys, vectors = self._model.encode(torch.tensor([time], device=self._model.device))
                self._rows[time] = Rows(keys, vectors)
                self.nbytes += self._rows[time].nbytes
            self._rows.move_to_end(time)
            found.append(self._rows[time])
        while self.nbytes > self._budget:
            self.nbytes -= self._rows.popitem(last=False)[1].nbytes
        return found

    def _take(self, rows: Rows, entity: Tensor) -> Tensor:
        """Some entities at one time, [n, width]."""
        place, given = equal_range(rows.entity, entity), self._base.index_select(0, entity)
        there = place.lengths.nonzero()[:, 0]
        return given.index_copy(0, there, rows.vectors.index_select(0, place.start[there]))
