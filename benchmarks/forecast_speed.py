"""Does it take longer to train a forecaster? Seconds of an epoch beside those of completion.

Both have the settings of their presets `tuned`, the forecaster on the split by time, and take
turns, epoch by epoch, so that whatever else the machine does meets both alike. Exit code 1: an
epoch of a forecaster takes more than 1.3 times as long.

PYTHONPATH=src python benchmarks/forecast_speed.py --models pointer temp-sa --json forecast.json
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from pointer_speed import clock
from speed_tables import forecast_speed_table

from tempograph.cli.console import note, show
from tempograph.data.catalog import load_dataset
from tempograph.data.timeline import Timeline
from tempograph.device import environment, resolve_device
from tempograph.io import write_json
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.setup import configure
from tempograph.training.train_state import TrainState
from tempograph.typing import Protocol

LARGEST_RATIO: Final = 1.3
PROTOCOLS: Final[tuple[Protocol, ...]] = ("strict", "forecast-single")


def main() -> None:
    """Train, compare, print; exit with 1 if a forecaster is much slower."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dataset", default="icews14", help="its split by time is DATASET-forecast"
    )
    parser.add_argument("--models", nargs="+", default=["pointer", "temp-sa"])
    parser.add_argument("--epochs", type=int, default=4, help="the first one is not counted")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of both, to save time"
    )
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    results = [
        measure(model, arguments.dataset, arguments.epochs, arguments.set, device)
        for model in arguments.models
    ]
    measured = {"environment": environment(device), "results": results}
    show(forecast_speed_table(measured))
    if arguments.json is not None:
        write_json(arguments.json, measured)
    sys.exit(any(result["ratio"] > LARGEST_RATIO for result in results))


def measure(
    model: str, dataset: str, epochs: int, overrides: list[str], device: torch.device
) -> dict[str, Any]:
    """The median seconds of an epoch for both tasks, and their ratio."""
    train = {
        protocol: training(model, dataset + suffix, protocol, overrides, device)
        for protocol, suffix in zip(PROTOCOLS, ("", "-forecast"), strict=True)
    }
    seconds: dict[Protocol, list[float]] = {protocol: [] for protocol in PROTOCOLS}
    for number in range(epochs):
        for protocol, take_epoch in train.items():
            seconds[protocol].append(clock(take_epoch, device))
            note(f"{model}, {protocol}, epoch {number + 1}: {seconds[protocol][-1]:.2f} s")
    result: dict[str, Any] = {"model": model, "dataset": dataset}
    result |= {name: statistics.median(each[1:] or each) for name, each in seconds.items()}
    return result | {"ratio": result["forecast-single"] / result["strict"]}


def training(
    model: str, dataset: str, protocol: Protocol, overrides: list[str], device: torch.device
) -> Callable[[], None]:
    """What trains one epoch of a model."""
    graph = load_dataset(dataset)
    config = configure(graph, model, device, protocol=protocol, preset="tuned", overrides=overrides)
    assert config.recipe.gradient is not None and config.train is not None
    torch.manual_seed(0)
    built = config.kind.build(config.model, Timeline(graph, protocol, device))
    loss = config.recipe.gradient.loss(built, config.train)
    return partial(take_epoch, loss, TrainState(built, loss, config.train, seed=0))


def take_epoch(loss: TrainingLoss, state: TrainState) -> None:
    """Take every training step once."""
    state.model.train()
    for batch in loss.batches(state.generator):
        loss(batch, state.generator).backward()
        state.optimizer.step()
        state.optimizer.zero_grad()


if __name__ == "__main__":
    main()
