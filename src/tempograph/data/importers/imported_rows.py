"""The rows of an import as ids, collected batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tempograph.data.graph import Facts
from tempograph.data.importers.name_ids import Ids, NameIds
from tempograph.data.importers.own_splits import parse_splits
from tempograph.typing import SPLITS, Split

_NAMES: Final = 3
"""The columns of subject, relation and object."""


class ImportedRows:
    """Rows as facts (subject, relation, object, when), and their splits if they have some.

    Entities and relations are numbered in order of appearance, the subject before the object.
    """

    def __init__(self, keep_names: bool) -> None:
        self.entities, self.relations = NameIds(keep_names), NameIds(keep_names)
        self._facts: list[Facts] = []
        self._splits: list[Ids] = []

    def add(self, columns: Sequence[pa.Array], when: Ids, split: Split | None) -> None:
        """Add subjects, relations and objects, and when these facts are, [n] or [n, k].

        Their split is given, or comes from a column after the objects, or is left open.
        """
        subjects, objects = self.entities.encode_pairs(columns[0], columns[2])
        relations = self.relations.encode(columns[1])
        self._facts.append(np.column_stack([subjects, relations, objects, when]))
        if split is not None:
            self._splits.append(np.full(len(when), SPLITS.index(split)))
        elif len(columns) > _NAMES:
            self._splits.append(parse_splits(columns[_NAMES])[0])

    def facts(self) -> Facts:
        """All rows, [rows, 4], or [rows, 6] of facts with a start and an end."""
        return np.concatenate(self._facts) if self._facts else np.empty((0, 4), np.int64)

    def splits(self) -> Ids | None:
        """The split of each row, as an index of `SPLITS`; None if the rows have none."""
        return np.concatenate(self._splits) if self._splits else None
