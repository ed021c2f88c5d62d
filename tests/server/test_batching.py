"""Concurrent requests share a batch, and each gets its own result."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tempograph.server.batching import QueryBatcher
from tempograph.server.problems import Problem

Batcher = QueryBatcher[int, Any]


class Answerer:
    """Doubles each question and records batch sizes; clearing `hold` blocks a batch."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.hold = threading.Event()
        self.hold.set()
        self.started = threading.Event()

    def __call__(self, questions: Sequence[int]) -> list[int]:
        self.started.set()
        assert self.hold.wait(10)
        self.batches.append(len(questions))
        return [2 * question for question in questions]


def run(
    use: Callable[[Batcher], Awaitable[Any]],
    answer: Callable[[Sequence[int]], Iterable[Any]] | None = None,
    max_questions: int = 8,
    gather: float = 0.0,
    max_waiting: int = 1000,
    **options: Any,
) -> Any:
    """Start a batcher, await `use(batcher)`, and stop it."""

    async def main() -> Any:
        batcher = Batcher(answer or Answerer(), max_questions, gather, max_waiting, **options)
        batcher.start()
        result = await use(batcher)
        await batcher.stop()
        return result

    return asyncio.run(main())


@settings(max_examples=30)
@given(st.lists(st.integers(), min_size=1, max_size=40), st.integers(1, 12))
def test_every_request_gets_its_own_result(questions: list[int], max_questions: int) -> None:
    answerer = Answerer()

    async def submit_all(batcher: Batcher) -> list[Any]:
        return await asyncio.gather(*map(batcher.submit, questions))

    wanted = [2 * question for question in questions]
    assert run(submit_all, answerer, max_questions) == wanted
    assert sum(answerer.batches) == len(questions) and max(answerer.batches) <= max_questions


def test_waiting_requests_are_answered_together() -> None:
    answerer = Answerer()

    async def submit_all(batcher: Batcher) -> None:
        answerer.hold.clear()
        first = asyncio.create_task(batcher.submit(0))
        await asyncio.to_thread(answerer.started.wait, 10)
        rest = [asyncio.create_task(batcher.submit(number)) for number in range(20)]
        await asyncio.sleep(0)
        assert batcher.waiting == 20
        answerer.hold.set()
        await asyncio.gather(first, *rest)

    run(submit_all, answerer, max_questions=32)
    assert answerer.batches == [1, 20]


def test_a_request_that_fails_fails_alone() -> None:
    def answer(questions: Sequence[int]) -> list[Any]:
        return [ValueError("this one") if each == 2 else each for each in questions]

    async def submit_all(batcher: Batcher) -> list[Any]:
        asked = (batcher.submit(number) for number in (1, 2, 3))
        results = await asyncio.gather(*asked, return_exceptions=True)
        return [*results, await batcher.submit(4)]

    one, two, three, again = run(submit_all, answer, gather=0.01)
    assert (one, three, again) == (1, 3, 4)
    assert isinstance(two, ValueError)


def test_an_error_of_a_batch_fails_those_without_an_answer_and_nothing_else() -> None:
    def broken(questions: Sequence[int]) -> Iterator[int]:
        for question in questions:
            if question == 2:
                raise RuntimeError("no memory")
            yield question

    async def submit_all(batcher: Batcher) -> list[Any]:
        asked = (batcher.submit(number) for number in (1, 2, 3))
        results = await asyncio.gather(*asked, return_exceptions=True)
        return [*results, await batcher.submit(4)]

    one, two, three, again = run(submit_all, broken, gather=0.01)
    assert (one, again) == (1, 4)
    assert isinstance(two, RuntimeError) and isinstance(three, RuntimeError)


