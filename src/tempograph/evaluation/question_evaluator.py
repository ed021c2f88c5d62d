"""Filtered ranking of the relations and times of a split by a head, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.known_parts import KnownParts
from tempograph.device import memory_budget
from tempograph.evaluation.probabilities import Calibrator, Confidence
from tempograph.evaluation.ranking import Ranks, filtered_ranks
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


@torch.inference_mode()
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
    every = torch.from_numpy(graph.all_facts).to(facts.device)
    known = KnownParts(every, graph.sizes, head.column)
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
