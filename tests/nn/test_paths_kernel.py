"""The Triton kernels of two-step paths against their twins in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from graphs import make_graph
from tempograph.data import common_neighbors
from tempograph.data.common_neighbors import CommonNeighbors
from tempograph.data.timeline import Timeline
from tempograph.models.pointer.paths import add_path_scores_torch, grad_path_coefficients_torch

pytest.importorskip("triton", reason="needs Triton")
pytestmark = pytest.mark.usefixtures("triton_interpreter")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("tables_of_all", [False, True])
@pytest.mark.parametrize("entities", [2, 30, 1500])
def test_scores_and_gradients_equal_those_of_the_twins(
    entities: int, tables_of_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tempograph.nn.kernels.paths_kernel import add_path_scores, grad_path_coefficients

    monkeypatch.setattr(common_neighbors, "_MIN_QUERIES_FOR_TABLES", 0 if tables_of_all else 100)
    rng = np.random.default_rng(0)
    facts = np.unique(rng.integers(0, [min(entities, 40), 2, entities, 3], (60, 4)), axis=0)
    timeline = Timeline(
        make_graph(facts, entities=entities, relations=2, steps=3), device=torch.device(DEVICE)
    )
    neighbors = CommonNeighbors(timeline)
    fact = torch.tensor([0, 1, -1, 2, 3, 4], device=DEVICE)
    # The first queries are about an entity of the fact that is left out.
    entity = torch.tensor(
        [*timeline.facts[:2, 0].tolist(), 0, int(timeline.facts[2, 2]), 0, 1], device=DEVICE
    )
    queries = neighbors.queries(entity, fact)
    torch.manual_seed(0)
    scores, coefficients = (torch.randn(6, width, device=DEVICE) for width in (entities, 4))
    inputs = coefficients, neighbors.tables(queries, torch.float32), queries
    actual = add_path_scores(scores.clone(), *inputs)
    expected = add_path_scores_torch(scores.clone(), *inputs)
    assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    grad = grad_path_coefficients(scores, *inputs)
    expected = grad_path_coefficients_torch(scores, *inputs)
    assert_close(grad, expected, rtol=1e-4, atol=1e-4)


def test_no_queries() -> None:
    from tempograph.nn.kernels.paths_kernel import add_path_scores

    neighbors = CommonNeighbors(Timeline(make_graph([(0, 0, 1, 0)]), device=torch.device(DEVICE)))
    queries = neighbors.queries(torch.zeros(0, dtype=torch.int64, device=DEVICE))
    scores = torch.zeros(0, neighbors.num_entities, device=DEVICE)
    coefficients = torch.zeros(0, 4, device=DEVICE)
    tables = neighbors.tables(queries, torch.float32)
    assert add_path_scores(scores, coefficients, tables, queries).shape == scores.shape
