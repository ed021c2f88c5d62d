"""A running server of made-up files that downloads use."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mirror import Mirror
from tempograph.data import downloads


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """A running server that download() uses, with no pauses between tries."""
    with Mirror() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("TEMPOGRAPH_MIRROR", server.address)
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setattr(downloads, "PAUSES", (0.0, 0.0))
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()
