"""How much memory each purpose gets on GPUs of several sizes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from graphs import make_graph
from tempograph.data.common_neighbors import pair_tables_fit
from tempograph.data.timeline import Queries
from tempograph.device import MEMORY_BUDGETS, memory_budget
from tempograph.evaluation.evaluator import query_batches
from tempograph.models.registry import model_kind
from tempograph.models.sparse_scores import MANY_ENTITIES
from tempograph.training.defaults import suggest_temp

CPU, GPU = torch.device("cpu"), torch.device("cuda")
GIBIBYTE = 2**30


def with_gpu(gibibytes: float, patch: pytest.MonkeyPatch) -> None:
    """Pretend that there is a GPU with this much memory."""
    properties = SimpleNamespace(total_memory=int(gibibytes * GIBIBYTE))
    patch.setattr(torch.cuda, "get_device_properties", lambda _: properties)


@pytest.mark.parametrize("purpose", MEMORY_BUDGETS)
@pytest.mark.parametrize("gibibytes", [64, 80, 139])
def test_a_large_gpu_gets_whole_budgets(
    purpose: str, gibibytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_gpu(gibibytes, monkeypatch)
    assert memory_budget(purpose, GPU) == MEMORY_BUDGETS[purpose].cuda


@pytest.mark.parametrize("purpose", MEMORY_BUDGETS)
def test_a_small_gpu_gets_an_eighth_of_its_memory_at_most(
    purpose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = MEMORY_BUDGETS[purpose]
    for gibibytes in (4, 8, 11.75, 24):
        with_gpu(gibibytes, monkeypatch)
        assert memory_budget(purpose, GPU) == min(budget.cuda, int(gibibytes * GIBIBYTE) // 8)
        assert memory_budget(purpose, CPU) == budget.cpu


def test_a_smaller_gpu_gets_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Queries(*(torch.zeros(1000, dtype=torch.int64) for _ in range(3)))
    model = SimpleNamespace(device=GPU, bytes_per_candidate=24)
    known = SimpleNamespace(num_entities=2**20, num_relations=1)
    # With more entities, TeMP encodes few of them.
    entities = MANY_ENTITIES - 1
    graph = make_graph([(0, 0, 1, step) for step in range(400)], entities=entities, steps=400)
    chunks = []
    for gibibytes in (139, 8):
        with_gpu(gibibytes, monkeypatch)
        batch_size = len(next(query_batches(model, queries, known)))
        times = suggest_temp(model_kind("temp-gru"), graph, GPU, "complete")["train"][
            "times_per_step"
        ]
        tables = pair_tables_fit(32_000, GPU), pair_tables_fit(11_000, GPU)
        chunks.append((batch_size, times, *tables))
    assert chunks == [(2**12 // 24, 32, True, True), (2**10 // 24, 17, False, True)]
