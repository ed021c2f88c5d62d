"""The search for what is likely to happen at steps to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.graph import Name, When
from tempograph.data.importers.later_steps import MAX_NEW_STEPS
from tempograph.data.timeline import Queries
from tempograph.errors import QueryError
from tempograph.models.base import Evidence
from tempograph.models.heads.fact_candidates import Search
from tempograph.prediction.completion import named_facts
from tempograph.prediction.explanation import explain
from tempograph.prediction.forecast import Forecast, ForecastFact, check_forecast
from tempograph.prediction.scenario import Scenario
from tempograph.prediction.time_notes import time_notes
from tempograph.training.occurrence_proposals import ProposedFacts
from tempograph.typing import Progress

_PROPOSALS_PER_ROW: Final = 3
"""Facts that are classified for each row of a step."""
_BATCH: Final = 256
"""Facts that are classified together."""


class StepForecast(NamedTuple):
    """Facts that may happen at one step [n, 4], and the probability of each [n]."""

    facts: Tensor
    probability: Tensor

    def best(self, top: int, at_least: float) -> StepForecast:
        """The most likely facts, of a probability of at least some value."""
        order = torch.argsort(self.probability, descending=True, stable=True)[:top]
        order = order[self.probability[order] >= at_least]
        return StepForecast(self.facts[order], self.probability[order])

    def row(self, number: int) -> StepForecast:
        """One of the facts."""
        one = slice(number, number + 1)
        return StepForecast(self.facts[one], self.probability[one])


class Outlook:
    """Forecasts of a scenario, for steps that its time grid has."""

    def __init__(self, scenario: Scenario, progress: Progress | None = None) -> None:
        """Fit what tells whether a fact will happen, if no forecast has needed it yet."""
        self.scenario = scenario
        self.classifier = scenario.run.questions.occurrence(progress)
        self.last = int(scenario.timeline.facts[-1, 3])
        """The last step that a fact is known of."""

    def now(self, step: int) -> int:
        """The first step of which nothing is known in a forecast for a step."""
        return min(step, self.last + 1)

    def at(
        self,
        step: int,
        search: Search | None = None,
        top: int | None = None,
        budget: int | None = None,
    ) -> StepForecast:
        """The facts that may happen at a step, in no order; enough for the `top` most likely."""
        parts = self.propose(step, search, top)
        found = (self.probability(step, part, budget) for part in parts)
        return StepForecast(torch.cat([part.facts for part in parts]), torch.cat(list(found)))

    def propose(
        self, step: int, search: Search | None = None, top: int | None = None
    ) -> list[ProposedFacts]:
        """The facts of `at` without their probabilities, in parts, at least one."""
        source, now = self.scenario.occurrences, self.now(step)
        limit = None if top is None else max(source.limit(now), _PROPOSALS_PER_ROW * top)
        found = source.propose(self.classifier, step, now, limit, search)
        starts = range(0, max(1, len(found.facts)), _BATCH)
        return [found.take(slice(start, start + _BATCH)) for start in starts]

    def probability(self, step: int, proposals: ProposedFacts, budget: int | None = None) -> Tensor:
        """The probability that each of some proposed facts happens at a step, [n]."""
        now = self.now(step)
        log_probs = self.scenario.occurrences.log_probs(proposals.facts, now, budget)
        return self.classifier.probability(proposals.features, log_probs, proposals.recurring)

    def summary(self, steps: range, facts: Sequence[ForecastFact] = ()) -> Forecast:
        """The forecast for some steps with the facts that were found."""
        times = self.scenario.graph.times
        return Forecast(
            tuple(facts),
            times[steps.start : steps.stop],
            times[self.now(steps.start) - 1],
            tuple(_notes(self.scenario, self, steps)),
        )

    def describe(self, found: StepForecast, max_evidence: int) -> list[ForecastFact]:
        """Facts of one step in names, with when they happened last, and evidence."""
        if not len(found.facts):
            return []
        graph, features = self.scenario.graph, self.scenario.occurrences.features
        step = int(found.facts[0, 3])
        now = self.now(step)
        inside = step <= self.last
        last, count = features.last_before(found.facts, now), features.count(found.facts, now)
        facts = []
        for row, probability, before, times, happened in zip(
            found.facts,
            found.probability.tolist(),
            last.tolist(),
            count.tolist(),
            features.happened(found.facts).tolist(),
            strict=True,
        ):
            evidence = self._evidence(row, now) if max_evidence else None
            facts.append(
                ForecastFact(
                    **graph.describe(row.cpu().numpy()),
                    probability=probability,
                    last=None if before < 0 else graph.times[before],
                    count=times,
                    happened=happened if inside else None,
                    why="not requested" if evidence is None else evidence.reason,
                    evidence=()
                    if evidence is None
                    else named_facts(graph, self.scenario.timeline, evidence, max_evidence),
                )
            )
        return facts

    @torch.inference_mode()
    def _evidence(self, fact: Tensor, now: int) -> Evidence:
        """The evidence for the object of a fact [4], asked for at the first unknown step."""
        subject, relation, object_, _ = fact.tolist()
        query = Queries(*torch.tensor([[subject], [relation], [now]], device=fact.device))
        return explain(self.scenario.model, self.scenario.timeline, query, [object_])[0]


def forecast(
    scenario: Scenario,
    date: When | None = None,
    days: int = 1,
    search: Search | None = None,
    top: int = 20,
    at_least: float = 0.0,
    max_evidence: int = 0,
    progress: Progress | None = None,
    budget: int | None = None,
) -> Forecast:
    """The `top` most likely facts of each of some steps, by default of the one after the data."""
    check_forecast(top, days, at_least)
    scenario, steps = find_steps(scenario, date, days)
    outlook = Outlook(scenario, progress)
    facts: list[ForecastFact] = []
    for number, step in enumerate(steps, 1):
        best = outlook.at(step, search, top, budget).best(top, at_least)
        facts += outlook.describe(best, max_evidence)
        if progress is not None:
            progress(number, len(steps))
    return outlook.summary(steps, facts)


def find_steps(scenario: Scenario, date: When | None, days: int) -> tuple[Scenario, range]:
    """The steps of a forecast, by default from the first without a fact on, and their scenario."""
    last, times = int(scenario.timeline.facts[-1, 3]), scenario.graph.times
    first = last + 1 if date is None else scenario.at(date)[1]
    if first < 1:
        raise QueryError(
            f"nothing is known before {times[0]}, so it cannot be forecast; choose a later date"
        )
    later = first + days - len(times)
    if later > MAX_NEW_STEPS:
        raise QueryError(
            f"days must be at most {days + MAX_NEW_STEPS - later:,}, found {days:,}: a forecast "
            f"reaches at most {MAX_NEW_STEPS:,} steps after the last one, {times[-1]}"
        )
    if later > 0:
        scenario = scenario.at(f"+{later}")[0]
    return scenario, range(first, first + days)


def _notes(scenario: Scenario, outlook: Outlook, steps: range) -> list[str]:
    """How far the forecast reaches, and how far its probabilities can be trusted."""
    notes = time_notes(scenario, steps[-1])
    if steps[-1] > outlook.last + 1:
        notes.append(
            "nothing is known of the steps in between, so the forecast is less certain than one "
            "step ahead"
        )
    summary = scenario.run.results.occurrence
    if summary is not None:
        notes.append(
            f"probabilities are calibrated on {summary['steps']} steps of valid, one step ahead: "
            f"expected calibration error {summary['calibration_error']:.3f}"
        )
    return notes


def make_search(
    scenario: Scenario, entity: Name | None, relations: Sequence[Name] | None
) -> Search:
    """The facts of an entity and of some relations; by default all."""
    graph = scenario.graph
    return Search(
        None if entity is None else graph.entity_id(entity),
        None if relations is None else [graph.relation_id(name) for name in relations],
    )
