"""What speaks for a fact: how well its relation and time fit, and counts of train facts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from tempograph.data.frequency import PATTERNS, PatternFrequencies
from tempograph.data.known_parts import KnownParts
from tempograph.device import memory_budget
from tempograph.models.heads.cross_fitted_head import CrossFittedHead

FEATURES: Final = (
    *("relation", "known relations", "time"),
    *(f"N({pattern})" for pattern in PATTERNS),
    *(f"N({pattern}, t)" for pattern in PATTERNS),
    *("N(so, t-1 or t+1)", "N(sro, t-1 or t+1)"),
    *("N(os, t)", "N(ors, t)", "N(ors, t-1 or t+1)"),
)
"""The features of a fact (s, r, o, t): the log odds of the relation among those not known at t, the
probability of the known ones, the log probability of the time, and log(1 + number of other train
facts) with a pattern, over all other steps, at t, or one step away."""
_LARGEST: Final = 20.0
"""Bound of logarithms of odds and probabilities."""
_PAIR: Final = PATTERNS.index("so")
_TRIPLE: Final = PATTERNS.index("sro")


@torch.inference_mode()
def fact_features(
    facts: Tensor,
    relation_head: CrossFittedHead,
    time_head: CrossFittedHead,
    position: Tensor | None = None,
) -> Tensor:
    """The features of facts [n, 4] in double precision, [n, features].

    position [n]: for train facts, where they are in the timeline; their features are those they
    would have if they were held out.
    """
    logs = torch.cat(
        [
            _relation_features(relation_head, facts, position),
            _time_log_prob(time_head, facts, position),
        ],
        dim=1,
    )
    counts = _counts(facts, PatternFrequencies(time_head.timeline), position is not None)
    return torch.cat([logs, counts.double().log1p()], dim=1)


def _counts(facts: Tensor, frequencies: PatternFrequencies, held_out: bool) -> Tensor:
    """Numbers of train facts with a pattern, other than the fact itself, [n, counts]."""
    steps, reversed_ = frequencies.num_steps, facts[:, [2, 1, 0, 3]]
    at_step, at_step_reversed = frequencies.count_at(facts), frequencies.count_at(reversed_)
    if held_out:
        at_step = at_step - 1
        # A loop is its own reverse.
        at_step_reversed = at_step_reversed - (facts[:, [0]] == facts[:, [2]]).long()
    return torch.cat(
        [
            frequencies.count(facts, steps, steps),
            at_step,
            frequencies.count(facts, 1, 1)[:, [_PAIR, _TRIPLE]],
            at_step_reversed[:, [_PAIR, _TRIPLE]],
            frequencies.count(reversed_, 1, 1)[:, [_TRIPLE]],
        ],
        dim=1,
    )


def _relation_features(head: CrossFittedHead, facts: Tensor, position: Tensor | None) -> Tensor:
    """The log odds of each relation among the unknown, and how likely the known are, [n, 2]."""
    known_parts = KnownParts(head.timeline.facts, head.timeline.sizes, head.column)
    columns = [torch.empty(0, 2, dtype=torch.float64, device=facts.device)]
    for part, scores in _score(head, facts, position):
        known = known_parts.others(part)
        log_probs = torch.log_softmax(scores, 1)
        mass = log_probs.new_zeros(len(part)).index_add(0, known[0], log_probs[known].exp())
        scores[known] = -math.inf
        own = torch.log_softmax(scores, 1).gather(1, part[:, [head.column]])[:, 0].double()
        odds = own - torch.log1p(-own.exp().clamp(max=1 - 1e-9))
        columns.append(torch.stack([odds.clamp(-_LARGEST, _LARGEST), mass.double()], dim=1))
    return torch.cat(columns)


def _time_log_prob(head: CrossFittedHead, facts: Tensor, position: Tensor | None) -> Tensor:
    """The log probability of each fact's time given its triple, [n, 1]."""
    questions, question = facts, torch.arange(len(facts), device=facts.device)
    if position is None:
        # Proposals share triples: each is scored once.
        triples, question = torch.unique(facts[:, :3], dim=0, return_inverse=True)
        questions = torch.cat([triples, torch.zeros_like(triples[:, :1])], dim=1)
    order = torch.argsort(question, stable=True)
    row, time = question[order], facts[order, head.column]
    found, first = torch.empty(len(facts), dtype=torch.float64, device=facts.device), 0
    for part, scores in _score(head, questions, position):
        start, stop = torch.searchsorted(row, row.new_tensor([first, first + len(part)])).tolist()
        log_probs = torch.log_softmax(scores, 1)
        found[order[start:stop]] = log_probs[row[start:stop] - first, time[start:stop]].double()
        first += len(part)
    return found.clamp(min=-_LARGEST)[:, None]


def _score(
    head: CrossFittedHead, facts: Tensor, position: Tensor | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Facts in batches that fit the memory budget, with the scores of all candidates."""
    size = max(1, memory_budget("heads", facts.device) // head.bytes_per_question)
    for index in torch.split(torch.arange(len(facts), device=facts.device), size):
        if position is None:
            yield facts[index], head.scores(facts[index])
        else:
            yield facts[index], head.held_out_scores(position[index])
