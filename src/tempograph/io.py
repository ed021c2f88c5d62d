"""Files and folders appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tempograph.errors import StorageError


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the place of `path` when the block ends well."""
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, marker: str, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it takes the place of `path` when the block ends well.

    The marker is a file that every folder of this kind holds: only such a folder, or an empty one, is ever replaced.
    """
    refuse_existing(path, marker, overwrite)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            refuse_existing(path, marker, overwrite)
            _take_place(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _take_place(new: Path, path: Path) -> None:
    """Rename a folder to a path that may be taken; what was there comes back if that fails."""
    if not path.exists():
        new.rename(path)
        return
    retired = new.with_name(f"{new.name}.old")
    path.rename(retired)
    try:
        new.rename(path)
    except BaseException:
        retired.rename(path)
        raise
    shutil.rmtree(retired, ignore_errors=True)


def refuse_existing(path: Path, marker: str, overwrite: bool = False) -> None:
    """Say before the work, not after it, that the place for its result is taken, or is none."""
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise StorageError(
            f"{above} is a file, so nothing can be kept at {path}; choose another place"
        )
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite:
        raise StorageError(f"{path} exists already; choose another place or pass --overwrite")
    if (
        not path.is_dir()
        or path.is_symlink()
        or (any(path.iterdir()) and not (path / marker).is_file())
    ):
        raise StorageError(
            f"{path} holds no {marker}, so it is not ours to overwrite; choose another place"
        )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until nobody else holds the folder, and hold it."""
    with _explained(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder that other things are written into; one that is there already will do."""
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8 with line feeds."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, indented for people."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, StorageError) as error:
        # A file that fails inside a folder has a temporary name; the folder's is the one the user knows.
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise StorageError(
            f"cannot write {path}: {cause.strerror or cause}; nothing was changed"
        ) from cause


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
