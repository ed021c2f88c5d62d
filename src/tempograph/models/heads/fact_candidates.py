"""Facts that may be missing: relations of pairs that met at a step, and triples that recur."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.known_parts import KnownParts
from tempograph.data.timeline import Timeline
from tempograph.device import memory_budget
from tempograph.models.heads.question_head import QuestionHead
from tempograph.typing import Progress

_RELATIONS_PER_PAIR: Final = 8
"""Relations that are proposed for one pair at one step."""


@dataclass(frozen=True)
class Search:
    """Which facts to search: all, or those of an entity, of some relations, or of a period."""

    entity: int | None = None
    relations: Sequence[int] | None = None
    steps: range | None = None

    def allows_pair(self, subject: Tensor, object_: Tensor) -> Tensor:
        """Whether each pair may be proposed, [n]."""
        if self.entity is None:
            return torch.ones_like(subject, dtype=torch.bool)
        return (subject == self.entity) | (object_ == self.entity)

    def allows(self, asked: str, values: Tensor) -> Tensor:
        """Whether each relation or each time step may be proposed, [n]."""
        if asked == "relation" and self.relations is not None:
            return torch.isin(values, torch.tensor(list(self.relations), device=values.device))
        if asked == "time" and self.steps is not None:
            return (values >= self.steps.start) & (values < self.steps.stop)
        return torch.ones_like(values, dtype=torch.bool)


class Proposals(NamedTuple):
    """Facts that may be missing, [n, 4], and the values below which there were too many.

    A relation has the value log p(r | s, o, t), a time log N(s, r, o) + log p(t | s, r, o).
    """

    facts: Tensor
    lowest_relation: float
    lowest_time: float


@torch.inference_mode()
def propose_facts(
    relation_head: QuestionHead,
    time_head: QuestionHead,
    known_facts: Tensor,
    limit: int,
    search: Search | None = None,
    progress: Progress | None = None,
) -> Proposals:
    """Plausible facts that are not among the known ones: at most twice the limit.

    One half are relations between two entities that have a train fact at that step, by
    p(r | s, o, t). The other half are train triples at other steps, by their number of train facts
    times p(t | s, r, o). Both searches are exhaustive.
    """
    found = ProposalSearch(relation_head, time_head, known_facts, limit, search)
    found.answer(range(len(found)), progress)
    return found.proposals()


class ProposalSearch:
    """The search of `propose_facts`, whose questions can be answered a few at a time."""

    def __init__(
        self,
        relation_head: QuestionHead,
        time_head: QuestionHead,
        known_facts: Tensor,
        limit: int,
        search: Search | None = None,
    ) -> None:
        search, timeline = search or Search(), relation_head.timeline
        pairs, triples, count = _pair_steps(timeline, search), *_triples(timeline, search)
        log_count, no_count = count.float().log(), torch.zeros(len(pairs), device=pairs.device)
        self._halves = (
            _HalfSearch(
                relation_head, pairs, no_count, known_facts, search, _RELATIONS_PER_PAIR, limit
            ),
            _HalfSearch(time_head, triples, log_count, known_facts, search, limit, limit),
        )

    def __len__(self) -> int:
        """The number of questions."""
        return sum(len(half.questions) for half in self._halves)

    @torch.inference_mode()
    def answer(self, questions: range, progress: Progress | None = None) -> None:
        """Answer some of the questions, and keep the best facts; `progress` counts questions."""
        first = 0
        for half in self._halves:
            stop = first + len(half.questions)
            own = range(max(first, questions.start), min(stop, questions.stop))
            for start in own[:: half.batch]:
                end = min(start + half.batch, own.stop)
                half.answer(slice(start - first, end - first))
                if progress is not None:
                    progress(end, len(self))
            first = stop

    def proposals(self) -> Proposals:
        """The best facts of all questions that were answered."""
        facts = torch.unique(torch.cat([half.facts for half in self._halves]), dim=0)
        return Proposals(facts, *(half.lowest for half in self._halves))


class _HalfSearch:
    """The questions for one part of a fact [n, 4], and the best facts so far."""

    def __init__(
        self,
        head: QuestionHead,
        questions: Tensor,
        extra: Tensor,
        known_facts: Tensor,
        search: Search,
        per_question: int,
        limit: int,
    ) -> None:
        """`extra` [n] is added to the log probabilities of the answers to each question."""
        self.questions, self.facts, self._values = questions, questions[:0], extra[:0]
        self.batch = max(1, memory_budget("heads", questions.device) // head.bytes_per_question)
        """Questions that are answered at once."""
        self._head, self._extra, self._search = head, extra, search
        self._known = KnownParts(known_facts, head.timeline.sizes, head.column)
        self._per_question, self._limit = min(per_question, limit), limit

    @property
    def lowest(self) -> float:
        """The value below which there were too many facts."""
        return float(self._values.min()) if len(self._values) >= self._limit else -math.inf

    def answer(self, part: slice) -> None:
        """Answer some of the questions."""
        facts, values = self._best_new(self.questions[part], self._extra[part])
        self.facts, self._values = torch.cat([self.facts, facts]), torch.cat([self._values, values])
        if len(self._values) > self._limit:
            kept = self._values.topk(self._limit).indices
            self.facts, self._values = self.facts[kept], self._values[kept]

    def _best_new(self, questions: Tensor, extra: Tensor) -> tuple[Tensor, Tensor]:
        """The best facts that complete questions [n, 4] and are not known, and their values."""
        head = self._head
        log_probs = torch.log_softmax(head.scores(questions), 1) + extra[:, None]
        log_probs[self._known(questions)] = -torch.inf
        every = torch.arange(head.num_candidates, device=questions.device)
        log_probs[:, ~self._search.allows(head.asked, every)] = -torch.inf
        best = log_probs.topk(min(self._per_question, head.num_candidates), dim=1)
        row, place = (best.values > -torch.inf).nonzero().unbind(1)
        facts = questions[row]
        facts[:, head.column] = best.indices[row, place]
        return facts, best.values[row, place]


def _pair_steps(timeline: Timeline, search: Search) -> Tensor:
    """Distinct (s, 0, o, t) with a train fact between s and o at t, in either direction, [n, 4]."""
    subject, _, object_, time = timeline.facts.unbind(1)
    kept = search.allows_pair(subject, object_) & search.allows("time", time)
    subject, object_, time = subject[kept], object_[kept], time[kept]
    both = torch.stack(
        [
            torch.cat([subject, object_]),
            torch.zeros(2 * len(time), dtype=torch.int64, device=time.device),
            torch.cat([object_, subject]),
            time.repeat(2),
        ],
        dim=1,
    )
    distinct: Tensor = torch.unique(both, dim=0)
    return distinct


def _triples(timeline: Timeline, search: Search) -> tuple[Tensor, Tensor]:
    """Distinct (s, r, o, 0) of train facts, [n, 4], and how many facts each has, [n]."""
    subject, relation, object_, _ = timeline.facts.unbind(1)
    kept = search.allows_pair(subject, object_) & search.allows("relation", relation)
    triples, count = torch.unique(timeline.facts[kept, :3], dim=0, return_counts=True)
    zero = torch.zeros(len(triples), 1, dtype=torch.int64, device=triples.device)
    return torch.cat([triples, zero], dim=1), count
