"""Which device a model runs on, what it is, and how much memory each purpose may take there."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch

from tempograph.errors import ConfigError, RunError
from tempograph.provenance import source_version
from tempograph.version import __version__

try:
    import resource
except ModuleNotFoundError:  # There is none on Windows.
    resource = None  # type: ignore[assignment]


class Budget(NamedTuple):
    """Bytes that one purpose may take, on a CPU and on a GPU."""

    cpu: int
    cuda: int


MEMORY_BUDGETS: Final = {
    # Scores of the queries that are ranked together.
    "ranking": Budget(2**29, 2**32),
    # Scores of the validation queries that a temperature is fitted on.
    "calibration": Budget(2**29, 2**32),
    # Scores with some facts left out, or of every relation.
    "counterfactual": Budget(2**27, 2**27),
    # Scores of the queries that the service answers together.
    "service": Budget(2**28, 2**28),
    # Encoded snapshots that a predictor caches: all days of ICEWS14 fit.
    "encodings": Budget(5 * 2**28, 5 * 2**28),
    # Encoded snapshots before the queries of an evaluation.
    "history": Budget(2**28, 2**32),
    # Embeddings of all entities at the times of the queries that are scored together.
    "embedding_tables": Budget(2**27, 2**30),
    "temp_tables": Budget(2**28, 2**31),
    # Differences between queries and candidates inside a decoder.
    "differences": Budget(2**26, 2**30),
    # Tables over all pairs of entities.
    "pair_tables": Budget(2**30, 2**33),
    # Weights of factored models, their gradients and the state of their optimizer.
    "factored_tables": Budget(2**30, 2**33),
    # Scores of one training step.
    "embedding_loss": Budget(2**29, 2**33),
    "pointer_loss": Budget(2**30, 2**33),
    # Scores of relations or time steps, and the votes behind them.
    "heads": Budget(2**28, 2**32),
    # Embeddings of all entities at the times of one training step of TeMP.
    "temp_step": Budget(2**28, 2**32),
    # Scores of one training step of TeMP, if all entities are negatives; it needs 15 times as much.
    "temp_scores": Budget(2**27, 2**30),
}
"""How much memory each purpose may take; work that needs more is done in chunks."""

_GPU_SHARE: Final = 8
"""A budget is at most this fraction of a GPU's memory, because several are in use together."""

_RUN_BYTES: Final = 9 * 2**30
"""GPU memory set aside for one training run: the largest of a benchmark take 12 GiB, most 6."""


def memory_budget(purpose: str, device: torch.device) -> int:
    """Bytes that a purpose in `MEMORY_BUDGETS` may take on a device."""
    budget = MEMORY_BUDGETS[purpose]
    if device.type != "cuda":
        return budget.cpu
    memory: int = torch.cuda.get_device_properties(device).total_memory
    return min(budget.cuda, memory // _GPU_SHARE)


def resolve_device(device: str) -> torch.device:
    """The device with that name; `auto` is the GPU if there is one, else the CPU."""
    if device == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError):
        resolved = None
    if resolved is None or resolved.type not in ("cpu", "cuda"):
        raise ConfigError(
            f"there is no device '{device}' here; use auto, cpu, or cuda on a machine with a GPU"
        )
    return resolved


def release_free_memory() -> None:
    """Return memory that the C library keeps after large computations, where it can.

    Without this, what a thread once used for a moment would count as used for ever.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def max_parallel_runs(device: torch.device) -> int:
    """How many runs can train side by side: a GPU's memory and the CPU cores set the limit."""
    if device.type == "cpu":
        return 1
    memory: int = torch.cuda.get_device_properties(device).total_memory
    return max(1, min(memory // _RUN_BYTES, (os.cpu_count() or 1) - 2))


@contextmanager
def explain_out_of_memory(activity: str, way_out: str) -> Iterator[None]:
    """Turn an out-of-memory error into a one-line RunError that names the way out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # For main memory torch raises a plain RuntimeError.
        if not isinstance(
            error, MemoryError | torch.OutOfMemoryError
        ) and "can't allocate memory" not in str(error):
            raise
        raise RunError(f"{activity} ran out of memory; {way_out}") from error


def peak_memory_bytes(device: torch.device) -> int:
    """The peak memory so far: of the GPU, or of the process on a CPU (0 where it is not known)."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if resource is None:
        return 0
    scale = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def environment(device: torch.device) -> dict[str, str | int | None]:
    """Versions, hardware, commit and code, as the JSON object in environment.json."""
    return {
        "tempograph": __version__,
        **source_version()._asdict(),
        **versions(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "hardware": hardware(device),
    }


def versions() -> dict[str, str | None]:
    """The versions of Python, torch, CUDA and Triton; None for what is not there."""
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = None
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton,
    }


def hardware(device: torch.device) -> str:
    """The name of the GPU, or the number and model of the CPU cores."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{os.cpu_count()} CPU cores ({_processor()})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
