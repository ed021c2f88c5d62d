"""Answers to the question when (s, r, o) holds: the best intervals."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.span_text import span_labels, span_text
from tempograph.errors import ConfigError
from tempograph.evaluation.interval_choice import BestIntervals
from tempograph.evaluation.step_plausibility import step_plausibility
from tempograph.models.base import Evidence
from tempograph.prediction.answer import Answer
from tempograph.prediction.answers import Completion
from tempograph.prediction.completion import fact_notes, named_facts
from tempograph.prediction.explanation import explain
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.typing import Progress


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


@torch.inference_mode()
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
    graph, timeline, model = scenario.graph, scenario.timeline, scenario.model
    triple = torch.tensor([fact[:3]], device=model.device)
    steps = range(len(graph.times)) if period is None else period
    best = best_intervals(scenario, triple, top, steps, progress=progress)
    known = scenario.known_facts_for(fact, 3)
    answers: list[Answer] = []
    columns = (*best.intervals, best.probability, best.overlap)
    for start, end, probability, overlap in zip(
        *(column[0].tolist() for column in columns), strict=True
    ):
        first, last = steps.start + start, steps.start + end
        labels = span_labels(first, last, 0, graph.times)
        row = next((known[step] for step in range(first, last + 1) if step in known), None)
        evidence = Evidence("not requested", timeline.facts[:0])
        if max_evidence:
            query = scenario.query((*fact[:2], -1, (first + last) // 2))
            [evidence] = explain(model, timeline, query, [fact[2]])
        answers.append(
            Answer(
                rank=1 + sum(each.score > overlap for each in answers),
                name=span_text(*labels),
                score=overlap,
                probability=probability,
                known=None if row is None else row.split,
                why=evidence.reason,
                evidence=named_facts(graph, timeline, evidence, max_evidence),
                evidence_count=evidence.count,
                since=None if row is None else row.start,
                until=None if row is None else row.end,
                start=labels[0],
                end=labels[1],
            )
        )
    names = (graph.entities[fact[0]], graph.relations[fact[1]], graph.entities[fact[2]])
    return Completion(*names, None, "time", tuple(answers), fact_notes(scenario, fact))
