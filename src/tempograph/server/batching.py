"""One thread per run: requests that wait at the same time are scored together.

Work that takes longer, such as evidence, comes in small units, which have a queue of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from tempograph.data.timeline import Queries
from tempograph.server.fair_queue import FairQueue
from tempograph.server.problems import overloaded

Result = TypeVar("Result")
Query = tuple[int, int, int]
"""(entity, relation or its inverse, time), one row of `Queries`."""


@dataclass(frozen=True, eq=False)
class PendingRequest:
    """Queries, perhaps none, and the function of their scores [queries, entities] to return."""

    queries: Sequence[Query]
    finish: Callable[[Tensor], Any]
    result: asyncio.Future[Any] = field(default_factory=asyncio.Future)

    def run(self, scores: Tensor) -> Any:
        """The result, or the exception that was raised."""
        try:
            return self.finish(scores)
        except Exception as error:
            return error

    def resolve(self, outcome: Any) -> None:
        """Let the client have a result or an exception, unless it has gone."""
        if self.result.done():
            return
        if isinstance(outcome, Exception):
            self.result.set_exception(outcome)
        else:
            self.result.set_result(outcome)


class QueryBatcher:
    """Two queues and one thread, which alternates between a batch of queries and a unit of work.

    A batch waits `gather_seconds` for up to `max_queries` queries. While both queues are empty,
    `warm_up` is called until it returns False. `on_batch` is called with the number of queries of
    each batch.
    """

    def __init__(
        self,
        scores: Callable[[Queries], Tensor],
        device: torch.device,
        max_queries: int,
        gather_seconds: float,
        max_waiting: int,
        warm_up: Callable[[], bool] = lambda: False,
        on_batch: Callable[[int], None] = lambda queries: None,
    ) -> None:
        self._scores = scores
        self._device = device
        self.max_queries = max_queries
        self._gather_seconds = gather_seconds
        self._warm_up = warm_up
        self._on_batch = on_batch
        self._requests: FairQueue[PendingRequest] = FairQueue(max_waiting)
        self._units: FairQueue[PendingRequest] = FairQueue(max_waiting)
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._task: asyncio.Task[None] | None = None
        self.busy = False
        """Whether the thread is at work."""

    def start(self) -> None:
        """Start to process the queues in the running event loop."""
        self._task = asyncio.create_task(self._process())

    async def stop(self) -> None:
        """Stop processing; what the thread is working on is left behind."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    @property
    def running(self) -> bool:
        """Whether the queues are processed."""
        return self._task is not None and not self._task.done()

    @property
    def waiting(self) -> int:
        """The number of requests in the queues."""
        return len(self._requests) + len(self._units)

    async def submit(
        self, queries: Sequence[Query], finish: Callable[[Tensor], Result], client: str = ""
    ) -> Result:
        """Return `finish(scores)`, computed on the thread of the run in one of the next batches."""
        result: Result = await self._wait(self._requests, client, PendingRequest(queries, finish))
        return result

    async def work(
        self,
        unit: Callable[[], Result],
        client: str = "",
        work_left: int = 0,
        admitted: bool = False,
    ) -> Result:
        """Return `unit()`, computed on the thread of the run between two batches.

        A long request awaits one unit after the other, so it ends with the client that waits for
        it. All but the first are `admitted`; the one with the least `work_left` comes first.
        """
        request = PendingRequest((), lambda _: unit())
        result: Result = await self._wait(self._units, client, request, work_left, admitted)
        return result

    async def _wait(
        self,
        queue: FairQueue[PendingRequest],
        client: str,
        request: PendingRequest,
        work_left: int = 0,
        admitted: bool = False,
    ) -> Any:
        for refused in queue.put(client, request, work_left, admitted):
            refused.resolve(overloaded())
        self._arrived.set()
        try:
            return await request.result
        finally:
            queue.remove(client, request)

    async def _process(self) -> None:
        loop = asyncio.get_running_loop()
        cold = True
        while True:
            while cold and not self.waiting:
                try:
                    cold = await loop.run_in_executor(self._thread, self._at_work, self._warm_up)
                except Exception:
                    # Requests that need what could not be prepared will report the error.
                    cold = False
            if not self.waiting:
                self._arrived.clear()
                await self._arrived.wait()
            if self._units:
                # Queries that arrive meanwhile make up the next batch.
                await self._run_on_thread([self._units.pop()])
            elif self._gather_seconds:
                await asyncio.sleep(self._gather_seconds)
            batch = self._next_batch()
            if batch:
                self._on_batch(sum(len(request.queries) for request in batch))
                await self._run_on_thread(batch)

    def _next_batch(self) -> list[PendingRequest]:
        batch, free = [], self.max_queries
        while free > 0 and self._requests:
            batch.append(self._requests.pop())
            free -= max(1, len(batch[-1].queries))
        return batch

    async def _run_on_thread(self, batch: Sequence[PendingRequest]) -> None:
        loop = asyncio.get_running_loop()

        def resolve(request: PendingRequest, outcome: Any) -> None:
            # The loop is closed if the service has stopped without waiting for this.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(request.resolve, outcome)

        await loop.run_in_executor(self._thread, self._at_work, self._run, batch, resolve)

    def _at_work(self, function: Callable[..., Result], *arguments: Any) -> Result:
        self.busy = True
        try:
            return function(*arguments)
        finally:
            self.busy = False

    @torch.inference_mode()
    def _run(
        self, batch: Sequence[PendingRequest], resolve: Callable[[PendingRequest, Any], None]
    ) -> None:
        """Resolve each request as soon as it is finished, with its result or its exception."""
        try:
            scores = self._score([query for request in batch for query in request.queries])
        except Exception as error:
            for request in batch:
                resolve(request, error)
            return
        parts = torch.split(scores, [len(request.queries) for request in batch])
        for request, part in zip(batch, parts, strict=True):
            if not request.result.done():
                resolve(request, request.run(part))

    def _score(self, queries: Sequence[Query]) -> Tensor:
        if not queries:
            return torch.empty(0, 0)
        columns = torch.tensor(queries, device=self._device).unbind(1)
        return self._scores(Queries(*columns)).cpu()
