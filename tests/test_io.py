"""Atomic writes: a failing write leaves the old content and nothing beside it. Folder locks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import forked
from graphs import make_graph
from messages import raises
from tempograph.data.folder import write_folder
from tempograph.errors import StorageError
from tempograph.io import (
    atomic_file,
    atomic_folder,
    lock_folder,
    refuse_existing,
    write_json,
    write_text,
)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_text(tmp_path / "deep" / "a.txt", "old")
    with pytest.raises(RuntimeError), atomic_file(tmp_path / "deep" / "a.txt") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert [path.read_text() for path in (tmp_path / "deep").iterdir()] == ["old"]
    write_text(tmp_path / "deep" / "a.txt", "new")
    assert [path.read_text() for path in (tmp_path / "deep").iterdir()] == ["new"]


def test_a_folder_that_appears_during_the_work_is_not_replaced(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with (
        raises(StorageError, "io.exists", path=run),
        atomic_folder(run, "config.toml") as temporary,
    ):
        (temporary / "config.toml").touch()
        run.mkdir()
        (run / "thesis.doc").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in run.iterdir()] == ["thesis.doc"]


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "")
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_json_refuses_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"mrr": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_the_old_folder_comes_back_if_the_new_one_cannot_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "d"
    old.mkdir()
    (old / "marker").write_text("old")
    rename = Path.rename

    def fail_for_new_folder(self: Path, target: Path) -> Path:
        if target == old and not self.name.endswith(".old"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_new_folder)
    with (
        raises(StorageError, "io.not_written", path=old, reason="No space left on device"),
        atomic_folder(old, "marker", overwrite=True) as new,
    ):
        (new / "marker").write_text("new")
    assert [path.read_text() for path in old.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_full_disk_gives_a_one_line_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    # A limit on file size makes real writes fail halfway, as a full disk does.
    write_folder(make_graph([(0, 0, 1, 0)]), tmp_path / "data")
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300));"
        "from tempograph.cli import main;"
        "sys.argv[1:] = ['train', 'data', 'model.sigma=1', '--out', 'run']; main()"
    )
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = forked.run([sys.executable, "-c", program], cwd=tmp_path, env=environment)
    assert done.returncode == 2 and done.stdout == ""
    assert (
        done.stderr.strip().startswith("error: cannot write run") and done.stderr.count("\n") == 1
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_file_in_the_path_is_reported_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for run in (tmp_path / "file" / "run", tmp_path / "file" / "deeper" / "run"):
        with raises(StorageError, "io.above_is_a_file", above=tmp_path / "file", path=run):
            refuse_existing(run, "config.toml")
    assert (tmp_path / "file").read_text() == "mine"
    refuse_existing(tmp_path / "new" / "deeper" / "run", "config.toml")


def test_a_lock_is_exclusive_and_released_on_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), lock_folder(tmp_path):
        with raises(StorageError, "io.in_use", path=tmp_path), lock_folder(tmp_path, wait=False):
            pass
        raise RuntimeError
    with lock_folder(tmp_path, wait=False):
        pass
    gone = tmp_path / "gone"
    with (
        raises(StorageError, "io.not_written", path=gone, reason=f"{gone} is not a folder"),
        lock_folder(gone),
    ):
        pass
    assert not (tmp_path / "gone").exists()


def test_a_lock_waits_for_another_process(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tempograph.io import lock_folder\n"
        "with lock_folder(Path(sys.argv[1])):\n"
        "    print('locked', flush=True); sys.stdin.readline(); Path(sys.argv[1], 'done').touch()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with forked.Popen(command, stdin=forked.PIPE, stdout=forked.PIPE) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with raises(StorageError, "io.in_use", path=tmp_path), lock_folder(tmp_path, wait=False):
            pass
        holder.stdin.write("\n")
        holder.stdin.close()
        with lock_folder(tmp_path):
            assert (tmp_path / "done").exists()
    assert holder.returncode == 0


def test_a_folder_with_only_a_lock_counts_as_empty(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with lock_folder(run):
        pass
    refuse_existing(run, "config.toml", overwrite=True)
    (run / "thesis.doc").touch()
    with raises(StorageError, "io.not_ours", path=run, marker="config.toml"):
        refuse_existing(run, "config.toml", overwrite=True)
