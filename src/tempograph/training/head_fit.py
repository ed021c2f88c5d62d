"""Training of heads: each train fact is asked for as if it were not in the data."""

from __future__ import annotations

import copy
import math
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from tempograph.data.graph import TemporalGraph
from tempograph.data.held_facts import random_steps
from tempograph.data.known_parts import KnownParts
from tempograph.device import memory_budget
from tempograph.evaluation.asked_steps import events_of
from tempograph.evaluation.question_evaluator import question_batches
from tempograph.models.heads.question_head import QuestionHead
from tempograph.typing import Progress

_EPOCHS: Final = 5
_LEARNING_RATE: Final = 0.02
_COOLDOWN: Final = 0.4
"""The share of all steps, the last ones, in which the learning rate falls to 0."""
_BATCH_SIZES: Final = (32, 1000)
"""The smallest and the largest batch, as far as the memory allows."""
_STEPS_PER_EPOCH: Final = 50
"""Batches of small data are smaller, to have this many."""
_MAX_VALID: Final = 2000
"""Valid facts that decide which epoch is best."""
_MAX_EPOCH_BYTES: Final = {"cpu": 2**30, "cuda": 2**35}
"""Memory that the questions of an epoch would take together; of more facts, a random part is asked:
a minute on two cores is enough."""


def fit_head(
    head: QuestionHead,
    graph: TemporalGraph,
    seed: int,
    asked_facts: Tensor | None = None,
    progress: Progress | None = None,
) -> None:
    """Train a head on the train facts; keep the epoch with the lowest log loss on valid.

    A fact that holds for a while is asked for at a random one of its steps each time.

    asked_facts [n]: positions of the train facts that are asked for, by default all.
    """
    timeline, device = head.timeline, head.timeline.device
    facts = timeline.facts
    if asked_facts is None:
        asked_facts = torch.arange(len(facts), device=device)
    known = KnownParts(timeline.rows, timeline.sizes, head.column)
    generator = torch.Generator().manual_seed(seed)
    step_generator = torch.Generator(device).manual_seed(seed)
    most = _MAX_EPOCH_BYTES[device.type] // head.bytes_per_question
    epoch_facts = max(1, min(len(asked_facts), most))
    affordable = max(1, memory_budget("heads", device) // head.bytes_per_question)
    smallest, largest = _BATCH_SIZES
    batch_size = min(affordable, largest, max(smallest, epoch_facts // _STEPS_PER_EPOCH))
    total_steps = _EPOCHS * math.ceil(epoch_facts / batch_size)
    optimizer = torch.optim.Adam(head.parameters(), _LEARNING_RATE)
    valid = events_of(_spread(torch.from_numpy(graph.valid).to(device), _MAX_VALID))
    best, lowest, step = copy.deepcopy(head.state_dict()), _log_loss(head, graph, valid), 0
    for _ in range(_EPOCHS):
        order = torch.randperm(len(asked_facts), generator=generator)[:epoch_facts].to(device)
        for batch in torch.split(asked_facts[order], batch_size):
            left = 1 - step / total_steps
            for group in optimizer.param_groups:
                group["lr"] = _LEARNING_RATE * min(1.0, left / _COOLDOWN)
            asked = facts[batch]
            if timeline.has_intervals:
                steps = random_steps(asked[:, 3], timeline.fact_end[batch], step_generator)
                asked = torch.column_stack([asked[:, :3], steps])
            scores = without_known(head.scores(asked, left_out=batch), known.others(asked))
            loss = cross_entropy(scores, asked[:, head.column])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            step += 1
            if progress is not None:
                progress(step, total_steps)
        loss_now = _log_loss(head, graph, valid)
        if loss_now < lowest or not len(valid):
            best, lowest = copy.deepcopy(head.state_dict()), loss_now
    head.load_state_dict(best)
    head.requires_grad_(False)


def without_known(scores: Tensor, known: tuple[Tensor, Tensor]) -> Tensor:
    """Scores [n, candidates] with those of known pairs (row, candidate) at -inf."""
    return scores.index_put(known, scores.new_full((), -math.inf))


@torch.inference_mode()
def _log_loss(head: QuestionHead, graph: TemporalGraph, facts: Tensor) -> float:
    """The mean of -log p of the right candidates of facts [n, 4]; infinite without facts."""
    if not len(facts):
        return math.inf
    known = KnownParts(
        torch.cat([head.timeline.rows, torch.from_numpy(graph.valid).to(facts.device)]),
        head.timeline.sizes,
        head.column,
    )
    total = 0.0
    for part in question_batches(head, facts):
        scores = without_known(head.scores(part), known.others(part))
        total += float(cross_entropy(scores, part[:, head.column], reduction="sum"))
    return total / len(facts)


def _spread(facts: Tensor, limit: int) -> Tensor:
    """At most `limit` facts, spread evenly over all."""
    count = min(limit, len(facts))
    index = torch.linspace(0, len(facts) - 1, count, dtype=torch.float64).round().long()
    return facts[index.to(facts.device)] if count else facts
