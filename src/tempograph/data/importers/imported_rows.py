"""The rows of an import as ids, collected batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tempograph.data.graph import COLUMNS, Facts
from tempograph.data.importers.name_ids import Ids, NameIds
from tempograph.data.importers.own_splits import parse_splits
from tempograph.data.importers.row_chunks import RowChunks, SpillFolder
from tempograph.typing import SPLITS, Split

_ROWS_TOGETHER: Final = 1 << 19
"""How many rows get their ids together: most names are looked up once for all of them."""


class ImportedRows:
    """Rows as facts (subject, relation, object, step), and their splits if they have some.

    Entities and relations are numbered in order of appearance, the subject before the object. With
    a spill folder, many rows are kept on disk.
    """

    def __init__(self, keep_names: bool, spill: SpillFolder | None = None) -> None:
        self.entities, self.relations = NameIds(keep_names), NameIds(keep_names)
        self._chunks = RowChunks(spill)
        self._pending: list[tuple[Sequence[pa.Array], list[Ids]]] = []
        self._rows_pending = 0
        self.has_splits = False

    def add(self, columns: Sequence[pa.Array], steps: Ids, split: Split | None) -> None:
        """Add subjects, relations, objects and times with their steps.

        Their split is given, or comes from a column after the times, or is left open.
        """
        numbers = [steps]
        if split is not None:
            numbers.append(np.full(len(steps), SPLITS.index(split)))
        elif len(columns) > len(COLUMNS):
            numbers.append(parse_splits(columns[len(COLUMNS)])[0])
        self.has_splits |= len(numbers) > 1
        self._pending.append((columns[:3], numbers))
        self._rows_pending += len(steps)
        if self._rows_pending >= _ROWS_TOGETHER:
            self._encode_pending()

    @property
    def chunks(self) -> RowChunks:
        """The columns of the facts, and after them that of the splits if they have some."""
        self._encode_pending()
        return self._chunks

    def facts(self) -> Facts:
        """All rows, [rows, 4]."""
        parts = [np.empty((len(COLUMNS), 0), np.int64), *self._columns(0, len(COLUMNS))]
        return np.concatenate(parts, axis=1).T.copy()

    def splits(self) -> Ids | None:
        """The split of each row, as an index of `SPLITS`; None if the rows have none."""
        if not self.has_splits:
            return None
        return np.concatenate([part[0] for part in self._columns(len(COLUMNS), None)])

    def _columns(self, first: int, last: int | None) -> Iterator[Ids]:
        return (chunk[first:last] for chunk in self.chunks.read())

    def _encode_pending(self) -> None:
        if not self._pending:
            return
        subjects, relations, objects = (
            pa.chunked_array(parts)
            for parts in zip(*(names for names, _ in self._pending), strict=True)
        )
        numbers = map(np.concatenate, zip(*(each for _, each in self._pending), strict=True))
        subject_ids, object_ids = self.entities.encode_pairs(subjects, objects)
        relation_ids = self.relations.encode(relations)
        self._chunks.add([subject_ids, relation_ids, object_ids, *numbers])
        self._pending, self._rows_pending = [], 0
