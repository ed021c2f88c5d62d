"""results.json: what is read is written as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from messages import raises
from tempograph.training.run_results import RunResults

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.glob("results/icews*/*.json"), *ROOT.glob("tests/stored/**/results.json")]
SMALLEST = {"dataset": "d", "model": "ted", "protocol": "strict", "seed": 0, "config": {}}


def test_every_result_is_written_as_it_was_read() -> None:
    assert len(FILES) > 100
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        results = RunResults.from_json(json.loads(text))
        assert not results.extra
        assert json.dumps(results.to_json(), indent=2, ensure_ascii=False) + "\n" == text


def test_missing_keys_stay_out_and_unknown_ones_stay() -> None:
    results = RunResults.from_json(SMALLEST | {"later": [1]})
    assert results.finished and results.changed == {} and results.valid is None
    assert results.to_json() == SMALLEST | {"later": [1]}
    results.best_epoch, results.finished = 3, False
    assert results.to_json() == SMALLEST | {"later": [1], "best_epoch": 3, "finished": False}


def test_a_new_result_has_all_keys_that_training_knows() -> None:
    results = RunResults("d", "ted", "strict", 0, None, {})
    written = results.to_json()
    assert list(written)[:6] == ["dataset", "model", "protocol", "seed", "preset", "config"]
    assert written["best_epoch"] is None and "valid" not in written and "gate" not in written


@pytest.mark.parametrize(
    ("change", "name", "values"),
    [
        ({"seed": "0"}, "run_results.wrong_type", {"key": "seed"}),
        ({"config": {"model": 1}}, "run_results.no_sections", {}),
        ({"preset": 1}, "run_results.wrong_type", {"key": "preset"}),
        ({"changed": []}, "run_results.wrong_type", {"key": "changed"}),
        ({"dirty": "no"}, "run_results.wrong_type", {"key": "dirty"}),
        ({"parameters": "many"}, "run_results.wrong_type", {"key": "parameters"}),
        ({"valid": {"metrics": {"mrr": 0.5}}}, "run_results.no_figures", {"split": "valid"}),
    ],
)
def test_a_damaged_result_is_refused(
    change: dict[str, object], name: str, values: dict[str, str]
) -> None:
    with raises(ValueError, name, **values):
        RunResults.from_json(SMALLEST | change)


def test_evaluations_can_be_discarded() -> None:
    metrics = {"mrr": 0.5, "hits@1": 0.2, "hits@3": 0.5, "hits@10": 0.9}
    results = RunResults.from_json(
        SMALLEST | {"valid": {"metrics": metrics}, "test": {"metrics": metrics}}
    )
    assert list(results.evaluations) == ["valid", "test"]
    results.discard_evaluations()
    assert results.to_json() == SMALLEST
