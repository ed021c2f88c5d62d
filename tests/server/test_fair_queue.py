"""Clients take turns in a queue, and a full queue refuses the client that has most in it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tempograph.server.fair_queue import FairQueue


def drain(queue: FairQueue[str]) -> list[str]:
    return [queue.pop() for _ in range(len(queue))]


def test_clients_take_turns() -> None:
    queue: FairQueue[str] = FairQueue(10)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        assert queue.put(item[0], item) == []
    assert drain(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(queue) == 0


def test_the_least_work_of_a_client_comes_first() -> None:
    queue: FairQueue[str] = FairQueue(10)
    for item, work_left in (("long", 100), ("short", 1), ("next", 1), ("middle", 50)):
        queue.put("a", item, work_left)
    assert drain(queue) == ["short", "next", "middle", "long"]


def test_a_full_queue_makes_room_for_a_client_with_less_in_it() -> None:
    queue: FairQueue[str] = FairQueue(3)
    for item in ("a1", "a2", "a3"):
        queue.put("a", item)
    assert queue.put("a", "a4") == ["a4"]
    assert queue.put("b", "b1") == ["a3"]
    assert queue.put("b", "b2") == ["b2"], "the other client has no more than one more"
    assert queue.put("b", "b2", admitted=True) == []
    assert drain(queue) == ["a1", "b1", "a2", "b2"]


def test_items_can_be_removed() -> None:
    queue: FairQueue[str] = FairQueue(3)
    for item in ("a1", "a2", "b1"):
        queue.put(item[0], item)
    queue.remove("b", "b1")
    queue.remove("a", "a1")
    queue.remove("a", "gone")
    assert len(queue) == 1 and drain(queue) == ["a2"]


@given(st.lists(st.sampled_from("abcd"), max_size=40), st.integers(1, 12))
def test_nobody_is_refused_for_another_client_with_as_much(clients: list[str], size: int) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue(size)
    refused = Counter()
    for number, client in enumerate(clients):
        for item in queue.put(client, (client, number)):
            refused[item[0]] += 1
    assert len(queue) == min(size, len(clients))
    items = [queue.pop() for _ in range(len(queue))]
    left = Counter(client for client, _ in items)
    for client in refused:
        assert left[client] + 1 >= max(left.values())
    for client in left:
        numbers = [number for owner, number in items if owner == client]
        assert numbers == sorted(numbers)
