"""The tables of forecasts, from published rows and from results."""

from __future__ import annotations

import json

import pytest

from tempograph.experiments.configurations import uses_names
from tempograph.experiments.forecast_tables import forecast_summary, forecast_table
from tempograph.training.run_results import RunResults

DATASET = "icews14-forecast"


def result(model: str, seed: int, mrr: float, names: bool | None = None) -> RunResults:
    metrics = {"mrr": mrr, "mr": 9.0, "hits@1": mrr / 2, "hits@3": 0.3, "hits@10": 0.4}
    data = {
        "dataset": DATASET,
        "model": model,
        "protocol": "forecast-single",
        "seed": seed,
        "config": {"run": {}, "model": {} if names is None else {"names": names}, "train": {}},
        "valid": {"metrics": metrics},
        "test": {"metrics": metrics},
        "multi_step": {"test": {"metrics": metrics | {"mrr": mrr / 2}}},
        "hardware": "a machine",
    }
    return RunResults.from_json(json.loads(json.dumps(data)))


def test_other_models_follow_those_with_a_place() -> None:
    runs = [result(model, 0, 0.2) for model in ("srgcn", "complex", "pointer", "ted", "my-model")]
    runs += [result("pointer", 1, 0.4), result("pointer", 0, 0.5, names=True)]
    table = forecast_table(runs, DATASET)
    ours = {row[0]: row[2:] for row in table.rows if row[1] == "ours"}
    assert list(ours) == ["ted", "pointer", "pointer with names", "complex", "my-model", "srgcn"]
    assert ours["pointer"] == ["2", "30.0 ± 10.0", "15.0", "30.0", "40.0", "15.0 ± 5.0", "40.0"]
    assert [row[0] for row in forecast_summary(runs).rows][-2:] == ["pointer", "pointer with names"]


@pytest.mark.parametrize(("names", "found"), [(None, False), (False, False), (True, True)])
def test_names_are_used_if_a_run_was_asked_to(names: bool | None, found: bool) -> None:
    run = result("pointer", 0, 0.2, names)
    assert uses_names(run) == found
    run.asked = {"names": not found}
    assert uses_names(run) != found, "what was asked for counts, not what fitting chose"