def test_cancelled_requests_are_dropped_and_a_full_queue_refuses() -> None:
    answerer = Answerer()

    async def submit_all(batcher: Batcher) -> None:
        answerer.hold.clear()
        first = asyncio.create_task(batcher.submit(0))
        await asyncio.to_thread(answerer.started.wait, 10)
        gone, stays = (asyncio.create_task(batcher.submit(number)) for number in (1, 2))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await batcher.submit(3)
        assert refused.value.status == 503 and refused.value.headers == {"Retry-After": "1"}
        gone.cancel()
        await asyncio.sleep(0)
        answerer.hold.set()
        assert (await first, await stays) == (0, 4)

    run(submit_all, answerer, max_waiting=2)
    assert answerer.batches == [1, 1]


def test_requests_come_before_warming_up() -> None:
    left, order = [3], []

    def warm_up() -> bool:
        order.append("warmed")
        left[0] -= 1
        return left[0] > 0

    def answer(questions: Sequence[int]) -> Sequence[int]:
        order.append("request")
        return questions

    async def submit(batcher: Batcher) -> None:
        await batcher.submit(0)
        while left[0]:
            await asyncio.sleep(0.001)

    run(submit, answer, warm_up=warm_up)
    assert order[0] == "request" and order.count("warmed") == 3


def test_requests_are_answered_when_warming_up_fails() -> None:
    tried = []

    def warm_up() -> bool:
        tried.append(1)
        raise torch.cuda.OutOfMemoryError("no memory")

    async def submit(batcher: Batcher) -> Any:
        while not tried:
            await asyncio.sleep(0.001)
        return await asyncio.wait_for(batcher.submit(2), 10)

    assert run(submit, warm_up=warm_up) == 4 and len(tried) == 1


def test_an_answer_does_not_wait_for_the_rest_of_its_batch() -> None:
    waits = threading.Event()

    def answer(questions: Sequence[int]) -> Iterator[int]:
        time.sleep(0.01)
        yield 1
        waits.wait(10)
        yield 2

    async def submit_all(batcher: Batcher) -> None:
        quick, slow = (asyncio.create_task(batcher.submit(number)) for number in (1, 2))
        assert await asyncio.wait_for(quick, 5) == 1
        assert not slow.done()
        waits.set()
        assert await slow == 2

    run(submit_all, answer, gather=0.01)


def test_queries_go_between_the_units_of_long_work() -> None:
    order: list[str] = []

    async def submit_all(batcher: Batcher) -> None:
        async def long_work() -> None:
            for number in range(4):
                await batcher.work(
                    lambda: (order.append("unit"), time.sleep(0.02)), "a", 4 - number
                )

        work = asyncio.create_task(long_work())
        while not order:
            await asyncio.sleep(0.001)
        await batcher.submit(0)
        await work

    def answer(questions: Sequence[int]) -> Sequence[int]:
        order.append("query")
        return questions

    run(submit_all, answer)
    assert order.index("query") <= 2 and order.count("unit") == 4


def test_units_of_another_client_do_not_wait_for_all_of_the_first() -> None:
    order: list[str] = []
    hold = threading.Event()

    async def submit_all(batcher: Batcher) -> None:
        first = asyncio.create_task(batcher.work(lambda: hold.wait(10), "greedy"))
        await asyncio.sleep(0)
        greedy = [
            asyncio.create_task(batcher.work(lambda: order.append("greedy"), "greedy"))
            for _ in range(5)
        ]
        other = asyncio.create_task(batcher.work(lambda: order.append("other"), "other"))
        await asyncio.sleep(0.01)
        hold.set()
        await asyncio.gather(first, other, *greedy)

    run(submit_all)
    assert order.index("other") <= 1


def test_stopping_does_not_wait_for_the_work_at_hand() -> None:
    hold, started = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        hold.wait(10)

    async def submit(batcher: Batcher) -> None:
        request = asyncio.create_task(batcher.work(work))
        await asyncio.to_thread(started.wait, 10)
        request.cancel()
        await asyncio.wait_for(batcher.stop(), 2)
        assert batcher.busy
        hold.set()

    run(submit)
