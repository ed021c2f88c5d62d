"""Dynamic batching: requests that wait at the same time are scored together, one thread per run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from tempograph.data.timeline import Queries
from tempograph.server.problems import Problem

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


class QueryBatcher:
    """One queue and one thread; a batch waits `gather_seconds` for up to `max_queries` queries.

    While the queue is empty, `warm_up` is called until it returns False. `on_batch` is called with
    the number of queries of each batch.
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
        self._max_waiting = max_waiting
        self._warm_up = warm_up
        self._on_batch = on_batch
        self._queue: asyncio.Queue[PendingRequest] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to process the queue in the running event loop."""
        self._task = asyncio.create_task(self._process())

    async def stop(self) -> None:
        """Stop processing, after the batch at work."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()

    @property
    def waiting(self) -> int:
        """The number of requests that are in no batch yet."""
        return self._queue.qsize()

    async def submit(self, queries: Sequence[Query], finish: Callable[[Tensor], Result]) -> Result:
        """Return `finish(scores)`, computed on the thread of the run in one of the next batches."""
        if self.waiting >= self._max_waiting:
            detail = "too many requests are waiting; try again later"
            raise Problem(503, "overloaded", detail, headers={"Retry-After": "1"})
        request = PendingRequest(queries, finish)
        self._queue.put_nowait(request)
        result: Result = await request.result
        return result

    async def _process(self) -> None:
        loop = asyncio.get_running_loop()
        cold = True
        while True:
            while cold and self._queue.empty():
                try:
                    cold = await loop.run_in_executor(self._thread, self._warm_up)
                except Exception:
                    # Requests that need what could not be prepared will report the error.
                    cold = False
            batch = await self._next_batch()
            if not batch:
                continue
            self._on_batch(sum(len(request.queries) for request in batch))
            results = await loop.run_in_executor(self._thread, self._run, batch)
            for request, result in zip(batch, results, strict=True):
                if request.result.done():
                    continue
                if isinstance(result, Exception):
                    request.result.set_exception(result)
                else:
                    request.result.set_result(result)

    async def _next_batch(self) -> list[PendingRequest]:
        """The requests of the next batch, without those whose clients have gone."""
        batch = [await self._queue.get()]
        free = self.max_queries - len(batch[0].queries)
        if self._gather_seconds:
            await asyncio.sleep(self._gather_seconds)
        while free > 0 and not self._queue.empty():
            batch.append(self._queue.get_nowait())
            free -= max(1, len(batch[-1].queries))
        return [request for request in batch if not request.result.done()]

    def _run(self, batch: Sequence[PendingRequest]) -> list[Any]:
        """The result of each request, or the exception that it raised."""
        with torch.inference_mode():
            try:
                scores = self._score([query for request in batch for query in request.queries])
            except Exception as error:
                return [error] * len(batch)
            parts = torch.split(scores, [len(request.queries) for request in batch])
            return [request.run(part) for request, part in zip(batch, parts, strict=True)]

    def _score(self, queries: Sequence[Query]) -> Tensor:
        if not queries:
            return torch.empty(0, 0)
        columns = torch.tensor(queries, device=self._device).unbind(1)
        return self._scores(Queries(*columns)).cpu()
