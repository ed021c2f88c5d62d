"""Time and memory of an import, from a synthetic file to a dataset folder.

A GDELT export has 61 columns, filled like real ones: names follow Zipf's law, one actor in five is
missing, places and addresses are there but not used, and some rows are cut short.

A table has four columns: half of its subjects and objects follow Zipf's law and half are drawn
evenly from the names of `--entities`.

PYTHONPATH=src python benchmarks/import_speed.py --rows 3000000 --packing zip --json import.json
PYTHONPATH=src python benchmarks/import_speed.py --source parquet --rows 10000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tempograph.cli.console import err
from tempograph.io import write_json

CHUNK = 250_000
COLUMNS = 61
_COUNTS = ("rows", "skipped", "duplicates", "facts", "entities", "relations", "steps")


def main() -> None:
    """Write the file, import it in another process, print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--source", choices=("gdelt", "csv", "parquet"), default="gdelt")
    parser.add_argument("--entities", type=int, default=1_200_000, help="of a table")
    parser.add_argument("--folder", type=Path, help="where the files are put for the time being")
    parser.add_argument("--packing", choices=("plain", "zip"), default="plain")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        # The peak memory of a child is at least that of its parent: hence another process writes
        # the file, and torch is imported later.
        with ProcessPoolExecutor(1, get_context("spawn")) as maker:
            path = maker.submit(write_source, Path(folder), arguments).result()
        err.print(f"{path.name}: {path.stat().st_size / 1e6:,.0f} MB")
        found = measure(path)
    kind = arguments.packing if arguments.source == "gdelt" else arguments.source
    report(kind, found, arguments.json)


def report(kind: str, found: dict[str, Any], path: Path | None) -> None:
    """Print the figures of an import, and write them into a JSON file if there is a path."""
    import torch
    from speed_tables import import_speed_table

    from tempograph.cli.console import show
    from tempograph.device import environment

    here = environment(torch.device("cpu"))
    measured = {"environment": here, "results": [{"kind": kind, **found}]}
    show(import_speed_table(measured))
    if path is not None:
        write_json(path, measured)


def measure(path: Path) -> dict[str, Any]:
    """Time the whole command, the start of Python included, and read its peak memory."""
    command = ["data", "import", str(path), "--out", str(path.parent / "dataset"), "--json"]
    output = path.parent / "output.json"
    start = time.perf_counter()
    with output.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", "tempograph", *command], stdout=file)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the import ended with {process.returncode}")
    imported = json.loads(output.read_text(encoding="utf-8"))
    return {
        "bytes": path.stat().st_size,
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        **{name: imported[name] for name in _COUNTS},
    }


def write_source(folder: Path, arguments: argparse.Namespace) -> Path:
    """Write the file to import."""
    if arguments.source == "gdelt":
        return write_export(folder, arguments.rows, arguments.days, arguments.packing)
    return write_table(folder, arguments.source, arguments.rows, arguments.days, arguments.entities)


def write_table(folder: Path, kind: str, rows: int, days: int, entities: int) -> Path:
    """Write a table of subject, relation, object and date as CSV or Parquet."""
    generator = np.random.default_rng(0)
    names = pa.array([f"Person {number * 7919 % 10_000_019:08d}" for number in range(entities)])
    relations = pa.array([f"does thing {number}" for number in range(500)])
    dates = pa.array((np.datetime64("2010-01-01") + np.arange(days)).astype(str).tolist())
    path = folder / f"events.{kind}"
    schema = pa.schema([(name, pa.string()) for name in ("subject", "relation", "object", "time")])

    def draw(count: int) -> pa.Array:
        evenly = generator.integers(entities, size=count)
        often = generator.zipf(1.3, count) % entities
        return names.take(pa.array(np.where(generator.random(count) < 0.5, often, evenly)))

    csv, parquet = pa.csv.CSVWriter, pa.parquet.ParquetWriter
    with (csv if kind == "csv" else parquet)(path, schema) as writer:
        for first in range(0, rows, CHUNK):
            count = min(CHUNK, rows - first)
            subjects, objects = draw(count), draw(count)
            done = relations.take(pa.array(generator.integers(500, size=count)))
            when = dates.take(pa.array(generator.integers(days, size=count)))
            writer.write(pa.table([subjects, done, objects, when], schema=schema))
    return path


def write_export(folder: Path, rows: int, days: int, packing: str) -> Path:
    """Write a synthetic export, plain or zipped."""
    name = "20150218.export.CSV"
    if packing == "plain":
        with (folder / name).open("wb") as file:
            write_rows(file, rows, days)
        return folder / name
    packed = folder / f"{name}.zip"
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        write_rows(member, rows, days)
    return packed


def write_rows(file: IO[bytes], rows: int, days: int) -> None:
    """Write the rows in chunks."""
    options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    for columns in chunks(rows, days):
        pa.csv.write_csv(
            pa.table(columns, names=[str(index) for index in range(COLUMNS)]), file, options
        )
        file.write(b"410479387\t20150218\t201502\n")


def chunks(rows: int, days: int) -> Iterator[list[pa.Array]]:
    """Yield the columns of each chunk, in the order of GDELT 2.0."""
    generator = np.random.default_rng(0)
    actors = np.array(["", *(f"ACTOR NUMBER {number}" for number in range(20_000))])
    codes = np.array([f"{root:02d}{leaf}" for root in range(1, 21) for leaf in range(10)])
    dates = np.char.replace((np.datetime64("2015-02-18") + np.arange(days)).astype(str), "-", "")
    place = (
        "4",
        "São Paulo, São Paulo, Brazil",
        "BR",
        "BR27",
        "9966",
        "-23.5333",
        "-46.6167",
        "-671824",
    )
    constant = {
        2: "201502",
        3: "2015",
        4: "2015.1315",
        25: "1",
        **dict.fromkeys(range(29, 35), "2.5"),
    }
    constant |= {35 + number: value for number, value in enumerate(place * 3)} | {
        59: "20150218230000"
    }
    for first in range(0, rows, CHUNK):
        numbers = np.arange(first, min(first + CHUNK, rows))
        count = len(numbers)
        columns = {column: np.full(count, constant.get(column, "")) for column in range(COLUMNS)}
        columns[0] = (400_000_000 + numbers).astype(str)
        columns[1] = dates[np.sort(generator.integers(days, size=count))]
        for column in (5, 15):
            chosen = np.minimum(generator.zipf(1.3, count), len(actors) - 1) * (
                generator.random(count) > 0.2
            )
            columns[column + 1] = actors[chosen]
            columns[column] = np.where(chosen, np.char.add("ACT", chosen.astype(str)), "")
        columns[26] = columns[27] = codes[generator.integers(len(codes), size=count)]
        columns[28] = columns[26].astype("U2")
        columns[60] = np.char.add(
            "http://news.example.com/2015/02/18/an-article-about-an-event-", numbers.astype(str)
        )
        yield [pa.array(columns[column].tolist()) for column in range(COLUMNS)]


if __name__ == "__main__":
    main()
