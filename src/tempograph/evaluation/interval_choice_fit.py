"""How predicted intervals are chosen: fitted on validation facts, and cross-fitted to measure them.

The stored choice is fitted on all facts that are looked at. Two more, each fitted on every second
of these facts, choose the intervals of the others when valid itself is measured.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NotRequired, TypedDict

import torch
from torch import Tensor

from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.spans import Bounds
from tempograph.evaluation.interval_choice import IntervalChooser, fit_chooser, fit_lengths
from tempograph.evaluation.interval_overlap import Intervals
from tempograph.evaluation.probabilities import Calibrator
from tempograph.evaluation.step_density import fit_density
from tempograph.evaluation.step_plausibility import cross_fitted_plausibility
from tempograph.models.base import CrossFitted, Model
from tempograph.typing import Progress, Split

MAX_CELLS: Final = 2**24
"""Plausibilities (fact, step) that are kept at once."""
_MAX_FITTED: Final = 300
"""Validation facts that the choice is fitted on."""
_HALVES_NOTE: Final = (
    "the choice of intervals is cross-fitted: of the facts it was fitted on, each half is measured "
    "with the choice of the other half"
)
_FITTED_NOTE: Final = "the choice of intervals was fitted on some of these facts"


class ChooserSummary(TypedDict):
    """How intervals are chosen, as results.json holds it."""

    sharpness: float
    threshold: float
    density_weight: NotRequired[float]
    """The weight of the steps at which facts of a relation hold; earlier versions, without it,
    gave them none."""
    facts: int
    """The number of validation facts that these were chosen on."""
    halves: NotRequired[list[ChooserSummary]]
    """The same chosen on the even, and on the odd of these facts; not in earlier versions."""


class ChosenBy(NamedTuple):
    """What chooses the intervals of n facts."""

    choosers: list[IntervalChooser]
    number: Tensor
    """[n] the index of the chooser of each fact."""
    note: str | None
    """A note to show beside the resulting figures."""


def fit_interval_choice(
    model: Model,
    graph: TemporalGraph,
    calibrator: Calibrator,
    budget: int | None = None,
    progress: Progress | None = None,
) -> ChooserSummary:
    """How to choose intervals, fitted on validation facts, and on each half of these."""
    known = known_positions(graph.valid)
    affordable = max(1, MAX_CELLS // len(graph.times))
    count = min(len(known), _MAX_FITTED, affordable)
    chosen = known[_fitted_positions(len(known), count)]
    facts = torch.from_numpy(graph.valid)[chosen].to(model.device)
    cross_fitted = cross_fitted_scores(model, graph, "valid", chosen)
    plausibility = cross_fitted_plausibility(
        model, facts[:, :3], calibrator, cross_fitted, budget, progress
    )
    lengths, density = fit_lengths(model.timeline), fit_density(model.timeline)

    def fit(part: slice) -> ChooserSummary:
        own = facts[part]
        true = Intervals(own[:, 3], own[:, 4])
        chooser = fit_chooser(lengths, plausibility[part], own[:, 1], true, density=density)
        return {
            "sharpness": chooser.sharpness,
            "threshold": chooser.threshold,
            "density_weight": chooser.density_weight,
            "facts": len(own),
        }

    return {**fit(slice(None)), "halves": [fit(slice(first, None, 2)) for first in (0, 1)]}


def chooser_of(summary: ChooserSummary, model: Model) -> IntervalChooser:
    """What chooses intervals for a model, given how that was fitted."""
    return IntervalChooser(
        fit_lengths(model.timeline),
        summary["sharpness"],
        summary["threshold"],
        fit_density(model.timeline),
        summary.get("density_weight", 0.0),
    )


def choosers_of_each(
    summary: ChooserSummary, model: Model, split: Split, num_facts: int
) -> ChosenBy:
    """What chooses the intervals of the facts of a split with known bounds.

    Valid facts that the choice was fitted on get the choice of the half that they are not in.
    """
    choosers = [chooser_of(summary, model)]
    number = torch.zeros(num_facts, dtype=torch.int64)
    if split != "valid" or not summary["facts"]:
        return ChosenBy(choosers, number.to(model.device), None)
    if "halves" not in summary:
        return ChosenBy(choosers, number.to(model.device), _FITTED_NOTE)
    choosers += [chooser_of(half, model) for half in summary["halves"]]
    fitted = _fitted_positions(num_facts, summary["facts"])
    # The even facts are chosen for by the second half, the odd ones by the first.
    number[fitted] = 2 - torch.arange(len(fitted)) % 2
    return ChosenBy(choosers, number.to(model.device), _HALVES_NOTE)


def known_positions(facts: Facts) -> Tensor:
    """The positions of the facts [n, 6] whose bounds are dates or open."""
    known = (facts[:, 5] & (Bounds.UNKNOWN_START | Bounds.UNKNOWN_END)) == 0
    return torch.from_numpy(known).nonzero()[:, 0]


def cross_fitted_scores(
    model: Model, graph: TemporalGraph, split: Split, position: Tensor
) -> CrossFitted | None:
    """What scores the facts at some positions of a split, if the model was fitted on these."""
    found = model.cross_fitted(split, len(graph.facts(split)))
    return found and found._replace(scorer=found.scorer[position.to(model.device)])


def _fitted_positions(num_facts: int, count: int) -> Tensor:
    """Positions of the facts that the choice is fitted on, spread evenly, [count]."""
    return torch.linspace(0, max(0, num_facts - 1), count, dtype=torch.float64).round().long()
