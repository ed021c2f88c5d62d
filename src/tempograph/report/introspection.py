"""What a trained TeMP has learned, read off its parts: how it forgets, whom its gate trusts, where it looks in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from tempograph.data.graph import Facts
from tempograph.data.timeline import fact_queries
from tempograph.evaluation.frequency_curves import Curve, binned_curve, frequency_bins
from tempograph.evaluation.rank_table import Floats, Integers
from tempograph.models.base import Model
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.nn.temporal import Context, TemporalAttention, Windows


def offers_introspection(settings: object) -> bool:
    """Whether models with these settings have parts to look into: TeMP with a temporal encoder."""
    return isinstance(settings, TeMPSettings) and settings.temporal != "none"


def introspect(model: Model, facts: Facts) -> Introspection:
    """The gate over both queries of some facts, the decays and the attention of a TeMP."""
    assert isinstance(model, TeMP)
    return Introspection(
        gate_curves(model, facts), decay_curves(model), attention_by_distance(model)
    )


def decay_curves(model: TeMP) -> dict[str, Floats]:
    """What is left of a vector after 0, 1, 2, ... steps up to the window, for each part that forgets."""
    gap = torch.arange(model.settings.window + 1, device=model.device)
    parts = {
        "attention" if isinstance(model.temporal, TemporalAttention) else "memory": model.temporal,
        "imputation": model.imputation,
    }
    with torch.inference_mode():
        return {
            name: part.decay(gap).double().cpu().numpy()
            for name, part in parts.items()
            if part is not None
        }


class GateWeights(NamedTuple):
    """For each question the share of the structural vector, in the entity given and in the candidates, [n] each.

    `frequencies` [n, 3]: of the question's entity, of its relation, of both together.
    """

    frequencies: Integers
    asks_subject: Integers
    given: Floats
    candidates: Floats


def gate_weights(model: TeMP, facts: Facts) -> GateWeights | None:
    """How the gate weighs both questions of some facts; None for a model without a gate."""
    if model.gate is None:
        return None
    queries, _ = fact_queries(
        torch.from_numpy(facts).to(model.device), model.timeline.num_relations
    )
    side = queries.relation // model.timeline.num_relations
    with torch.inference_mode():
        counts = model.gate_frequencies(queries)
        given, candidates = (alpha.double().cpu().numpy() for alpha in model.gate(counts, side))
    return GateWeights(counts.cpu().numpy(), side.cpu().numpy(), given, candidates)


def gate_curves(model: TeMP, facts: Facts, bins: int = 12) -> dict[str, Curve]:
    """The gate's weights against how often a question's entity and relation occur together, for each of its four roles.

    The means of bins; low and high hold eight in ten of the weights. Empty for a model without a gate.
    """
    weights = gate_weights(model, facts)
    if weights is None:
        return {}
    curves = {}
    for side, asked in enumerate(("object", "subject")):
        there = weights.asks_subject == side
        for name, alpha in (("given", weights.given), ("candidates", weights.candidates)):
            curves[f"{asked} asked: {name}"] = _weight_curve(
                weights.frequencies[there, 2], alpha[there], bins
            )
    return curves


def _weight_curve(frequency: Integers, alpha: Floats, bins: int) -> Curve:
    places = frequency_bins(frequency, bins)
    ends = np.array(
        [np.quantile(alpha[places == place], [0.1, 0.9]) for place in np.unique(places)]
    ).T
    return binned_curve(frequency, alpha, places)._replace(low=ends[0], high=ends[1])


class Introspection(NamedTuple):
    """Gate weights by role, what each decay leaves by gap, and attention by distance."""

    gate: Mapping[str, Curve]
    decay: Mapping[str, Sequence[float] | Floats]
    attention: AttentionByDistance | None


class AttentionByDistance(NamedTuple):
    """Mean share that each head [heads, distances] gives to an active step so far away; 0 is the time itself.

    `pairs` says how many (entity, time) have an active step there; a share is NaN where none has.
    """

    distance: Integers
    shares: Floats
    pairs: Integers


def attention_by_distance(model: TeMP, most: int = 64) -> AttentionByDistance | None:
    """Where attention looks, over all entities at up to so many evenly spread steps; None without attention."""
    attention = model.temporal
    if not isinstance(attention, TemporalAttention):
        return None
    steps = model.timeline.num_steps
    times = torch.linspace(0, steps - 1, min(most, steps), device=model.device).round().long()
    past, future = model.window
    total = torch.zeros(
        attention.heads, past + 1 + future, dtype=torch.float64, device=model.device
    )
    pairs = torch.zeros(past + 1 + future, dtype=torch.float64, device=model.device)

    def look(_: Any, inputs: tuple[torch.Tensor, Windows, Context]) -> None:
        _, windows, context = inputs
        pair, row, shares = attention.attention_weights(*inputs)
        place = torch.cat([context.time, windows.time])[row] - windows.time[pair] + past
        pairs.add_(torch.bincount(place, minlength=len(pairs)))
        total.index_add_(1, place, shares.T.double())

    handle = attention.register_forward_pre_hook(look)
    try:
        with torch.inference_mode():
            for time in times:
                model.encode(time[None])
    finally:
        handle.remove()
    shares = (total / pairs.where(pairs > 0, torch.nan)).cpu().numpy()
    return AttentionByDistance(np.arange(-past, future + 1), shares, pairs.long().cpu().numpy())
