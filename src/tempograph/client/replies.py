"""The JSON of a service as the results of a Predictor."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

from tempograph.client.requests import describe_problem
from tempograph.client.rows import Row
from tempograph.data.graph import COLUMNS
from tempograph.data.result_table import ResultTable
from tempograph.errors import ServiceError
from tempograph.prediction.answer import Answer, EvidenceFact
from tempograph.prediction.answers import Completion
from tempograph.prediction.forecast import Forecast, ForecastFact
from tempograph.prediction.scoring import SIDES
from tempograph.typing import Progress

_NAMES: Final = tuple((name, pa.string()) for name in COLUMNS)
_ANSWERS: Final = pa.schema(
    [
        ("question", pa.int64()),
        *_NAMES,
        ("asked", pa.string()),
        ("answer", pa.string()),
        ("rank", pa.int64()),
        ("score", pa.float64()),
        ("probability", pa.float64()),
        ("known", pa.string()),
        ("error", pa.string()),
    ]
)
_SIDES: Final = tuple(
    (f"{side}_{name}", pa.float64()) for side in SIDES for name in ("score", "probability", "rank")
)
_SCORES: Final = pa.schema([*_NAMES, ("known", pa.string()), *_SIDES, ("error", pa.string())])
SURPRISING: Final = pa.schema(
    [*_NAMES, ("known", pa.string()), *_SIDES, ("surprise", pa.float64())]
)
MISSING: Final = pa.schema([*_NAMES, ("probability", pa.float64())])
MISSING_TRIPLES: Final = pa.schema(
    [
        *MISSING,
        ("other_times", pa.list_(pa.string())),
        ("other_probabilities", pa.list_(pa.float64())),
    ]
)


def read_completion(reply: Mapping[str, Any]) -> Completion:
    """A question with its answers."""
    answers = tuple(_read_answer(answer) for answer in reply["answers"])
    members = _members(Completion, reply)
    return Completion(**members | {"answers": answers, "notes": tuple(reply["notes"])})


def read_explanation(reply: Mapping[str, Any]) -> Completion:
    """A complete fact with one part explained as its only answer."""
    asked = reply["asked"]
    answer = _read_answer({**reply, "name": reply[asked]})
    members = _members(Completion, {**reply, asked: None, "answers": ()})
    return Completion(**members | {"answers": (answer,), "notes": tuple(reply["notes"])})


def _read_answer(reply: Mapping[str, Any]) -> Answer:
    evidence = _read_evidence(reply)
    score = -math.inf if reply["score"] is None else reply["score"]
    return Answer(**_members(Answer, reply) | {"evidence": evidence, "score": score})


def _read_evidence(reply: Mapping[str, Any]) -> tuple[EvidenceFact, ...]:
    return tuple(EvidenceFact(**_members(EvidenceFact, fact)) for fact in reply["evidence"])


def _members(kind: type[Any], reply: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a reply that a dataclass has.

    A later service may send others, and an earlier one none of those that have a default.
    """
    return {
        field.name: reply[field.name]
        for field in fields(kind)
        if field.name in reply or field.default is dataclasses.MISSING
    }


def answer_table(questions: Sequence[Row], results: Sequence[Mapping[str, Any]]) -> ResultTable:
    """The answers to questions, one row each, or one row with the error of a question."""
    rows: list[dict[str, Any]] = []
    for number, (question, result) in enumerate(zip(questions, results, strict=True)):
        completion, error = result["completion"], result["error"]
        if completion is None or not completion["answers"]:
            given = (None if part in (None, "") else str(part) for part in question)
            rows.append(
                {
                    "question": number,
                    **dict(zip(COLUMNS, given, strict=True)),
                    "error": error or "no candidate has any evidence",
                }
            )
            continue
        answers = read_completion(completion).to_arrow().to_pylist()
        rows += [{"question": number, **row} for row in answers]
    return ResultTable(pa.Table.from_pylist(rows, schema=_ANSWERS))


def score_table(facts: Sequence[Mapping[str, Any]], ranks: bool, hold: bool) -> ResultTable:
    """The scores of facts, one row each; without ranks, they have no probabilities either.

    `hold` says whether facts have a start and an end.
    """
    rows = []
    for fact in facts:
        row = {**fact["fact"], "known": fact["known"], "error": fact["error"]}
        for side in SIDES:
            values = fact[side] or {}
            row |= {f"{side}_{name}": value for name, value in values.items()}
            if fact["error"] is None and values["score"] is None:
                row[f"{side}_score"] = -math.inf
        rows.append(row)
    table = pa.Table.from_pylist(rows, schema=_with_bounds(_SCORES) if hold else _SCORES)
    if not ranks:
        table = table.drop_columns([f"{s}_{n}" for s in SIDES for n in ("probability", "rank")])
    return ResultTable(table)


def _with_bounds(schema: pa.Schema) -> pa.Schema:
    """The columns of facts that hold for a while: since when until when, after their time."""
    for position, name in enumerate(("start", "end"), len(_NAMES)):
        schema = schema.insert(position, pa.field(name, pa.string()))
    return schema


class ScanReply:
    """The facts that a scan sends line by line."""

    def __init__(self, advance: Progress | None) -> None:
        self._advance = advance
        self._facts: list[dict[str, Any]] = []
        self._end: Mapping[str, Any] | None = None

    def read_line(self, line: str) -> None:
        """Take the next line."""
        try:
            event = json.loads(line)
        except ValueError:
            raise ServiceError(
                f"a line of the response is not from tempograph: {line[:80]!r}"
            ) from None
        if event["event"] == "fact":
            self._facts.append(event["fact"])
        elif event["event"] == "end":
            self._end = event
        elif event["event"] == "error":
            problem = event["problem"]
            raise describe_problem("the search failed", problem["status"], problem)
        elif self._advance is not None:
            self._advance(event["done"], event["total"])

    @property
    def has_intervals(self) -> bool:
        """Whether facts hold for a while."""
        return any("start" in fact for fact in self._facts)

    def table(self, schema: pa.Schema) -> pa.Table:
        """All facts; a score that is null rules the fact out."""
        self._check_end()
        if self.has_intervals:
            schema = _with_bounds(schema)
        for fact in self._facts:
            for side in SIDES:
                if f"{side}_score" in fact and fact[f"{side}_score"] is None:
                    fact[f"{side}_score"] = -math.inf
        return pa.Table.from_pylist(self._facts, schema=schema)

    def forecast(self) -> Forecast:
        """All facts as a forecast."""
        end = self._check_end()
        facts = []
        for fact in self._facts:
            members = _members(ForecastFact, fact) | {"evidence": _read_evidence(fact)}
            facts.append(ForecastFact(**members))
        steps, notes = tuple(end["steps"]), tuple(end["notes"])
        return Forecast(tuple(facts), steps, end["known_until"], notes)

    def _check_end(self) -> Mapping[str, Any]:
        if self._end is None:
            raise ServiceError("the service ended the search before it was finished; try again")
        return self._end
