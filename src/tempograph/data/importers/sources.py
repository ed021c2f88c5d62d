"""Files to import: find them by path or pattern, and open the texts in them, unpacked."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from tempograph.errors import DataError

Binary = io.BufferedReader | gzip.GzipFile


@dataclass(frozen=True)
class TextFile:
    """An open text; `file` is the file on disk it comes from, whose position shows the progress."""

    name: str
    content: IO[bytes] | gzip.GzipFile
    file: IO[bytes]


def find_files(patterns: Sequence[Path]) -> list[Path]:
    """The files behind paths and patterns such as events/*.zip, those of a pattern by name."""
    return [path for pattern in patterns for path in _matches(pattern)]


def file_size(path: Path) -> int:
    """The size of a file in bytes."""
    with readable(path):
        if path.is_dir():
            raise IsADirectoryError
        return path.stat().st_size


def is_gzip(file: IO[bytes]) -> bool:
    """Whether a file, read from its start, is gzipped."""
    return _peek(file, 2) == b"\x1f\x8b"


@contextmanager
def open_unpacked(path: Path) -> Iterator[tuple[Binary, Binary]]:
    """The file on disk and its content, unpacked if its name or its first bytes say gzip."""
    with path.open("rb") as file:
        packed = path.suffix.lower() == ".gz" or is_gzip(file)
        yield file, gzip.GzipFile(fileobj=file) if packed else file


def texts(path: Path) -> Generator[TextFile]:
    """The texts in a file: itself, plain or gzipped, or the members of a zip archive.

    The first bytes of a file decide, not its name.
    """
    with path.open("rb") as file:
        if is_gzip(file):
            yield TextFile(str(path), gzip.GzipFile(fileobj=file), file)
        elif _peek(file, 4) in (b"PK\x03\x04", b"PK\x05\x06"):
            yield from _members(path, file)
        else:
            yield TextFile(str(path), file, file)


def is_table(path: Path) -> bool:
    """Whether a file has the suffix of a table."""
    return is_parquet(path) or is_json_lines(path) or delimiter_of(path) is not None


def is_parquet(path: Path) -> bool:
    """Whether a file has the suffix of a Parquet file."""
    return path.suffix.lower() in (".parquet", ".pq")


def is_json_lines(path: Path) -> bool:
    """Whether a file has the suffix of JSON lines, gzipped or not."""
    return suffix_of(path) in (".jsonl", ".ndjson", ".json")


def suffix_of(path: Path) -> str:
    """The lower-case suffix of a file, without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def delimiter_of(path: Path) -> str | None:
    """The expected delimiter of a text file, if its suffix is known."""
    return {".csv": ",", ".tsv": "\t", ".txt": "\t"}.get(suffix_of(path))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while reading a file into a DataError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder; name the files in it") from None
    except (
        OSError,
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
        NotImplementedError,
        pa.ArrowException,
    ) as error:
        reason = str(error).partition("\n")[0] + "; is the file complete?"
        reason = getattr(error, "strerror", None) or reason
        raise DataError(f"{path}: cannot be read: {reason}") from None


def _peek(file: IO[bytes], count: int) -> bytes:
    first = file.read(count)
    file.seek(0)
    return first


def _matches(pattern: Path) -> list[Path]:
    if not set(str(pattern)) & set("*?[") or pattern.exists():
        return [pattern]
    root = Path(pattern.anchor)
    matches = root.glob(str(pattern.relative_to(root)))
    files = sorted(path for path in matches if not path.name.startswith(".") and not path.is_dir())
    if not files:
        raise DataError(f"{pattern}: no file matches")
    return files


def _members(path: Path, file: IO[bytes]) -> Iterator[TextFile]:
    with zipfile.ZipFile(file) as archive:
        # Some archivers add files of their own such as __MACOSX/._events.tab.
        members = [
            entry
            for entry in archive.infolist()
            if not entry.is_dir() and "__MACOSX/" not in entry.filename
        ]
        if not members:
            raise DataError(f"{path}: the archive holds no files, so there is nothing to import")
        for entry in members:
            if entry.flag_bits & 1:
                raise DataError(f"{path}/{entry.filename}: is encrypted; unpack the archive first")
            with archive.open(entry) as content:
                yield TextFile(f"{path}/{entry.filename}", content, file)
