"""Time of an epoch and an evaluation of TeMP, memory, and the share of the device's lower bound.

Dim 128, softmax over all entities, two RGCN layers with inverse edges, window 8 on both sides,
imputation and gate where the model has them. gdelt-size is a synthetic world of GDELT's size.

PYTHONPATH=src python benchmarks/temp_speed.py --models temp-gru --datasets icews14
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from speed_tables import temp_speed_table
from torch import Tensor

from tempograph.cli.console import err, show
from tempograph.data.catalog import load_dataset
from tempograph.data.graph import TemporalGraph
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Timeline
from tempograph.device import environment, peak_memory_bytes, resolve_device
from tempograph.errors import DataError
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.io import write_json
from tempograph.models.base import Model
from tempograph.models.temp.temp_model import TeMP
from tempograph.nn.temporal import DecayedGRU
from tempograph.training.config import make_config
from tempograph.training.loop import LoopHooks, train_model
from tempograph.training.losses.temp_loss import TeMPLoss
from tempograph.training.settings import SnapshotTrainSettings

Precision = Literal["32-true", "tf32"]

PAPER_SECONDS = {"icews14": 480, "icews05-15": 4200, "gdelt-size": 780}
"""A training epoch of TeMP-GRU in the paper, on a GTX Titan (ICEWS14) and V100s."""


@dataclass(frozen=True)
class Rates:
    """The highest rates of the device: floating-point operations and bytes a second."""

    flops: float
    bytes: float


@dataclass
class Work:
    """The work of an epoch, without the facts and entities that dropout removes."""

    steps: int = 0
    """Training steps."""
    times: int = 0
    questions: int = 0
    nodes: int = 0
    """Rows of all structural layers; edges likewise."""
    edges: int = 0
    context: int = 0
    """Rows of the windows of the temporal encoder."""
    pairs: int = 0
    """(Entity, time) pairs with a row of their own after the temporal encoder."""
    links: int = 0
    """Active steps in the windows of these pairs: GRU cells before the last, or attended rows."""

    def flops(self, model: TeMP) -> float:
        """Return 2 n a b for each product of [n, a] and [a, b], times three with its gradients."""
        dim, entities, alone = (
            model.settings.dim,
            model.timeline.num_entities,
            self.steps * model.timeline.num_entities,
        )
        # Scores of all entities, with twice the dim if there is a gate; self-loops of each node.
        total = self.questions * entities * width_of(model) + self.nodes * dim**2
        if isinstance(model.temporal, DecayedGRU):
            # Three gates from the input, for each side, of context, pairs and entities alone; and
            # from the state, the zero state at the start of a chain included.
            sides = len(model.temporal.input_weight)
            total += sides * (self.context + self.pairs + alone) * 3 * dim**2
            total += (self.links + sides * (self.pairs + alone)) * 3 * dim**2
        elif model.temporal is not None:
            # Query, key and value of pairs, key and value of the context, value of entities alone;
            # then the two products of attention, with each attended row and the pair itself.
            total += (3 * self.pairs + 2 * self.context + alone) * dim**2 + 2 * (
                self.links + self.pairs
            ) * dim
        return 3 * 2 * total

    def bytes(self, model: TeMP) -> float:
        """Return the bytes that the largest tensors move at least, if all that can be fused is."""
        dim, entities = model.settings.dim, model.timeline.num_entities
        # Scores: written, read by the loss; read and overwritten by their gradient, read by two
        # products.
        total = 6 * self.questions * entities
        # Tables of all entities at each time: written, read by the product and by its backward;
        # gradient written, read.
        total += 5 * self.times * entities * width_of(model)
        # Messages: the source's row is read; backward the target's gradient and the source's row
        # are read, and the gradient of the source's row is written. Nodes: read and written;
        # gradient read, row read, gradient written.
        total += 4 * self.edges * dim + 5 * self.nodes * dim
        if isinstance(model.temporal, DecayedGRU):
            # A cell reads three gates and a state and writes a state; backward it reads these five
            # again and writes the gradients of gates and state.
            total += 14 * self.links * dim
        elif model.temporal is not None:
            # Key and value of each attended row are read, read again backward, and their gradients
            # written.
            total += 6 * self.links * dim
        return 4 * total


def main() -> None:
    """Measure each model on each dataset."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="temp-gru,temp-sa,srgcn")
    parser.add_argument("--datasets", default="icews14,icews05-15,gdelt-size")
    parser.add_argument(
        "--epochs", type=int, default=3, help="timed epochs, after one warm-up epoch"
    )
    parser.add_argument("--times-per-step", type=int, default=32)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    precision: Precision = "tf32" if device.type == "cuda" else "32-true"
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    rates = measure_rates(device)
    results = []
    for graph in load_datasets(arguments.datasets):
        for name in arguments.models.split(","):
            train = SnapshotTrainSettings(
                epochs=arguments.epochs + 1,
                times_per_step=arguments.times_per_step,
                validate_every=arguments.epochs + 1,
                precision=precision,
            )
            results.append(measure(name, graph, train, rates, device))
            err.print(f"{name}, {graph.name}: {results[-1]['epoch_seconds']:.3g} s an epoch")
    found = {
        "environment": environment(device),
        "rates": dataclasses.asdict(rates),
        "results": results,
    }
    about = (
        f"{precision}: products {rates.flops / 1e12:.2f} TFLOP/s, "
        f"copies {rates.bytes / 1e9:.0f} GB/s; GiB: peak memory of training, of the "
        f"{'GPU' if device.type == 'cuda' else 'process, earlier rows included'}"
    )
    show(temp_speed_table(found, about))
    if arguments.json is not None:
        write_json(arguments.json, found)


