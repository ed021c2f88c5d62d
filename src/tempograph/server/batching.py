"""Requests that wait at the same time are scored together, on one thread for each run."""

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

Answer = TypeVar("Answer")
Question = tuple[int, int, int]
"""(entity, relation or its inverse, time), as in `Queries`."""


@dataclass(frozen=True, eq=False)
class Job:
    """Questions, perhaps none, and what is made of their scores [questions, entities] on the thread of the run."""

    questions: Sequence[Question]
    finish: Callable[[Tensor], Any]
    result: asyncio.Future[Any] = field(default_factory=asyncio.Future)


class Gatherer:
    """One queue and one thread: a batch takes what waits, up to `most` questions, after a short time to gather.

    While nothing waits, `prepare` is called until it says that nothing is left to prepare.
    """

    def __init__(
        self,
        scores: Callable[[Queries], Tensor],
        device: torch.device,
        most: int,
        gather_seconds: float,
        most_waiting: int,
        prepare: Callable[[], bool] = lambda: False,
        observe: Callable[[int], None] = lambda questions: None,
    ) -> None:
        self._scores = scores
        self._device = device
        self.most = most
        self._gather_seconds = gather_seconds
        self._most_waiting = most_waiting
        self._prepare = prepare
        self._observe = observe
        self._waiting: asyncio.Queue[Job] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to take jobs, in the event loop that runs."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Take no more jobs; what the thread does now is finished."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()

    @property
    def waiting(self) -> int:
        """Jobs that no batch has taken yet."""
        return self._waiting.qsize()

    async def ask(
        self, questions: Sequence[Question], finish: Callable[[Tensor], Answer]
    ) -> Answer:
        """What `finish` makes of the scores of some questions, once their turn has come."""
        if self.waiting >= self._most_waiting:
            raise Problem(
                503,
                "overloaded",
                "too many requests wait already; try again",
                headers={"Retry-After": "1"},
            )
        job = Job(questions, finish)
        self._waiting.put_nowait(job)
        answer: Answer = await job.result
        return answer

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        unprepared = True
        while True:
            while unprepared and self._waiting.empty():
                try:
                    unprepared = await loop.run_in_executor(self._thread, self._prepare)
                except Exception:
                    # Questions that need what cannot be prepared say what is wrong; the others are answered.
                    unprepared = False
            batch = await self._gathered()
            if not batch:
                continue
            self._observe(sum(len(job.questions) for job in batch))
            done = await loop.run_in_executor(self._thread, self._answers, batch)
            for job, answer in zip(batch, done, strict=True):
                if job.result.done():
                    continue
                if isinstance(answer, Exception):
                    job.result.set_exception(answer)
                else:
                    job.result.set_result(answer)

    async def _gathered(self) -> list[Job]:
        """The jobs of the next batch; those that nobody waits for any more are left out."""
        batch = [await self._waiting.get()]
        room = self.most - len(batch[0].questions)
        if self._gather_seconds:
            await asyncio.sleep(self._gather_seconds)
        while room > 0 and not self._waiting.empty():
            batch.append(self._waiting.get_nowait())
            room -= max(1, len(batch[-1].questions))
        return [job for job in batch if not job.result.done()]

    def _answers(self, batch: Sequence[Job]) -> list[Any]:
        """The answer of each job, or the exception that it met."""
        with torch.inference_mode():
            try:
                scores = self._scored([question for job in batch for question in job.questions])
            except Exception as error:
                return [error] * len(batch)
            parts = torch.split(scores, [len(job.questions) for job in batch])
            return [_attempt(job, part) for job, part in zip(batch, parts, strict=True)]

    def _scored(self, questions: Sequence[Question]) -> Tensor:
        if not questions:
            return torch.empty(0, 0)
        columns = torch.tensor(questions, device=self._device).unbind(1)
        return self._scores(Queries(*columns)).cpu()


def _attempt(job: Job, scores: Tensor) -> Any:
    try:
        return job.finish(scores)
    except Exception as error:
        return error
