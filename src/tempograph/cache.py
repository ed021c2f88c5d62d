"""A cache of tensors with a budget in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from torch import Tensor

Tensors = TypeVar("Tensors", bound=tuple[Tensor, ...])


class TensorCache:
    """Tuples of tensors by key; the least recently used are dropped when the budget is exceeded."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.size = 0
        self.hits = self.misses = 0
        self._entries: OrderedDict[Hashable, tuple[Tensor, ...]] = OrderedDict()

    def __call__(self, key: Hashable, make: Callable[[], Tensors]) -> Tensors:
        """The cached tensors of a key, or else newly made ones."""
        if key in self._entries:
            self.hits += 1
            self._entries.move_to_end(key)
            return cast(Tensors, self._entries[key])
        self.misses += 1
        made = make()
        if _bytes(made) <= self.budget:
            self._entries[key] = made
            self.size += _bytes(made)
            while self.size > self.budget:
                self.size -= _bytes(self._entries.popitem(last=False)[1])
        return made


def _bytes(tensors: tuple[Tensor, ...]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
