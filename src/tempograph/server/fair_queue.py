"""A queue in which clients take turns, so that one that sends much does not hold up the others."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from itertools import count
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """At most `max_items` items of any clients; the clients take turns.

    The items of one client come in the order of the work that is left, then of their arrival.
    """

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._clients: OrderedDict[str, list[tuple[int, int, Item]]] = OrderedDict()
        self._arrivals = count()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(
        self, client: str, item: Item, work_left: int = 0, admitted: bool = False
    ) -> list[Item]:
        """Add an item, and return the items that found no room.

        In a full queue, that is the last item of the client with the most items, if this client
        has fewer; else it is the new item. An item that was `admitted` before always finds room.
        """
        own = self._clients.get(client, [])
        refused: list[Item] = []
        if self._size >= self._max_items and not admitted:
            largest = max(self._clients, key=lambda name: len(self._clients[name]))
            if len(self._clients[largest]) <= len(own) + 1:
                return [item]
            last = max(self._clients[largest], key=lambda entry: entry[:2])
            refused.append(last[2])
            self._drop(largest, last)
        heapq.heappush(
            self._clients.setdefault(client, []), (work_left, next(self._arrivals), item)
        )
        self._size += 1
        return refused

    def pop(self) -> Item:
        """The next item of the client whose turn it is."""
        client, items = self._clients.popitem(last=False)
        _, _, item = heapq.heappop(items)
        self._size -= 1
        if items:
            self._clients[client] = items
        return item

    def remove(self, client: str, item: Item) -> None:
        """Take an item out, unless it has gone already."""
        for entry in self._clients.get(client, []):
            if entry[2] is item:
                self._drop(client, entry)
                return

    def _drop(self, client: str, entry: tuple[int, int, Item]) -> None:
        items = self._clients[client]
        items.remove(entry)
        heapq.heapify(items)
        self._size -= 1
        if not items:
            del self._clients[client]
