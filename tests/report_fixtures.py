"""Evaluated runs on data with hostile names, and the report on them, made once in a session."""

from __future__ import annotations

from pathlib import Path

import pytest

import tempograph
from tempograph import TemporalGraph
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.report.run_report import write_report

TINY = [
    "model.dim=8",
    "model.window=2",
    "model.heads=2",
    "train.epochs=2",
    "train.times_per_step=8",
]


@pytest.fixture(scope="session")
def hostile_name() -> str:
    return "<script>alert('x')</script> & \"$\\frac|`*_"


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, hostile_name: str) -> Path:
    """Three evaluated runs on data with hostile names, and one on other data, not evaluated."""
    folder = tmp_path_factory.mktemp("runs")
    graph = make_world(entities=30, relations=6, steps=24, facts=400).graph
    odd = TemporalGraph(
        "odd",
        tuple(f"{name} {hostile_name}" for name in graph.entities),
        tuple(f"{name} {hostile_name}" for name in graph.relations),
        graph.times,
        graph.train,
        graph.valid,
        graph.test,
    )
    write_folder(odd, folder / "<b>odd & $x")
    for model in ("ted", "temp-gru", "temp-sa"):
        overrides = [] if model == "ted" else TINY
        run = tempograph.train(
            folder / "<b>odd & $x", model, out=folder / model, overrides=overrides, device="cpu"
        )
        for split in ("valid", "test"):
            tempograph.evaluate(run, split)
    write_folder(
        make_world(seed=3, entities=20, relations=4, steps=12, facts=300).graph, folder / "other"
    )
    tempograph.train(folder / "other", "ted", out=folder / "bare run")
    return folder


@pytest.fixture(scope="session")
def report_page(runs: Path) -> Path:
    path = runs / "report.html"
    write_report(
        [runs / name for name in ("ted", "temp-gru", "temp-sa", "bare run")], path, window=3
    )
    return path
