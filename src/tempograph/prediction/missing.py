"""Facts that are missing from the data: proposals, and how likely each of them happened."""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.result_table import name_columns
from tempograph.data.spans import EVENT_COLUMNS, INTERVAL_COLUMNS, Bounds
from tempograph.evaluation.fact_scores import entity_log_probs
from tempograph.models.heads.fact_candidates import ProposalSearch, Search
from tempograph.models.heads.fact_features import fact_features
from tempograph.prediction.interval_answers import best_intervals
from tempograph.prediction.scenario import Scenario
from tempograph.training.held_proposals import HeldProposals
from tempograph.typing import Progress

_MIN_PROPOSALS: Final = 5_000
_PROPOSALS_PER_ROW: Final = 5
"""Proposals of each kind that are classified: at least so many, and so many for each row."""
_MAX_PROPOSALS: Final = 50_000
"""Proposals of each kind that are classified if all facts above a probability are asked for; those
beyond are not likely."""
_BATCH: Final = 10_000
"""Proposals that are classified together."""
_OTHER_STEPS: Final = 5
"""Further steps that a row names."""
_INTERVAL_CELLS: Final = 2**20
"""Pairs of a fact and a step whose intervals are chosen together."""


class MissingFacts(NamedTuple):
    """Facts that are not in the data, and the probability that each happened [n].

    Events are rows [n, 4], in which a triple may have several steps. Facts that hold for a while
    are rows of distinct triples: [n, 4] with some step at which they may hold, and [n, 6] once
    their intervals are chosen.
    """

    facts: Tensor
    probability: Tensor

    def at_least(self, probability: float) -> MissingFacts:
        """Those that happened with at least this probability."""
        kept = self.probability >= probability
        return MissingFacts(self.facts[kept], self.probability[kept])

    def best(self, top: int) -> MissingFacts:
        """The most likely ones, in order."""
        kept = self.order()[:top]
        return MissingFacts(self.facts[kept], self.probability[kept])

    def order(self) -> Tensor:
        """The positions of the facts, the most likely first, [n]."""
        return torch.argsort(self.probability, descending=True, stable=True)

    def table(self, graph: TemporalGraph) -> pa.Table:
        """One row per fact by time: subject, relation, object, time, probability.

        Facts that hold for a while have their start and end after the time.
        """
        order = self.order()
        order = order[torch.argsort(self.facts[order, 3], stable=True)].cpu()
        columns = name_columns(graph, self.facts.cpu().numpy()[order])
        columns["probability"] = pa.array(self.probability.cpu().numpy()[order])
        return pa.table(columns)

    def by_triple(self, graph: TemporalGraph, top: int) -> pa.Table:
        """One row per triple, best first, at its best step.

        The columns are subject, relation, object, time, probability, and `other_times` with the
        next best steps and `other_probabilities` with theirs. Facts that hold for a while have
        their start and end in place of other steps.
        """
        if self.facts.shape[1] > EVENT_COLUMNS:
            found = self.best(top)
            columns = name_columns(graph, found.facts.cpu().numpy())
            columns["probability"] = pa.array(found.probability.cpu().numpy())
            return pa.table(columns)
        order = self.order()
        facts, probability = self.facts[order].cpu().numpy(), self.probability[order].cpu().numpy()
        _, first, triple = np.unique(facts[:, :3], axis=0, return_index=True, return_inverse=True)
        best = np.sort(first)[:top]
        grouped = np.argsort(triple, kind="stable")
        start = np.searchsorted(triple[grouped], triple[best])
        stop = np.searchsorted(triple[grouped], triple[best], "right")
        others = [
            grouped[begin + 1 : min(end, begin + 1 + _OTHER_STEPS)]
            for begin, end in zip(start.tolist(), stop.tolist(), strict=True)
        ]
        columns = name_columns(graph, facts[best])
        columns["probability"] = pa.array(probability[best])
        columns["other_times"] = pa.array(
            [[graph.times[facts[row, 3]] for row in rows] for rows in others], pa.list_(pa.string())
        )
        columns["other_probabilities"] = pa.array(
            [probability[rows].tolist() for rows in others], pa.list_(pa.float64())
        )
        return pa.table(columns)


