"""How much memory budgets leave on GPUs of several sizes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from graphs import make_graph
from tempograph.data import common_neighbors as acquaintances
from tempograph.data.common_neighbors import pair_tables_fit
from tempograph.data.timeline import Queries
from tempograph.device import memory_budget
from tempograph.evaluation import evaluator as evaluation
from tempograph.evaluation.evaluator import query_batches
from tempograph.models.embedding import embedding
from tempograph.models.registry import model_kind
from tempograph.models.temp import temp
from tempograph.nn import decoders
from tempograph.training import defaults as suggest
from tempograph.training.defaults import suggest_temp
from tempograph.training.losses import embedding_loss, pointer_loss

CPU, GPU = torch.device("cpu"), torch.device("cuda")
GIBIBYTE = 2**30
BUDGETS = {
    "ranking": evaluation._BUDGET,
    "embedding": embedding._TABLE_BUDGET,
    "temp": temp._TABLE_BUDGET,
    "decoders": decoders._DIFFERENCES,
    "acquaintances": acquaintances._TABLES,
    "whole times": embedding_loss._SCORES,
    "pointer": pointer_loss._SCORES,
    "suggest": suggest._STEP,
}


def with_gpu(gibibytes: float, patch: pytest.MonkeyPatch) -> None:
    """As if there were a GPU with so much memory."""
    found = SimpleNamespace(total_memory=int(gibibytes * GIBIBYTE))
    patch.setattr(torch.cuda, "get_device_properties", lambda _: found)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("gibibytes", [64, 80, 139])
def test_a_large_gpu_gets_whole_budgets(
    budget: dict[str, int], gibibytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_gpu(gibibytes, monkeypatch)
    assert memory_budget(budget, GPU) == budget["cuda"]


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_a_small_gpu_gets_an_eighth_of_its_memory_at_most(
    budget: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for gibibytes in (4, 8, 11.75, 24):
        with_gpu(gibibytes, monkeypatch)
        assert memory_budget(budget, GPU) == min(budget["cuda"], int(gibibytes * GIBIBYTE) // 8)
        assert memory_budget(budget, CPU) == budget["cpu"]


def test_less_is_done_at_once_where_there_is_less_room(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Queries(*(torch.zeros(1000, dtype=torch.int64) for _ in range(3)))
    model = SimpleNamespace(device=GPU, bytes_per_candidate=24)
    known = SimpleNamespace(num_entities=2**20, num_relations=1)
    graph = make_graph([(0, 0, 1, step) for step in range(400)], entities=2**16, steps=400)
    found = []
    for gibibytes in (139, 8):
        with_gpu(gibibytes, monkeypatch)
        at_once = len(next(query_batches(model, queries, known)))
        times = suggest_temp(model_kind("temp-gru"), graph, GPU)["train"]["times_per_step"]
        found.append((at_once, times, pair_tables_fit(32_000, GPU), pair_tables_fit(11_000, GPU)))
    assert found == [(2**12 // 24, 32, True, True), (2**10 // 24, 8, False, True)]
