"""Prediction of the interval of (s, r, o), measured on a split."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, NotRequired, TypedDict

import numpy as np
import pyarrow as pa
import torch

from tempograph.data.calendar import years
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.result_table import Tabular, name_columns
from tempograph.data.spans import Bounds
from tempograph.errors import DataError
from tempograph.evaluation.interval_choice import IntervalChooser, fit_chooser, fit_lengths
from tempograph.evaluation.interval_figures import by_kind
from tempograph.evaluation.interval_overlap import Intervals, aeiou, interval_metrics
from tempograph.evaluation.probabilities import Calibrator
from tempograph.evaluation.step_density import fit_density
from tempograph.evaluation.step_plausibility import scored_steps, step_plausibility
from tempograph.models.base import Model
from tempograph.typing import Progress, Protocol, Split

_CELLS: Final = 2**24
"""Plausibilities (fact, step) that are kept at once."""
_MAX_FITTED: Final = 300
"""Validation facts that the chooser is fitted on."""


class IntervalFigures(TypedDict):
    """How many facts of a kind there are, and how near their predicted intervals are."""

    facts: int
    metrics: dict[str, float]


class IntervalSummary(TypedDict):
    """What `evaluate --ask time` prints of facts that hold for a while."""

    dataset: str
    model: str
    split: Split
    protocol: Protocol
    metrics: dict[str, float]
    """`aeiou@1`, `giou@1` and `tac` of the best interval of each fact."""
    kinds: dict[str, IntervalFigures]
    facts: int
    left_out: int
    """Facts with an unknown bound: their interval is not known."""
    seconds: float
    note: NotRequired[str]


class ChooserSummary(TypedDict):
    """How intervals are chosen, as results.json holds it."""

    sharpness: float
    threshold: float
    density_weight: NotRequired[float]
    """The weight of the steps at which facts of a relation hold; earlier versions, without it,
    gave them none."""
    facts: int
    """The number of validation facts that these were chosen on."""


@dataclass(frozen=True, eq=False, repr=False)
class IntervalEvaluation(Tabular):
    """The predicted interval of each fact of a split that has a known one."""

    dataset: str
    model: str
    split: Split
    protocol: Protocol
    facts: Facts
    """[n, 6]."""
    predicted: Intervals
    """[n]."""
    probability: torch.Tensor
    """Of exactly the predicted interval, [n]."""
    left_out: int
    seconds: float
    graph: TemporalGraph
    note: str | None = None

    @property
    def true(self) -> Intervals:
        """The intervals of the facts, [n]; an open bound is at the end of the axis."""
        return Intervals(*torch.from_numpy(self.facts[:, 3:5]).unbind(1))

    def __repr__(self) -> str:
        figures = self.summary()["metrics"]
        return (
            f"IntervalEvaluation({self.model} on {self.dataset}, {self.split}: {len(self.facts):,} "
            f"facts, aeIOU@1 {figures['aeiou@1']:.3f}, TAC {figures['tac']:.3f})"
        )

    def summary(self) -> IntervalSummary:
        """The metrics of all facts, and of each kind of bounds."""
        groups, kinds = by_kind(self.facts), {}
        step_years = years(self.graph.times)
        for group in np.unique(groups.group).tolist():
            own = torch.from_numpy(groups.group == group)
            predicted, true = (
                Intervals(each.start[own], each.end[own]) for each in (self.predicted, self.true)
            )
            kinds[groups.labels[group]] = IntervalFigures(
                facts=int(own.sum()), metrics=interval_metrics(predicted, true, step_years)
            )
        summary: IntervalSummary = {
            "dataset": self.dataset,
            "model": self.model,
            "split": self.split,
            "protocol": self.protocol,
            "metrics": interval_metrics(self.predicted, self.true, step_years),
            "kinds": kinds,
            "facts": len(self.facts),
            "left_out": self.left_out,
            "seconds": round(self.seconds, 3),
        }
        if self.note is not None:
            summary["note"] = self.note
        return summary

    def to_arrow(self) -> pa.Table:
        """One row per fact, in names, with the predicted interval, its probability and aeIOU."""
        labels = np.array(self.graph.times, dtype=object)
        bounds = (labels[column.numpy()] for column in (*self.true, *self.predicted))
        names = ("start", "end", "predicted_start", "predicted_end")
        parts = name_columns(self.graph, self.facts[:, :4])
        del parts["time"]
        columns = {
            name: pa.array(each, pa.string()) for name, each in zip(names, bounds, strict=True)
        }
        measured = {"probability": self.probability, "aeiou": aeiou(self.predicted, self.true)}
        return pa.table(
            parts | columns | {name: pa.array(each.numpy()) for name, each in measured.items()}
        )


def fit_interval_choice(
    model: Model,
    graph: TemporalGraph,
    calibrator: Calibrator,
    budget: int | None = None,
    progress: Progress | None = None,
) -> ChooserSummary:
    """How to choose intervals, fitted on validation facts."""
    facts = torch.from_numpy(_with_known_bounds(graph.valid)).to(model.device)
    affordable = max(1, _CELLS // len(graph.times))
    count = min(len(facts), _MAX_FITTED, affordable)
    chosen = torch.linspace(0, max(0, len(facts) - 1), count, dtype=torch.float64).round().long()
    facts = facts[chosen.to(model.device)]
    plausibility = step_plausibility(
        model, facts[:, :3], calibrator, budget=budget, progress=progress
    )
    true = Intervals(facts[:, 3], facts[:, 4])
    lengths, density = fit_lengths(model.timeline), fit_density(model.timeline)
    chooser = fit_chooser(lengths, plausibility, facts[:, 1], true, density=density)
    return {
        "sharpness": chooser.sharpness,
        "threshold": chooser.threshold,
        "density_weight": chooser.density_weight,
        "facts": count,
    }


def chooser_of(summary: ChooserSummary, model: Model) -> IntervalChooser:
    """What chooses intervals for a model, given how that was fitted."""
    return IntervalChooser(
        fit_lengths(model.timeline),
        summary["sharpness"],
        summary["threshold"],
        fit_density(model.timeline),
        summary.get("density_weight", 0.0),
    )


def has_known_intervals(graph: TemporalGraph, split: Split) -> bool:
    """Whether a split has facts whose intervals can be compared with predicted ones."""
    return len(_with_known_bounds(graph.facts(split))) > 0


def evaluate_intervals(
    model: Model,
    graph: TemporalGraph,
    split: Split,
    protocol: Protocol,
    calibrator: Calibrator,
    chooser: IntervalChooser,
    budget: int | None = None,
    progress: Progress | None = None,
) -> IntervalEvaluation:
    """Predict the interval of each fact of a split from its subject, relation and object.

    Raises DataError if each of them has an unknown bound.
    """
    if not has_known_intervals(graph, split):
        raise DataError(
            f"{graph.name}: every {split} fact has an unknown start or end, so there is no "
            "interval to compare with a predicted one; ask for entities"
        )
    started, known = time.perf_counter(), _with_known_bounds(graph.facts(split))
    facts, done = torch.from_numpy(known).to(model.device), 0
    num_scored = len(scored_steps(model.timeline, range(len(graph.times))))
    parts = []

    def advance(pairs: int, _: int) -> None:
        if progress is not None:
            progress(done + pairs, len(facts) * num_scored)

    for part in torch.split(facts, max(1, _CELLS // len(graph.times))):
        plausibility = step_plausibility(
            model, part[:, :3], calibrator, budget=budget, progress=advance
        )
        best = chooser.best(plausibility, part[:, 1])
        parts.append((*best.intervals, best.probability))
        done += len(part) * num_scored
    start, end, probability = (torch.cat(column)[:, 0].cpu() for column in zip(*parts, strict=True))
    return IntervalEvaluation(
        graph.name,
        model.name,
        split,
        protocol,
        known,
        Intervals(start, end),
        probability,
        len(graph.facts(split)) - len(known),
        time.perf_counter() - started,
        graph,
        model.note,
    )


def _with_known_bounds(facts: Facts) -> Facts:
    """The facts [n, 6] whose bounds are dates or open."""
    known: Facts = facts[(facts[:, 5] & (Bounds.UNKNOWN_START | Bounds.UNKNOWN_END)) == 0]
    return known
