"""The rows of an import as ids, collected batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tempograph.data.graph import COLUMNS, Facts
from tempograph.data.importers.name_ids import Ids, NameIds
from tempograph.data.importers.own_splits import parse_splits
from tempograph.typing import SPLITS, Split


class ImportedRows:
    """Rows as facts (subject, relation, object, step), and their splits if they have some.

    Entities and relations are numbered in order of appearance, the subject before the object.
    """

    def __init__(self, keep_names: bool) -> None:
        self.entities, self.relations = NameIds(keep_names), NameIds(keep_names)
        self._facts: list[Facts] = [np.empty((0, len(COLUMNS)), np.int64)]
        self._splits: list[Ids] = []

    def add(self, columns: Sequence[pa.Array], steps: Ids, split: Split | None) -> None:
        """Add subjects, relations, objects and times with their steps.

        Their split is given, or comes from a column after the times, or is left open.
        """
        subjects, objects = self.entities.encode_pairs(columns[0], columns[2])
        relations = self.relations.encode(columns[1])
        self._facts.append(np.stack([subjects, relations, objects, steps], axis=1))
        if split is not None:
            self._splits.append(np.full(len(steps), SPLITS.index(split)))
        elif len(columns) > len(COLUMNS):
            self._splits.append(parse_splits(columns[len(COLUMNS)])[0])

    def facts(self) -> Facts:
        """All rows, [rows, 4]."""
        return np.concatenate(self._facts)

    def splits(self) -> Ids | None:
        """The split of each row, as an index of `SPLITS`; None if the rows have none."""
        return np.concatenate(self._splits) if self._splits else None
