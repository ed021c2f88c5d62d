"""The Triton kernels behind paths against their twins in torch; on a GPU, or in Triton's interpreter on a CPU."""

from __future__ import annotations

import os

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
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not INTERPRETED:
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)
DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize("of_all", [False, True])
@pytest.mark.parametrize("entities", [2, 30, 1500])
def test_gains_and_slopes_equal_those_of_the_twins(
    entities: int, of_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tempograph.nn.kernels.paths_kernel import add_path_scores, grad_path_coefficients

    monkeypatch.setattr(common_neighbors, "_MIN_QUERIES_FOR_TABLES", 0 if of_all else 100)
    rng = np.random.default_rng(0)
    facts = np.unique(rng.integers(0, [min(entities, 40), 2, entities, 3], (60, 4)), axis=0)
    timeline = Timeline(
        make_graph(facts, entities=entities, relations=2, steps=3), device=torch.device(DEVICE)
    )
    known = CommonNeighbors(timeline)
    fact = torch.tensor([0, 1, -1, 2, 3, 4], device=DEVICE)
    # Of the first ones the fact is theirs.
    entity = torch.tensor(
        [*timeline.facts[:2, 0].tolist(), 0, int(timeline.facts[2, 2]), 0, 1], device=DEVICE
    )
    asked = known.queries(entity, fact)
    torch.manual_seed(0)
    scores, gain = torch.randn(6, entities, device=DEVICE), torch.randn(6, 4, device=DEVICE)
    known_to_both = gain, known.tables(asked, torch.float32), asked
    found, wanted = (
        add_path_scores(scores.clone(), *known_to_both),
        add_path_scores_torch(scores.clone(), *known_to_both),
    )
    assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    found, wanted = (
        grad_path_coefficients(scores, *known_to_both),
        grad_path_coefficients_torch(scores, *known_to_both),
    )
    assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_no_question_is_nothing() -> None:
    from tempograph.nn.kernels.paths_kernel import add_path_scores

    known = CommonNeighbors(Timeline(make_graph([(0, 0, 1, 0)]), device=torch.device(DEVICE)))
    asked = known.queries(torch.zeros(0, dtype=torch.int64, device=DEVICE))
    nothing = torch.zeros(0, known.num_entities, device=DEVICE)
    found = add_path_scores(
        nothing, torch.zeros(0, 4, device=DEVICE), known.tables(asked, torch.float32), asked
    )
    assert found.shape == (0, known.num_entities)
