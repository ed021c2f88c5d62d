"""Fitting recurrency: the decay and the weight of frequent answers, relation by relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import fact_queries
from tempograph.evaluation.evaluator import rank_facts
from tempograph.evaluation.history import with_history
from tempograph.models.recurrency import DECAYS, SHARE_WEIGHTS, Recurrency
from tempograph.typing import MetricsCallback, Progress


@torch.inference_mode()
def fit_recurrency(
    model: Recurrency,
    graph: TemporalGraph,
    seed: int,
    report: MetricsCallback,
    progress: Progress | None = None,
) -> None:
    """Choose decay, then share_weight, for each directed relation by its MRR on valid.

    A relation without valid facts gets the value that is best over all relations.
    """
    if not model.settings.fit:
        return
    protocol = model.timeline.protocol
    asked = cast(Recurrency, with_history(model, graph, "valid", protocol))
    facts = torch.from_numpy(graph.valid).to(model.device)
    known = KnownAnswers.from_train_and_valid(graph, model.device)
    relation = fact_queries(facts, graph.sizes[1])[0].relation
    # A little weight for frequent answers, so that decays are compared with ties broken.
    model.share_weight.fill_(SHARE_WEIGHTS[1])
    for name, weights, values in (
        ("decay", model.decay, DECAYS),
        ("share_weight", model.share_weight, SHARE_WEIGHTS),
    ):
        reciprocal = []
        for value in values:
            before = weights.clone()
            weights.fill_(value)
            ranks = rank_facts(asked, facts, known, progress=progress).realistic
            weights.copy_(before)
            reciprocal.append(ranks.reciprocal())
            report({name: value, "valid/mrr": float(ranks.reciprocal().mean())})
        weights.copy_(_best_values(torch.stack(reciprocal), relation, values, len(weights)))


def _best_values(
    reciprocal: Tensor, relation: Tensor, values: Sequence[float], relations: int
) -> Tensor:
    """The value with the largest sum of reciprocal ranks [values, queries] for each relation."""
    sums = reciprocal.new_zeros(len(values), relations).index_add_(1, relation, reciprocal)
    best = sums.argmax(0)
    unseen = torch.bincount(relation, minlength=relations) == 0
    best[unseen] = reciprocal.sum(1).argmax()
    return torch.tensor(values, dtype=torch.float64, device=best.device)[best]
