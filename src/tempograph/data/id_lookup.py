"""Look up the ids of names, times and ids in columns; errors are found on distinct values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tempograph.data.graph import COLUMNS, Facts, Name, TemporalGraph
from tempograph.data.importers.name_ids import clean_names
from tempograph.data.importers.options import ImportOptions
from tempograph.data.name_index import NameIndex
from tempograph.data.new_names import NameNumbers, NewNames
from tempograph.data.row_errors import RowError, RowErrors
from tempograph.data.time_lookup import TimeLookup
from tempograph.errors import QueryError

MISSING: Final = -1
"""The id of a part that has no value."""
_UNKNOWN: Final = -2
_NOT_A_NAME: Final = "a value that is neither a name nor an id"
_MAX_SUGGESTIONS: Final = 1000
"""The distinct unknown names of a column for which similar names are looked for."""

Find = Callable[[Sequence[Any]], list[int | RowError]]
"""From some distinct values to the id of each, or what is wrong with it."""


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """The distinct values of a column and the code of each row."""

    values: Sequence[Any]
    codes: NDArray[np.integer[Any]]

    def texts(self) -> pa.Array:
        """The value of each row as text."""
        texts = [None if value is None else str(value) for value in self.values]
        return pa.array(texts, pa.string()).take(pa.array(self.codes))


def encode_column(given: pa.ChunkedArray | list[Any]) -> EncodedColumn:
    """The distinct values of a column, each as a Python object, and the code of each row."""
    if not isinstance(given, list):
        if not len(given) or pa.types.is_nested(given.type) or pa.types.is_null(given.type):
            return encode_column(given.to_pylist())
        encoded = given.dictionary_encode(null_encoding="encode").combine_chunks()
        return EncodedColumn(encoded.dictionary.to_pylist(), encoded.indices.to_numpy())
    codes: dict[Any, int] = {}
    values: list[Any] = []
    numbers = np.empty(len(given), np.int64)
    for row, value in enumerate(given):
        numbers[row] = codes.setdefault(_key(value), len(codes))
        if len(values) < len(codes):
            values.append(value)
    return EncodedColumn(values, numbers)


def _key(value: Any) -> Any:
    """A key that differs for values that are equal but not alike, such as 1 and True."""
    try:
        hash(value)
    except TypeError:
        return type(value), repr(value)
    return type(value), value


def encode_ids(ids: NDArray[Any]) -> list[EncodedColumn]:
    """The columns of an array [n, 4]."""
    distinct = (np.unique(column, return_inverse=True) for column in ids.T)
    return [EncodedColumn(values.tolist(), codes) for values, codes in distinct]


def look_up(
    graph: TemporalGraph,
    columns: Sequence[EncodedColumn],
    options: ImportOptions,
    find_times: TimeLookup | None,
    new: NewNames | None = None,
) -> tuple[Facts, RowErrors]:
    """The ids of subjects, relations, objects and times, [n, 4], and what is wrong with each row.

    An id is -1 where there is no value, and -2 where there is none for it. The options say whether
    names are cleaned as in an import. With `new`, unknown names are numbered by it; names that
    differ in case or accents are then different names, as in an import. Without `find_times`, the
    first three columns alone are looked up, [n, 3].
    """
    keep = options.keep_names
    new_entities, new_relations = (None, None) if new is None else (new.entities, new.relations)
    entities = _NameLookup("entity", graph.entity_id, graph.entity_index, keep, new_entities)
    relations = _NameLookup(
        "relation", graph.relation_id, graph.relation_index, keep, new_relations
    )
    finds: list[Find] = [entities, relations, entities]
    if find_times is None:
        columns = columns[: len(finds)]
    else:
        finds.append(find_times)
    named = zip(COLUMNS[: len(finds)], columns, finds, strict=True)
    parts = [_look_up_part(*part) for part in named]
    errors = parts[0][1]
    for _, others in parts[1:]:
        errors = errors.then(others)
    return np.stack([ids for ids, _ in parts], axis=1), errors


def _look_up_part(
    part: str, column: EncodedColumn, find: Find
) -> tuple[NDArray[np.int64], RowErrors]:
    results: list[Any] = [plain_value(part, value) for value in column.values]
    present = [
        code
        for code, value in enumerate(results)
        if value is not None and not isinstance(value, RowError)
    ]
    for code, found in zip(present, find([results[code] for code in present]), strict=True):
        results[code] = found
    errors = [result if isinstance(result, RowError) else None for result in results]
    ids = np.array(
        [
            _UNKNOWN if error else MISSING if result is None else result
            for result, error in zip(results, errors, strict=True)
        ],
        np.int64,
    )
    codes = pa.array(column.codes)
    kinds = pa.array([error and error.kind for error in errors], pa.string())
    texts = pa.array([error and error.text for error in errors], pa.string())
    return ids[column.codes], RowErrors(kinds.take(codes), texts.take(codes))


def plain_value(part: str, value: Any) -> Any:
    """A value to look up; None if it is missing, or an error if it is no name, id or time."""
    if isinstance(value, float) and value.is_integer():
        # pandas turns a column of ids with a missing one into floats.
        return int(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, float | date) and value != value:
        # NaN, and the missing time of pandas.
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | np.integer | date):
        return RowError(_NOT_A_NAME, f"the {part} must be a name or an id, found {value!r}")
    return value


class _NameLookup:
    """Finds the ids of names as written or, unless names are kept, cleaned as in an import."""

    def __init__(
        self,
        kind: str,
        find: Callable[[Name], int],
        index: NameIndex,
        keep_names: bool,
        new: NameNumbers | None = None,
    ) -> None:
        self._kind, self._find, self._index = kind, find, index
        self._keep_names, self._new = keep_names, new

    def __call__(self, values: Sequence[Any]) -> list[int | RowError]:
        """The id of each of some distinct names or ids, or why it has none."""
        texts = [value for value in values if isinstance(value, str)]
        names = dict(zip(texts, texts, strict=True))
        if texts and not self._keep_names:
            names = dict(zip(texts, clean_names(pa.array(texts)).to_pylist(), strict=True))
        if self._new is not None:
            return [self._known_or_new(value, names.get(value, value)) for value in values]
        found: list[int | RowError] = []
        unknown = 0
        for value in values:
            result: int | RowError | None = None
            if isinstance(value, str):
                result = self._index.find(value)
            if result is None:
                result = self._named(names.get(value, value), unknown < _MAX_SUGGESTIONS)
                unknown += isinstance(result, RowError)
            found.append(result)
        return found

    def _known_or_new(self, written: Name, name: Name) -> int | RowError:
        """The id of a name in this spelling, as written or cleaned; else that of a new one."""
        if self._new is None or not isinstance(written, str) or not isinstance(name, str):
            return self._named(name, suggest=False)
        for spelling in (written, name):
            if (known := self._index.find_exact(spelling)) is not None:
                return known
        return self._new(name)

    def _named(self, name: Name, suggest: bool) -> int | RowError:
        """The id of a name or id, or that there is none, with similar names if it is asked for."""
        kind = f"an unknown {self._kind}"
        if isinstance(name, str) and not suggest and self._index.find(name) is None:
            return RowError(kind, f"there is no {self._kind} '{name}'")
        try:
            return self._find(name)
        except QueryError as error:
            return RowError(kind, str(error))
