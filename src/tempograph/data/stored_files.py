"""Share the files of a dataset folder with another folder, and notice files that changed."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MIN_LINKED_BYTES: Final = 64 << 20
"""Smaller datasets are copied: a copy cannot be changed by editing the original."""


@dataclass(frozen=True)
class StoredFiles:
    """The files that a graph was read from, with the state they were in."""

    folder: Path
    states: Mapping[str, tuple[int, int, int]]

    @staticmethod
    def of(paths: Iterable[Path]) -> StoredFiles:
        """The files of one folder as they are now."""
        found = list(paths)
        return StoredFiles(found[0].parent.resolve(), {path.name: _state(path) for path in found})

    def share(self, folder: Path) -> bool:
        """Link the files into a new folder, or copy them where links are not possible.

        Returns whether this was done: not if they are small, or have changed since.
        """
        if sum(size for size, _, _ in self.states.values()) < MIN_LINKED_BYTES:
            return False
        try:
            if any(_state(self.folder / name) != state for name, state in self.states.items()):
                return False
            folder.mkdir()
            for name in self.states:
                _link((self.folder / name).resolve(), folder / name)
        except FileNotFoundError:
            shutil.rmtree(folder, ignore_errors=True)
            return False
        return True


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, by name."""
    return {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.is_file()}


def changed_files(folder: Path, recorded: Mapping[str, str]) -> list[str]:
    """The files of a folder that are still there, but not as they were."""
    return [
        name
        for name, checksum in recorded.items()
        if (folder / name).is_file() and _sha256(folder / name) != checksum
    ]


def _state(path: Path) -> tuple[int, int, int]:
    """The size of a file, when it was last written, and which file it is."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        # Another file system, or one without hard links.
        shutil.copyfile(source, target)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
