"""Files to import: found by path or pattern, and the texts in them, unpacked on the way."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from tempograph.errors import DataError


@dataclass(frozen=True)
class Text:
    """A text and what to call it; `file` is the file on disk that it comes from, whose position tells of progress."""

    name: str
    content: IO[bytes] | gzip.GzipFile
    file: IO[bytes]


def find_files(patterns: Sequence[Path]) -> list[Path]:
    """The files that paths and patterns such as events/*.zip stand for, those of a pattern in the order of names."""
    return [path for pattern in patterns for path in _matches(pattern)]


def file_size(path: Path) -> int:
    """The bytes of a file that is there."""
    with readable(path):
        if path.is_dir():
            raise IsADirectoryError
        return path.stat().st_size


def is_gzipped(file: IO[bytes]) -> bool:
    """Whether a file that is read from its beginning is gzipped, as its first bytes tell; it stays at its beginning."""
    magic = file.read(2)
    file.seek(0)
    return magic == b"\x1f\x8b"


def texts(path: Path) -> Generator[Text]:
    """The texts in a file, one after the other: itself, plain or gzipped, or the members of a zip archive.

    What a file is, its first bytes tell, whatever its name.
    """
    with path.open("rb") as file:
        if is_gzipped(file):
            yield Text(str(path), gzip.GzipFile(fileobj=file), file)
            return
        magic = file.read(4)
        file.seek(0)
        if magic in (b"PK\x03\x04", b"PK\x05\x06"):
            yield from _members(path, file)
        else:
            yield Text(str(path), file, file)


def is_parquet(path: Path) -> bool:
    """Whether a file is called like a Parquet file."""
    return path.suffix.lower() in (".parquet", ".pq")


def suffix_of(path: Path) -> str:
    """What the name of a file ends with, gzipped or not, in small letters."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def delimiter_of(path: Path) -> str | None:
    """What stands between the fields of a text file, if its name tells."""
    return {".csv": ",", ".tsv": "\t"}.get(suffix_of(path))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Whatever goes wrong on the way to the content of a file is a DataError that names it."""
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
        raise DataError(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or reason}"
        ) from None


def _matches(pattern: Path) -> list[Path]:
    if not set(str(pattern)) & set("*?[") or pattern.exists():
        return [pattern]
    root = Path(pattern.anchor)
    found = root.glob(str(pattern.relative_to(root)))
    files = sorted(path for path in found if not path.name.startswith(".") and not path.is_dir())
    if not files:
        raise DataError(f"{pattern}: no file matches")
    return files


def _members(path: Path, file: IO[bytes]) -> Iterator[Text]:
    with zipfile.ZipFile(file) as archive:
        # Some archivers add folders of their own with files such as __MACOSX/._events.tab.
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
                yield Text(f"{path}/{entry.filename}", content, file)
