"""Whole or not at all: failing writes leave what was there and nothing beside it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphs import make_graph
from tempograph.data.folder import write_folder
from tempograph.errors import StorageError
from tempograph.io import atomic_file, atomic_folder, refuse_existing, write_json, write_text


def test_a_file_is_replaced_at_once(tmp_path: Path) -> None:
    write_text(tmp_path / "deep" / "a.txt", "old")
    with pytest.raises(RuntimeError), atomic_file(tmp_path / "deep" / "a.txt") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert [path.read_text() for path in (tmp_path / "deep").iterdir()] == ["old"]
    write_text(tmp_path / "deep" / "a.txt", "new")
    assert [path.read_text() for path in (tmp_path / "deep").iterdir()] == ["new"]


def test_what_appears_in_the_meantime_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with (
        pytest.raises(StorageError, match="exists already"),
        atomic_folder(place, "config.toml") as temporary,
    ):
        (temporary / "config.toml").touch()
        place.mkdir()
        (place / "thesis.doc").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in place.iterdir()] == ["thesis.doc"]


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "")
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_json_refuses_what_json_has_no_word_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"mrr": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_an_old_folder_comes_back_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "d"
    old.mkdir()
    (old / "marker").write_text("old")
    rename = Path.rename

    def fail_for_the_new_one(self: Path, target: Path) -> Path:
        if target == old and not self.name.endswith(".old"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new_one)
    with (
        pytest.raises(StorageError, match="cannot write .*d: No space left on device"),
        atomic_folder(old, "marker", overwrite=True) as new,
    ):
        (new / "marker").write_text("new")
    assert [path.read_text() for path in old.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path: Path) -> None:
    # A limit on file size makes real writes fail half-way, as a full disk does.
    write_folder(make_graph([(0, 0, 1, 0)]), tmp_path / "data")
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300));"
        "from tempograph.cli import main; sys.argv[1:] = ['train', 'data', 'model.sigma=1', '--out', 'run']; main()"
    )
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert (
        done.stderr.strip().startswith("error: cannot write run") and done.stderr.count("\n") == 1
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_file_in_the_way_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file" / "run", tmp_path / "file" / "deeper" / "run"):
        with pytest.raises(
            StorageError,
            match=f"^{re.escape(str(tmp_path / 'file'))} is a file, so nothing can be kept",
        ):
            refuse_existing(place, "config.toml")
    assert (tmp_path / "file").read_text() == "mine"
    refuse_existing(tmp_path / "new" / "deeper" / "run", "config.toml")
