"""Scores of many facts by a served run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tempograph.data.fact_ids import read_facts
from tempograph.data.graph import COLUMNS, Facts
from tempograph.prediction.scoring import SIDES
from tempograph.server.problems import Place, invalid
from tempograph.server.schema.request_models import ScoreRequest
from tempograph.server.schema.response_models import CandidateScore, FactNames, ScoredFact
from tempograph.server.served_run import ServedRun


class _GivenFacts(NamedTuple):
    """The ids [n, 4] of facts, their names, and what is wrong with each."""

    ids: Facts
    names: list[FactNames]
    errors: list[str | None]


async def score_facts(run: ServedRun, request: ScoreRequest, client: str) -> list[ScoredFact]:
    """Score, probability and rank of each fact as the answer for its object and its subject."""
    given = await run.look_up(lambda: _read(run, request))
    rows = [row for row, error in enumerate(given.errors) if error is None]
    # Queries at one time share its encoding.
    rows.sort(key=lambda row: int(given.ids[row, 3]))
    scored = await run.in_units(
        rows,
        partial(_score, run, given, request.ranks),
        max(1, run.batcher.max_questions // 2),
        client,
    )
    facts = dict(zip(rows, scored, strict=True))
    for row, error in enumerate(given.errors):
        if error is not None:
            facts[row] = ScoredFact(
                fact=given.names[row], known=None, object=None, subject=None, error=error
            )
    return [facts[row] for row in range(len(facts))]


def _read(run: ServedRun, request: ScoreRequest) -> _GivenFacts:
    """The facts of a request; if strict, the first wrong one is raised."""
    predictor, facts = run.predictor, [fact.parts for fact in request.facts]
    if request.strict:
        for index, parts in enumerate(facts):
            place = Place("facts", index)
            if None in parts:
                raise invalid(f"the {COLUMNS[parts.index(None)]} is missing", place)
            facts[index] = run.browser.fact_ids(parts, place)
    # A missing part is an error of its fact.
    rows: list[Any] = facts
    batch = read_facts(predictor.graph, rows, {}, predictor.run.import_options)
    names = zip(*(column.to_pylist() for column in batch.names().values()), strict=True)
    return _GivenFacts(
        batch.ids,
        [FactNames(**dict(zip(COLUMNS, row, strict=True))) for row in names],
        batch.errors.texts.to_pylist(),
    )


def _score(
    run: ServedRun, given: _GivenFacts, ranks: bool, rows: Sequence[int]
) -> list[ScoredFact]:
    table = run.predictor.score(np.array(given.ids[list(rows)]), progress=False, ranks=ranks)
    return [
        ScoredFact(
            fact=given.names[row],
            known=scored["known"],
            error=None,
            **{side: _side(scored, side) for side in SIDES},
        )
        for row, scored in zip(rows, table.to_pylist(), strict=True)
    ]


def _side(row: dict[str, Any], side: str) -> CandidateScore:
    score = row[f"{side}_score"]
    return CandidateScore(
        score=score if math.isfinite(score) else None,
        probability=row.get(f"{side}_probability"),
        rank=row.get(f"{side}_rank"),
    )
