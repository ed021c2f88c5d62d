"""The rows of an import as ids, collected batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tempograph.data.graph import Facts
from tempograph.data.importers.name_ids import Ids, NameIds
from tempograph.data.importers.own_splits import parse_splits
from tempograph.data.importers.row_chunks import RowChunks, SpillFolder
from tempograph.typing import SPLITS, Split

_NAMES: Final = 3
"""The columns of subject, relation and object."""
_ROWS_TOGETHER: Final = 1 << 19
"""How many rows get their ids together: most names are looked up once for all of them."""


class ImportedRows:
    """Rows as facts (subject, relation, object, when), and their splits if they have some.

    Entities and relations are numbered in order of appearance, the subject before the object. With
    a spill folder, many rows are kept on disk.
    """

    def __init__(self, keep_names: bool, spill: SpillFolder | None = None) -> None:
        self.entities, self.relations = NameIds(keep_names), NameIds(keep_names)
        self._chunks = RowChunks(spill)
        self._pending: list[tuple[Sequence[pa.Array], list[Ids]]] = []
        self._rows_pending = 0
        self.has_splits = False

    def add(self, columns: Sequence[pa.Array], when: Ids, split: Split | None) -> None:
        """Add subjects, relations and objects, and when these facts are, [n] or [n, k].

        Their split is given, or comes from a column after the objects, or is left open.
        """
        numbers = list(when.T if when.ndim == 2 else when[None])
        if split is not None:
            numbers.append(np.full(len(when), SPLITS.index(split)))
        elif len(columns) > _NAMES:
            numbers.append(parse_splits(columns[_NAMES])[0])
        self.has_splits |= split is not None or len(columns) > _NAMES
        self._pending.append((columns[:_NAMES], numbers))
        self._rows_pending += len(when)
        if self._rows_pending >= _ROWS_TOGETHER:
            self._encode_pending()

    @property
    def chunks(self) -> RowChunks:
        """The columns of the facts, and after them that of the splits if they have some."""
        self._encode_pending()
        return self._chunks

    def facts(self) -> Facts:
        """All rows, [rows, 3 + k]: their ids and when they are."""
        chunks = [chunk[:-1] if self.has_splits else chunk for chunk in self.chunks.read()]
        return np.concatenate(chunks, axis=1).T.copy() if chunks else np.empty((0, 4), np.int64)

    def splits(self) -> Ids | None:
        """The split of each row, as an index of `SPLITS`; None if the rows have none."""
        if not self.has_splits:
            return None
        return np.concatenate([chunk[-1] for chunk in self.chunks.read()])

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
