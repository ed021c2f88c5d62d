"""Checks of a run that completes facts: held-out facts and the asked fact are not seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import Facts, rows_in
from tempograph.data.timeline import Queries, Timeline, fact_queries
from tempograph.errors import QueryError, RunError, TempographError
from tempograph.evaluation.audit_checks import TOLERANCE, AuditCheck, describe, largest_difference
from tempograph.experiments.audited_run import AuditedRun, with_facts
from tempograph.typing import Split

_MAX_REMOVED: Final = 10
"""Train facts that are removed one by one: the run is built again without each of them."""
_KNOWN_LEAK: Final = (
    "known leak of protocol paper: test decides which entities are active, so scores change"
)


def check_held_out(audited: AuditedRun, name: str, *splits: Split) -> AuditCheck:
    """Scores stay the same if all facts of some splits are replaced by random ones."""
    rng, graph = np.random.default_rng(0), audited.graph
    random: dict[Split, Facts] = {
        split: rng.integers(0, graph.sizes, (len(graph.facts(split)), 4)) for split in splits
    }
    queries, _ = fact_queries(audited.sampled_test_facts(), len(graph.relations))
    try:
        change = audited.score_change(with_facts(graph, random), queries)
    except TempographError as error:
        detail = f"with random facts it cannot be built: {error}"
        return {"name": name, "holds": False, "detail": detail}
    count = sum(map(len, random.values()))
    detail = f"{count:,} facts of {' and '.join(splits)} replaced by random ones: "
    detail += f"scores of {len(queries.time):,} queries are {change}"
    if not change.none and audited.protocol == "paper":
        detail = f"{_KNOWN_LEAK} ({describe(change.difference)})"
    return {"name": name, "holds": change.none, "detail": detail}


@torch.inference_mode()
def check_asked_fact(audited: AuditedRun) -> AuditCheck:
    """Scores that leave a fact out equal those of a run built without this fact.

    The scores that a model gives beside them, with all facts, are those of a usual query.
    """
    name, graph, timeline = "The asked fact is not seen", audited.graph, audited.run.timeline
    shared = int(rows_in(graph.test, graph.train).sum())
    if shared:
        detail = f"{shared:,} of {len(graph.test):,} test facts are in train as well"
        return {"name": name, "holds": False, "detail": detail}
    if (graph.train == graph.train[0]).all():
        detail = "no test fact is in train; without its only fact, train is empty"
        return {"name": name, "holds": True, "detail": detail}
    model = audited.model
    with suppress(QueryError):
        model = model.with_timeline(timeline)
    everyone = torch.arange(len(graph.entities), device=model.device)
    difference = effect = 0.0
    facts = graph.train[audited.sample("train", min(audited.num_facts, _MAX_REMOVED))]
    for fact in facts:
        row = torch.from_numpy(fact).to(model.device)
        left_out = (timeline.facts == row).all(1).nonzero()[:, 0]
        score_without = _scorer_without(audited, fact)
        queries, _ = fact_queries(row[None], len(graph.relations))
        for side in everyone.new_tensor([[0], [1]]):
            query = queries.take(side)
            claimed = model.counterfactual_scores(query, left_out, everyone)
            if claimed is None:
                detail = f"no test fact is in train; {model.name} leaves no facts out of scores"
                return {"name": name, "holds": True, "detail": detail}
            actual = torch.cat([audited.model.scores(query), score_without(query)]).to(claimed)
            difference = max(difference, largest_difference(claimed, actual))
            effect = max(effect, largest_difference(claimed[1:], claimed[:1]))
    detail = f"no test fact is in train; {2 * len(facts)} queries about train facts, with the "
    detail += f"fact left out and in a run built without it: {describe(difference)}; "
    detail += "leaving it out changes "
    detail += f"scores by up to {effect:.1e}" if effect else "no score"
    if not model.uses_train_facts:
        detail += ", because scores do not look facts up"
    return {"name": name, "holds": difference <= TOLERANCE, "detail": detail}


def _scorer_without(audited: AuditedRun, fact: Facts) -> Callable[[Queries], Tensor]:
    """Scores by the run built again without one train fact.

    Built again, a model may lack weights, if they belong to a pair that only this fact had, and
    may scale its scores by the number of facts. `with_timeline` does neither, so its scores are
    used in the first case and, if they put the candidates in the same order, in the second.
    """
    graph = replace(audited.graph, train=audited.graph.train[(audited.graph.train != fact).any(1)])
    timeline = Timeline(graph, audited.protocol, audited.model.device)
    moved = rebuilt = None
    with suppress(QueryError):
        moved = audited.model.with_timeline(timeline)
    try:
        rebuilt = audited.build(graph)
    except RunError:
        if moved is None:
            raise

    def score(queries: Queries) -> Tensor:
        scores = [model.scores(queries) for model in (moved, rebuilt) if model is not None]
        return scores[0] if _same_order(scores[0], scores[-1]) else scores[-1]

    return score


def _same_order(one: Tensor, other: Tensor) -> bool:
    """Whether two tables of one query's scores, [1, candidates], put them in the same order."""
    orders = (torch.unique(scores, return_inverse=True)[1] for scores in (one, other))
    return torch.equal(*orders)
