"""Whoever asks at the same time is answered together, each with an answer of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tempograph.data.timeline import Queries
from tempograph.server.batching import Gatherer, Question
from tempograph.server.problems import Problem


class Scorer:
    """Scores that tell the question, and what was asked together; `hold` keeps a batch from being finished."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.hold = threading.Event()
        self.hold.set()
        self.begun = threading.Event()

    def __call__(self, queries: Queries) -> Tensor:
        self.begun.set()
        assert self.hold.wait(10)
        self.batches.append(len(queries.time))
        return torch.stack(list(queries), 1).double()

    def gatherer(self, most: int = 8, waiting: int = 1000, gather: float = 0.0) -> Gatherer:
        return Gatherer(self, torch.device("cpu"), most, gather, waiting)


def told(scores: Tensor) -> list[Any]:
    return scores.tolist()


questions = st.lists(st.tuples(*(st.integers(0, 9) for _ in range(3))), max_size=5)


@settings(max_examples=30)
@given(st.lists(questions, min_size=1, max_size=40), st.integers(1, 12))
def test_everyone_gets_their_own_answer(jobs: list[list[Question]], most: int) -> None:
    scorer = Scorer()

    async def ask_all() -> list[list[Any]]:
        gatherer = scorer.gatherer(most)
        gatherer.start()
        answers = await asyncio.gather(*(gatherer.ask(job, told) for job in jobs))
        await gatherer.stop()
        return answers

    assert asyncio.run(ask_all()) == [
        [list(map(float, question)) for question in job] for job in jobs
    ]
    largest = max(map(len, jobs))
    assert sum(scorer.batches) == sum(map(len, jobs)) and all(
        size < most + largest for size in scorer.batches
    )


def test_what_waits_is_scored_together() -> None:
    scorer = Scorer()

    async def ask_all() -> None:
        gatherer = scorer.gatherer(most=32)
        gatherer.start()
        scorer.hold.clear()
        first = asyncio.create_task(gatherer.ask([(0, 0, 0)], told))
        await asyncio.to_thread(scorer.begun.wait, 10)
        rest = [asyncio.create_task(gatherer.ask([(number, 0, 0)], told)) for number in range(20)]
        await asyncio.sleep(0)
        assert gatherer.waiting == 20
        scorer.hold.set()
        await asyncio.gather(first, *rest)
        await gatherer.stop()

    asyncio.run(ask_all())
    assert scorer.batches == [1, 20]


def test_one_that_fails_fails_alone() -> None:
    async def ask_all() -> list[Any]:
        gatherer = Scorer().gatherer(gather=0.01)
        gatherer.start()

        def fail(_: Tensor) -> None:
            raise ValueError("this one")

        asked = [
            gatherer.ask([(1, 2, 3)], told),
            gatherer.ask([(4, 5, 6)], fail),
            gatherer.ask([(7, 8, 9)], told),
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        again = await gatherer.ask([(1, 1, 1)], told)
        await gatherer.stop()
        return [*answers, again]

    one, two, three, again = asyncio.run(ask_all())
    assert (one, three, again) == ([[1, 2, 3]], [[7, 8, 9]], [[1, 1, 1]])
    assert isinstance(two, ValueError)


def test_scores_that_fail_leave_the_thread_alive() -> None:
    def broken(queries: Queries) -> Tensor:
        if int(queries.time[0]) == 1:
            raise RuntimeError("no memory")
        return torch.zeros(len(queries.time), 1)

    async def ask_all() -> None:
        gatherer = Gatherer(broken, torch.device("cpu"), 4, 0.0, 10)
        gatherer.start()
        with pytest.raises(RuntimeError, match="no memory"):
            await gatherer.ask([(0, 0, 1)], told)
        assert await gatherer.ask([(0, 0, 0)], told) == [[0.0]]
        await gatherer.stop()

    asyncio.run(ask_all())


def test_who_has_gone_is_not_waited_for_and_who_is_too_many_is_told() -> None:
    scorer = Scorer()

    async def ask_all() -> None:
        gatherer = scorer.gatherer(waiting=2)
        gatherer.start()
        scorer.hold.clear()
        first = asyncio.create_task(gatherer.ask([(0, 0, 0)], told))
        await asyncio.to_thread(scorer.begun.wait, 10)
        gone, stays = (
            asyncio.create_task(gatherer.ask([(number, 0, 0)], told)) for number in (1, 2)
        )
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await gatherer.ask([(3, 0, 0)], told)
        assert refused.value.status == 503 and refused.value.headers == {"Retry-After": "1"}
        gone.cancel()
        await asyncio.sleep(0)
        scorer.hold.set()
        assert (await first, await stays) == ([[0, 0, 0]], [[2, 0, 0]])
        await gatherer.stop()

    asyncio.run(ask_all())
    assert scorer.batches == [1, 1]


def test_preparation_waits_while_somebody_asks() -> None:
    left, order = [3], []

    def prepare() -> bool:
        order.append("prepared")
        left[0] -= 1
        return left[0] > 0

    async def ask_all() -> None:
        gatherer = Gatherer(Scorer(), torch.device("cpu"), 4, 0.0, 10, prepare)
        gatherer.start()
        await gatherer.ask([(0, 0, 0)], lambda scores: order.append("asked"))
        while left[0]:
            await asyncio.sleep(0.001)
        await gatherer.stop()

    asyncio.run(ask_all())
    assert order[0] == "asked" and order.count("prepared") == 3


def test_what_cannot_be_prepared_keeps_nobody_from_an_answer() -> None:
    tried = []

    def prepare() -> bool:
        tried.append(1)
        raise torch.cuda.OutOfMemoryError("no room")

    async def ask_all() -> list[list[int]]:
        gatherer = Gatherer(Scorer(), torch.device("cpu"), 4, 0.0, 10, prepare)
        gatherer.start()
        while not tried:
            await asyncio.sleep(0.001)
        answer = await asyncio.wait_for(gatherer.ask([(2, 0, 0)], Tensor.tolist), 10)
        await gatherer.stop()
        return answer

    assert asyncio.run(ask_all()) == [[2, 0, 0]] and len(tried) == 1
