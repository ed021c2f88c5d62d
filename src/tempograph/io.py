"""Atomic files and folders: written under a temporary name, then renamed; and folder locks."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from tempograph.errors import StorageError

_LOCK: Final = ".lock"


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that replaces `path` when the block succeeds."""
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
    """Yield a temporary folder beside `path` that replaces `path` when the block succeeds.

    The marker is a file that every folder of this kind contains: only such a folder, or an empty
    one, is ever replaced.
    """
    refuse_existing(path, marker, overwrite)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            refuse_existing(path, marker, overwrite)
            _replace_folder(path, temporary)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(path: Path, new: Path) -> None:
    """Rename a new folder to `path`; if that fails, restore the previous folder."""
    if not path.exists():
        new.rename(path)
        return
    old = new.with_name(f"{new.name}.old")
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def refuse_existing(path: Path, marker: str, overwrite: bool = False) -> None:
    """Raise StorageError, before any work, if a folder cannot be written to `path`."""
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise StorageError(f"{above} is a file, so {path} cannot be written; choose another path")
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite:
        raise StorageError(f"{path} exists already; choose another path or pass --overwrite")
    is_folder = path.is_dir() and not path.is_symlink()
    contents = {file.name for file in path.iterdir()} if is_folder else set()
    if not is_folder or (contents - {_LOCK} and not (path / marker).is_file()):
        raise StorageError(f"{path} has no {marker}, so it is not overwritten; choose another path")


@contextmanager
def lock_folder(folder: Path, wait: bool = True) -> Iterator[None]:
    """Hold a folder's lock, a hidden file in it; without `wait`, raise StorageError if it is held.

    The operating system releases the lock when its process ends, however it ends.
    """
    lock = FileLock(folder / _LOCK, timeout=-1 if wait else 0)
    with _explained(folder):
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is not a folder")
        try:
            lock.acquire()
        except Timeout:
            raise StorageError(
                f"{folder} is in use by another command; wait for it or choose another --out"
            ) from None
    try:
        yield
    finally:
        lock.release()


def make_folder(path: Path) -> None:
    """Create a folder and its parents unless it exists."""
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, as UTF-8 with line feeds."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an indented JSON file atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn an OSError into a StorageError that names the path the user knows."""
    try:
        yield
    except (OSError, StorageError) as error:
        # A file inside an atomic folder fails under its temporary name: report the folder instead.
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
