"""AsyncClient: ask a service what a Predictor would be asked."""

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


class AsyncClient:
    """The methods of `Client` as coroutines.

    `url` is the address of the service, such as http://localhost:8000, and `run` the name of one of
    its runs, by default the first. Errors of the user are those of a Predictor; a ServiceError says
    that the service cannot be reached, refuses the token or fails.
    Use it in an `async with` block, or await `close`.
    """

    def __init__(
        self, url: str, run: str | None = None, token: str | None = None, timeout: float = 60.0
    ) -> None:
        self.url = url
        self._exchanges = Exchanges(run)
        self._httpx = import_httpx()
        self._http = self._httpx.AsyncClient(**http_settings(url, token, timeout))

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def objects(
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
        return await self._run(exchange)

    async def subjects(
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
        return await self._run(exchange)

    async def relations(
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
        return await self._run(exchange)

    async def times(
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
        return await self._run(exchange)

    async def when(
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
        return await self._run(exchange)

    async def why(
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
        return await self._run(exchange)

    async def ask(
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
        return await self._run(self._exchanges.ask(questions, top, new, strict, progress))

    async def score(
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
        return await self._run(self._exchanges.score(facts, ranks, strict, progress))

    async def missing(
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
        return await self._run(self._exchanges.missing(*bounds, top, at_least, progress))

    async def surprising(
        self, splits: Sequence[Split] = SPLITS, top: int = 100, progress: ProgressOption = True
    ) -> ResultTable:
        """The known facts of some splits that the model finds least plausible, worst first."""
        return await self._run(self._exchanges.surprising(splits, top, progress))

    async def forecast(
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
        return await self._run(self._exchanges.forecast(*search, progress))

    async def calibration(self, asked: Asked = "entity") -> Calibration:
        """How far the probabilities of entities, relations or times can be trusted."""
        return await self._run(self._exchanges.calibration(asked))

    async def _run(self, exchange: Exchange[Result]) -> Result:
        reply: Any = None
        try:
            while True:
                reply = await self._send(exchange.send(reply))
        except StopIteration as stop:
            result: Result = stop.value
            return result
        finally:
            exchange.close()

    async def _send(self, request: ApiRequest) -> Any:
        sent = {"json": request.body, "params": request.parameters}
        try:
            async with self._http.stream(request.method, request.path, **sent) as response:
                if request.on_line is None or response.status_code != 200:
                    await response.aread()
                    return read_reply(response)
                async for line in response.aiter_lines():
                    request.on_line(line)
        except self._httpx.HTTPError as error:
            raise unreachable(self.url, error) from error
        return None
