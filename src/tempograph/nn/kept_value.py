"""What is computed from weights, kept until they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

Value = TypeVar("Value")


class KeptValue(Generic[Value]):
    """The last value that was made, for the weights that it was made from."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[object, ...], Value] | None = None

    def __call__(self, weights: tuple[Tensor, ...], make: Callable[[], Value]) -> Value:
        """The value for some weights: a new one if they have changed since the last call."""
        # What is made in inference mode has no version, and is not trained.
        version: tuple[object, ...] = tuple(
            (each.data_ptr(), each.dtype, None if each.is_inference() else each._version)
            for each in weights
        )
        kept = self._kept
        if kept is None or kept[0] != version:
            self._kept = kept = version, make()
        return kept[1]
