"""Seconds of a training epoch and of an evaluation, and memory, of each method with its preset.

One method at a time on the device; gdelt-size is a synthetic world with the presets of GDELT.

PYTHONPATH=src python benchmarks/methods_speed.py --models tntcomplex,de-simple --datasets icews14
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from many_entities import reset_peak
from speed_tables import methods_speed_table
from temp_speed import load_datasets

from tempograph.cli.console import err, show
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import environment, peak_memory_bytes, resolve_device
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.io import write_json
from tempograph.models.base import Model
from tempograph.models.registry import MODELS, model_kind
from tempograph.training.loop import LoopHooks, train_model
from tempograph.training.preset_files import shipped_presets
from tempograph.training.recipes import recipe_for
from tempograph.training.setup import configure


def main() -> None:
    """Measure each method on each dataset."""
    trained = [name for name, kind in MODELS.items() if recipe_for(kind).gradient is not None]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(trained))
    parser.add_argument("--datasets", default="icews14,icews05-15,gdelt-size")
    parser.add_argument("--preset", default="tuned")
    parser.add_argument(
        "--epochs", type=int, default=2, help="epochs that count, after one that does not"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*", help="settings, such as model.dim=2000")
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    results: list[dict[str, Any]] = []
    record = {"environment": environment(device), "preset": arguments.preset, "results": results}
    for graph in load_datasets(arguments.datasets):
        for name in arguments.models.split(","):
            results.append(
                measure(
                    name, graph, arguments.preset, arguments.epochs, arguments.overrides, device
                )
            )
            err.print(f"{name}, {graph.name}: {results[-1]['epoch_seconds']:.3g} s an epoch")
            if arguments.json is not None:
                write_json(arguments.json, record)
    whose = "GPU" if device.type == "cuda" else "process so far"
    show(
        methods_speed_table(record, f"preset {arguments.preset}; GiB: peak memory, of the {whose}")
    )


def measure(
    name: str,
    graph: TemporalGraph,
    preset: str,
    epochs: int,
    overrides: list[str],
    device: torch.device,
) -> dict[str, Any]:
    """Train for some epochs and evaluate."""
    torch.manual_seed(0)
    named = dataclasses.replace(graph, name="gdelt") if graph.name == "gdelt-size" else graph
    shipped = preset if f"{named.name}.{preset}" in shipped_presets(name) else None
    config = configure(named, name, device, preset=shipped, overrides=overrides)
    gradient = recipe_for(model_kind(name)).gradient
    assert gradient is not None and config.train is not None
    model = model_kind(name).build(config.model, Timeline(graph, "strict", device))
    train = dataclasses.replace(config.train, epochs=epochs + 1, validate_every=epochs + 1)
    reset_peak(device)
    # One validation warms up the next.
    hooks = LoopHooks(
        validate=lambda model: valid(model, graph),
        on_epoch=lambda line, _: None,
        save_weights=lambda: None,
    )
    training = train_model(model, gradient.loss(model, train), train, seed=0, hooks=hooks)
    begin = time.perf_counter()
    metrics = valid(model, graph)
    return {
        "model": name,
        "dataset": graph.name,
        "config": config.settings(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "epoch_seconds": statistics.median(line["seconds"] for line in training.history[1:]),
        "evaluation_seconds": time.perf_counter() - begin,
        "valid_mrr": metrics["mrr"],
        "peak_bytes": peak_memory_bytes(device),
    }


def valid(model: Model, graph: TemporalGraph) -> dict[str, float]:
    """The metrics of a model on valid."""
    metrics: dict[str, float] = evaluate_model(model, graph, "valid", "strict").summary()["metrics"]
    return metrics


if __name__ == "__main__":
    main()
