"""Answers of a served run with other facts than its own; the run itself does not change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from torch import Tensor

from tempograph.data.graph import COLUMNS
from tempograph.prediction.candidate_ranking import rank_candidates
from tempograph.prediction.completion import complete, score_candidates
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.server.completions import ONE_MISSING, prepare
from tempograph.server.given_facts import read_groups
from tempograph.server.problems import invalid
from tempograph.server.schema.request_models import WhatIfRequest
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
    added = await run.look_up(lambda: read_groups(run, "added", request.added))
    removed = await run.look_up(lambda: read_groups(run, "removed", request.removed))

    def change() -> _Change:
        before = run.predictor.scenario
        for member, groups, refuse in (
            ("added", added, before.refuse_known),
            ("removed", removed, before.refuse_unknown),
        ):
            for group in groups:
                group._replace(batch=refuse(group.batch)).refuse_errors(member)
        facts = ([group.batch.ids for group in groups] for groups in (added, removed))
        return _change(before, before.change(*facts), fact, request.top)

    changed = await run.work(change, client)
    move = partial(_moves, changed)
    answers = await run.in_units(changed.candidates, move, len(changed.candidates), client)
    return WhatIfResponse(
        run=run.name,
        model=run.model_name,
        asked=COLUMNS[fact.index(-1)],
        answers=sorted(answers, key=lambda answer: answer.rank_after),
    )


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
