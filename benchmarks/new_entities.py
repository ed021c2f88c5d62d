"""How good are the estimated vectors of entities that an update brings?

Some entities are hidden from training, with all their facts. Half of these facts, at random, enter
the run by an update; the others are asked for. MRR and Hits@10 are printed for questions about a
new entity and for those that a new entity answers, with the estimates, and with a vector of zeros
instead. The last columns are of known facts of test, to see whether new entities get in the way.

PYTHONPATH=src python benchmarks/new_entities.py --models complex,temp-gru --set model.dim=64
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

import tempograph
from tempograph.cli.console import out, table
from tempograph.data.catalog import load_dataset
from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.timeline import fact_queries
from tempograph.device import environment, resolve_device
from tempograph.evaluation.ranking import metrics
from tempograph.io import write_json
from tempograph.models.base import Model
from tempograph.models.entity_estimates import EntityEstimates
from tempograph.typing import SPLITS

FEWEST, MOST = 5, 100
"""Facts of the entities that are hidden."""
CHUNK: Final = 256
"""Queries that are scored at once."""
MAX_KNOWN: Final = 1500
"""Known facts of test that are ranked, about."""
ASKED: Final = ("about", "answer", "known")
"""Questions about a new entity, those that one answers, and questions about known facts."""


class Hidden(NamedTuple):
    """Data without some entities, the facts that an update brings, and those that are asked for."""

    base: TemporalGraph
    given: list[tuple[str, ...]]
    asked: list[tuple[str, ...]]


def main() -> None:
    """Train without some entities, update, rank, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="icews14")
    parser.add_argument("--models", default="complex")
    parser.add_argument("--set", action="append", default=[], help="a setting of all models")
    parser.add_argument("--entities", type=int, default=300)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    hidden = hide(load_dataset(arguments.dataset), arguments.entities)
    results: dict[str, Any] = {}
    for model in arguments.models.split(","):
        results |= measure(model, hidden, arguments.set, arguments.device)
    columns = ["vectors", *(f"{of}: {name}" for of in ASKED for name in ("MRR", "Hits@10"))]
    rows = [
        [name, *(f"{figures[of][key]:.3f}" for of in ASKED for key in ("mrr", "hits@10"))]
        for name, figures in results.items()
    ]
    title = f"{arguments.entities} new entities, {len(hidden.given):,} of their facts given"
    out.print(table(title, columns, rows))
    if arguments.json is not None:
        where = environment(resolve_device(arguments.device))
        write_json(arguments.json, {"environment": where, "results": results})


def hide(graph: TemporalGraph, count: int) -> Hidden:
    """Hide random entities, and divide their facts with known ones in two."""
    rng = np.random.default_rng(0)
    facts = np.bincount(graph.all_facts[:, [0, 2]].ravel(), minlength=len(graph.entities))
    new = np.zeros(len(facts), bool)
    new[rng.choice(np.flatnonzero((facts >= FEWEST) & (facts <= MOST)), count, False)] = True
    number = np.cumsum(~new) - 1

    def known(rows: Facts) -> Facts:
        kept: Facts = rows[~new[rows[:, [0, 2]]].any(1)]
        return np.stack([number[kept[:, 0]], kept[:, 1], number[kept[:, 2]], kept[:, 3]], axis=1)

    names = tuple(name for name, is_new in zip(graph.entities, new, strict=True) if not is_new)
    train, valid, test = (known(graph.facts(split)) for split in SPLITS)
    base = replace(graph, entities=names, attributes={}, train=train, valid=valid, test=test)
    of_new = graph.all_facts[new[graph.all_facts[:, [0, 2]]].sum(1) == 1]
    named = [tuple(graph.describe(row).values()) for row in rng.permutation(of_new)]
    return Hidden(base, named[: len(named) // 2], named[len(named) // 2 :])


def measure(model: str, hidden: Hidden, settings: list[str], device: str) -> dict[str, Any]:
    """The figures of a model with estimated vectors, and with zeros."""
    run = tempograph.train(hidden.base, model, overrides=settings, device=device)
    updated = tempograph.update(run, hidden.given, save=False).run
    graph, found = updated.known_graph, dict[str, Any]()
    known_names = {*graph.entities}
    asked = np.array(
        [
            (graph.entity_id(s), graph.relation_id(r), graph.entity_id(o), graph.time_id(t))
            for s, r, o, t in hidden.asked
            if {s, o} <= known_names
        ]
    )
    everything = np.concatenate([graph.all_facts, asked])
    is_new = np.concatenate([asked[:, 0], asked[:, 2]]) >= len(hidden.base.entities)
    sample = hidden.base.test[:: max(1, len(hidden.base.test) // MAX_KNOWN)]
    for name, estimate in (("estimated", EntityEstimates.__call__), ("zeros", zeros)):
        with patch.object(EntityEstimates, "__call__", estimate):
            answering = updated.answering().model
        of_new = rank(answering, graph, asked, everything)
        groups = (of_new[is_new], of_new[~is_new], rank(answering, graph, sample, everything))
        found[f"{model}, {name}"] = {
            of: metrics(group) for of, group in zip(ASKED, groups, strict=True)
        }
    return found


def zeros(self: EntityEstimates, known: Tensor) -> Tensor:
    """Vectors of zeros for new entities."""
    return known.new_zeros(self.num_new, *known.shape[1:])


@torch.inference_mode()
def rank(model: Model, graph: TemporalGraph, rows: Facts, everything: Facts) -> Tensor:
    """Ranks of the objects, then of the subjects of facts [n, 4], other known answers aside."""
    device = model.device
    known = KnownAnswers(torch.from_numpy(everything).to(device), graph.sizes)
    queries, answer = fact_queries(torch.from_numpy(rows).to(device), len(graph.relations))
    ranks = []
    for part in torch.arange(len(answer), device=device).split(CHUNK):
        scores = model.scores(queries.take(part)).double()
        own = scores.gather(1, answer[part, None])
        row, other = known(queries.take(part))
        differs = other != answer[part][row]
        scores[row[differs], other[differs]] = -torch.inf
        ranks.append((scores > own).sum(1) + ((scores == own).sum(1) + 1) / 2)
    return torch.cat(ranks).cpu()


if __name__ == "__main__":
    main()
