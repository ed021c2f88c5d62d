"""Run folders share large files with the dataset they were read from, and notice changes."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from unittest.mock import patch

import pytest

import tempograph
from graphs import make_graph
from messages import raises
from tempograph import Run
from tempograph.data import stored_files
from tempograph.data.folder import read_folder, store_folder, write_folder
from tempograph.errors import RunError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(make_graph([(0, 0, 1, 0), (2, 1, 3, 4)]), tmp_path / "data", parquet=True)
    return tmp_path / "data"


def files_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.iterdir()}


def test_large_files_are_linked_and_small_ones_are_copied(folder: Path, tmp_path: Path) -> None:
    graph = read_folder(folder)
    store_folder(graph, tmp_path / "copied")
    with patch.object(stored_files, "MIN_LINKED_BYTES", 1):
        store_folder(graph, tmp_path / "linked")
        with patch.object(os, "link", side_effect=OSError(18, "Invalid cross-device link")):
            store_folder(graph, tmp_path / "other")
    assert files_of(tmp_path / "linked") == files_of(folder)
    for name in ("copied", "other"):
        assert not set(files_of(tmp_path / name).values()) & set(files_of(folder).values())
    for name in ("linked", "copied", "other"):
        assert read_folder(tmp_path / name).same_as(graph)


def test_only_files_that_hold_the_graph_are_linked(folder: Path, tmp_path: Path) -> None:
    graph = read_folder(folder)
    assert make_graph([(0, 0, 1, 0)]).files is None
    assert dataclasses.replace(graph, test=graph.train).files is None
    with patch.object(stored_files, "MIN_LINKED_BYTES", 1):
        write_folder(make_graph([(1, 1, 1, 1)]), folder, overwrite=True, parquet=True)
        store_folder(graph, tmp_path / "changed")
        assert read_folder(tmp_path / "changed").same_as(graph)
        (folder / "test.parquet").unlink()
        store_folder(graph, tmp_path / "gone")
    assert read_folder(tmp_path / "gone").same_as(graph)


def test_a_run_notices_that_its_data_changed(tmp_path: Path) -> None:
    write_folder(tempograph.load_dataset("demo"), tmp_path / "data", compress=False)
    options = {"overrides": ["model.sigma=1"], "device": "cpu"}
    with patch.object(stored_files, "MIN_LINKED_BYTES", 1):
        run = tempograph.train(str(tmp_path / "data"), "ted", out=tmp_path / "run", **options)  # type: ignore[arg-type]
        copy = Run.load(tmp_path / "run").save(tmp_path / "copy")
    assert files_of(tmp_path / "copy/dataset") == files_of(tmp_path / "data")
    assert copy.graph.same_as(run.graph)
    # Replacing the dataset does not touch the run; writing into its file does.
    write_folder(make_graph([(0, 0, 1, 0)]), tmp_path / "data", overwrite=True)
    assert Run.load(tmp_path / "run").graph.same_as(run.graph)
    valid = tmp_path / "run/dataset/valid.tsv"
    lines = valid.read_bytes()
    valid.write_bytes(lines[: lines.index(b"\n") + 1])
    for name in ("run", "copy"):
        with raises(
            RunError, "run_folder.changed_data", path=tmp_path / name / "dataset/valid.tsv"
        ):
            Run.load(tmp_path / name)
    valid.write_bytes(lines)
    assert Run.load(tmp_path / "run").graph.same_as(run.graph)
    (tmp_path / "run/dataset.json").unlink()
    valid.write_bytes(lines[: lines.index(b"\n") + 1])
    assert len(Run.load(tmp_path / "run").graph.valid) == 1
