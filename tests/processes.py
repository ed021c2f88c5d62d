"""Several processes of one training, started without a launcher."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

from forked import PIPE, Popen


def start_processes(size: int, arguments: Sequence[str], **variables: str) -> list[Popen]:
    """Start `python -m tempograph` with these arguments as each of `size` processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "TORCHELASTIC_RUN_ID": "test",
        "OMP_NUM_THREADS": "1",
    }
    return [
        Popen(
            [sys.executable, "-m", "tempograph", *arguments],
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank), **variables},
            stdout=PIPE,
            stderr=PIPE,
        )
        for rank in range(size)
    ]


def run_processes(size: int, arguments: Sequence[str]) -> str:
    """Run them to their end; returns what the first one printed."""
    processes = start_processes(size, arguments)
    outputs = [process.communicate(timeout=60) for process in processes]
    assert not any(process.returncode for process in processes), [err[-500:] for _, err in outputs]
    return "".join(outputs[0])
