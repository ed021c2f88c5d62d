"""Sensible settings from the size of the data and the machine, for those who name no preset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tempograph.data.common_neighbors import pair_tables_fit
from tempograph.data.graph import TemporalGraph
from tempograph.device import memory_budget
from tempograph.models.registry import ModelKind

Suggest = Callable[[ModelKind, TemporalGraph, torch.device], dict[str, dict[str, Any]]]
"""Settings of a model that is trained by gradient, as the tables of a preset."""


def suggest_temp(
    kind: ModelKind, graph: TemporalGraph, device: torch.device
) -> dict[str, dict[str, Any]]:
    """Settings of TeMP.

    A GPU takes wide vectors, large steps and every entity as a negative; a CPU gets less of each.
    """
    steps, entities, gpu = len(graph.times), len(graph.entities), device.type == "cuda"
    dim = 256 if gpu else 64 if len(graph.train) < 50_000 else 128
    # Tables of all entities at each time of a step must fit; and an epoch of less than a dozen steps learns slowly.
    fits = memory_budget("temp_step", device) // (8 * dim * entities)
    return {
        "model": {"dim": dim, "feature_dropout": 0.5 if gpu else 0.3, "initial_scale": 0.3},
        "train": {
            "epochs": 150 if gpu else 50,
            "times_per_step": max(1, min(32 if gpu else 8, steps // 12, fits)),
            "negatives": "all" if gpu or entities <= 2000 else 500,
            "learning_rate": 0.005 if gpu else 0.015,
            "average": 0.98 if gpu else 0.95,
            "patience": 20 if gpu else 10,
            "precision": "tf32" if gpu else "32-true",
        },
    }


def suggest_embedding(
    kind: ModelKind, graph: TemporalGraph, device: torch.device
) -> dict[str, dict[str, Any]]:
    """Settings of an embedding method."""
    gpu, entities = device.type == "cuda", len(graph.entities)
    # Vectors that are distributions take no dropout, and never all entities at once.
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


def suggest_pointer(
    kind: ModelKind, graph: TemporalGraph, device: torch.device
) -> dict[str, dict[str, Any]]:
    """Settings of the pointer: by paths where they are looked up in tables, and would not take longer than all else."""
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
