"""Where a figure was measured: versions, device, commit."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from tempograph.errors import ConfigError, RunError
from tempograph.version import __version__

_RUN: Final = 9 * 2**30
"""Bytes of GPU memory for a training: the largest of a benchmark take 12, most of them 6 or less."""


def resolve_device(device: str) -> torch.device:
    """`auto` is the GPU where there is one; any other name must be a device of this machine."""
    if device == "auto":
        return (
            torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            if torch.cuda.is_available()
            else torch.device("cpu")
        )
    try:
        found: torch.device | None = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError):
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise ConfigError(
            f"there is no device '{device}' here; use auto, cpu, or cuda on a machine with a GPU"
        )
    return found


def runs_at_once(device: torch.device) -> int:
    """How many trainings a GPU has room and the machine has cores for; a CPU is best given to one after another."""
    if device.type == "cpu":
        return 1
    memory: int = torch.cuda.get_device_properties(device).total_memory
    return max(1, min(memory // _RUN, (os.cpu_count() or 1) - 2))


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, hardware and commit, ready for JSON."""
    return {
        "tempograph": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "hardware": hardware(device),
    }


def hardware(device: torch.device) -> str:
    """The device a model ran on, in words."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{os.cpu_count()} CPU cores ({_processor()})"


def peak_memory_bytes(device: torch.device) -> int:
    """The most memory used so far: of the GPU, or of the process when there is none."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    scale = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def commit() -> str | None:
    """The commit of the source tree this package runs from, marked when files differ from it; None outside one.

    A copy of a tree without its history can be told by $TEMPOGRAPH_COMMIT.
    """
    if told := os.environ.get("TEMPOGRAPH_COMMIT"):
        return told
    source = Path(__file__).resolve()
    if _git(source.parent, "ls-files", "--error-unmatch", source.name) is None:
        return None
    head = _git(source.parent, "rev-parse", "HEAD")
    changed = _git(source.parent, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return f"{head}-dirty" if changed else head


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


_SHARE: Final = 8
"""A budget takes at most one part in so many of a GPU's memory, for several are in use at once."""


def memory_budget(budget: Mapping[str, int], device: torch.device) -> int:
    """A budget in bytes, by kind of device; less where the GPU is too small for it."""
    if device.type != "cuda":
        return budget[device.type]
    memory: int = torch.cuda.get_device_properties(device).total_memory
    return min(budget["cuda"], memory // _SHARE)


@contextmanager
def explain_out_of_memory(what: str, way_out: str) -> Iterator[None]:
    """Memory that runs out is told in one line, with the way out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # Of main memory torch says so in words alone.
        if not isinstance(
            error, MemoryError | torch.OutOfMemoryError
        ) and "can't allocate memory" not in str(error):
            raise
        raise RunError(f"{what} ran out of memory; {way_out}") from error
