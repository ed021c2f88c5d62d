"""One thread per run: questions that wait at the same time are answered together.

Work that takes longer, such as evidence, comes in small units, which have a queue of their own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import torch

from tempograph.server.fair_queue import FairQueue
from tempograph.server.problems import overloaded

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Result = TypeVar("Result")
_HAND_OVER_SECONDS: Final = 0.002
"""How long an answer waits for others, because waking the event loop takes time."""


@dataclass(frozen=True, eq=False)
class PendingRequest:
    """A question or a unit of work, and its result when it is there."""

    asked: Any
    result: asyncio.Future[Any] = field(default_factory=asyncio.Future)

    def resolve(self, outcome: Any) -> None:
        """Let the client have a result or an exception, unless it has gone."""
        if self.result.done():
            return
        if isinstance(outcome, Exception):
            self.result.set_exception(outcome)
        else:
            self.result.set_result(outcome)


class QueryBatcher(Generic[Question, Answer]):
    """Two queues and one thread, which alternates between a batch of questions and a unit of work.

    `answer` gives the answer to each question of a batch, or the exception that it raised, in their
    order. A batch waits `gather_seconds` for up to `max_questions`. While both queues are empty,
    `warm_up` is called until it returns False. `on_batch` is called with the number of questions of
    each batch.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Question]], Iterable[Answer | Exception]],
        max_questions: int,
        gather_seconds: float,
        max_waiting: int,
        warm_up: Callable[[], bool] = lambda: False,
        on_batch: Callable[[int], None] = lambda questions: None,
    ) -> None:
        self._answer = answer
        self.max_questions = max_questions
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

    async def submit(self, question: Question, client: str = "") -> Answer:
        """The answer to a question, computed on the thread of the run in one of the next batches.

        An exception in its place is raised.
        """
        answer: Answer = await self._wait(self._requests, client, PendingRequest(question))
        return answer

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
        request = PendingRequest(unit)
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
                # Questions that arrive meanwhile make up the next batch.
                await self._run_on_thread(_work, [self._units.pop()])
            elif self._gather_seconds:
                await asyncio.sleep(self._gather_seconds)
            batch = [
                self._requests.pop() for _ in range(min(self.max_questions, len(self._requests)))
            ]
            if batch:
                self._on_batch(len(batch))
                await self._run_on_thread(self._answer, batch)

    async def _run_on_thread(
        self, answer: Callable[[Sequence[Any]], Iterable[Any]], batch: Sequence[PendingRequest]
    ) -> None:
        loop = asyncio.get_running_loop()

        def resolve(outcomes: Sequence[tuple[PendingRequest, Any]]) -> None:
            # The loop is closed if the service has stopped without waiting for this.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, outcomes)

        await loop.run_in_executor(self._thread, self._at_work, _run, answer, batch, resolve)

    def _at_work(self, function: Callable[..., Result], *arguments: Any) -> Result:
        self.busy = True
        try:
            return function(*arguments)
        finally:
            self.busy = False


@torch.inference_mode()
def _run(
    answer: Callable[[Sequence[Any]], Iterable[Any]],
    batch: Sequence[PendingRequest],
    resolve: Callable[[Sequence[tuple[PendingRequest, Any]]], None],
) -> None:
    """Resolve each request soon after it is answered, with its answer or an exception."""
    outcomes: list[tuple[PendingRequest, Any]] = []
    since = time.monotonic()
    try:
        for request, outcome in zip(batch, answer([each.asked for each in batch]), strict=True):
            outcomes.append((request, outcome))
            if time.monotonic() - since > _HAND_OVER_SECONDS:
                resolve(outcomes)
                outcomes, since = [], time.monotonic()
    except Exception as error:
        # Requests that have an answer keep it.
        outcomes += [(request, error) for request in batch]
    resolve(outcomes)


def _resolve(outcomes: Sequence[tuple[PendingRequest, Any]]) -> None:
    for request, outcome in outcomes:
        request.resolve(outcome)


def _work(units: Sequence[Callable[[], Any]]) -> Iterable[Any]:
    """The result of each unit of work."""
    return [unit() for unit in units]
