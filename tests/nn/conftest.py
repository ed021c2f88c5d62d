"""Without a GPU, Triton's interpreter runs the kernels on CPU tensors."""

from __future__ import annotations

import importlib.util

import pytest
import torch

INTERPRETED = not torch.cuda.is_available()
if INTERPRETED and importlib.util.find_spec("triton"):
    # Triton reads the variable when it is imported, and again when a kernel is made or run.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        import triton  # noqa: F401


@pytest.fixture(autouse=True)
def triton_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run kernels in the interpreter where there is no GPU."""
    if INTERPRETED:
        monkeypatch.setenv("TRITON_INTERPRET", "1")
