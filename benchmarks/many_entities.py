"""Seconds, memory and MRR of models on made worlds with many entities.

World s has 433,000 entities and 3.8 million train facts, world l 1.2 million and 10 million; a
number makes a world of so many entities with ten facts each, for curves of cost. Settings are the
suggested ones. On a CPU the peak is that of the process so far: measure one model and one world at
a time.

PYTHONPATH=src python benchmarks/many_entities.py --worlds s --models ted,recurrency,tntcomplex
PYTHONPATH=src python benchmarks/many_entities.py --worlds 1e4,1e5,1e6 --epochs 1
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import tempograph
from tempograph.cli.console import err, show
from tempograph.data.graph import TemporalGraph
from tempograph.data.synthetic.many_entities import MadeWorld
from tempograph.data.timeline import Timeline
from tempograph.device import environment, peak_memory_bytes, resolve_device
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.io import write_json
from tempograph.models.base import Model
from tempograph.models.registry import model_kind
from tempograph.report.text_table import TextTable
from tempograph.training.loop import LoopHooks, train_model
from tempograph.training.recipes import recipe_for
from tempograph.training.setup import configure

WORLDS = {"s": MadeWorld(), "l": MadeWorld(1_200_000, 500, 1_000, 10_000_000, 50_000, 50_000)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each model on each world."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", default="s", help="s, l, or numbers of entities")
    parser.add_argument("--models", default="tntcomplex")
    parser.add_argument("--epochs", type=int, help="by default as many as are suggested")
    parser.add_argument("--questions", type=int, default=50_000, help="test questions to rank")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "overrides", nargs="*", help="settings of trained models, such as model.dim=200"
    )
    options = parser.parse_args(arguments)
    device = resolve_device(options.device)
    results: list[dict[str, Any]] = []
    record = {"environment": environment(device), "results": results}
    for name in options.worlds.split(","):
        world = WORLDS.get(name) or curve_world(int(float(name)))
        graph = world.graph(f"world-{name}")
        for model in options.models.split(","):
            results.append(
                measure(graph, model, options.epochs, options.questions, options.overrides, device)
            )
            if options.json is not None:
                write_json(options.json, record)
    show(table(results))


def curve_world(entities: int) -> MadeWorld:
    """A world with ten train facts for each entity."""
    held_out = min(25_000, entities)
    return MadeWorld(entities, 100, 300, 10 * entities, held_out, held_out)


def measure(
    graph: TemporalGraph,
    name: str,
    epochs: int | None,
    questions: int,
    overrides: list[str],
    device: torch.device,
) -> dict[str, Any]:
    """Train a model and rank test questions."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    result: dict[str, Any] = {
        "world": graph.name,
        "model": name,
        "entities": len(graph.entities),
        "train_facts": len(graph.train),
    }
    if recipe_for(model_kind(name)).gradient is None:
        begin = time.perf_counter()
        model: Model = tempograph.train(graph, name, device=str(device), progress=False).model
        result["fit_seconds"] = time.perf_counter() - begin
    else:
        model = trained(graph, name, epochs, overrides, device, result)
    asked = dataclasses.replace(graph, test=graph.test[: max(1, questions // 2)])
    begin = time.perf_counter()
    metrics: dict[str, float] = evaluate_model(model, asked, "test", "strict").summary()["metrics"]
    result |= {
        "questions": 2 * len(asked.test),
        "ranking_seconds": time.perf_counter() - begin,
        "metrics": metrics,
        "peak_bytes": peak_memory_bytes(device),
    }
    err.print(f"{name}, {graph.name}: MRR {metrics['mrr']:.3f}")
    return result


def trained(
    graph: TemporalGraph,
    name: str,
    epochs: int | None,
    overrides: list[str],
    device: torch.device,
    result: dict[str, Any],
) -> Model:
    """A model after the epochs; adds settings and times to the result."""
    config = configure(graph, name, device, overrides=overrides)
    gradient = config.recipe.gradient
    assert gradient is not None and config.train is not None
    torch.manual_seed(0)
    model: Model = config.kind.build(config.model, Timeline(graph, "strict", device))
    settings = dataclasses.replace(config.train, epochs=epochs or config.train.epochs)

    def on_epoch(line: dict[str, float], _: object) -> None:
        err.print(f"{name}, {graph.name}: {line['seconds']:.3g} s, loss {line['loss']:.4g}")

    hooks = LoopHooks(validate=None, on_epoch=on_epoch, save_weights=lambda: None)
    progress = train_model(model, gradient.loss(model, settings), settings, 0, hooks)
    seconds = [line["seconds"] for line in progress.history]
    result |= {
        "config": config.settings(),
        "parameters": model.num_parameters,
        "epochs": len(seconds),
        # The first epoch compiles kernels.
        "epoch_seconds": statistics.median(seconds[1:] or seconds),
        "microseconds_per_fact": statistics.median(seconds[1:] or seconds) / len(graph.train) * 1e6,
    }
    return model


def table(results: list[dict[str, Any]]) -> TextTable:
    """The figures of each world and model."""
    columns = ("World", "Model", "Entities", "Epoch s", "us/fact", "Rank s", "GiB", "MRR")
    rows = [
        (
            result["world"],
            result["model"],
            f"{result['entities']:,}",
            f"{result['epoch_seconds']:.3g}" if "epoch_seconds" in result else "-",
            f"{result['microseconds_per_fact']:.3g}" if "epoch_seconds" in result else "-",
            f"{result['ranking_seconds']:.3g}",
            f"{result['peak_bytes'] / 2**30:.2f}",
            f"{result['metrics']['mrr']:.3f}",
        )
        for result in results
    ]
    return TextTable("Many entities", columns, rows, text_columns=2)


if __name__ == "__main__":
    main()
