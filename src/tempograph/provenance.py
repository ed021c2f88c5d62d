"""Which source a result was computed with: the commit, local changes, and a hash of the code."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = Path(__file__).resolve().parent
_HASHED: Final = ("data", "evaluation", "models", "nn", "training")
"""Subpackages that training and evaluation run; the modules beside them count as well."""


class SourceVersion(NamedTuple):
    """The commit of a source tree, whether files differ from it, and the hash of the code."""

    commit: str | None
    """All 40 digits; None outside a repository."""
    dirty: bool | None
    """Whether files differ from the commit; None if that is not known."""
    code: str
    """The `code_hash` of the files as they are."""


def source_version(package: Path = PACKAGE) -> SourceVersion:
    """The version of this source tree.

    For a copy of the tree without its history, $TEMPOGRAPH_COMMIT is COMMIT:CODE, as
    scripts/source_version.py prints it: the copy is dirty if its code has another hash. With a
    commit alone, nobody knows whether it is dirty.
    """
    code = code_hash(_read_files(package))
    if stated := os.environ.get("TEMPOGRAPH_COMMIT"):
        commit, colon, expected = stated.partition(":")
        return SourceVersion(commit, code != expected if colon else None, code)
    if run_git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return SourceVersion(None, None, code)
    commit_here = run_git(package, "rev-parse", "HEAD")
    changed = run_git(package, "status", "--porcelain", "--", ".")
    return SourceVersion(commit_here, None if changed is None else bool(changed), code)


def is_hashed(path: str) -> bool:
    """Whether a file, by its path in the package, is code that training or evaluation runs.

    Presets are not, because a result holds its settings.
    """
    top, slash, _ = path.partition("/")
    return (
        path.endswith((".py", ".toml"))
        and (not slash or top in _HASHED)
        and not path.startswith("training/presets/")
    )


def code_hash(files: Mapping[str, bytes]) -> str:
    """The sha256 of the names and contents of the files that `is_hashed` names."""
    digest = hashlib.sha256()
    for path in sorted(filter(is_hashed, files)):
        digest.update(f"{path}\0{len(files[path])}\0".encode() + files[path])
    return digest.hexdigest()


def _read_files(package: Path) -> dict[str, bytes]:
    files = {file.relative_to(package).as_posix(): file for file in package.rglob("*.*")}
    return {path: file.read_bytes() for path, file in files.items() if is_hashed(path)}


def run_git(folder: Path, *arguments: str) -> str | None:
    """What a git command prints in a folder; None if it fails."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
