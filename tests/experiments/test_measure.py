"""scripts/measure.py: what is due is trained once, and again when the code is another."""

from __future__ import annotations

import json
from pathlib import Path

import measure
import pytest

from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.experiments.results import load_results


def test_a_run_is_due_until_it_is_measured_with_this_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world, results = tmp_path / "icews14", tmp_path / "results"
    write_folder(make_world(seed=2, entities=12, relations=4, steps=10, facts=200).graph, world)
    arguments = [str(world), "--what", "ted", "--device", "cpu", "--results", str(results)]

    def measured(out: str) -> str:
        assert measure.main([*arguments, "--out", str(tmp_path / out)]) == 0
        return capsys.readouterr().err

    assert "7 of 7 runs are missing" in measured("first")
    assert len(load_results(results, ("valid", "test"))) == 7
    assert "missing" not in measured("second"), "everything is measured with this code"
    old = next(results.glob("icews14/*sigma-100-*"))
    old.write_text(json.dumps(json.loads(old.read_text()) | {"code": "0" * 64}))
    text = measured("third")
    assert "1 of 7 runs are missing" in text
    assert "7 of 7 runs are measured with this code" in text
    assert "0" * 64 not in old.read_text()


def test_some_models_and_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = measure.wanted_runs("icews14", ["table"], ["pointer", "temp-gru"], [0, 1])
    assert {spec.model for spec in runs} == {"pointer", "temp-gru"}
    assert {(spec.preset, spec.protocol) for spec in runs if spec.model == "temp-gru"} == {
        ("tuned", "strict"),
        ("paper", "paper"),
        ("tuned-leak", "paper"),
    }
    assert measure.main([str(tmp_path / "nowhere"), "--results", str(tmp_path)]) == 2
    assert "nowhere" in capsys.readouterr().err
