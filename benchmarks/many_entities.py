"""Seconds, memory and MRR of models on synthetic worlds with many entities.

World S has 433,000 entities and 3.8 million train facts, world L 1.2 million and 10 million; a
number makes a world of so many entities with ten facts each, for curves of cost. Settings are the
suggested ones. With --minutes, training of a model ends at the step at which it has taken so long;
a part of an epoch is scaled to a whole one. TED and recurrency are fitted on a sample of valid. On
a CPU the peak is that of the process so far: measure one model and one world at a time.

Results are added to the JSON file after each model, in place of earlier ones of the same model and
world.

PYTHONPATH=src python benchmarks/many_entities.py --worlds s --models ted,recurrency,tntcomplex
PYTHONPATH=src python benchmarks/many_entities.py --worlds 1e4,1e5,1e6 --epochs 1 --minutes 1
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from speed_tables import many_entities_table
from torch import Tensor

import tempograph
from tempograph.cli.console import err, show
from tempograph.data.graph import TemporalGraph
from tempograph.data.synthetic.many_entities import SyntheticWorld
from tempograph.data.timeline import Timeline
from tempograph.device import environment, peak_memory_bytes, resolve_device
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.io import write_json
from tempograph.models.base import Model
from tempograph.models.registry import model_kind
from tempograph.training.loop import LoopHooks, train_model
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.recipes import recipe_for
from tempograph.training.setup import configure

WORLDS: Final = {
    "s": SyntheticWorld(),
    "l": SyntheticWorld(1_200_000, 500, 1_000, 10_000_000, 50_000, 50_000),
}
FITTED_ON: Final = 2_000
"""Valid facts on which baselines choose their settings."""
_SHOWN_SECONDS: Final = 10.0
"""Seconds between lines that say how far an epoch is."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each model on each world."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", default="s", help="s, l, or numbers of entities")
    parser.add_argument("--models", default="tntcomplex", help="such as ted,tntcomplex=8: epochs")
    parser.add_argument("--epochs", type=int, help="by default as many as are suggested")
    parser.add_argument("--minutes", type=float, help="of training, for each model")
    parser.add_argument("--questions", type=int, default=50_000, help="test questions to rank")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "overrides", nargs="*", help="settings of trained models, such as model.dim=200"
    )
    options = parser.parse_args(arguments)
    device = resolve_device(options.device)
    record = read_record(options.json) | {"environment": environment(device)}
    for name in options.worlds.split(","):
        start = time.perf_counter()
        graph = (WORLDS.get(name) or curve_world(int(float(name)))).graph(f"world-{name}")
        err.print(f"{graph.name}: made in {time.perf_counter() - start:.0f} s")
        for part in options.models.split(","):
            model, _, epochs = part.partition("=")
            limits = int(epochs) if epochs else options.epochs, options.minutes
            result = measure(graph, model, limits, options.questions, options.overrides, device)
            result["commit"] = record["environment"]["commit"]
            record["results"] = merged(record["results"], result)
            if options.json is not None:
                write_json(options.json, record)
    show(many_entities_table(record))


