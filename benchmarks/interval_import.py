"""Time and memory of importing facts with a start and an end, from a CSV file to a dataset folder.

Each fact holds for about 500 of 10,000 steps; cost should grow with facts, not with steps.

PYTHONPATH=src python benchmarks/interval_import.py --rows 1000000 --json intervals.json
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from import_speed import measure, report


def main() -> None:
    """Write the file, import it in another process, print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--length", type=int, default=500)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # The peak memory of a child is at least that of its parent: hence another process writes
        # the file.
        with ProcessPoolExecutor(1, get_context("spawn")) as maker:
            size = (arguments.rows, arguments.steps, arguments.length)
            path = maker.submit(write_facts, Path(folder), *size).result()
        found = measure(path)
    report("csv, start and end", found, arguments.json)


def write_facts(folder: Path, rows: int, steps: int, length: int) -> Path:
    """Write facts between 50,000 entities whose lengths are exponentially distributed."""
    generator = np.random.default_rng(0)
    start = generator.integers(steps, size=rows)
    end = np.minimum(start + generator.exponential(length, size=rows).astype(np.int64), steps - 1)
    columns = {
        "subject": generator.integers(50_000, size=rows),
        "relation": generator.integers(50, size=rows),
        "object": generator.integers(50_000, size=rows),
        "start": start,
        "end": end,
    }
    path = folder / "facts.csv"
    pa.csv.write_csv(pa.table(columns), path)
    return path


if __name__ == "__main__":
    main()
