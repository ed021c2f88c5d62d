"""Small embedding methods in doubles: those of the registry and other combinations of parts."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

import oracle_methods as oracle
from graphs import make_graph
from tempograph import TemporalGraph
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.embedding.embedding_model import Embedding
from tempograph.models.embedding.embedding_settings import EmbeddingSettings
from tempograph.models.registry import MODELS


class Method(NamedTuple):
    """A choice of parts with the twin of its score."""

    settings: dict[str, Any]
    twin: oracle.Twin


REGISTERED = {name: kind for name, kind in MODELS.items() if kind.settings is EmbeddingSettings}

_FACTORED = {"relations": "factored"}
METHODS = {
    name: Method(dict(kind.defaults), oracle.TWINS[name]) for name, kind in REGISTERED.items()
} | {
    "transe, l1": Method({"decoder": "transe", "distance": "l1"}, partial(oracle.transe, norm=1)),
    "transe, reciprocal": Method({"decoder": "transe", "reciprocal": True}, oracle.transe),
    "distmult, reciprocal": Method({"decoder": "distmult", "reciprocal": True}, oracle.distmult),
    "complex, reciprocal": Method({"decoder": "complex", "reciprocal": True}, oracle.complex_),
    "simple, reciprocal": Method({"decoder": "simple", "reciprocal": True}, oracle.simple),
    "ttranse, l1": Method(
        {"decoder": "transe", "distance": "l1", "relations": "shifted"},
        partial(oracle.ttranse, norm=1),
    ),
    "hyte, l1": Method(
        {"decoder": "transe", "distance": "l1", "entities": "projected", "relations": "projected"},
        partial(oracle.hyte, norm=1),
    ),
    "hyte, relations off the planes": Method(
        {"decoder": "transe", "entities": "projected"}, partial(oracle.hyte, flat=False)
    ),
    "de-transe, l1": Method(
        {"decoder": "transe", "distance": "l1", "entities": "diachronic"},
        partial(oracle.de_transe, norm=1),
    ),
    "de-complex": Method({"decoder": "complex", "entities": "diachronic"}, oracle.de_complex),
    "tcomplex, inverted": Method(
        _FACTORED | {"constant": False}, partial(oracle.tntcomplex, constant=False)
    ),
    "tntcomplex, inverted": Method(_FACTORED, oracle.tntcomplex),
    "tntdistmult": Method(
        _FACTORED | {"decoder": "distmult", "reciprocal": True}, oracle.tntdistmult
    ),
    "atise, nothing drifts": Method({"decoder": "gaussian"}, oracle.atise),
    # ATiSE-ER of version 0.1.0.
    "atise, relations drift": Method(
        {"decoder": "gaussian", "relations": "drifting"}, oracle.atise
    ),
    "atise-er, reciprocal, bounded": Method(
        {**REGISTERED["atise-er"].defaults, "reciprocal": True, "longest_mean": 1.5},
        partial(oracle.atise, longest=1.5),
    ),
}


def dated(graph: TemporalGraph) -> TemporalGraph:
    """The graph with days as labels: across a month and a year, and not one after the other."""
    first = date(2013, 12, 19)
    return replace(
        graph, times=tuple(str(first + timedelta(6 * step)) for step in range(len(graph.times)))
    )


def small_graph(
    entities: int = 4, relations: int = 2, steps: int = 5, facts: int = 12, seed: int = 0
) -> TemporalGraph:
    generator = torch.Generator().manual_seed(seed)
    every = torch.tensor(
        list(itertools.product(*map(range, (entities, relations, entities, steps))))
    )
    chosen = every[torch.randperm(len(every), generator=generator)[:facts]]
    return dated(make_graph(chosen.tolist(), entities=entities, relations=relations, steps=steps))


def build(graph: TemporalGraph, name: str, **settings: Any) -> Embedding:
    """A method in doubles whose every weight is drawn anew, so that no part is still or small."""
    torch.manual_seed(0)
    made = EmbeddingSettings(**{**METHODS[name].settings, "dim": 4, **settings})
    model = Embedding(Timeline(graph), made, name).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    return model.eval()


def every_query(model: Embedding) -> Queries:
    """All queries of both directions, [entities * 2 relations * steps]."""
    t = model.timeline
    rows = torch.tensor(
        list(
            itertools.product(range(t.num_entities), range(2 * t.num_relations), range(t.num_steps))
        )
    )
    return Queries(*rows.unbind(1))


def each_candidate(model: Embedding, queries: Queries) -> tuple[Queries, Tensor]:
    """Every query once with every entity: queries and candidates, [queries * entities]."""
    count = model.timeline.num_entities
    repeated = Queries(*(part.repeat_interleave(count) for part in queries))
    return repeated, torch.arange(count).repeat(len(queries.time))
