"""The best answers that are not known yet, to many questions about entities in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from tempograph.data.timeline import Queries, Timeline, undirected_facts
from tempograph.device import memory_budget
from tempograph.models.base import Model
from tempograph.typing import Progress

_ANSWERS_PER_QUESTION: Final = 10
"""New answers that are proposed for one question."""

AnswerLogProbs = Callable[[Tensor], Tensor]
"""From the positions of questions [n] to the log probabilities of all answers [n, entities]; those
that must not be proposed have -inf."""


def new_answers(
    model: Model,
    queries: Queries,
    weight: Tensor,
    log_probs: AnswerLogProbs,
    limit: int,
    progress: Progress | None = None,
) -> Tensor:
    """Facts with the best answers to queries, of distinct triples, the best first, [n, 4].

    An answer counts with its log probability plus the weight of its query; weight [queries].
    """
    timeline = model.timeline
    size = max(
        1,
        memory_budget("ranking", timeline.device)
        // (timeline.num_entities * (model.bytes_per_candidate + 16)),
    )
    found, value = [queries.time.new_empty(0, 4)], [weight.new_empty(0, dtype=torch.float64)]
    done = 0
    for index in torch.split(torch.arange(len(weight), device=timeline.device), size):
        batch, scores = queries.take(index), log_probs(index)
        best = scores.topk(min(_ANSWERS_PER_QUESTION, scores.shape[1]), dim=1)
        row, place = (best.values > -torch.inf).nonzero().unbind(1)
        facts = torch.stack(
            [batch.entity[row], batch.relation[row], best.indices[row, place], batch.time[row]],
            dim=1,
        )
        found.append(undirected_facts(facts, timeline.num_relations))
        value.append(weight[index[row]] + best.values[row, place])
        done += len(index)
        if progress is not None:
            progress(done, len(weight))
    return best_of_triples(torch.cat(found), torch.cat(value), limit)


def best_of_triples(facts: Tensor, value: Tensor, limit: int) -> Tensor:
    """The best fact of each triple, at most `limit`, the best first.   [n, 4], [n] -> [m, 4]."""
    facts = facts[torch.argsort(value, descending=True, stable=True)]
    distinct, inverse = torch.unique(facts[:, :3], dim=0, return_inverse=True)
    # A triple may be an answer in both directions; its first place counts.
    place = torch.full((len(distinct),), len(facts), device=facts.device)
    place.scatter_reduce_(0, inverse, torch.arange(len(facts), device=facts.device), "amin")
    best: Tensor = facts[place.sort().values[:limit]]
    return best


def triple_keys(facts: Tensor, timeline: Timeline) -> Tensor:
    """A number for each subject, relation and object, [n]; the timeline must be countable."""
    subject, relation, object_ = facts[:, :3].unbind(1)
    return (subject * timeline.num_relations + relation) * timeline.num_entities + object_
