"""Concurrent requests share a batch, and each gets its own result."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tempograph.data.timeline import Queries
from tempograph.server.batching import Query, QueryBatcher
from tempograph.server.problems import Problem


class Scorer:
    """Returns the queries as scores and records batch sizes; clearing `hold` blocks a batch."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.hold = threading.Event()
        self.hold.set()
        self.started = threading.Event()

    def __call__(self, queries: Queries) -> Tensor:
        self.started.set()
        assert self.hold.wait(10)
        self.batches.append(len(queries.time))
        return torch.stack(list(queries), 1).double()


def run(
    use: Callable[[QueryBatcher], Awaitable[Any]],
    scores: Callable[[Queries], Tensor] | None = None,
    max_queries: int = 8,
    gather: float = 0.0,
    max_waiting: int = 1000,
    **options: Any,
) -> Any:
    """Start a batcher, await `use(batcher)`, and stop it."""

    async def main() -> Any:
        batcher = QueryBatcher(
            scores or Scorer(), torch.device("cpu"), max_queries, gather, max_waiting, **options
        )
        batcher.start()
        result = await use(batcher)
        await batcher.stop()
        return result

    return asyncio.run(main())


def as_list(scores: Tensor) -> list[Any]:
    return scores.tolist()


query_lists = st.lists(st.tuples(*(st.integers(0, 9) for _ in range(3))), max_size=5)


@settings(max_examples=30)
@given(st.lists(query_lists, min_size=1, max_size=40), st.integers(1, 12))
def test_every_request_gets_its_own_result(requests: list[list[Query]], max_queries: int) -> None:
    scorer = Scorer()

    async def submit_all(batcher: QueryBatcher) -> list[list[Any]]:
        return await asyncio.gather(*(batcher.submit(queries, as_list) for queries in requests))

    assert run(submit_all, scorer, max_queries) == [
        [list(map(float, query)) for query in queries] for queries in requests
    ]
    largest = max(map(len, requests))
    assert sum(scorer.batches) == sum(map(len, requests))
    assert all(size < max_queries + largest for size in scorer.batches)


def test_waiting_requests_are_scored_together() -> None:
    scorer = Scorer()

    async def submit_all(batcher: QueryBatcher) -> None:
        scorer.hold.clear()
        first = asyncio.create_task(batcher.submit([(0, 0, 0)], as_list))
        await asyncio.to_thread(scorer.started.wait, 10)
        rest = [asyncio.create_task(batcher.submit([(i, 0, 0)], as_list)) for i in range(20)]
        await asyncio.sleep(0)
        assert batcher.waiting == 20
        scorer.hold.set()
        await asyncio.gather(first, *rest)

    run(submit_all, scorer, max_queries=32)
    assert scorer.batches == [1, 20]


def test_a_request_that_fails_fails_alone() -> None:
    def fail(_: Tensor) -> None:
        raise ValueError("this one")

    async def submit_all(batcher: QueryBatcher) -> list[Any]:
        results = await asyncio.gather(
            batcher.submit([(1, 2, 3)], as_list),
            batcher.submit([(4, 5, 6)], fail),
            batcher.submit([(7, 8, 9)], as_list),
            return_exceptions=True,
        )
        return [*results, await batcher.submit([(1, 1, 1)], as_list)]

    one, two, three, again = run(submit_all, gather=0.01)
    assert (one, three, again) == ([[1, 2, 3]], [[7, 8, 9]], [[1, 1, 1]])
    assert isinstance(two, ValueError)


def test_a_scoring_error_does_not_stop_the_batcher() -> None:
    def broken(queries: Queries) -> Tensor:
        if int(queries.time[0]) == 1:
            raise RuntimeError("no memory")
        return torch.zeros(len(queries.time), 1)

    async def submit_all(batcher: QueryBatcher) -> None:
        with pytest.raises(RuntimeError, match="no memory"):
            await batcher.submit([(0, 0, 1)], as_list)
        assert await batcher.submit([(0, 0, 0)], as_list) == [[0.0]]

    run(submit_all, broken)


def test_cancelled_requests_are_dropped_and_a_full_queue_refuses() -> None:
    scorer = Scorer()

    async def submit_all(batcher: QueryBatcher) -> None:
        scorer.hold.clear()
        first = asyncio.create_task(batcher.submit([(0, 0, 0)], as_list))
        await asyncio.to_thread(scorer.started.wait, 10)
        gone, stays = (asyncio.create_task(batcher.submit([(i, 0, 0)], as_list)) for i in (1, 2))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await batcher.submit([(3, 0, 0)], as_list)
        assert refused.value.status == 503 and refused.value.headers == {"Retry-After": "1"}
        gone.cancel()
        await asyncio.sleep(0)
        scorer.hold.set()
        assert (await first, await stays) == ([[0, 0, 0]], [[2, 0, 0]])

    run(submit_all, scorer, max_waiting=2)
    assert scorer.batches == [1, 1]


def test_requests_come_before_warming_up() -> None:
    left, order = [3], []

    def warm_up() -> bool:
        order.append("warmed")
        left[0] -= 1
        return left[0] > 0

    async def submit(batcher: QueryBatcher) -> None:
        await batcher.submit([(0, 0, 0)], lambda scores: order.append("request"))
        while left[0]:
            await asyncio.sleep(0.001)

    run(submit, warm_up=warm_up)
    assert order[0] == "request" and order.count("warmed") == 3


def test_requests_are_answered_when_warming_up_fails() -> None:
    tried = []

    def warm_up() -> bool:
        tried.append(1)
        raise torch.cuda.OutOfMemoryError("no memory")

    async def submit(batcher: QueryBatcher) -> list[Any]:
        while not tried:
            await asyncio.sleep(0.001)
        return await asyncio.wait_for(batcher.submit([(2, 0, 0)], as_list), 10)

    assert run(submit, warm_up=warm_up) == [[2, 0, 0]] and len(tried) == 1


def test_each_result_is_released_as_soon_as_it_is_there() -> None:
    waits = threading.Event()

    async def submit_all(batcher: QueryBatcher) -> bool:
        quick = asyncio.create_task(batcher.submit([(1, 0, 0)], as_list))
        slow = asyncio.create_task(batcher.submit([(2, 0, 0)], lambda _: waits.wait(10)))
        assert await asyncio.wait_for(quick, 5) == [[1, 0, 0]]
        assert not slow.done()
        waits.set()
        return await slow

    assert run(submit_all, gather=0.01)


def test_queries_go_between_the_units_of_long_work() -> None:
    order: list[str] = []

    async def submit_all(batcher: QueryBatcher) -> None:
        async def long_work() -> None:
            for number in range(4):
                await batcher.work(
                    lambda: (order.append("unit"), time.sleep(0.02)), "a", 4 - number
                )

        work = asyncio.create_task(long_work())
        while not order:
            await asyncio.sleep(0.001)
        await batcher.submit([(0, 0, 0)], lambda _: order.append("query"))
        await work

    run(submit_all)
    assert order.index("query") <= 2 and order.count("unit") == 4


def test_units_of_another_client_do_not_wait_for_all_of_the_first() -> None:
    order: list[str] = []
    hold = threading.Event()

    async def submit_all(batcher: QueryBatcher) -> None:
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

    async def submit(batcher: QueryBatcher) -> None:
        request = asyncio.create_task(batcher.submit([], lambda _: work()))
        await asyncio.to_thread(started.wait, 10)
        request.cancel()
        await asyncio.wait_for(batcher.stop(), 2)
        assert batcher.busy
        hold.set()

    run(submit)
