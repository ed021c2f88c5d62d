"""Measuring memory: the largest tensor, the peak of all tensors, and the peak of a reader."""

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


class LargestTensor(TorchDispatchMode):
    """Records the bytes of the largest tensor that an operation returns, backward included."""

    bytes = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            # The indices and values of a sparse tensor are results of their own.
            if isinstance(leaf, Tensor) and not leaf.is_sparse:
                self.bytes = max(self.bytes, leaf.untyped_storage().nbytes())
        return result


class PeakMemory(TorchDispatchMode):
    """Records the peak number of bytes in all tensors that operations returned."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self._alive: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                storage = leaf.untyped_storage()
                self._alive[StorageWeakRef(storage)] = storage.nbytes()
        self._alive = {ref: size for ref, size in self._alive.items() if not ref.expired()}
        self.bytes = max(self.bytes, sum(self._alive.values()))
        return result


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """A list that gets the peak number of bytes that Python, NumPy and Arrow took in the block."""
    peak: list[int] = []
    default = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(default)
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1] + counted.max_memory())
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(default)
