"""How large tensors become, and how much memory reading takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Largest(TorchDispatchMode):
    """Remembers the memory of the largest tensor that any operation gave, in bytes, also of those in backward."""

    most = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = operation(*args, **(kwargs or {}))
        sizes = [
            leaf.untyped_storage().nbytes()
            for leaf in tree_leaves(found)
            if isinstance(leaf, Tensor)
        ]
        self.most = max(self.most, *sizes, 0)
        return found


class Peak(TorchDispatchMode):
    """Remembers the most memory that the tensors that operations gave took at a time, in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0
        self._there: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor):
                self._there[StorageWeakRef(leaf.untyped_storage())] = (
                    leaf.untyped_storage().nbytes()
                )
        self._there = {
            storage: size for storage, size in self._there.items() if not storage.expired()
        }
        self.most = max(self.most, sum(self._there.values()))
        return found


@contextmanager
def most_memory() -> Iterator[list[int]]:
    """A list that, after the block, holds the most bytes that Python, NumPy and Arrow took in it at a time."""
    found: list[int] = []
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        yield found
        found.append(tracemalloc.get_traced_memory()[1] + counted.max_memory())
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
