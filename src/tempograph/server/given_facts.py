"""Facts of a request in ids: those at a moment, and those with a start and an end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tempograph.data.fact_ids import FactBatch, read_facts
from tempograph.data.graph import COLUMNS
from tempograph.server.problems import Place, invalid
from tempograph.server.schema.request_models import GivenFact
from tempograph.server.served_run import ServedRun


class FactGroup(NamedTuple):
    """Facts that are read alike, and the position of each in the request."""

    rows: list[int]
    batch: FactBatch

    def refuse_errors(self, member: str) -> None:
        """Raise the problem of the first fact with an error; `member` is the list it stands in."""
        wrong = np.flatnonzero(~self.batch.valid)
        if len(wrong):
            text = self.batch.errors.texts[int(wrong[0])].as_py()
            raise invalid(text, Place(member, self.rows[wrong[0]]))


def read_groups(
    run: ServedRun, member: str, facts: Sequence[GivenFact], strict: bool = True
) -> list[FactGroup]:
    """The facts at a moment and those with a start and an end, as far as there are any.

    If strict, the first wrong fact is raised; an unknown name is an `UnknownName`.
    """
    groups = []
    for holds in (False, True):
        rows = [row for row, fact in enumerate(facts) if fact.holds == holds]
        if not rows:
            continue
        if holds and not run.predictor.graph.has_intervals:
            text = f"the facts of {run.name} are events; give a time, not a start and an end"
            raise invalid(text, Place(member, rows[0]))
        parts: list[Any] = [_parts(run, facts[row], Place(member, row), strict) for row in rows]
        predictor = run.predictor
        batch = read_facts(predictor.graph, parts, {}, predictor.run.import_options)
        group = FactGroup(rows, batch)
        if strict:
            group.refuse_errors(member)
        groups.append(group)
    return groups


def _parts(run: ServedRun, fact: GivenFact, place: Place, strict: bool) -> tuple[Any, ...]:
    """The parts of a fact, four or five; if strict, names are ids already."""
    parts = fact.parts
    if strict:
        needed = parts[:3] if fact.holds else parts
        if None in needed:
            raise invalid(f"the {COLUMNS[needed.index(None)]} is missing", place)
        parts = run.browser.fact_ids((*needed, None)[:4], place)
    return (*parts[:3], *fact.bounds) if fact.holds else parts
