"""Facts that are missing from the data: proposals, and how likely each of them happened."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.data.result_table import name_columns
from tempograph.evaluation.fact_scores import entity_log_probs
from tempograph.io import atomic_file
from tempograph.models.heads.fact_candidates import Search, propose_facts
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
        others = [
            np.flatnonzero(triple == triple[row])[1 : 1 + _OTHER_STEPS] for row in best.tolist()
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


def find_missing(
    scenario: Scenario,
    search: Search,
    top: int | None,
    progress: Progress | None = None,
    budget: int | None = None,
) -> MissingFacts:
    """The most plausible facts that are not in the data, and the probability of each.

    With `top`, enough of them for that many rows; otherwise many more.
    """
    heads, known = scenario.heads(progress), scenario.known_facts
    classifier = scenario.run.questions.classifier(progress)
    limit = _MAX_PROPOSALS if top is None else max(_MIN_PROPOSALS, _PROPOSALS_PER_ROW * top)
    facts = propose_facts(heads.relation, heads.time, known, limit, search, progress).facts
    log_probs = partial(
        entity_log_probs,
        model=scenario.model,
        known=scenario.known,
        calibrator=scenario.calibrator("entity"),
        budget=budget,
    )
    # By time, so that models that encode a step once can.
    facts = facts[torch.argsort(facts[:, 3], stable=True)]
    parts = [torch.empty(0, dtype=torch.float64, device=facts.device)]
    done = 0
    for batch in torch.split(facts, _BATCH):
        features = fact_features(batch, heads.relation, heads.time)
        parts.append(classifier.probability(features, log_probs(batch)))
        done += len(batch)
        if progress is not None:
            progress(done, len(facts))
    return MissingFacts(facts, torch.cat(parts))


def write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file atomically."""
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary)
