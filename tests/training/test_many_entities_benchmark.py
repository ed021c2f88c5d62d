"""The benchmark of many entities at a tiny size."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program, with the modules beside it."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import many_entities

    return many_entities


def test_the_benchmark_writes_the_cost_and_the_figures_of_each_model(
    tmp_path: Path, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    benchmark.main(
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
        assert result["ranking_seconds"] > 0 and result["training_peak_bytes"] > 0
    assert results[1]["epochs"] == 2 and results[1]["microseconds_per_fact"] > 0


def test_training_ends_within_an_epoch_when_the_minutes_are_over(
    tmp_path: Path, benchmark: Any
) -> None:
    file = tmp_path / "results.json"
    small = ["--questions", "10", "--device", "cpu", "--json", str(file)]
    settings = ["model.dim=8", "train.facts_per_step=20"]
    options = ["--worlds", "60", "--minutes", "0"]
    benchmark.main([*options, "--models", "ted,tntcomplex=3", *small, *settings])
    ted, result = json.loads(file.read_text())["results"]
    assert result["epochs"] == pytest.approx(1 / 30)
    # The time of one of 30 steps, for a whole epoch.
    assert result["epoch_seconds"] > 0
    # A second call replaces what it measures again, and nothing else.
    benchmark.main(["--worlds", "60", "--models", "tntcomplex=1", *small, *settings])
    assert [each["model"] for each in json.loads(file.read_text())["results"]] == [
        "ted",
        "tntcomplex",
    ]
    kept, new = json.loads(file.read_text())["results"]
    assert (kept, new["epochs"]) == (ted, 1)


def test_a_picture_of_the_costs_needs_three_sizes(tmp_path: Path, benchmark: Any) -> None:
    def result(entities: int, dataset: str = "curve") -> dict[str, Any]:
        return {
            "dataset": f"{dataset}-{entities}",
            "model": "pointer",
            "hardware": "a GPU",
            "entities": entities,
            "train_facts": 10 * entities,
            "microseconds_per_fact": 2.0,
            "training_peak_bytes": 3 * 2**20,
        }

    import many_entities_picture

    measured = {"environment": {"hardware": "a GPU"}, "results": [result(10), result(100)]}
    file, picture = tmp_path / "results.json", tmp_path / "curves.svg"
    file.write_text(json.dumps(measured))
    with pytest.raises(SystemExit, match="three worlds"):
        many_entities_picture.main([str(file), str(picture)])
    measured["results"] += [result(1000), result(433_000, "world-s")]
    file.write_text(json.dumps(measured))
    many_entities_picture.main([str(file), str(picture)])
    text = picture.read_text()
    assert "pointer" in text and "entities" in text
