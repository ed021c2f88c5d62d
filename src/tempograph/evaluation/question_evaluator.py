"""Filtered ranking of the relations and times of a split by a head, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.known_parts import KnownParts
from tempograph.device import memory_budget
from tempograph.evaluation.asked_steps import events_of, every_step
from tempograph.evaluation.probabilities import Calibrator, Confidence
from tempograph.evaluation.ranking import Ranks, StepMeans, StepRanks, filtered_ranks
from tempograph.models.heads.question_head import QuestionHead
from tempograph.typing import Progress


def question_batches(
    head: QuestionHead, facts: Tensor, progress: Progress | None = None
) -> Iterator[Tensor]:
    """Facts [n, 4] in batches whose scores fit the memory budget."""
    budget, done = memory_budget("heads", facts.device), 0
    for batch in torch.split(facts, max(1, budget // head.bytes_per_question)):
        yield batch
        done += len(batch)
        if progress is not None:
            progress(done, len(facts))


def rank_questions(
    head: QuestionHead,
    graph: TemporalGraph,
    facts: Tensor,
    calibrator: Calibrator | None = None,
    progress: Progress | None = None,
) -> tuple[Ranks, Confidence | None]:
    """The ranks of the relations or times of facts [n, 4], and how sure the head is of its best.

    Other relations that are known between the same entities at the same time, or other times of the
    same triple, are filtered out.
    """
    return _rank(head, _known_parts(head, graph), facts, calibrator, progress)


@torch.inference_mode()
def rank_questions_at_steps(
    head: QuestionHead,
    graph: TemporalGraph,
    facts: Tensor,
    calibrator: Calibrator | None = None,
    progress: Progress | None = None,
) -> tuple[StepRanks, Confidence | None]:
    """Means over steps of the ranks of the relations of facts [n, 6] that hold for a while.

    With a calibrator, also how sure the head is about each fact at one of its steps.
    """
    known, count, done = _known_parts(head, graph), len(facts), 0
    sums = [StepMeans.zeros(count, facts.device) for _ in range(3)]
    steps = facts[:, 4] - facts[:, 3] + 1
    total = int(steps.sum())

    def advance(questions: int, _: int) -> None:
        if progress is not None:
            progress(done + questions, total)

    for pairs in every_step(facts):
        ranks, _ = _rank(head, known, pairs.events(facts), None, advance)
        for sum_of_steps, column in zip(sums, ranks, strict=True):
            sum_of_steps.add(pairs.fact, column)
        done += len(pairs.fact)
    realistic, optimistic, pessimistic = (each.over(steps) for each in sums)
    confidence = None
    if calibrator is not None:
        confidence = _rank(head, known, events_of(facts), calibrator, None)[1]
    return StepRanks(realistic, optimistic, pessimistic, steps), confidence


def _known_parts(head: QuestionHead, graph: TemporalGraph) -> KnownParts:
    every = torch.from_numpy(graph.all_facts).to(head.timeline.device)
    return KnownParts(every, graph.sizes, head.column)


@torch.inference_mode()
def _rank(
    head: QuestionHead,
    known: KnownParts,
    facts: Tensor,
    calibrator: Calibrator | None,
    progress: Progress | None,
) -> tuple[Ranks, Confidence | None]:
    ranks, confidences = [], []
    for batch in question_batches(head, facts, progress):
        scores, answer, others = head.scores(batch), batch[:, head.column], known.others(batch)
        ranks.append(filtered_ranks(scores, answer, others))
        if calibrator is not None:
            scores[others] = -math.inf
            excluded = torch.bincount(others[0], minlength=len(batch))
            eligible = head.num_candidates - excluded
            confidences.append(calibrator.confidence(scores, answer, eligible))
    joined = Ranks(*(torch.cat(column) for column in zip(*ranks, strict=True)))
    if calibrator is None:
        return joined, None
    return joined, Confidence(*(torch.cat(column) for column in zip(*confidences, strict=True)))
