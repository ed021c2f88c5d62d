"""Names that a graph does not have yet: numbered after its own, in order of appearance."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.additions import Additions
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.row_errors import RowError

_BROKEN_NAME: Final = "a name with a line break"
_MAX_LENGTH: Final = 60


class NameNumbers:
    """Numbers names that do not exist yet, from the number of those that do."""

    def __init__(self, kind: str, first: int) -> None:
        self._kind, self._first = kind, first
        self._names: dict[str, int] = {}

    def __call__(self, name: str) -> int | RowError:
        """The number of a new name, or why it cannot be one."""
        if "\n" in name or "\r" in name:
            shown = repr(name[:_MAX_LENGTH])
            text = f"the {self._kind} {shown} contains a line break; a name must be one line"
            return RowError(_BROKEN_NAME, text)
        return self._first + self._names.setdefault(name, len(self._names))

    def renumber(
        self, columns: NDArray[np.int64], rows: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], list[str]]:
        """Columns of ids [n, k] in which the names of some rows [n] are numbered as they appear.

        Returns the new names as well. A name that is in other rows alone has no number: -2.
        """
        appeared = columns[rows].ravel()
        appeared = appeared[appeared >= self._first]
        distinct, at = np.unique(appeared, return_index=True)
        order = distinct[np.argsort(at)] - self._first
        number = np.full(len(self._names), -2, np.int64)
        number[order] = self._first + np.arange(len(order))
        is_new = columns >= self._first
        renumbered = columns.copy()
        renumbered[is_new] = number[columns[is_new] - self._first]
        names = list(self._names)
        return renumbered, [names[each] for each in order]


class NewNames:
    """The unknown names of a batch of facts, which become names of a larger graph."""

    def __init__(self, graph: TemporalGraph) -> None:
        self.entities = NameNumbers("entity", len(graph.entities))
        self.relations = NameNumbers("relation", len(graph.relations))

    def add_to(
        self, graph: TemporalGraph, ids: Facts, valid: NDArray[np.bool_]
    ) -> tuple[TemporalGraph, Facts]:
        """The graph with the names of the valid rows, and the ids [n, 4] in it."""
        ids = ids.copy()
        ids[:, [0, 2]], entities = self.entities.renumber(ids[:, [0, 2]], valid)
        ids[:, [1]], relations = self.relations.renumber(ids[:, [1]], valid)
        if not entities and not relations:
            return graph, ids
        return Additions(tuple(entities), tuple(relations)).onto(graph), ids
