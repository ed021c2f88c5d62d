"""Which trained models are worth combining: those that raise the valid MRR of the best one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.evaluation.asked_steps import events_of
from tempograph.models.base import Model
from tempograph.models.ensemble.ensemble_model import Ensemble, shuffle_facts
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.training.ensemble_fit import GateExamples, collect_examples

MIN_GAIN: Final = 0.001
"""The least gain in valid MRR that is worth more training or another part."""
_MAX_FACTS: Final = 1000
"""Valid facts that parts are compared on."""
_WEIGHTS: Final = (0.1, 0.3, 0.5)
"""Weights of a new part beside those that are chosen already."""


@torch.no_grad()
def choose_parts(
    models: Mapping[str, Model], graph: TemporalGraph, timeline: Timeline, seed: int
) -> list[str]:
    """The first model and those that raise the MRR of a mixture on a sample of valid facts.

    The mixture is a weighted mean of log-probabilities. A gate, which weighs parts for each query,
    can only do better.
    """
    if len(models) < 2:
        return list(models)
    settings = EnsembleSettings(parts=tuple(models))
    ensemble = Ensemble(timeline, settings, "ensemble", *models.values())
    sample = shuffle_facts(len(graph.valid), seed)[:_MAX_FACTS].sort().values
    facts = events_of(torch.from_numpy(graph.valid)[sample]).to(timeline.device)
    examples = collect_examples(
        ensemble, facts, KnownAnswers.from_train_and_valid(graph, timeline.device)
    )
    names = list(models)
    return [names[index] for index in greedy_parts(examples)]


def greedy_parts(examples: GateExamples, min_gain: float = MIN_GAIN) -> list[int]:
    """Add the part that helps most to the first one, until none helps by `min_gain`."""
    parts = examples.part_log_probs.unbind(2)
    mixture, chosen = parts[0], [0]
    best = _mrr(mixture, examples.excluded)
    while len(chosen) < len(parts):
        mixtures = {
            (index, weight): (1 - weight) * mixture + weight * part
            for index, part in enumerate(parts)
            if index not in chosen
            for weight in _WEIGHTS
        }
        reached = {key: _mrr(each, examples.excluded) for key, each in mixtures.items()}
        key = max(reached, key=lambda one: reached[one])
        if reached[key] < best + min_gain:
            break
        best, mixture = reached[key], mixtures[key]
        chosen.append(key[0])
    return chosen


def _mrr(scores: Tensor, excluded: Tensor) -> float:
    """The MRR of the first of the candidates [n, candidates]; ties share their mean rank."""
    scores = scores.masked_fill(excluded, -torch.inf)
    greater, equal = (scores > scores[:, :1]).sum(1), (scores == scores[:, :1]).sum(1)
    return float((1 / (greater + (equal + 1) / 2)).mean())
