"""Imports that are sorted on disk make the folders that imports in memory make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messages import message, raises
from tempograph.data import parquet_facts
from tempograph.data.folder import read_folder
from tempograph.data.importers import folder_import, imported_rows, row_chunks, sorted_rows
from tempograph.data.importers.any_source import import_to_folder
from tempograph.data.importers.import_summary import ImportSummary
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.row_chunks import RowChunks, SpillFolder
from tempograph.data.importers.sorted_rows import Packing, SortedRows
from tempograph.errors import DataError, StorageError

NAMES = ("Ann", "Ann ", "B\u00f6b", "Bo\u0308b", "Cai", "Dee", "e", "f", "g")


@contextmanager
def small_chunks(rows_in_memory: int = 7) -> Iterator[None]:
    with (
        patch.object(row_chunks, "ROWS_IN_MEMORY", rows_in_memory),
        patch.object(imported_rows, "_ROWS_TOGETHER", 3),
        patch.object(sorted_rows, "BLOCK_ROWS", 5),
        patch.object(parquet_facts, "ROW_GROUP", 4),
    ):
        yield


def make_table(seed: int, rows: int = 120) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    days = np.datetime64("2024-01-01") + rng.integers(0, 9, rows)
    return {
        "subject": rng.choice(NAMES, rows).tolist(),
        "relation": rng.choice(["meets", "calls", " calls"], rows).tolist(),
        "object": rng.choice(NAMES, rows).tolist(),
        "time": days.astype(str).tolist(),
        "fold": rng.choice(["train", "valid", "dev", "test"], rows).tolist(),
    }


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def import_both_ways(
    source: Any, tmp_path: Path, parquet: bool = True, **options: Any
) -> tuple[ImportSummary, ImportSummary]:
    """Import in memory and on disk; the folders must be the same, byte for byte."""
    given_options = ImportOptions(**options)
    found = []
    for name in ("memory", "disk"):
        folder = tmp_path / name / "data"
        with small_chunks(7 if name == "disk" else 10**6):
            used = patch.object(folder_import, "SortedRows", side_effect=folder_import.SortedRows)
            with used as sorter:
                summary, _ = import_to_folder(source, given_options, folder, True, parquet)
            assert sorter.called == (name == "disk")
        assert [path.name for path in folder.parent.iterdir()] == ["data"]
        found.append(summary)
    memory, disk = tmp_path / "memory/data", tmp_path / "disk/data"
    if parquet:
        assert contents(disk) == contents(memory)
    assert read_folder(disk).same_as(read_folder(memory))
    assert found[0] == found[1]
    return found[0], found[1]


OPTIONS: dict[str, dict[str, Any]] = {
    "at random": {"seed": 3},
    "by time": {"split": "chronological", "valid_share": 0.2},
    "weeks": {"granularity": "week"},
    "as given": {"split_column": "fold"},
    "names as written": {"keep_names": True, "test_share": 0.0},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_rows_on_disk_make_the_same_folder(tmp_path: Path, options: dict[str, Any]) -> None:
    for seed in range(3):
        summary, _ = import_both_ways(pa.table(make_table(seed)), tmp_path, **options)
        assert summary.rows == 120 and summary.duplicates > 0
        assert (summary.overlaps is not None) == ("split_column" in options)
        assert summary.rows == summary.facts + summary.duplicates


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_files_and_bad_rows_make_the_same_folder(tmp_path: Path, suffix: str) -> None:
    table = make_table(5)
    table["time"][17] = "soon"
    table["object"][40] = ""
    path = tmp_path / f"events{suffix}"
    if suffix == ".csv":
        pa.csv.write_csv(pa.table(table), path)
    elif suffix == ".parquet":
        pa.parquet.write_table(pa.table(table), path, row_group_size=11)
    else:
        path.write_text(
            "".join(f"{row}\n".replace("'", '"') for row in pa.table(table).to_pylist())
        )
    summary, _ = import_both_ways(path, tmp_path, parquet=False, skip_bad=True)
    assert sum(skip.rows for skip in summary.skipped) == 2
    assert any("soon" in note for note in summary.notes(False))


def test_integer_steps_beyond_32_bits_make_the_same_folder(tmp_path: Path) -> None:
    table = make_table(1)
    steps = 10**12 + np.random.default_rng(0).integers(0, 50, 120)
    import_both_ways(pa.table(table | {"time": steps}), tmp_path)


def test_attributes_are_written_and_the_number_of_facts_decides_on_the_format(
    tmp_path: Path,
) -> None:
    attributes = pa.table({"entity": ["Ann", "Cai"], "kind": ["a", "c"]})
    table = pa.table(make_table(2))
    for limit, suffix in ((10**6, "tsv.gz"), (10, "parquet")):
        with small_chunks(), patch.object(folder_import, "MAX_TSV_FACTS", limit):
            import_to_folder(table, ImportOptions(), tmp_path / suffix, attributes=attributes)
        assert (tmp_path / suffix / f"train.{suffix}").exists()
    kinds = read_folder(tmp_path / "parquet").attributes["kind"]
    assert sorted(kind or "" for kind in kinds)[-2:] == ["a", "c"]


def test_faults_and_interrupts_leave_nothing_behind(tmp_path: Path) -> None:
    table = make_table(4)
    path = tmp_path / "out" / "data"

    def fails(error: type[BaseException], **columns: Any) -> str:
        with small_chunks(), pytest.raises(error) as caught:
            import_to_folder(pa.table(table | columns), ImportOptions(), path)
        assert not path.exists() and not list(tmp_path.glob("out/.*"))
        return str(caught.value)

    assert "row 120: the time 'x'" in fails(DataError, time=[*table["time"][:-1], "x"])
    far = [*["1"] * 119, "2000000"]
    assert "more than 1,000,000" in fails(DataError, time=far)
    dates = np.random.default_rng(0).integers(20240101, 20240129, 120)
    assert "look like dates" in fails(DataError, time=dates)
    with patch.object(folder_import, "random_splits", side_effect=KeyboardInterrupt):
        fails(KeyboardInterrupt)
    with patch.object(np, "save", side_effect=OSError(28, "No space left on device")):
        assert fails(StorageError) == message(
            "row_chunks.not_written", path=path, reason="No space left on device"
        )
    with small_chunks(), raises(DataError, "importer.no_train", paths="the table"):
        options = ImportOptions(split_column="fold")
        import_to_folder(pa.table(table | {"fold": ["test"] * 120}), options, path)
    assert not path.exists()


@settings(max_examples=25)
@given(st.data())
def test_packed_rows_are_sorted_and_distinct(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    sizes = data.draw(
        st.lists(st.sampled_from([1, 2, 3, 2**20, 2**40, 2**63]), min_size=1, max_size=5)
    )
    cells = [st.sampled_from([0, (size - 1) // 2, size - 1]) for size in sizes]
    rows = data.draw(st.lists(st.tuples(*cells), min_size=1, max_size=40))
    columns = np.array(rows, np.int64).T
    packing = Packing(sizes)
    assert np.array_equal(packing.unpack(packing.pack(columns)), columns)
    with SpillFolder(tmp_path_factory.mktemp("spill") / "x") as spill:
        chunks = np.array_split(columns, data.draw(st.integers(1, 5)), axis=1)
        found = SortedRows(chunks, sizes, spill, block_rows=data.draw(st.integers(1, 9)))
        blocks = [block.T.tolist() for block in found.read()]
    assert [tuple(row) for block in blocks for row in block] == sorted(set(rows))
    assert found.count == len(set(rows))


def test_sorted_blocks_are_of_bounded_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = np.minimum(rng.zipf(1.3, (2, 20_000)), 10**6)
    with SpillFolder(tmp_path / "x") as spill:
        chunks = np.array_split(columns, 10, axis=1)
        rows = SortedRows(chunks, [10**6 + 1] * 2, spill, block_rows=1000)
        lengths = [block.shape[1] for block in rows.read()]
    assert sum(lengths) == rows.count and max(lengths) <= 1300 and len(lengths) > 5


def test_rows_are_kept_as_they_are_in_memory_and_on_disk(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    large = rng.integers(-(2**62), 2**62, (3, 20))
    with SpillFolder(tmp_path / "deep" / "x") as spill:
        for folder in (None, spill):
            chunks = RowChunks(folder, rows_in_memory=8)
            for start in range(0, 20, 5):
                part = large[:, start : start + 5]
                chunks.add(list(part if start else part % 1000))
            kept = np.concatenate([large[:, :5] % 1000, large[:, 5:]], axis=1)
            assert chunks.count == 20 and chunks.on_disk == (folder is not None)
            assert np.array_equal(np.concatenate(list(chunks.read()), axis=1), kept)
            assert np.array_equal(np.concatenate(list(chunks.drain()), axis=1), kept)
            assert chunks.count == 0 and not list(chunks.read())
        assert len(list(tmp_path.glob("deep/.x.*"))) == 1
    assert not list(tmp_path.glob("deep/.*"))


def test_a_summary_is_that_of_the_graph(tmp_path: Path) -> None:
    summary, _ = import_both_ways(pa.table(make_table(0)), tmp_path, seed=1)
    graph = read_folder(tmp_path / "disk/data")
    assert summary.splits == {split: len(graph.facts(split)) for split in summary.splits}
    assert (summary.entities, summary.times) == (len(graph.entities), graph.times)
