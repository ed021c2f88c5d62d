"""What is wrong with the rows of a batch: a kind to count by and a message for each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tempograph.errors import QueryError


class RowError(NamedTuple):
    """What is wrong with a row: its kind, such as "an unknown entity", and the message."""

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class RowErrors:
    """The kind and the message of each row's error, [n] each; null for a row without one."""

    kinds: pa.Array
    texts: pa.Array

    @staticmethod
    def none(rows: int) -> RowErrors:
        """No errors."""
        return RowErrors(pa.nulls(rows, pa.string()), pa.nulls(rows, pa.string()))

    @staticmethod
    def at(mask: NDArray[np.bool_], kind: str, texts: pa.Array | str) -> RowErrors:
        """Errors of one kind at the rows of a mask; the texts are those of the rows in it."""
        rows = np.flatnonzero(mask)
        if isinstance(texts, str):
            texts = pa.repeat(texts, len(rows))
        index = np.zeros(len(mask), np.int64)
        index[rows] = np.arange(len(rows))
        return RowErrors(
            pa.repeat(kind, len(rows)).take(pa.array(index, mask=~mask)),
            texts.take(pa.array(index, mask=~mask)),
        )

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which rows have an error, [n]."""
        mask: NDArray[np.bool_] = self.texts.is_valid().to_numpy(zero_copy_only=False)
        return mask

    def then(self, other: RowErrors) -> RowErrors:
        """These errors and, for rows without one, those of another list."""
        return RowErrors(pc.coalesce(self.kinds, other.kinds), pc.coalesce(self.texts, other.texts))

    def first_rows(self, limit: int) -> list[int]:
        """The first row of each of the first distinct messages."""
        rows = np.flatnonzero(self.mask)
        # Arrow numbers distinct texts in order of appearance.
        codes = self.texts.take(pa.array(rows)).dictionary_encode().indices.to_numpy()
        first = np.unique(codes, return_index=True)[1]
        return [int(row) for row in rows[first[:limit]]]

    def describe(self, what: str) -> str:
        """How many rows have an error, and how many of each kind; `what` cannot be done to them."""
        counted = pc.value_counts(self.kinds.drop_null()).to_pylist()
        kinds = sorted(counted, key=lambda each: -each["counts"])
        shown = ", ".join(f"{each['counts']:,} with {each['values']}" for each in kinds)
        return f"{int(self.mask.sum()):,} of {len(self):,} rows cannot be {what}: {shown}"

    def refuse(self, place: Callable[[int], str]) -> None:
        """Raise the first error, if there is one; `place` names its row."""
        for row in self.first_rows(1):
            raise QueryError(f"{place(row)}: {self.texts[row].as_py()}")