def read_record(path: Path | None) -> dict[str, Any]:
    """What was measured before."""
    if path is None or not path.exists():
        return {"results": []}
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def merged(results: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The results with a new one, in place of that of the same model and world."""
    kept = [
        each
        for each in results
        if (each["dataset"], each["model"]) != (new["dataset"], new["model"])
    ]
    return sorted([*kept, new], key=lambda each: (each["entities"], each["train_facts"]))


def curve_world(entities: int) -> SyntheticWorld:
    """A world with ten train facts for each entity."""
    held_out = min(25_000, entities)
    return SyntheticWorld(entities, 100, 300, 10 * entities, held_out, held_out)


def measure(
    graph: TemporalGraph,
    name: str,
    limits: tuple[int | None, float | None],
    questions: int,
    overrides: list[str],
    device: torch.device,
) -> dict[str, Any]:
    """Train a model, for epochs and minutes at most, and rank test questions."""
    reset_peak(device)
    result: dict[str, Any] = {
        "dataset": graph.name,
        "model": name,
        "hardware": environment(device)["hardware"],
        "entities": len(graph.entities),
        "train_facts": len(graph.train),
    }
    if recipe_for(model_kind(name)).gradient is None:
        begin = time.perf_counter()
        some = graph.valid[:: -(-len(graph.valid) // FITTED_ON)]
        fitted = dataclasses.replace(graph, valid=some)
        model: Model = tempograph.train(fitted, name, device=str(device), progress=False).model
        result["fit_seconds"] = time.perf_counter() - begin
    else:
        model = trained(graph, name, limits, overrides, device, result)
    result["training_peak_bytes"] = peak_memory_bytes(device)
    reset_peak(device)
    asked = dataclasses.replace(graph, test=graph.test[: max(1, questions // 2)])
    begin = time.perf_counter()
    metrics: dict[str, float] = evaluate_model(model, asked, "test", "strict").summary()["metrics"]
    result |= {
        "questions": 2 * len(asked.test),
        "ranking_seconds": time.perf_counter() - begin,
        "ranking_peak_bytes": peak_memory_bytes(device),
        "metrics": metrics,
    }
    err.print(
        f"{name}, {graph.name}: MRR {metrics['mrr']:.3f}, "
        f"{result['questions']:,} questions ranked in {result['ranking_seconds']:.1f} s"
    )
    return result


def reset_peak(device: torch.device) -> None:
    """Forget the peak memory of a GPU so far, and what is cached."""
    if device.type == "cuda":
        torch.cuda.init()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def trained(
    graph: TemporalGraph,
    name: str,
    limits: tuple[int | None, float | None],
    overrides: list[str],
    device: torch.device,
    result: dict[str, Any],
) -> Model:
    """A model after the epochs; adds settings and times to the result."""
    epochs, minutes = limits
    begin = time.perf_counter()
    config = configure(graph, name, device, overrides=overrides)
    gradient = config.recipe.gradient
    assert gradient is not None and config.train is not None
    torch.manual_seed(0)
    model: Model = config.kind.build(config.model, Timeline(graph, "strict", device))
    settings = dataclasses.replace(config.train, epochs=epochs or config.train.epochs)
    loss = gradient.loss(model, settings)
    result["setup_seconds"] = time.perf_counter() - begin
    err.print(f"{name}, {graph.name}: set up in {result['setup_seconds']:.1f} s")
    seconds = None if minutes is None else 60 * minutes
    timer = EpochTimer(f"{name}, {graph.name}", loss, seconds)

    def on_epoch(line: dict[str, float], _: object) -> None:
        timer.end_epoch(line["seconds"])
        err.print(f"{timer.about}: {line['seconds']:.3g} s, loss {line['loss']:.4g}")

    hooks = LoopHooks(
        validate=None, on_epoch=on_epoch, save_weights=lambda: None, max_seconds=seconds
    )
    train_model(model, loss, settings, 0, hooks)
    epoch_seconds = timer.epoch_seconds
    result |= {
        "config": config.settings(),
        "parameters": model.num_parameters,
        "epochs": timer.epochs,
        "epoch_seconds": epoch_seconds,
        "microseconds_per_fact": epoch_seconds / len(graph.train) * 1e6,
    }
    return model


class EpochTimer:
    """Ends an epoch when the time is up, and times whole epochs or, without any, a part of one."""

    def __init__(self, about: str, loss: TrainingLoss, max_seconds: float | None) -> None:
        self.about, self.loss = about, loss
        self.max_seconds = math.inf if max_seconds is None else max_seconds
        self.deadline: float | None = None
        self.epochs = 0.0
        self._whole: list[float] = []
        self._part: tuple[float, float] | None = None
        self._done = self._total = 0
        self._batches, loss.batches = loss.batches, self._timed  # type: ignore[method-assign]

    def end_epoch(self, seconds: float) -> None:
        """Note how long an epoch took, and which part of it was done."""
        share = self._done / self._total
        self.epochs += share
        if share == 1:
            self._whole.append(seconds)
        else:
            self._part = seconds, share

    @property
    def epoch_seconds(self) -> float:
        """Seconds of a whole epoch; the first one, which compiles kernels, counts if alone."""
        if self._whole:
            return statistics.median(self._whole[1:] or self._whole)
        assert self._part is not None
        return self._part[0] / self._part[1]

    def _timed(self, generator: torch.Generator) -> Sequence[Tensor]:
        batches = self._batches(generator)
        if self.deadline is None:
            # Later than the limit of the loop, which so ends training after this epoch.
            self.deadline = time.perf_counter() + self.max_seconds
        self._total, self._done = len(batches), 0
        return TimedBatches(self, batches)

    def steps(self, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        """The batches of an epoch until the time is up; the first one in any case."""
        shown = time.perf_counter()
        assert self.deadline is not None
        for batch in batches:
            now = time.perf_counter()
            if self._done and now > self.deadline:
                break
            if now - shown > _SHOWN_SECONDS:
                err.print(f"{self.about}: {self._done:,} of {self._total:,} steps")
                shown = now
            self._done += 1
            yield batch

    @property
    def done(self) -> int:
        """Steps of this epoch so far."""
        return self._done


class TimedBatches(Sequence[Tensor]):
    """The batches of an epoch, as many as the time allows; its length is of those done."""

    def __init__(self, timer: EpochTimer, batches: Sequence[Tensor]) -> None:
        self.timer, self.batches = timer, batches

    def __iter__(self) -> Iterator[Tensor]:
        return self.timer.steps(self.batches)

    def __len__(self) -> int:
        return self.timer.done

    def __getitem__(self, index: Any) -> Any:
        return self.batches[index]


if __name__ == "__main__":
    main()
