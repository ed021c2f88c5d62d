"""Answers of a served run with other facts than its own; the run itself does not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import Tensor

from tempograph.data.fact_ids import FactBatch, read_facts
from tempograph.data.graph import COLUMNS, Facts
from tempograph.prediction.candidate_ranking import rank_candidates
from tempograph.prediction.completion import complete, score_candidates
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.server.completions import ONE_MISSING, prepare
from tempograph.server.problems import Place, invalid
from tempograph.server.schema.request_models import FactRequest, WhatIfRequest
from tempograph.server.schema.response_models import MovedAnswer, WhatIfResponse
from tempograph.server.served_run import ServedRun


class _Change(NamedTuple):
    """A question over the facts before and after a change."""

    fact: Fact
    sides: Sequence[tuple[Scenario, Tensor]]
    """Both scenarios with the scores of all candidates [candidates]."""
    candidates: list[int]
    """Those that are among the best before or after."""


async def what_if(run: ServedRun, request: WhatIfRequest, client: str) -> WhatIfResponse:
    """The best answers before and after facts are added and removed."""
    if request.parts.count(None) != 1:
        raise invalid(ONE_MISSING)
    if not request.added and not request.removed:
        raise invalid("give facts to add or to remove")
    fact = await run.find_ids(lambda: run.browser.fact_ids(request.parts))
    await prepare(run, fact)
    added = await run.find_ids(lambda: _fact_ids(run, "added", request.added))
    removed = await run.find_ids(lambda: _fact_ids(run, "removed", request.removed))

    def change() -> _Change:
        before = run.predictor.scenario
        for member, facts, refuse in (
            ("added", added, before.refuse_known),
            ("removed", removed, before.refuse_unknown),
        ):
            _refuse_errors(member, before, facts, refuse)
        if not len(added) and len(np.unique(removed, axis=0)) == len(before.graph.train):
            raise invalid("the model needs at least one fact; remove fewer")
        return _change(before, before.change(added, removed), fact, request.top)

    changed = await run.work(change, client)
    move = partial(_moves, changed)
    answers = await run.in_units(changed.candidates, move, len(changed.candidates), client)
    return WhatIfResponse(
        run=run.name,
        model=run.model_name,
        asked=COLUMNS[fact.index(-1)],
        answers=sorted(answers, key=lambda answer: answer.rank_after),
    )


def _fact_ids(run: ServedRun, member: str, facts: Sequence[FactRequest]) -> Facts:
    ids = [run.browser.fact_ids(each.parts, Place(member, row)) for row, each in enumerate(facts)]
    return np.array(ids, dtype=np.int64).reshape(-1, 4)


def _refuse_errors(
    member: str, scenario: Scenario, facts: Facts, refuse: Callable[[FactBatch], FactBatch]
) -> None:
    """Raise the problem of the first fact that cannot be added or removed."""
    batch = refuse(read_facts(scenario.graph, facts, {}))
    wrong = np.flatnonzero(~batch.valid)
    if len(wrong):
        index = int(wrong[0])
        raise invalid(batch.errors.texts[index].as_py(), Place(member, index))


def _change(before: Scenario, after: Scenario, fact: Fact, top: int) -> _Change:
    sides = [(scenario, score_candidates(scenario, fact)) for scenario in (before, after)]
    best = [rank_candidates(scenario, fact, scores, top).candidates for scenario, scores in sides]
    return _Change(fact, sides, list(dict.fromkeys([*best[1], *best[0]])))


def _moves(change: _Change, candidates: Sequence[int]) -> list[MovedAnswer]:
    """How some candidates move."""
    return [_move(change, candidate) for candidate in candidates]


def _move(change: _Change, candidate: int) -> MovedAnswer:
    old, new = (
        complete(scenario, change.fact, scores, 1, 0, candidate=candidate).answers[0]
        for scenario, scores in change.sides
    )
    return MovedAnswer(
        name=new.name,
        rank_before=old.rank,
        rank_after=new.rank,
        probability_before=old.probability,
        probability_after=new.probability,
    )
