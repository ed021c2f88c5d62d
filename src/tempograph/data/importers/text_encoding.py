"""Find the encoding and the delimiter of a text file, and read it as UTF-8."""

from __future__ import annotations

import codecs
import gzip
import io
import re
from collections.abc import Sequence
from typing import IO, Final

from tempograph.errors import ConfigError

Binary = IO[bytes] | gzip.GzipFile

WINDOWS_1252: Final = "cp1252"
_HEAD: Final = 1 << 16
_BLOCK: Final = 1 << 20
_DELIMITERS: Final = ",\t;|"
_MIN_DELIMITERS: Final = 3
"""A row has at least four fields."""
# Bytes that cannot be decoded are read as these code points.
_UNDECODED: Final = re.compile("[\udc80-\udcff]")
_DECODED: Final = re.compile("[^\x00-\x7f\udc80-\udcff]")


def encoding_name(encoding: str) -> str:
    """The standard name of an encoding; UTF-8 may have a byte order mark."""
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)
    except LookupError:
        raise ConfigError(
            f"the encoding '{encoding}' is unknown; use one such as utf-8, utf-16 or cp1252"
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


def detect_encoding(content: Binary, given: str | None = None) -> tuple[str, str]:
    """The given encoding of a text, or the one of its first bytes, and its first line with text.

    A byte order mark tells UTF-16. Without one, it is UTF-8, or Windows-1252 if the first line is
    not UTF-8; `is_windows_1252` reads the whole text.
    """
    head = content.read(_HEAD)
    if given:
        name = encoding_name(given)
        marked = "utf-8-sig" if name == "utf-8" else name
        return name, _first_line(head.decode(marked, decoding_errors(name)))
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", _first_line(head.decode("utf-16", "replace"))
    line = _first_line(head.decode("utf-8-sig", "surrogateescape"))
    if _UNDECODED.search(line) and not _DECODED.search(line):
        return WINDOWS_1252, _first_line(head.decode(WINDOWS_1252, "replace"))
    return "utf-8", line


def is_windows_1252(content: Binary) -> bool:
    """Whether a text has bytes that are not UTF-8, and no letters that are, beyond ASCII."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    undecoded = False
    while block := content.read(_BLOCK):
        if block.isascii() and not decoder.getstate()[0]:
            continue
        text = decoder.decode(block)
        undecoded |= bool(_UNDECODED.search(text))
        if _DECODED.search(text.removeprefix("\ufeff")):
            return False
    return undecoded


def find_delimiter(line: str, expected: str) -> str:
    """The delimiter of a line: the expected one, unless only another makes at least four fields."""
    bare = re.sub(r'"[^"]*"', "", line)
    if bare.count(expected) >= _MIN_DELIMITERS:
        return expected
    best = max(_DELIMITERS, key=bare.count)
    return best if bare.count(best) >= _MIN_DELIMITERS else expected


def describe_undecoded(fields: Sequence[str], encoding: str) -> str | None:
    """A message about the first byte of some fields that could not be decoded, if there is one."""
    found = _UNDECODED.search("".join(fields))
    if not found:
        return None
    byte = ord(found[0]) - 0xDC00
    return f"byte 0x{byte:02x} is not {encoding.upper()}; pass the encoding of the file"


class Recoder:
    """A binary file that is read as UTF-8, whatever its encoding.

    Bytes that cannot be decoded stay as they are, so that they are found to be no UTF-8.
    """

    def __init__(self, content: Binary, encoding: str) -> None:
        self._content = content
        self._decoder = codecs.getincrementaldecoder(encoding)(decoding_errors(encoding))
        self._pending = b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end of the file."""
        while len(self._pending) < size:
            block = self._content.read(size)
            text = self._decoder.decode(block, final=not block)
            self._pending += text.encode("utf-8", "surrogateescape")
            if not block:
                break
        data, self._pending = self._pending[:size], self._pending[size:]
        return data


def decoding_errors(encoding: str) -> str:
    """How bytes that cannot be decoded are read: escaped, where a byte stands for itself."""
    return "replace" if encoding.startswith(("utf-16", "utf-32")) else "surrogateescape"


def _first_line(text: str) -> str:
    lines = io.StringIO(text, newline=None)
    return next((line.rstrip("\n") for line in lines if line.strip()), "")
