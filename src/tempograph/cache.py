"""How much memory may be taken, what is worth keeping in it between two questions, and what to do if it runs out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from torch import Tensor

Kept = TypeVar("Kept", bound=tuple[Tensor, ...])


class TensorCache:
    """Tuples of tensors by name, the least lately used left out first when they are more than the budget in bytes.

    What is not kept is made again when it is asked for.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.size = 0
        self._kept: OrderedDict[Hashable, tuple[Tensor, ...]] = OrderedDict()

    def __call__(self, name: Hashable, make: Callable[[], Kept]) -> Kept:
        """What is kept under a name, or is made now."""
        if name in self._kept:
            self._kept.move_to_end(name)
            return cast(Kept, self._kept[name])
        made = make()
        if _bytes(made) <= self.budget:
            self._kept[name] = made
            self.size += _bytes(made)
            while self.size > self.budget:
                self.size -= _bytes(self._kept.popitem(last=False)[1])
        return made


def _bytes(tensors: tuple[Tensor, ...]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
