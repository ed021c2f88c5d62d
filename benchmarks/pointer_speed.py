"""Time of a training epoch of the pointer, with its kernels and with gather and scatter instead.

On a GPU the sum over facts is a Triton kernel forward and backward; on a CPU both are the same. The
loss and the gradients of one step are compared before anything is timed.

PYTHONPATH=src python benchmarks/pointer_speed.py --datasets icews14 --json pointer.json
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from speed_tables import pointer_speed_table
from temp_speed import load_datasets
from torch import Tensor

from tempograph.cli.console import show
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import environment, peak_memory_bytes, resolve_device
from tempograph.io import write_json
from tempograph.models.pointer import copying
from tempograph.models.pointer.pointer_model import Pointer
from tempograph.nn import votes as voting
from tempograph.training.config import Config
from tempograph.training.losses.pointer_loss import PointerLoss
from tempograph.training.settings import PointerTrainSettings
from tempograph.training.setup import configure


def main() -> None:
    """Compare, time, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", default="icews14,icews05-15,gdelt-size")
    parser.add_argument(
        "--steps", type=int, default=40, help="timed training steps, after five warm-up steps"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="overrides of the preset")
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    results = [
        measure(graph, preset(graph, device, arguments.settings), arguments.steps, device)
        for graph in load_datasets(arguments.datasets)
    ]
    found = {"environment": environment(device), "results": results}
    changed = f", with {', '.join(arguments.settings)}" if arguments.settings else ""
    about = (
        f"an epoch by the mean of {arguments.steps} steps, settings of the preset tuned{changed}"
    )
    show(pointer_speed_table(found, about))
    if arguments.json is not None:
        write_json(arguments.json, found)


def measure(
    graph: TemporalGraph, config: Config, steps: int, device: torch.device
) -> dict[str, Any]:
    """Time an epoch both ways, from the same weights."""
    check(graph, config, device)
    seconds, peak = timed(graph, config, steps, device)
    with mock.patch.object(copying, "add_contributions", voting.add_contributions_torch):
        twin_seconds, twin_peak = timed(graph, config, steps, device)
    return {
        "dataset": graph.name,
        "facts_per_step": getattr(config.train, "facts_per_step", 0),
        "epoch_seconds": seconds,
        "twin_epoch_seconds": twin_seconds,
        "peak_bytes": peak,
        "twin_peak_bytes": twin_peak,
    }


def check(graph: TemporalGraph, config: Config, device: torch.device) -> None:
    """Compare the loss and the gradients of both ways."""
    ours = gradients(graph, config, device)
    with mock.patch.object(copying, "add_contributions", voting.add_contributions_torch):
        twin = gradients(graph, config, device)
    for value, expected in zip(ours, twin, strict=True):
        torch.testing.assert_close(
            value, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()) + 1e-9
        )


def gradients(graph: TemporalGraph, config: Config, device: torch.device) -> Sequence[Tensor]:
    """Return the loss of a first step and its gradients."""
    model, loss, batches, generator = start(graph, config, device)
    value = loss(batches[0], generator)
    return [value.detach(), *torch.autograd.grad(value, list(model.parameters()))]


def timed(
    graph: TemporalGraph, config: Config, steps: int, device: torch.device
) -> tuple[float, int]:
    """Return the seconds of an epoch and the peak memory."""
    model, loss, batches, generator = start(graph, config, device)
    optimizer = torch.optim.Adam(model.parameters(), 0.01, fused=device.type == "cuda")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)

    def take(count: int) -> None:
        for number in range(count):
            optimizer.zero_grad()
            loss(batches[number % len(batches)], generator).backward()
            optimizer.step()

    take(5)
    taken = clock(partial(take, steps), device)
    return taken / steps * len(batches), peak_memory_bytes(device)


def start(
    graph: TemporalGraph, config: Config, device: torch.device
) -> tuple[Pointer, PointerLoss, Sequence[Tensor], torch.Generator]:
    """Return a pointer before its first step, with its loss and batches."""
    torch.manual_seed(0)
    model = Pointer(Timeline(graph, "strict", device), config.model)
    assert isinstance(config.train, PointerTrainSettings)
    loss = PointerLoss(model, config.train)
    generator = torch.Generator(device).manual_seed(0)
    return model, loss, loss.batches(generator), generator


def preset(graph: TemporalGraph, device: torch.device, settings: Sequence[str]) -> Config:
    """Return the tuned settings with overrides; the world of GDELT's size takes GDELT's."""
    named = dataclasses.replace(graph, name="gdelt") if graph.name == "gdelt-size" else graph
    return configure(named, "pointer", device, preset="tuned", overrides=settings)


def clock(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds that some work takes on the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
