"""Facts that are missing from the data: proposals, and how likely each of them happened."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.result_table import name_columns
from tempograph.evaluation.fact_scores import entity_log_probs
from tempograph.models.heads.fact_candidates import ProposalSearch, Search
from tempograph.models.heads.fact_features import fact_features
from tempograph.prediction.scenario import Scenario
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


class MissingFacts(NamedTuple):
    """Facts [n, 4] that are not in the data, and the probability that each happened [n]."""

    facts: Tensor
    probability: Tensor

    def at_least(self, probability: float) -> MissingFacts:
        """Those that happened with at least this probability."""
        kept = self.probability >= probability
        return MissingFacts(self.facts[kept], self.probability[kept])

    def order(self) -> Tensor:
        """The positions of the facts, the most likely first, [n]."""
        return torch.argsort(self.probability, descending=True, stable=True)

    def table(self, graph: TemporalGraph) -> pa.Table:
        """One row per fact by time: subject, relation, object, time, probability."""
        order = self.order()
        order = order[torch.argsort(self.facts[order, 3], stable=True)].cpu()
        columns = name_columns(graph, self.facts.cpu().numpy()[order])
        columns["probability"] = pa.array(self.probability.cpu().numpy()[order])
        return pa.table(columns)

    def by_triple(self, graph: TemporalGraph, top: int) -> pa.Table:
        """One row per triple, best first, at its best step.

        The columns are subject, relation, object, time, probability, and `other_times` with the
        next best steps and `other_probabilities` with theirs.
        """
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
    """A search for missing facts, in two parts: proposals, and the probability of each.

    With `top`, there are enough proposals for that many rows; otherwise many more.
    """

    def __init__(
        self, scenario: Scenario, search: Search, top: int | None, budget: int | None = None
    ) -> None:
        self._scenario, self._search, self._budget = scenario, search, budget
        self._limit = (
            _MAX_PROPOSALS if top is None else max(_MIN_PROPOSALS, _PROPOSALS_PER_ROW * top)
        )

    def proposals(self, progress: Progress | None = None) -> ProposalSearch:
        """The search for proposals, of which no question is answered yet."""
        scenario = self._scenario
        heads = scenario.heads(progress)
        scenario.run.questions.classifier(progress)
        return ProposalSearch(
            heads.relation, heads.time, scenario.known_facts, self._limit, self._search
        )

    def propose(self, progress: Progress | None = None) -> Tensor:
        """The most plausible facts that are not in the data, in the order of time, [n, 4]."""
        found = self.proposals(progress)
        found.answer(range(len(found)), progress)
        return by_time(found)

    def probability(self, facts: Tensor) -> Tensor:
        """The probability that each of some proposals [n, 4] happened, [n]."""
        scenario = self._scenario
        heads, classifier = scenario.heads(), scenario.run.questions.classifier()
        log_probs = entity_log_probs(
            facts,
            model=scenario.model,
            known=scenario.known,
            calibrator=scenario.calibrator("entity"),
            budget=self._budget,
        )
        return classifier.probability(fact_features(facts, heads.relation, heads.time), log_probs)


def by_time(found: ProposalSearch) -> Tensor:
    """The proposed facts in the order of time, so that models can encode each step once, [n, 4]."""
    facts = found.proposals().facts
    return facts[torch.argsort(facts[:, 3], stable=True)]


def find_missing(
    scenario: Scenario,
    search: Search,
    top: int | None,
    progress: Progress | None = None,
    budget: int | None = None,
) -> MissingFacts:
    """The most plausible facts that are not in the data, and the probability of each."""
    scan = MissingSearch(scenario, search, top, budget)
    facts = scan.propose(progress)
    parts = [torch.empty(0, dtype=torch.float64, device=facts.device)]
    done = 0
    for batch in torch.split(facts, _BATCH):
        parts.append(scan.probability(batch))
        done += len(batch)
        if progress is not None:
            progress(done, len(facts))
    return MissingFacts(facts, torch.cat(parts))
