"""How much memory may be taken, what is worth keeping in it between two questions, and what to do if it runs out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar, cast

import torch
from torch import Tensor

from tempograph.errors import RunError

_SHARE: Final = 8
"""A budget takes at most one part in so many of a GPU's memory, for several are in use at once."""

Kept = TypeVar("Kept", bound=tuple[Tensor, ...])


def room(budget: Mapping[str, int], device: torch.device) -> int:
    """A budget in bytes, by kind of device; less where the GPU is too small for it."""
    if device.type != "cuda":
        return budget[device.type]
    memory: int = torch.cuda.get_device_properties(device).total_memory
    return min(budget["cuda"], memory // _SHARE)


@contextmanager
def enough_for(what: str, way_out: str) -> Iterator[None]:
    """Memory that runs out is told in one line, with the way out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # Of main memory torch says so in words alone.
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        raise RunError(f"{what} ran out of memory; {way_out}") from error


class Memory:
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
