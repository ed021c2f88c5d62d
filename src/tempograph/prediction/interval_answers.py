"""Answers to the question when (s, r, o) holds: the best intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.data.span_text import span_labels, span_text
from tempograph.errors import ConfigError
from tempograph.evaluation.interval_choice import BestIntervals
from tempograph.evaluation.step_plausibility import (
    interpolate,
    plausibility_at,
    scored_steps,
    step_plausibility,
)
from tempograph.models.base import Evidence
from tempograph.prediction.answer import Answer
from tempograph.prediction.answers import Completion
from tempograph.prediction.completion import fact_notes, named_facts
from tempograph.prediction.explanation import explain
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.typing import Progress


class RankedInterval(NamedTuple):
    """An interval that may be the answer, from its first to its last step."""

    first: int
    last: int
    probability: float
    """Of exactly this interval."""
    overlap: float
    """The aeIOU with the true interval to expect."""


class IntervalSearch:
    """The search for the best intervals of a fact whose time is missing, inside a period.

    Its parts can be computed one by one: the plausibility at some of the `scored` steps, the best
    intervals, and the evidence for some of them.
    """

    def __init__(
        self,
        scenario: Scenario,
        fact: Fact,
        period: range | None = None,
        progress: Progress | None = None,
    ) -> None:
        """By default, all steps may be among the answers."""
        self.scenario, self.fact = scenario, fact
        self.steps = range(len(scenario.graph.times)) if period is None else period
        self.chooser = scenario.run.questions.interval_chooser(scenario.model, progress)
        self._triple = torch.tensor([fact[:3]], device=scenario.model.device)
        self._scored = scored_steps(scenario.timeline, self.steps)
        self.scored: list[int] = self._scored.tolist()
        """The steps at which the plausibility is computed, ascending."""

    def plausibility(self, scored: Sequence[int], progress: Progress | None = None) -> Tensor:
        """How plausible the fact is at each of some steps, [k]."""
        steps = torch.tensor(scored, device=self._triple.device)
        calibrator = self.scenario.calibrator("entity")
        found = plausibility_at(
            self.scenario.model, self._triple, calibrator, steps, progress=progress
        )
        return found[:, 0]

    @torch.inference_mode()
    def best(self, plausibility: Tensor, top: int) -> list[RankedInterval]:
        """The best intervals, given the plausibility at all scored steps."""
        every = interpolate(plausibility[:, None], self._scored, self.steps)
        best = self.chooser.best(every, self._triple[:, 1], top, self.steps.start)
        columns = (*best.intervals, best.probability, best.overlap)
        return [
            RankedInterval(self.steps.start + start, self.steps.start + end, probability, overlap)
            for start, end, probability, overlap in zip(
                *(column[0].tolist() for column in columns), strict=True
            )
        ]

    @torch.inference_mode()
    def explain(self, intervals: Sequence[RankedInterval]) -> list[Evidence]:
        """The evidence for each of some intervals: that at its middle step."""
        scenario, fact = self.scenario, self.fact
        queries = [
            scenario.query((*fact[:2], -1, (each.first + each.last) // 2)) for each in intervals
        ]
        return [
            explain(scenario.model, scenario.timeline, query, [fact[2]])[0] for query in queries
        ]

    def name(
        self,
        intervals: Sequence[RankedInterval],
        evidence: Sequence[Evidence] | None,
        max_evidence: int,
    ) -> Completion:
        """The intervals in names, each with its evidence, if that was requested."""
        scenario, fact = self.scenario, self.fact
        graph, timeline = scenario.graph, scenario.timeline
        if evidence is None:
            evidence = [Evidence("not requested", timeline.facts[:0])] * len(intervals)
        known = scenario.known_facts_for(fact, 3)
        answers: list[Answer] = []
        for each, found in zip(intervals, evidence, strict=True):
            labels = span_labels(each.first, each.last, 0, graph.times)
            inside = range(each.first, each.last + 1)
            row = next((known[step] for step in inside if step in known), None)
            answers.append(
                Answer(
                    rank=1 + sum(other.score > each.overlap for other in answers),
                    name=span_text(*labels),
                    score=each.overlap,
                    probability=each.probability,
                    known=None if row is None else row.split,
                    why=found.reason,
                    evidence=named_facts(graph, timeline, found, max_evidence),
                    evidence_count=found.count,
                    since=None if row is None else row.start,
                    until=None if row is None else row.end,
                    start=labels[0],
                    end=labels[1],
                )
            )
        names = (graph.entities[fact[0]], graph.relations[fact[1]], graph.entities[fact[2]])
        return Completion(*names, None, "time", tuple(answers), fact_notes(scenario, fact))


@torch.inference_mode()
def best_intervals(
    scenario: Scenario,
    triples: Tensor,
    top: int,
    steps: range,
    budget: int | None = None,
    progress: Progress | None = None,
) -> BestIntervals:
    """The best intervals of triples [n, 3] inside some steps, counted from the first of them."""
    chooser = scenario.run.questions.interval_chooser(scenario.model, progress)
    plausibility = step_plausibility(
        scenario.model, triples, scenario.calibrator("entity"), steps, budget, progress
    )
    return chooser.best(plausibility, triples[:, 1], top, steps.start)


def complete_interval(
    scenario: Scenario,
    fact: Fact,
    top: int,
    max_evidence: int,
    *,
    period: range | None = None,
    progress: Progress | None = None,
) -> Completion:
    """The best intervals of a fact whose time is missing, from all intervals inside the period.

    The score of an interval is its overlap (aeIOU) with the true one to expect, and its probability
    that of exactly this interval. Evidence is that at its middle step.
    """
    if top < 1:
        raise ConfigError(f"top must be at least 1, found {top}")
    search = IntervalSearch(scenario, fact, period, progress)
    intervals = search.best(search.plausibility(search.scored, progress), top)
    evidence = search.explain(intervals) if max_evidence else None
    return search.name(intervals, evidence, max_evidence)
