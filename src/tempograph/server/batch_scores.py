"""Scores of many facts by a served run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tempograph.data.fact_ids import FactBatch
from tempograph.prediction.scoring import SIDES
from tempograph.server.given_facts import FactGroup, read_groups
from tempograph.server.schema.request_models import ScoreRequest
from tempograph.server.schema.response_models import CandidateScore, FactNames, ScoredFact
from tempograph.server.served_run import ServedRun


async def score_facts(run: ServedRun, request: ScoreRequest, client: str) -> list[ScoredFact]:
    """Score, probability and rank of each fact as the answer for its object and its subject."""
    groups = await run.look_up(lambda: read_groups(run, "facts", request.facts, request.strict))
    facts: dict[int, ScoredFact] = {}
    for group in groups:
        facts |= await _score_group(run, group, request.ranks, client)
    return [facts[row] for row in range(len(facts))]


async def _score_group(
    run: ServedRun, group: FactGroup, ranks: bool, client: str
) -> dict[int, ScoredFact]:
    """The facts of a group by their positions in the request."""
    batch = group.batch
    names = await run.look_up(lambda: _name(batch))
    errors = batch.errors.texts.to_pylist()
    rows = np.flatnonzero(batch.valid)
    # Queries at one time share its encoding.
    rows = rows[np.argsort(batch.ids[rows, 3], kind="stable")]
    scored = await run.in_units(
        rows.tolist(),
        partial(_score, run, batch, names, ranks),
        max(1, run.batcher.max_questions // 2),
        client,
    )
    facts = {
        row: ScoredFact(fact=names[row], known=None, object=None, subject=None, error=error)
        for row, error in enumerate(errors)
        if error is not None
    } | dict(zip(rows.tolist(), scored, strict=True))
    return {group.rows[row]: fact for row, fact in facts.items()}


def _name(batch: FactBatch) -> list[FactNames]:
    columns = batch.names()
    rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    return [FactNames(**dict(zip(columns, row, strict=True))) for row in rows]


def _score(
    run: ServedRun, batch: FactBatch, names: list[FactNames], ranks: bool, rows: Sequence[int]
) -> list[ScoredFact]:
    table = run.predictor.score(np.array(batch.ids[list(rows)]), progress=False, ranks=ranks)
    return [
        ScoredFact(
            fact=names[row],
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
