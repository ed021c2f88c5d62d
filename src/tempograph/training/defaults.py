"""Settings that suit the data and the device, for runs without a preset."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tempograph.data.common_neighbors import pair_tables_fit
from tempograph.data.graph import TemporalGraph
from tempograph.device import memory_budget
from tempograph.models.registry import ModelKind
from tempograph.training.setting_values import SettingTables

Suggest = Callable[[ModelKind, TemporalGraph, torch.device], SettingTables]
"""From a kind of model, the data and the device to the tables of a preset."""


def suggest_temp(kind: ModelKind, graph: TemporalGraph, device: torch.device) -> SettingTables:
    """Settings of TeMP: wide, with large steps and all negatives on a GPU; less on a CPU."""
    steps, entities, gpu = len(graph.times), len(graph.entities), device.type == "cuda"
    dim = 256 if gpu else 64 if len(graph.train) < 50_000 else 128
    # The embeddings of all entities at the times of a step must fit into memory, and an epoch
    # should have at least a dozen steps.
    max_times = memory_budget("temp_step", device) // (8 * dim * entities)
    return {
        "model": {"dim": dim, "feature_dropout": 0.5 if gpu else 0.3, "initial_scale": 0.3},
        "train": {
            "epochs": 150 if gpu else 50,
            "times_per_step": max(1, min(32 if gpu else 8, steps // 12, max_times)),
            "negatives": "all" if gpu or entities <= 2000 else 500,
            "learning_rate": 0.005 if gpu else 0.015,
            "average": 0.98 if gpu else 0.95,
            "patience": 20 if gpu else 10,
            "precision": "tf32" if gpu else "32-true",
        },
    }


def suggest_embedding(kind: ModelKind, graph: TemporalGraph, device: torch.device) -> SettingTables:
    """Settings of an embedding method."""
    gpu, entities = device.type == "cuda", len(graph.entities)
    # Distributions allow no dropout, and scoring all entities would take too much memory.
    gaussian = kind.defaults["decoder"] == "gaussian"
    return {
        "model": {"dim": 200 if gpu else 100},
        "train": {
            "epochs": 200 if gpu else 50,
            "facts_per_step": 1000 if len(graph.train) > 20_000 else 200,
            "negatives": "all" if (gpu or entities <= 2000) and not gaussian else 500,
            "learning_rate": 0.005,
            "dropout": 0.0 if gaussian else 0.3,
            "validate_every": 5,
            "patience": 5,
            "precision": "tf32" if gpu else "32-true",
        },
    }


def suggest_pointer(kind: ModelKind, graph: TemporalGraph, device: torch.device) -> SettingTables:
    """Settings of the pointer, with paths if their tables fit into memory and so are fast."""
    return {
        "model": {"paths": pair_tables_fit(len(graph.entities), device)},
        "train": {
            "epochs": 14,
            "facts_per_step": 1000 if len(graph.train) > 20_000 else 200,
            "learning_rate": 0.01,
            "cooldown": 0.4,
            "clip": 0.0,
            "patience": 4,
        },
    }
