"""The questions of a Predictor as exchanges with a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tempograph.client.replies import (
    MISSING,
    MISSING_TRIPLES,
    SURPRISING,
    ScanReply,
    answer_table,
    read_completion,
    read_explanation,
    score_table,
)
from tempograph.client.requests import ApiRequest, Exchange
from tempograph.client.rows import fact_rows, json_value, question_rows
from tempograph.data.arrow_tables import TableLike
from tempograph.data.graph import COLUMNS, Name, When
from tempograph.data.result_table import ResultTable
from tempograph.errors import ConfigError
from tempograph.evaluation.calibration import Calibration
from tempograph.prediction.answers import Completion
from tempograph.prediction.forecast import Forecast, check_forecast
from tempograph.prediction.scoring import SIDES
from tempograph.progress import show_progress
from tempograph.typing import Asked, ProgressOption, Split

_CHUNK: Final = 1000
"""Rows in one request: they are answered well within the time limit of a service."""
_MAX_ANSWERS: Final = 100_000
"""Answers in one request."""


class _RunLimits(NamedTuple):
    """What a request to a run may have."""

    max_facts: int
    intervals: bool
    """Whether facts may have a start and an end."""


class Exchanges:
    """Builds exchanges with one run of a service, by default its first."""

    def __init__(self, run: str | None) -> None:
        self._run = {} if run is None else {"run": run}
        self._about: _RunLimits | None = None

    def complete(
        self,
        parts: tuple[Name | None, Name | None, Name | None, When | None],
        top: int,
        evidence: int,
        new: bool,
        first: When | None = None,
        last: When | None = None,
        until: When | None = None,
    ) -> Exchange[Completion]:
        """The best answers for the missing part of a fact."""
        _check_top(top)
        given = zip((*COLUMNS, "first", "last"), (*parts, first, last), strict=True)
        body = {name: json_value(value) for name, value in given}
        if until is not None:
            # Earlier services refuse members that they do not know.
            body["until"] = json_value(until)
        options = {"top": top, "evidence": evidence, "new": new}
        reply = yield ApiRequest("complete", self._run | body | options)
        return read_completion(reply)

    def why(
        self, parts: tuple[Name, Name, Name, When], side: str, evidence: int
    ) -> Exchange[Completion]:
        """One candidate with its evidence."""
        if side not in SIDES:
            raise ConfigError(f"side must be object or subject, found '{side}'")
        body = dict(zip(COLUMNS, map(json_value, parts), strict=True))
        reply = yield ApiRequest("evidence", self._run | body | {"asked": side, "most": evidence})
        return read_explanation(reply)

    def ask(
        self, questions: TableLike, top: int, new: bool, strict: bool, progress: ProgressOption
    ) -> Exchange[ResultTable]:
        """The best answers to every question of a table."""
        _check_top(top)
        given = question_rows(questions)
        rows = given.rows
        options = {"top": top, "new": new, "strict": strict}
        chunk = max(1, min(_CHUNK, _MAX_ANSWERS // top))
        with show_progress("answering questions", progress) as advance:
            results: list[Mapping[str, Any]] = []
            for start, size in (yield from self._chunks(len(rows), chunk)):
                body = {"questions": given.objects(start, start + size)}
                reply = yield ApiRequest("complete/batch", self._run | options | body)
                results += reply["results"]
                if advance is not None:
                    advance(len(results), len(rows))
        return answer_table(rows, results)

    def score(
        self, facts: TableLike, ranks: bool, strict: bool, progress: ProgressOption
    ) -> Exchange[ResultTable]:
        """Score, probability and rank of many facts."""
        about = yield from self._about_run()
        given = fact_rows(facts, about.intervals)
        total, options = len(given.rows), {"ranks": ranks, "strict": strict}
        with show_progress("scoring facts", progress) as advance:
            scored: list[Mapping[str, Any]] = []
            for start, size in (yield from self._chunks(total, _CHUNK)):
                body = {"facts": given.objects(start, start + size)}
                reply = yield ApiRequest("score", self._run | options | body)
                scored += reply["facts"]
                if advance is not None:
                    advance(len(scored), total)
        return score_table(scored, ranks, hold="start" in given.parts)

    def missing(
        self,
        entity: Name | None,
        relations: Sequence[Name] | None,
        first: When | None,
        last: When | None,
        top: int,
        at_least: float | None,
        progress: ProgressOption,
    ) -> Exchange[ResultTable]:
        """The facts that are most likely missing from the data."""
        _check_top(top)
        body = self._run | {
            "entity": json_value(entity),
            "relations": None if relations is None else list(map(json_value, relations)),
            "first": json_value(first),
            "last": json_value(last),
            "top": top,
            "at_least": at_least,
        }
        with show_progress("searching for missing facts", progress) as advance:
            reply = ScanReply(advance)
            yield ApiRequest("missing", body, reply.read_line)
        # Each triple has several steps or one interval.
        steps = at_least is None and not reply.has_intervals
        return ResultTable(reply.table(MISSING_TRIPLES if steps else MISSING))

    def surprising(
        self, splits: Sequence[Split], top: int, progress: ProgressOption
    ) -> Exchange[ResultTable]:
        """The known facts that are least plausible."""
        _check_top(top)
        body = self._run | {"splits": list(splits), "top": top}
        with show_progress("searching for surprising facts", progress) as advance:
            reply = ScanReply(advance)
            yield ApiRequest("surprising", body, reply.read_line)
        return ResultTable(reply.table(SURPRISING))

    def forecast(
        self,
        date: When | None,
        days: int,
        entity: Name | None,
        relations: Sequence[Name] | None,
        top: int,
        min_probability: float,
        evidence: int,
        progress: ProgressOption,
    ) -> Exchange[Forecast]:
        """What is likely to happen."""
        body = self._run | {
            "date": json_value(date),
            "days": days,
            "entity": json_value(entity),
            "relations": None if relations is None else list(map(json_value, relations)),
            "top": top,
            "min_probability": min_probability,
            "evidence": evidence,
        }
        check_forecast(top, days, min_probability)
        with show_progress("forecasting", progress) as advance:
            reply = ScanReply(advance)
            yield ApiRequest("forecast", body, reply.read_line)
        return reply.forecast()

    def calibration(self, asked: Asked) -> Exchange[Calibration]:
        """How far probabilities can be trusted."""
        reply = yield ApiRequest("calibration", None, None, self._run | {"asked": asked})
        found: Calibration = reply["calibration"]
        return found

    def _chunks(self, rows: int, size: int) -> Exchange[list[tuple[int, int]]]:
        """The start and the size of each request for so many rows."""
        about = yield from self._about_run()
        size = min(size, about.max_facts)
        return [(start, size) for start in range(0, rows, size)]

    def _about_run(self) -> Exchange[_RunLimits]:
        """What requests to the run may have; a run that does not exist is refused later."""
        if self._about is None:
            info = yield ApiRequest("info")
            runs = info["runs"]
            named = [run for run in runs if run["name"] == self._run.get("run", runs[0]["name"])]
            # Earlier services do not say whether facts hold for a while.
            intervals = any(run.get("intervals", False) for run in named)
            self._about = _RunLimits(int(info["limits"]["facts"]), intervals)
        return self._about


def _check_top(top: int) -> None:
    if top < 1:
        raise ConfigError(f"top must be at least 1, found {top}")
