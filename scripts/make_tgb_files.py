"""Make files in the layout of a TGB 2.0 dataset, of any size: for tests, and to measure loading.

The facts are random and the same each time. As in the published files, one relation has few
objects, some facts recur, and no row is repeated. Days begin at midnight in Montreal, in winter
and in summer, and a few of them have no facts.

PYTHONPATH=src python scripts/make_tgb_files.py tkgl-icews made --facts 15000000 --entities 88000
"""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from tempograph.data.tgb_datasets import TGB_DATASETS

Ids = NDArray[np.int64]

_HEADERS: Final = {"year": "ts", "day": "date"}
_FIRST: Final = {"year": 1900, "day": 17_532}
"""The first step: a year, or the days from 1970 to 2018."""
_MISSING_STEPS: Final = (3, 4)
_RECURRING: Final = 0.3
_CHUNK: Final = 1_000_000


def main() -> None:
    """Make the files that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=TGB_DATASETS)
    parser.add_argument("out", type=Path, help="the folder that gets a folder of these files")
    parser.add_argument("--facts", type=int, default=600)
    parser.add_argument("--entities", type=int, default=40)
    parser.add_argument("--relations", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--zip", action="store_true", help="also write the archive")
    options = parser.parse_args()
    folder = make_tgb_files(
        options.name, options.out, options.facts, options.entities, options.relations, options.steps
    )
    print(pack(folder, options.name) if options.zip else folder)


def make_tgb_files(
    name: str,
    out: Path,
    facts: int = 600,
    entities: int = 40,
    relations: int = 5,
    steps: int = 30,
    seed: int = 0,
) -> Path:
    """Write the files of a made-up dataset to a folder under `out`, as py-tgb names it."""
    by_year = TGB_DATASETS[name].step == "year"
    folder = out / name.replace("-", "_")
    folder.mkdir(parents=True, exist_ok=True)
    rows = make_rows(np.random.default_rng(seed), facts, entities, relations, steps)
    with (folder / f"{name}_edgelist.csv").open("wb") as file:
        file.write(f"{_HEADERS[TGB_DATASETS[name].step]},head,tail,relation_type\n".encode())
        for start in range(0, len(rows), _CHUNK):
            _write_rows(file, rows[start : start + _CHUNK], by_year)
    # Nobody should open these: a reader that does fails.
    for split in ("val", "test"):
        (folder / f"{name}_{split}_ns.pkl").write_bytes(b"not a pickle")
    if by_year:
        static = folder / f"{name}_static_edgelist.csv"
        static.write_text("head,tail,relation_type\nQ0,Q999999,P31\n")
    return folder


def make_rows(
    rng: np.random.Generator, facts: int, entities: int, relations: int, steps: int
) -> Ids:
    """Distinct rows (step, head, tail, relation), sorted by step alone.   -> [about facts, 4]."""
    columns = [
        rng.integers(steps, size=facts),
        entities * rng.random(facts) ** 2,
        entities * rng.random(facts),
        relations * rng.random(facts) ** 2,
    ]
    rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
    # The last relation has few objects, such as the countries that someone is a citizen of.
    rows[:, 2] %= np.where(rows[:, 3] == relations - 1, 3, entities)
    recurring = rng.random(facts) < _RECURRING
    rows[recurring, 1:] = rows[rng.integers(facts, size=int(recurring.sum())), 1:]
    rows = rows[~np.isin(rows[:, 0], _MISSING_STEPS)]
    key = np.ravel_multi_index(rows.T, (steps, entities, entities, relations))
    rows = rows[np.sort(np.unique(key, return_index=True)[1])]
    return rows[np.argsort(rows[:, 0], kind="stable")]


def pack(folder: Path, name: str) -> Path:
    """Write the archive of the files in a folder beside it."""
    archive = folder.parent / f"{name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(folder.iterdir()):
            packed.write(file, file.name)
    return archive


def _write_rows(file: IO[bytes], rows: Ids, by_year: bool) -> None:
    step, head, tail, relation = rows.T
    if by_year:
        columns = [
            pa.array(_FIRST["year"] + step),
            *(pa.array(np.char.add("Q", (7 * ids + 1).astype(str))) for ids in (head, tail)),
            pa.array(np.char.add("P", (3 * relation + 17).astype(str))),
        ]
    else:
        days = _FIRST["day"] + step
        columns = [pa.array(86_400 * days + _midnight(days)), pa.array(head), pa.array(tail)]
        columns.append(pa.array(relation))
    table = pa.table(columns, names=["time", "head", "tail", "relation_type"])
    options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    pa.csv.write_csv(table, file, options)


def _midnight(days: Ids) -> Ids:
    """The hour of midnight in Montreal, in seconds of UTC: four in summer, five in winter."""
    dates = days.astype("M8[D]")
    in_year = (dates - dates.astype("M8[Y]")).astype(np.int64)
    return np.where((in_year >= 70) & (in_year < 308), 4, 5) * 3_600


if __name__ == "__main__":
    main()
