"""The benchmark of many entities at a tiny size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_benchmark_writes_the_cost_and_the_figures_of_each_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import many_entities

    file = tmp_path / "results.json"
    many_entities.main(
        [
            *("--worlds", "60,90", "--models", "ted,tntcomplex", "--epochs", "2"),
            *("--questions", "40", "--device", "cpu", "--json", str(file)),
            *("model.dim=8", "train.negatives=20", "train.negative_sampling=mixed"),
        ]
    )
    assert "tntcomplex" in capsys.readouterr().out
    results = json.loads(file.read_text())["results"]
    assert [(result["entities"], result["model"]) for result in results] == [
        (60, "ted"),
        (60, "tntcomplex"),
        (90, "ted"),
        (90, "tntcomplex"),
    ]
    for result in results:
        assert result["train_facts"] == 10 * result["entities"]
        assert result["questions"] == 40 and 0 < result["metrics"]["mrr"] <= 1
        assert result["ranking_seconds"] > 0 and result["peak_bytes"] > 0
    assert results[1]["epochs"] == 2 and results[1]["microseconds_per_fact"] > 0
