"""Fetch files from the web: retried, resumed, and with errors that name the way out."""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, InvalidURL
from typing import IO, Final
from urllib.error import HTTPError, URLError

from tempograph.errors import DataError

TIMEOUT: Final[float] = 30.0
PAUSES: Final[tuple[float, ...]] = (1.0, 3.0)
"""Seconds between attempts; there is one attempt more than pauses."""
CHUNK: Final[int] = 1 << 16
WAY_OUT: Final = (
    "try again later, or set TEMPOGRAPH_MIRROR to another base address of the same files"
)
_PARTIAL: Final = 206

Downloading = Callable[[str, int, int | None], None]
"""Called with the file, the bytes received and, if known, the bytes in all."""


def base_address(published: str) -> str:
    """Where files are fetched from: $TEMPOGRAPH_MIRROR, or where they are published."""
    return (os.environ.get("TEMPOGRAPH_MIRROR") or published).rstrip("/")


def fetch(
    address: str, sink: IO[bytes], progress: Downloading | None = None, size: int | None = None
) -> None:
    """Write the file at an address to an empty sink; an interrupted transfer is resumed.

    `size` is its number of bytes, if known, in case the server does not say.
    """
    for pause in (*PAUSES, None):
        try:
            _fetch_rest(address, sink, progress, size)
            break
        except _TransientError:
            if pause is None:
                raise
            time.sleep(pause)


class _TransientError(DataError):
    """A problem that may be gone at the next attempt."""


def _fetch_rest(
    address: str, sink: IO[bytes], progress: Downloading | None, size: int | None
) -> None:
    file, done = address.rpartition("/")[2], sink.tell()
    with _explained(address):
        wanted = {"Range": f"bytes={done}-"} if done else {}
        request = urllib.request.Request(address, headers=wanted)
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    with response:
        if response.status != _PARTIAL:
            # The server sends the file from its start, whatever was asked for.
            done = sink.seek(0)
            sink.truncate()
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        while True:
            with _explained(address):
                chunk = response.read(CHUNK)
            if not chunk:
                break
            sink.write(chunk)
            done += len(chunk)
            if progress:
                progress(file, done, size if total is None else total)
    # A response that is read in chunks ends early without an error when the server goes away.
    if total is not None and done < total:
        raise _TransientError(
            f"{address}: the connection ended after {done} of {total} bytes; {WAY_OUT}"
        )


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turn network errors into a one-line DataError, and mark those worth another attempt."""
    try:
        yield
    except HTTPError as error:
        error.close()
        kind = _TransientError if error.code >= 500 else DataError
        raise kind(
            f"{address}: the server answered with HTTP status {error.code}; {WAY_OUT}"
        ) from None
    except (ValueError, InvalidURL) as error:
        raise DataError(
            f"{address}: not a web address ({error}); check TEMPOGRAPH_MIRROR"
        ) from None
    except (OSError, HTTPException) as error:
        cause = error.reason if isinstance(error, URLError) else error
        reason = getattr(cause, "strerror", None) or cause
        raise _TransientError(f"{address}: cannot be fetched ({reason}); {WAY_OUT}") from None
