"""What a trained TeMP weighs: how its memory decays, what its gate trusts, where it attends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from tempograph.data.graph import Facts
from tempograph.data.timeline import fact_queries
from tempograph.evaluation.asked_steps import events_of
from tempograph.evaluation.frequency_curves import Curve, binned_curve, frequency_bins
from tempograph.evaluation.rank_table import Floats, Integers
from tempograph.models.base import Model
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.nn.temporal import Context, TemporalAttention, Windows


class AttentionByDistance(NamedTuple):
    """The mean weight that attention gives to an active step, by its distance from the query."""

    distance: Integers
    """[distances]; 0 is the query's own time."""
    shares: Floats
    """[heads, distances]; NaN at a distance without active steps."""
    pairs: Integers
    """[distances] number of (entity, time) pairs with an active step there."""


class Introspection(NamedTuple):
    """What `introspect` reads off a TeMP; empty or None for parts that the model lacks."""

    gate: Mapping[str, Curve]
    decay: Mapping[str, Floats]
    attention: AttentionByDistance | None


def offers_introspection(settings: object) -> bool:
    """Whether models with these settings can be introspected: TeMP with a temporal encoder."""
    return isinstance(settings, TeMPSettings) and settings.temporal != "none"


def introspect(model: Model, facts: Facts) -> Introspection:
    """Gate weights for the queries of some facts [n, 4], decay by gap, attention by distance."""
    assert isinstance(model, TeMP)
    return Introspection(
        gate_curves(model, facts), decay_curves(model), attention_by_distance(model)
    )


def decay_curves(model: TeMP) -> dict[str, Floats]:
    """The share of a vector that is left after 0, 1, ..., window steps, for each decay."""
    gap = torch.arange(model.settings.window + 1, device=model.device)
    attends = isinstance(model.temporal, TemporalAttention)
    parts = {"attention" if attends else "memory": model.temporal, "imputation": model.imputation}
    with torch.inference_mode():
        return {
            name: part.decay(gap).double().cpu().numpy()
            for name, part in parts.items()
            if part is not None
        }


class GateWeights(NamedTuple):
    """The gate's weight of the structural vector for each query, [n] each."""

    frequencies: Integers
    """[n, 3]: of the query's entity, of its relation, of both together."""
    asks_subject: Integers
    given: Floats
    """Weight in the query's entity."""
    candidates: Floats
    """Weight in the candidates."""


def gate_weights(model: TeMP, facts: Facts) -> GateWeights | None:
    """The gate's weights for both queries of each fact; None without a gate.

    A fact [6] that holds for a while is asked about at one of its steps.
    """
    if model.gate is None:
        return None
    num_relations = model.timeline.num_relations
    queries, _ = fact_queries(events_of(torch.from_numpy(facts)).to(model.device), num_relations)
    side = queries.relation // num_relations
    with torch.inference_mode():
        counts = model.gate_frequencies(queries)
        given, candidates = (alpha.double().cpu().numpy() for alpha in model.gate(counts, side))
    return GateWeights(counts.cpu().numpy(), side.cpu().numpy(), given, candidates)


def gate_curves(model: TeMP, facts: Facts, bins: int = 12) -> dict[str, Curve]:
    """The gate's weights by how often a query's entity and relation occur together, in bins.

    One curve for each of its four roles; low and high hold 80% of the weights.
    """
    weights = gate_weights(model, facts)
    if weights is None:
        return {}
    curves = {}
    for side, asked in enumerate(("object", "subject")):
        mask = weights.asks_subject == side
        frequency = weights.frequencies[mask, 2]
        bin_index = frequency_bins(frequency, bins)
        for name, alpha in (
            ("given", weights.given[mask]),
            ("candidates", weights.candidates[mask]),
        ):
            bounds = [np.quantile(alpha[bin_index == i], [0.1, 0.9]) for i in np.unique(bin_index)]
            low, high = np.array(bounds).T
            curve = binned_curve(frequency, alpha, bin_index)
            curves[f"{asked} query: {name}"] = curve._replace(low=low, high=high)
    return curves


def attention_by_distance(model: TeMP, max_steps: int = 64) -> AttentionByDistance | None:
    """Attention of all entities at up to `max_steps` evenly spaced steps, if there is any."""
    attention = model.temporal
    if not isinstance(attention, TemporalAttention):
        return None
    steps, device = model.timeline.num_steps, model.device
    times = torch.linspace(0, steps - 1, min(max_steps, steps), device=device).round().long()
    past, future = model.window
    width = past + 1 + future
    total = torch.zeros(attention.heads, width, dtype=torch.float64, device=device)
    pairs = torch.zeros(width, dtype=torch.float64, device=device)

    def add_shares(_: Any, inputs: tuple[torch.Tensor, Windows, Context]) -> None:
        _, windows, context = inputs
        pair, row, shares = attention.attention_weights(*inputs)
        distance = torch.cat([context.time, windows.time])[row] - windows.time[pair]
        pairs.add_(torch.bincount(distance + past, minlength=width))
        total.index_add_(1, distance + past, shares.T.double())

    handle = attention.register_forward_pre_hook(add_shares)
    try:
        with torch.inference_mode():
            for time in times:
                model.encode(time[None])
    finally:
        handle.remove()
    shares = (total / pairs.where(pairs > 0, torch.nan)).cpu().numpy()
    return AttentionByDistance(np.arange(-past, future + 1), shares, pairs.long().cpu().numpy())
