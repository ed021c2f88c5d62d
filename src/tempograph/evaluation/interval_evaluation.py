"""Prediction of the interval of (s, r, o), measured on a split."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.calendar import years
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.result_table import Tabular, name_columns
from tempograph.errors import DataError
from tempograph.evaluation.interval_choice_fit import (
    MAX_CELLS,
    ChooserSummary,
    choosers_of_each,
    cross_fitted_scores,
    known_positions,
)
from tempograph.evaluation.interval_figures import by_kind
from tempograph.evaluation.interval_overlap import Intervals, aeiou, interval_metrics
from tempograph.evaluation.probabilities import Calibrator
from tempograph.evaluation.step_plausibility import cross_fitted_plausibility, scored_steps
from tempograph.models.base import Model
from tempograph.typing import Progress, Protocol, Split


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
    probability: Tensor
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


def has_known_intervals(graph: TemporalGraph, split: Split) -> bool:
    """Whether a split has facts whose intervals can be compared with predicted ones."""
    return len(known_positions(graph.facts(split))) > 0


def evaluate_intervals(
    model: Model,
    graph: TemporalGraph,
    split: Split,
    protocol: Protocol,
    calibrator: Calibrator,
    choice: ChooserSummary,
    budget: int | None = None,
    progress: Progress | None = None,
) -> IntervalEvaluation:
    """Predict the interval of each fact of a split from its subject, relation and object.

    Of the valid facts that the choice was fitted on, each half is measured with what was fitted on
    the other half. Raises DataError if each fact has an unknown bound.
    """
    if not has_known_intervals(graph, split):
        raise DataError(
            f"{graph.name}: every {split} fact has an unknown start or end, so there is no "
            "interval to compare with a predicted one; ask for entities"
        )
    started, known = time.perf_counter(), known_positions(graph.facts(split))
    rows = torch.from_numpy(graph.facts(split))[known]
    facts, done = rows.to(model.device), 0
    cross_fitted = cross_fitted_scores(model, graph, split, known)
    choosers, number, note = choosers_of_each(choice, model, split, len(facts))
    num_scored = len(scored_steps(model.timeline, range(len(graph.times))))
    types = (torch.int64, torch.int64, torch.float64)
    found = [torch.empty(len(facts), dtype=kind, device=model.device) for kind in types]

    def advance(pairs: int, _: int) -> None:
        if progress is not None:
            progress(done + pairs, len(facts) * num_scored)

    every = torch.arange(len(facts), device=model.device)
    for part in every.split(max(1, MAX_CELLS // len(graph.times))):
        plausibility = cross_fitted_plausibility(
            model,
            facts[part, :3],
            calibrator,
            cross_fitted and cross_fitted._replace(scorer=cross_fitted.scorer[part]),
            budget,
            advance,
        )
        for index, chooser in enumerate(choosers):
            own = number[part] == index
            best = chooser.best(plausibility[own], facts[part[own], 1])
            for column, values in zip(found, (*best.intervals, best.probability), strict=True):
                column[part[own]] = values[:, 0]
        done += len(part) * num_scored
    start, end, probability = (column.cpu() for column in found)
    notes = (cross_fitted.note if cross_fitted else model.note, note)
    return IntervalEvaluation(
        graph.name,
        model.name,
        split,
        protocol,
        rows.numpy(),
        Intervals(start, end),
        probability,
        len(graph.facts(split)) - len(rows),
        time.perf_counter() - started,
        graph,
        "; ".join(filter(None, notes)) or None,
    )
