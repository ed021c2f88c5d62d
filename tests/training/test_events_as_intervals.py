"""Events written as facts that hold for one step are trained and scored as the events are."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch.testing import assert_close

import tempograph
from graphs import make_graph
from spanned import as_interval_graph
from tempograph.data.timeline import Queries
from tempograph.training.runs import Run

MODELS = {
    "ted": [],
    # What suggested settings add for facts that hold for a while is switched off.
    "pointer": [
        *("train.epochs=3", "model.names=false", "model.prior=entities"),
        *("model.max_similar=0", "model.candidate_facts=false"),
    ],
    "tntcomplex": ["model.dim=8", "train.epochs=3"],
    "de-simple": ["model.dim=8", "train.epochs=3", "train.batch=times", "train.negatives=all"],
    "complex": ["model.dim=8", "train.epochs=3"],
}


@cache
def runs(model: str) -> tuple[Run, Run]:
    generator = torch.Generator().manual_seed(7)
    facts = torch.cat(
        [torch.randint(size, (150, 1), generator=generator) for size in (9, 2, 9, 6)], 1
    )
    facts = torch.unique(facts, dim=0)
    facts = facts[torch.randperm(len(facts), generator=generator)].numpy()
    events = make_graph(facts[20:], facts[:10], facts[10:20], 9, 2, 6)
    first, second = (
        tempograph.train(graph, model, overrides=MODELS[model], device="cpu", progress=False)
        for graph in (events, as_interval_graph(events))
    )
    return first, second


@pytest.mark.parametrize("model", MODELS)
def test_losses_and_scores_are_the_same(model: str) -> None:
    events, intervals = runs(model)
    assert intervals.timeline.has_intervals and not events.timeline.has_intervals
    losses = [[line["loss"] for line in run.history if "loss" in line] for run in runs(model)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    queries = Queries(*torch.cartesian_prod(torch.arange(9), torch.arange(4), torch.arange(6)).T)
    with torch.no_grad():
        expected, found = (run.model.scores(queries) for run in (events, intervals))
    assert_close(found, expected, rtol=1e-4, atol=1e-4)
