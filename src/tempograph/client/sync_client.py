"""Client: ask a service what a Predictor would be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tempograph.client.exchanges import Exchanges
from tempograph.client.requests import (
    ApiRequest,
    Exchange,
    Result,
    http_settings,
    import_httpx,
    read_reply,
    unreachable,
)
from tempograph.data.arrow_tables import TableLike
from tempograph.data.graph import Name, When
from tempograph.data.result_table import ResultTable
from tempograph.evaluation.calibration import Calibration
from tempograph.prediction.answers import Completion
from tempograph.prediction.forecast import Forecast
from tempograph.typing import SPLITS, Asked, ProgressOption, Split


class Client:
    """Answers the questions of a Predictor with a run behind a service.

    `url` is the address of the service, such as http://localhost:8000, and `run` the name of one of
    its runs, by default the first. Errors of the user are those of a Predictor; a ServiceError says
    that the service cannot be reached, refuses the token or fails.
    Use it in a `with` block, or call `close`.
    """

    def __init__(
        self, url: str, run: str | None = None, token: str | None = None, timeout: float = 60.0
    ) -> None:
        self.url = url
        self._exchanges = Exchanges(run)
        self._httpx = import_httpx()
        self._http = self._httpx.Client(**http_settings(url, token, timeout))

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def objects(
        self,
        subject: Name,
        relation: Name,
        time: When,
        top: int = 10,
        evidence: int = 3,
        new: bool = False,
        *,
        until: When | None = None,
    ) -> Completion:
        """The best objects for (subject, relation, ?, time); with `new`, those not known yet.

        With `until`, those at any step from the time on until then.
        """
        parts = (subject, relation, None, time)
        exchange = self._exchanges.complete(parts, top, evidence, new, until=until)
        return self._run(exchange)

    def subjects(
        self,
        relation: Name,
        object: Name,
        time: When,
        top: int = 10,
        evidence: int = 3,
        new: bool = False,
        *,
        until: When | None = None,
    ) -> Completion:
        """The best subjects for (?, relation, object, time); with `new`, those not known yet.

        With `until`, those at any step from the time on until then.
        """
        parts = (None, relation, object, time)
        exchange = self._exchanges.complete(parts, top, evidence, new, until=until)
        return self._run(exchange)

    def relations(
        self,
        subject: Name,
        object: Name,
        time: When,
        top: int = 10,
        evidence: int = 3,
        new: bool = False,
    ) -> Completion:
        """The best relations for (subject, ?, object, time); with `new`, those not known yet."""
        exchange = self._exchanges.complete((subject, None, object, time), top, evidence, new)
        return self._run(exchange)

    def times(
        self,
        subject: Name,
        relation: Name,
        object: Name,
        top: int = 10,
        evidence: int = 3,
        first: When | None = None,
        last: When | None = None,
        new: bool = False,
    ) -> Completion:
        """The best time steps from first to last for (subject, relation, object, ?)."""
        parts = (subject, relation, object, None)
        exchange = self._exchanges.complete(parts, top, evidence, new, first, last)
        return self._run(exchange)

    def when(
        self,
        subject: Name,
        relation: Name,
        object: Name,
        top: int = 3,
        evidence: int = 3,
        first: When | None = None,
        last: When | None = None,
    ) -> Completion:
        """The best intervals from first to last for (subject, relation, object), best first."""
        parts = (subject, relation, object, None)
        exchange = self._exchanges.complete(parts, top, evidence, False, first, last)
        return self._run(exchange)

    def why(
        self,
        subject: Name,
        relation: Name,
        object: Name,
        time: When,
        side: str = "object",
        evidence: int = 10,
    ) -> Completion:
        """Why, or why not: the object (or subject) as the only candidate, with its evidence."""
        exchange = self._exchanges.why((subject, relation, object, time), side, evidence)
        return self._run(exchange)

    def ask(
        self,
        questions: TableLike,
        top: int = 10,
        *,
        new: bool = False,
        strict: bool = False,
        progress: ProgressOption = True,
    ) -> ResultTable:
        """The best answers to every question of a table, in batches; with `new`, unknown ones.

        A question has the columns subject, relation, object and time, with exactly one of them null
        or absent. A question that has no answer has one row with the reason in `error`; if
        `strict`, the first one is an error.
        """
        return self._run(self._exchanges.ask(questions, top, new, strict, progress))

    def score(
        self,
        facts: TableLike,
        progress: ProgressOption = True,
        ranks: bool = True,
        *,
        strict: bool = False,
    ) -> ResultTable:
        """Score, probability and rank of many facts as objects and as subjects.

        Facts are rows (subject, relation, object, time) of names or ids, or a table with these
        columns. Those that hold for a while may have a start and an end instead of a time. A fact
        that cannot be scored has the reason in `error`; if `strict`, the first one is an error.
        """
        return self._run(self._exchanges.score(facts, ranks, strict, progress))

    def missing(
        self,
        entity: Name | None = None,
        relations: Sequence[Name] | None = None,
        first: When | None = None,
        last: When | None = None,
        top: int = 100,
        at_least: float | None = None,
        progress: ProgressOption = True,
    ) -> ResultTable:
        """The facts that are most likely missing from the data, from step `first` to `last`.

        There is one row for each triple (subject, relation, object) at its best step. With
        `at_least`, there is one for every fact with this probability, in the order of time.
        """
        bounds = (entity, relations, first, last)
        return self._run(self._exchanges.missing(*bounds, top, at_least, progress))

    def surprising(
        self, splits: Sequence[Split] = SPLITS, top: int = 100, progress: ProgressOption = True
    ) -> ResultTable:
        """The known facts of some splits that the model finds least plausible, worst first."""
        return self._run(self._exchanges.surprising(splits, top, progress))

    def forecast(
        self,
        date: When | None = None,
        days: int = 1,
        entity: Name | None = None,
        relations: Sequence[Name] | None = None,
        top: int = 20,
        min_probability: float = 0.0,
        evidence: int = 0,
        progress: ProgressOption = True,
    ) -> Forecast:
        """What is likely to happen, by default at the step after the data; for forecasters.

        Each of the `days` steps from `date` on has its `top` most likely facts, of an entity and of
        some relations if these are given.
        """
        search = (date, days, entity, relations, top, min_probability, evidence)
        return self._run(self._exchanges.forecast(*search, progress))

    def calibration(self, asked: Asked = "entity") -> Calibration:
        """How far the probabilities of entities, relations or times can be trusted."""
        return self._run(self._exchanges.calibration(asked))

    def _run(self, exchange: Exchange[Result]) -> Result:
        reply: Any = None
        try:
            while True:
                reply = self._send(exchange.send(reply))
        except StopIteration as stop:
            result: Result = stop.value
            return result
        finally:
            exchange.close()

    def _send(self, request: ApiRequest) -> Any:
        sent = {"json": request.body, "params": request.parameters}
        try:
            with self._http.stream(request.method, request.path, **sent) as response:
                if request.on_line is None or response.status_code != 200:
                    response.read()
                    return read_reply(response)
                for line in response.iter_lines():
                    request.on_line(line)
        except self._httpx.HTTPError as error:
            raise unreachable(self.url, error) from error
        return None
