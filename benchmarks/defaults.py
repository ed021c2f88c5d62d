"""Are the suggested settings as good as presets? Both are trained, and compared on valid facts.

Data are benchmarks and what is made of them, so that no rule fits only the data it was chosen on:

- icews14, icews05-15: as they are; the preset is their own
- icews14/10%: a random share of all facts, split at random; the preset is that of icews14
- icews14/500: the facts among the 500 most active entities, split at random
- yago-forecast: all facts, split at random; the preset is that of icews14
- world/470000x23000: a synthetic world of so many facts and entities; the preset is that of icews14

A model that has the same settings both ways is not trained. With --json, results are added to those
in the file.

PYTHONPATH=src python benchmarks/defaults.py --data icews14 icews14/10% --models tntcomplex pointer
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from speed_tables import defaults_table

from tempograph.cli.console import note, show
from tempograph.data.catalog import load_dataset
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.synthetic.world import make_world
from tempograph.device import environment, resolve_device
from tempograph.io import write_json
from tempograph.training import trainer
from tempograph.training.config import Config
from tempograph.training.setup import configure

DATA: Final = (
    "icews14",
    "icews14/10%",
    "icews14/30%",
    "icews14/500",
    "icews14/2000",
    "icews05-15/10%",
    "yago-forecast",
)
MODELS: Final = ("tntcomplex", "pointer", "temp-gru", "temp-sa", "temp-pointer")
LARGEST_LOSS: Final = 0.005
"""How far valid MRR with suggested settings may be below that of the preset."""
RELATIONS: Final = 250
STEPS: Final = 304
"""Of a synthetic world."""


def main() -> None:
    """Train, compare, print; exit with 1 if suggested settings are much worse."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of both, to save time"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    found, here = read_measured(arguments.json, device), environment(device)
    for name in arguments.data:
        graph, preset_of = load(name, arguments.seed)
        for model in arguments.models:
            note(f"{model} on {name}")
            result = compare(graph, model, preset_of, arguments, device)
            about = {"dataset": name, "model": model, "set": arguments.set}
            result = {**about, "hardware": here["hardware"], "commit": here["commit"], **result}
            others = [
                other
                for other in found["results"]
                if any(other[key] != value for key, value in about.items())
            ]
            found["results"] = [*others, result]
            if arguments.json is not None:
                write_json(arguments.json, found)
    show(defaults_table(found))
    sys.exit(any(result["loss"] > LARGEST_LOSS for result in found["results"]))


def read_measured(path: Path | None, device: torch.device) -> dict[str, Any]:
    """The results of earlier calls in a file, or none; new ones may be added to them."""
    if path is not None and path.is_file():
        measured: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return measured
    return {"environment": environment(device), "results": []}


def load(name: str, seed: int) -> tuple[TemporalGraph, str]:
    """The data behind a name, and the dataset whose presets are compared with."""
    base, _, part = name.partition("/")
    if base == "world":
        size, entities = map(int, part.split("x"))
        return make_world(seed, entities, RELATIONS, STEPS, size).graph, "icews14"
    graph = load_dataset(base)
    if base.startswith("icews") and not part:
        return graph, base
    facts = np.unique(graph.all_facts, axis=0)
    rng = np.random.default_rng(seed)
    if part.endswith("%"):
        facts = facts[rng.random(len(facts)) < float(part[:-1]) / 100]
    elif part:
        facts = among_most_active(facts, int(part))
    return split_at_random(graph, facts, rng), base if base.startswith("icews") else "icews14"


def among_most_active(facts: Facts, count: int) -> Facts:
    """The facts [n, 4] whose two entities are among those with the most facts."""
    active = np.argsort(-np.bincount(facts[:, [0, 2]].ravel()), kind="stable")[:count]
    return facts[np.isin(facts[:, [0, 2]], active).all(1)]


def split_at_random(graph: TemporalGraph, facts: Facts, rng: np.random.Generator) -> TemporalGraph:
    """A graph of these facts, a tenth each in valid and test, with only the entities they name."""
    named, ids = np.unique(facts[:, [0, 2]], return_inverse=True)
    facts = facts.copy()
    facts[:, [0, 2]] = ids.reshape(-1, 2)
    facts = facts[rng.permutation(len(facts))]
    held_out = len(facts) // 10
    return dataclasses.replace(
        graph,
        entities=tuple(graph.entities[entity] for entity in named),
        train=facts[2 * held_out :],
        valid=facts[:held_out],
        test=facts[held_out : 2 * held_out],
    )


def compare(
    graph: TemporalGraph,
    model: str,
    preset_of: str,
    arguments: argparse.Namespace,
    device: torch.device,
) -> dict[str, Any]:
    """Valid MRR and seconds with the suggested settings and with those of a preset."""
    both = {"seed": arguments.seed, "overrides": arguments.set}
    suggested = configure(graph, model, device, **both)
    named = dataclasses.replace(graph, name=preset_of)
    preset = configure(named, model, device, preset="tuned", **both)
    different = [name for name, value in preset.flat().items() if suggested.flat()[name] != value]
    data = {
        "facts": len(graph.train),
        "entities": len(graph.entities),
        "steps": len(graph.times),
        "preset": f"{preset_of}.tuned",
        "different": {name: [suggested.flat()[name], preset.flat()[name]] for name in different},
    }
    if not different:
        return {**data, "suggested_mrr": None, "preset_mrr": None, "loss": 0.0}
    rules = measure(graph, suggested, device, arguments.set)
    other = measure(named, preset, device, arguments.set)
    return {
        **data,
        "suggested_mrr": rules["mrr"],
        "preset_mrr": other["mrr"],
        "loss": other["mrr"] - rules["mrr"],
        "suggested_seconds": rules["seconds"],
        "preset_seconds": other["seconds"],
    }


def measure(
    graph: TemporalGraph, config: Config, device: torch.device, overrides: list[str]
) -> dict[str, float]:
    """Train a run and return its valid MRR."""
    started = time.perf_counter()
    run = trainer.train(
        graph,
        config.name,
        seed=config.seed,
        preset=config.preset,
        overrides=overrides,
        device=str(device),
        progress=False,
    )
    assert run.results.valid is not None
    return {"mrr": run.results.valid["metrics"]["mrr"], "seconds": time.perf_counter() - started}


if __name__ == "__main__":
    main()
