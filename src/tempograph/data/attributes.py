"""Attributes of entities, such as a type or a country: one value for each entity, or none."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tempograph.errors import DataError

Attributes = Mapping[str, tuple[str, ...]]
"""The values of each attribute, "" for none, in the order of the entities."""

ENTITY: Final = "entity"
"""The column of a table of attributes that holds the names of entities."""


def read_attributes(
    source: Path | pa.Table,
    entities: Sequence[str],
    note: Callable[[str], None] | None = None,
    keep_names: bool = False,
) -> Attributes:
    """Read a CSV file or a table with a column `entity`; every other column is an attribute.

    An entity may be missing. Names are trimmed and normalized as in an import, unless they are
    kept. Those that no fact has are left out, and `note` is called with their number.
    """
    table = _read_table(source) if isinstance(source, Path) else _as_text(source)
    shown, first = (str(source), 2) if isinstance(source, Path) else ("the attributes", 0)
    names = table.column(ENTITY).to_pylist()
    if not keep_names:
        names = [unicodedata.normalize("NFC", name.strip()) for name in names]
    row = {name: number for number, name in reversed([*enumerate(names)])}
    if len(row) < len(names):
        again = next(number for number, name in enumerate(names) if row[name] != number)
        raise DataError(
            f"{shown}, row {again + first}: '{names[again]}' is in row {row[names[again]] + first} "
            "already; leave one of the two out"
        )
    known = row.keys() & set(entities)
    if not known:
        raise DataError(
            f"{shown}: none of its {len(names):,} names is that of an entity, such as "
            f"'{entities[0]}'"
        )
    if note and len(known) < len(names):
        note(f"note: {shown}: {len(names) - len(known):,} of {len(names):,} names have no facts")
    values = {name: table.column(name).to_pylist() for name in table.column_names if name != ENTITY}
    return {
        column: tuple(each[row[entity]] if entity in row else "" for entity in entities)
        for column, each in values.items()
    }


def _as_text(table: pa.Table) -> pa.Table:
    """A table with all columns as text, "" for nothing."""
    _check_columns(table.column_names, "the attributes")
    columns = (pc.fill_null(column.cast(pa.string()), "") for column in table.columns)
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _check_columns(columns: Sequence[str], shown: str) -> None:
    if ENTITY not in columns or len(columns) < 2:
        raise DataError(
            f"{shown}: a table of attributes has a column '{ENTITY}' and at least one more, "
            f"found {', '.join(columns)}"
        )


def _read_table(path: Path) -> pa.Table:
    """The table of a CSV file, all columns as text."""
    try:
        with pa.csv.open_csv(path, read_options=pa.csv.ReadOptions(use_threads=False)) as reader:
            columns = reader.schema.names
        _check_columns(columns, str(path))
        return pa.csv.read_csv(
            path,
            # Arrow threads that are still starting when a command ends abort the process.
            read_options=pa.csv.ReadOptions(use_threads=False),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False
            ),
        )
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a table of attributes: {error}") from None


def write_attributes(attributes: Attributes, entities: Sequence[str], path: Path) -> None:
    """Write a CSV file that `read_attributes` reads."""
    pa.csv.write_csv(pa.table({ENTITY: entities, **attributes}), path)