def load_datasets(datasets: str) -> Iterator[TemporalGraph]:
    """Yield datasets by their names, separated by commas; warn about those that are missing."""
    for dataset in datasets.split(","):
        try:
            yield _load(dataset)
        except DataError as error:
            err.print(f"{dataset} skipped: {error}", soft_wrap=True)


def _load(dataset: str) -> TemporalGraph:
    """Return a dataset by its name, or the synthetic world of GDELT's size."""
    if dataset == "gdelt-size":
        return make_world(
            entities=500, relations=20, steps=366, facts=3_400_000, name=dataset
        ).graph
    return load_dataset(dataset)


def measure(
    name: str,
    graph: TemporalGraph,
    train: SnapshotTrainSettings,
    rates: Rates,
    device: torch.device,
) -> dict[str, Any]:
    """Train for some epochs, evaluate, and compare the median epoch with the lower bound."""
    torch.manual_seed(0)
    config = make_config(name, graph.name, overrides=["model.dim=128"])
    model = TeMP(Timeline(graph, "strict", device), config.model, name)
    loss = TeMPLoss(model, train)
    work = count_work(model, loss)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    training_peak = []

    def validate(model: Model) -> dict[str, float]:
        training_peak.append(peak_memory_bytes(device))
        return {"mrr": evaluate_model(model, graph, "valid", "strict").summary()["metrics"]["mrr"]}

    hooks = LoopHooks(
        validate=validate, on_epoch=lambda line, progress: None, save_weights=lambda: None
    )
    training = train_model(model, loss, train, seed=0, hooks=hooks)
    # The validation inside the loop was the warm-up of this one.
    evaluation = evaluate_model(model, graph, "valid", "strict")
    seconds = statistics.median(line["seconds"] for line in training.history[1:])
    floor = max(work.flops(model) / rates.flops, work.bytes(model) / rates.bytes)
    return {
        "model": name,
        "dataset": graph.name,
        "times_per_step": train.times_per_step,
        "epoch_seconds": seconds,
        "evaluation_seconds": evaluation.seconds,
        "training_peak_bytes": training_peak[0],
        "peak_bytes": peak_memory_bytes(device),
        "work": dataclasses.asdict(work),
        "flops": work.flops(model),
        "bytes": work.bytes(model),
        "floor_seconds": floor,
        "share_of_floor": floor / seconds,
        "paper_epoch_seconds": PAPER_SECONDS.get(graph.name) if name == "temp-gru" else None,
    }


def count_work(model: TeMP, loss: TeMPLoss) -> Work:
    """Count the work of the forward passes of an epoch."""
    timeline, settings = model.timeline, loss.settings
    per_step = torch.bincount(timeline.facts[:, 3])
    work = Work(
        times=int((per_step > 0).sum()),
        questions=2 * int(per_step.clamp(max=settings.max_facts).sum()),
    )

    def structural(_: Any, inputs: tuple[Any, ...], __: Tensor) -> None:
        x, edges, _ = inputs
        work.nodes += len(x)
        work.edges += len(edges.source)

    def temporal(_: Any, inputs: tuple[Any, ...], __: Tensor) -> None:
        x, windows, context = inputs
        work.pairs += len(x)
        work.context += len(context.x)
        work.links += sum(
            int(side.lengths.sum()) for side in (windows.past, windows.future) if side is not None
        )

    handles = [layer.register_forward_hook(structural) for layer in model.structure]
    if model.temporal is not None:
        handles.append(model.temporal.register_forward_hook(temporal))
    generator = torch.Generator(model.device).manual_seed(0)
    busy = per_step.nonzero()[:, 0]
    shuffled = busy[torch.randperm(len(busy), device=busy.device, generator=generator)]
    with torch.no_grad():
        for times in torch.split(shuffled, settings.times_per_step):
            loss(times, generator)
            work.steps += 1
    for handle in handles:
        handle.remove()
    return work


def width_of(model: TeMP) -> int:
    """Return the width of the tables that queries are scored against: twice dim with a gate."""
    return model.settings.dim * (2 if model.gate is not None else 1)


def measure_rates(device: torch.device) -> Rates:
    """Measure a large matrix product, at the precision of training, and a large copy."""
    size, numbers = (8192, 2**29) if device.type == "cuda" else (2048, 2**26)
    one, other = torch.randn(2, size, size, device=device)
    source = torch.zeros(numbers, device=device)
    target = torch.empty_like(source)
    product, copy = (
        fastest(lambda: one @ other, device),
        fastest(lambda: target.copy_(source), device),
    )
    return Rates(2 * size**3 / product, 2 * 4 * numbers / copy)


def fastest(work: Callable[[], Tensor], device: torch.device) -> float:
    """Return the seconds of the fastest of ten runs, after a warm-up."""
    measured = []
    for _ in range(11):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        measured.append(time.perf_counter() - start)
    return min(measured[1:])


if __name__ == "__main__":
    main()