class MissingSearch:
    """A search for missing facts: proposals, the probability of each, and when the best ones hold.

    With `top`, there are enough proposals for that many rows; otherwise many more.
    """

    def __init__(
        self, scenario: Scenario, search: Search, top: int | None, budget: int | None = None
    ) -> None:
        self._scenario, self._search, self._budget = scenario, search, budget
        self._limit = (
            _MAX_PROPOSALS if top is None else max(_MIN_PROPOSALS, _PROPOSALS_PER_ROW * top)
        )
        self._steps = search.steps or range(len(scenario.graph.times))

    @property
    def has_intervals(self) -> bool:
        """Whether facts hold for a while, so that intervals have to be chosen for the best ones."""
        return self._scenario.timeline.has_intervals

    @cached_property
    def _held(self) -> HeldProposals:
        scenario = self._scenario
        calibrator = scenario.calibrator("entity")
        return HeldProposals(scenario.model, scenario.known_facts, calibrator)

    def fit(self, progress: Progress | None = None) -> None:
        """Fit what the search needs, if no question has needed it yet."""
        questions = self._scenario.run.questions
        if not self.has_intervals:
            questions.heads(progress)
        questions.classifier(progress)
        if self.has_intervals:
            questions.interval_chooser(self._scenario.model, progress)

    def proposals(self, progress: Progress | None = None) -> ProposalSearch:
        """The search for proposals of events, of which no question is answered yet."""
        self.fit(progress)
        heads, known_facts = self._scenario.heads(progress), self._scenario.known_facts
        return ProposalSearch(
            heads.relation, heads.of_times, known_facts, self._limit, self._search
        )

    def propose(self, progress: Progress | None = None) -> Tensor:
        """The most plausible facts that are not in the data, in the order of time, [n, 4]."""
        if self.has_intervals:
            self.fit(progress)
            return by_time(self._held.propose(self._limit, self._search, progress))
        found = self.proposals(progress)
        found.answer(range(len(found)), progress)
        return by_time(found.proposals().facts)

    def probability(self, facts: Tensor) -> Tensor:
        """The probability that each of some proposals [n, 4] happened, [n]."""
        scenario = self._scenario
        classifier = scenario.run.questions.classifier()
        if self.has_intervals:
            return classifier.probability(*self._held.describe(facts, self._budget))
        heads = scenario.heads()
        log_probs = entity_log_probs(
            facts,
            model=scenario.model,
            known=scenario.known,
            calibrator=scenario.calibrator("entity"),
            budget=self._budget,
        )
        return classifier.probability(
            fact_features(facts, heads.relation, heads.of_times), log_probs
        )

    @property
    def held_together(self) -> int:
        """How many facts `hold` should take at once, so that they fit into memory."""
        return max(1, _INTERVAL_CELLS // len(self._steps))

    def hold(self, facts: Tensor, progress: Progress | None = None) -> Tensor:
        """Facts [n, 4] with the best interval of each inside the period, [n, 6]."""
        best = best_intervals(
            self._scenario, facts[:, :3], 1, self._steps, self._budget, progress
        ).intervals
        start, end = (self._steps.start + column[:, 0] for column in best)
        return torch.column_stack([facts[:, :3], start, end, torch.full_like(start, Bounds.CLOSED)])


def by_time(facts: Tensor) -> Tensor:
    """Facts in the order of time, so that models can encode each step once, [n, 4]."""
    return facts[torch.argsort(facts[:, 3], stable=True)]


def find_missing(
    scenario: Scenario,
    search: Search,
    top: int | None,
    progress: Progress | None = None,
    budget: int | None = None,
    at_least: float | None = None,
) -> MissingFacts:
    """The most plausible facts that are not in the data, and the probability of each.

    With `at_least`, those of at least this probability. Of facts that hold for a while, there are
    the `top` most likely, if that is given, with their intervals.
    """
    scan = MissingSearch(scenario, search, top, budget)
    facts = scan.propose(progress)
    parts = [torch.empty(0, dtype=torch.float64, device=facts.device)]
    done = 0
    for batch in torch.split(facts, _BATCH):
        parts.append(scan.probability(batch))
        done += len(batch)
        if progress is not None:
            progress(done, len(facts))
    found = MissingFacts(facts, torch.cat(parts))
    if at_least is not None:
        found = found.at_least(at_least)
    if not scan.has_intervals:
        return found
    found = found if top is None else found.best(top)
    held, done = [facts.new_empty(0, INTERVAL_COLUMNS)], 0
    for batch in torch.split(found.facts, scan.held_together):
        held.append(scan.hold(batch))
        done += len(batch)
        if progress is not None:
            progress(done, len(found.facts))
    return MissingFacts(torch.cat(held), found.probability)
