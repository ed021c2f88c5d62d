"""Runs to update: of every kind, with weights that were drawn, not trained."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tempograph import Run, TemporalGraph
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Model
from tempograph.models.pointer.copying import Copying
from tempograph.training.callbacks import Callbacks
from tempograph.training.setup import configure, prepare_run
from tempograph.typing import Protocol

WORLD = make_world(entities=14, relations=4, steps=20, facts=300).graph
SMALL = ("model.dim=8", "model.window=3", "model.names=true", "model.sigma=0.5")
NEXT_DAY = "2030-01-21"


def drawn_run(
    graph: TemporalGraph,
    model: str,
    path: Path | None = None,
    protocol: Protocol = "strict",
    settings: Sequence[str] = (),
) -> Run:
    """A finished run of a small model, of which every weight is drawn."""
    torch.manual_seed(0)
    fields = {each.name for each in dataclasses.fields(configure_settings(graph, model))}
    overrides = [each for each in SMALL if each.partition("=")[0].removeprefix("model.") in fields]
    if "parts" in fields:
        overrides = ["model.hidden=4", "model.window=3"]
    if model.startswith("atise"):
        overrides = ["model.dim=8"]
    config = configure(
        graph, model, torch.device("cpu"), protocol=protocol, overrides=[*overrides, *settings]
    )
    run = prepare_run(config, graph, Timeline(graph, protocol), Callbacks(None, None))
    for each in (*run.parts.values(), run):
        each.results.finished = True
        with torch.no_grad():
            for parameter in each.model.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.3 * torch.randn_like(parameter))
        each.model.eval()
    return run if path is None else run.save(path)


def configure_settings(graph: TemporalGraph, model: str) -> object:
    return configure(graph, model, torch.device("cpu")).model


def new_facts(graph: TemporalGraph, count: int = 12) -> np.ndarray:
    """Facts of known names that are not in the graph."""
    rng = np.random.default_rng(7)
    rows = np.unique(rng.integers(0, graph.sizes, (8 * count, 4)), axis=0)
    known = {tuple(row) for row in graph.all_facts.tolist()}
    rows = np.array([row for row in rows.tolist() if tuple(row) not in known])
    return rng.permutation(rows)[:count]


def named(graph: TemporalGraph, rows: np.ndarray, day: str | None = None) -> list[tuple[str, ...]]:
    """Facts by name, all at one day if it is given."""
    return [
        (*(tuple(graph.describe(row).values()))[:3], day or graph.times[row[3]]) for row in rows
    ]


def write_csv(path: Path, rows: Sequence[Sequence[str]], header: str) -> Path:
    lines = [header, *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def all_scores(model: Model, entities: int, relations: int, steps: int) -> Tensor:
    """Scores of all queries about some entities and relations."""
    grid = torch.cartesian_prod(
        torch.arange(entities), torch.arange(relations), torch.arange(0, steps, 3)
    )
    queries = Queries(*(column.contiguous() for column in grid.T))
    with torch.inference_mode():
        return torch.cat(
            [model.scores(queries.take(part)) for part in torch.arange(len(grid)).split(512)]
        )


def pairs_of(source: Copying) -> list[tuple[int, int]]:
    """The directed relation and the candidate of each prior of a source."""
    index, pairs = source.fact_index, []
    for number, relation in enumerate(index.values.tolist()):
        start, stop = index.candidate_start[number : number + 2].tolist()
        pairs += [(relation, candidate) for candidate in index.candidates[start:stop].tolist()]
    return pairs


def files_of(folder: Path) -> dict[str, bytes]:
    """What is in a folder, by relative path; locks aside."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def read_json(path: Path) -> dict[str, object]:
    value: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return value
