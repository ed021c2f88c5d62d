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


def test_a_run_that_stopped_before_its_relations_is_taken_up_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, results, out = tmp_path / "icews14", tmp_path / "results", tmp_path / "out"
    write_folder(make_world(seed=2, entities=12, relations=4, steps=10, facts=200).graph, world)
    arguments = [str(world), "--models", "ted", "--device", "cpu", "--results", str(results)]
    arguments += ["--out", str(out)]
    assert measure.main(arguments) == 0
    folder, saved = out / "icews14" / "ted-paper-strict-seed0", results / "icews14"
    for file in (folder / "results.json", saved / f"{folder.name}.json"):
        whole = json.loads(file.read_text())
        file.write_text(json.dumps({key: whole[key] for key in whole if key != "time"}))
    (out / "results" / "icews14" / f"{folder.name}.json").unlink()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(measure, "train_required", stop)
        capsys.readouterr()
        assert measure.main(arguments) == 0
    text = capsys.readouterr().err
    assert "saved without them" in text and "0 of 1 runs are measured" in text
    assert not load_results(results)[0].is_measured(("valid", "test"))
    assert measure.main(arguments) == 0
    assert "1 of 1 runs are measured" in capsys.readouterr().err
    assert load_results(results)[0].is_measured(("valid", "test"))


def test_some_models_and_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = measure.wanted_runs("icews14", ["table"], ["pointer", "temp-gru"], [0, 1])
    assert {spec.model for spec in runs} == {"pointer", "temp-gru"}
    assert {(spec.preset, spec.protocol) for spec in runs if spec.model == "temp-gru"} == {
        ("tuned", "strict"),
        ("paper", "paper"),
        ("tuned-leak", "paper"),
    }
    named = measure.wanted_runs("icews14", ["names"], [], [0])
    assert [(spec.model, spec.overrides) for spec in named] == [
        ("tntcomplex", ()),
        *((model, ("model.names=true",)) for model in ("pointer", "temp-gru", "temp-pointer")),
    ]
    assert measure.main([str(tmp_path / "nowhere"), "--results", str(tmp_path)]) == 2
    assert "nowhere" in capsys.readouterr().err
