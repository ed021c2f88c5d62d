"""Every model keeps computing what it computed: losses and ranks as recorded in `recorded.json`.

After a change that is meant to change figures, record them again: python tests/test_recorded.py
"""

from __future__ import annotations

import json
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import tempograph
from tempograph.data.folder import read_folder
from tempograph.models.registry import MODELS

FILE = Path(__file__).parent / "recorded.json"
DATASET = Path(__file__).parent / "stored" / "format-1" / "ted" / "dataset"
RUNS = {name: ["model.dim=8", "train.epochs=8"] for name in MODELS} | {
    **{name: [] for name in ("ted", "recurrency", "edgebank", "history-frequency")},
    "pointer": ["train.epochs=8"],
    "ensemble": ['model.parts=["complex", "temp-sa"]', "model.steps=40"],
    "temp-pointer": ['model.parts=["pointer", "temp-gru", "tntcomplex"]', "model.steps=40"],
}

GATED = ("ensemble", "temp-pointer")


def machine() -> str:
    """What decides the last bits of a sum on the CPU."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    cpu = found[1] if found else platform.processor()
    return f"torch {torch.__version__}, {cpu}, {torch.backends.cpu.get_cpu_capability()}"


def measure(model: str) -> dict[str, Any]:
    """The loss of each epoch and both ranks of each test fact after a short training."""
    torch.set_num_threads(1)
    graph = read_folder(DATASET, "recorded")
    run = tempograph.train(graph, model, overrides=RUNS[model], device="cpu")
    ranks = tempograph.evaluate(run, "test").table()["rank"].to_pylist()
    return {"losses": [line["loss"] for line in run.history if "loss" in line], "ranks": ranks}


@cache
def recorded() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return stored


def test_every_model_is_recorded() -> None:
    assert set(recorded()["models"]) == set(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_losses_and_ranks_are_as_recorded(model: str) -> None:
    """To the last bit on the machine of the record, closely on others."""
    same_machine = recorded()["machine"] == machine()
    if model in GATED and not same_machine:
        pytest.skip(
            "the last bits of the parts, which differ here, decide how long a gate is fitted"
        )
    expected, measured = recorded()["models"][model], measure(model)
    if same_machine:
        assert measured == expected
    else:
        assert measured["losses"] == pytest.approx(expected["losses"], rel=1e-4)
        assert measured["ranks"] == pytest.approx(expected["ranks"], abs=1)


if __name__ == "__main__":
    record = {"machine": machine(), "models": {name: measure(name) for name in MODELS}}
    FILE.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
