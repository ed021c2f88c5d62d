"""Checks of a run that forecasts: it answers from the facts before a query alone."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.timeline import fact_queries
from tempograph.errors import TempographError
from tempograph.evaluation.audit_checks import AuditCheck
from tempograph.experiments.audited_run import AuditedRun, ScoreChange, with_facts
from tempograph.typing import SPLITS, ForecastProtocol, Split

_MAX_STEPS: Final = 3
"""Test steps that are asked about: the run is built again for each of them."""


def check_past_only(audited: AuditedRun) -> AuditCheck:
    """Scores at a step stay the same if all facts at or after it are replaced by random ones.

    In multi-step forecasts, they stay the same if all test facts are.
    """
    name, graph = "Only the past is seen", audited.graph
    facts = facts_of_some_steps(audited)
    steps = facts[:, 3].unique().tolist()
    try:
        changes = [
            _change(audited, facts[facts[:, 3] == step], step, "forecast-single") for step in steps
        ]
        multi_step = _change(audited, facts, int(graph.test[:, 3].min()), "forecast-multi")
    except TempographError as error:
        detail = f"with random facts it cannot be built: {error}"
        return {"name": name, "holds": False, "detail": detail}
    worst = max(changes, key=lambda change: change.difference)
    labels = ", ".join(graph.times[step] for step in steps)
    detail = f"all facts from {labels} on replaced by random ones: scores of {2 * len(facts):,} "
    detail += f"queries at these steps are {worst}; multi-step, with all test facts replaced: "
    detail += str(multi_step)
    holds = all(change.none for change in (*changes, multi_step))
    return {"name": name, "holds": holds, "detail": detail}


def facts_of_some_steps(audited: AuditedRun) -> Tensor:
    """Test facts at the first step, the last and one between: as many as the audit asks about.

    Returns [n, 4]. Facts of one step show whether queries about it see each other.
    """
    test, rng = audited.graph.test, np.random.default_rng(0)
    steps = np.unique(test[:, 3])
    steps = steps[np.linspace(0, len(steps) - 1, min(_MAX_STEPS, len(steps))).astype(int)]
    count = max(1, audited.num_facts // len(steps))
    chosen = [rng.permutation(test[test[:, 3] == step])[:count] for step in steps]
    return torch.from_numpy(np.concatenate(chosen)).to(audited.model.device)


def _change(
    audited: AuditedRun, facts: Tensor, step: int, protocol: ForecastProtocol
) -> ScoreChange:
    """How far the scores of both queries of facts [n, 4] move with random facts from a step on."""
    queries, _ = fact_queries(facts, len(audited.graph.relations))
    return audited.score_change(with_random_future(audited.graph, step), queries, protocol)


def with_random_future(graph: TemporalGraph, step: int) -> TemporalGraph:
    """The graph with random facts instead of those at or after a step, as many in each split."""
    rng, changed = np.random.default_rng(step), dict[Split, Facts]()
    for split in SPLITS:
        facts = graph.facts(split).copy()
        later = facts[:, 3] >= step
        facts[later] = rng.integers((0, 0, 0, step), graph.sizes, (int(later.sum()), 4))
        changed[split] = facts
    return with_facts(graph, changed)
