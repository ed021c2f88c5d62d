"""Shared set-up: quiet threads, repeatable hypothesis, benchmark data where the machine has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from tempograph import TemporalGraph
from tempograph.data.folder import read_folder

# Derandomised: a failure is about the change at hand, not about luck.
settings.register_profile("tempograph", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tempograph")
torch.set_num_threads(1)
# Consoles read their width when they are made.
os.environ |= {"COLUMNS": "200", "TERM": "dumb"}


def benchmark(name: str) -> TemporalGraph:
    """A published dataset, or a skip that says how to have it."""
    root = os.environ.get("TEMPOGRAPH_DATA")
    if root is None or not (Path(root) / name).is_dir():
        pytest.skip(f"needs {name} under $TEMPOGRAPH_DATA")
    return read_folder(Path(root) / name)
