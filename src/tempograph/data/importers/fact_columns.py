"""Files of facts to ask about, read whole: four columns, whatever they are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from tempograph.data.graph import COLUMNS
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.sources import delimiter_of, is_parquet, readable
from tempograph.data.importers.table_reader import as_text, find_columns
from tempograph.data.importers.time_parsing import Clock, format_pattern, read_dates
from tempograph.errors import DataError


def read_fact_table(path: Path, options: ImportOptions) -> pa.Table:
    """Columns subject, relation, object and time of a table as an import would find them, all of them text.

    Dates in Parquet stay dates; times of a format other than integer become moments.
    """
    columns = options.columns
    with readable(path):
        if is_parquet(path):
            found = pa.parquet.read_table(path)
        else:
            converting = pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()))
            parsing = pa.csv.ParseOptions(delimiter=options.delimiter or delimiter_of(path) or ",")
            reading = pa.csv.ReadOptions(use_threads=False)
            found = pa.csv.read_csv(
                path, read_options=reading, parse_options=parsing, convert_options=converting
            )
        find_columns(path, found.column_names, columns)
        given = {
            part: _as_date_or_text(found[name]) for part, name in zip(COLUMNS, columns, strict=True)
        }
        if options.time_format not in (None, "integer") and pa.types.is_string(given["time"].type):
            given["time"] = _moments(path, given["time"], str(options.time_format))
        return pa.table(given)


def _moments(path: Path, times: pa.ChunkedArray, time_format: str) -> pa.Array:
    texts = pc.utf8_trim_whitespace(times.combine_chunks())
    moments, readable = read_dates(texts, format_pattern(time_format))
    if not readable.all():
        row = int(np.argmin(readable))
        raise DataError(
            f"{path}: row {row + 1}: {Clock(time_format).complaint(texts[row].as_py())}"
        )
    return pa.array(moments)


def _as_date_or_text(times: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(times.type):
        return times.cast(pa.timestamp("s"), safe=False)
    return times if pa.types.is_date(times.type) else as_text(times)
