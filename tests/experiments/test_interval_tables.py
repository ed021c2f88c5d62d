"""The table of facts that hold for a while, from published rows and from results."""

from __future__ import annotations

import json

import measure

from tempograph.experiments.interval_tables import (
    INTERVAL_MODELS,
    interval_table,
    published_intervals,
)
from tempograph.training.run_results import RunResults


def result(
    model: str, seed: int, mrr: float, names: bool = False, valid: float = 0.2
) -> RunResults:
    def summary(figure: float) -> dict[str, object]:
        metrics = {"mrr": figure, "mr": 9.0, "hits@1": figure / 2, "hits@3": 0.3, "hits@10": 0.4}
        return {"metrics": metrics}

    intervals = {"aeiou@1": mrr / 4, "giou@1": -0.1, "tac": 0.3}
    data = {
        "dataset": "yago11k",
        "model": model,
        "protocol": "strict",
        "seed": seed,
        "config": {"run": {}, "model": {"names": names, "valid": valid}, "train": {}},
        "valid": summary(valid),
        "test": summary(mrr),
        "paper": {"test": summary(mrr + 0.1)},
        "intervals": {"test": {"metrics": intervals}},
        "hardware": "a machine",
    }
    return RunResults.from_json(json.loads(json.dumps(data)))


def test_published_rows_stand_without_any_measurement() -> None:
    table = interval_table([], "yago11k")
    assert [row[0] for row in table.rows] == ["TNTComplEx", "TeRo", "TeLM", "TimePlex", "TPAR"]
    timeplex = dict(zip(table.columns[-3:], table.rows[3][-3:], strict=True))
    assert timeplex == {"aeIOU@1": "20.0", "gIOU@1": "-", "TAC": "-"}
    assert table.rows[4][4:7] == ["24.1", "17.4", "37.4"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert all(row.filter for row in published_intervals("yago11k"))
    assert not published_intervals("icews14")


def test_our_rows_are_means_of_the_settings_that_are_best_on_valid() -> None:
    runs = [result("pointer", 0, 0.24), result("pointer", 1, 0.32)]
    runs += [result("pointer", 0, 0.9, valid=0.1), result("pointer", 0, 0.4, names=True)]
    runs.append(result("tntcomplex", 0, 0.1))
    table = interval_table(runs, "yago11k")
    ours = {row[0]: row[3:] for row in table.rows[5:]}
    assert list(ours) == ["tntcomplex", "pointer", "pointer with names"]
    seeds, mrr, hits, _, every, _, _, aeiou, _, tac = ours["pointer"]
    assert (seeds, mrr, every) == ("2", "38.0 ± 4.0", "28.0 ± 4.0")
    assert (hits, aeiou, tac) == ("19.0 ± 2.0", "7.0 ± 1.0", "30.0 ± 0.0")
    assert ours["pointer with names"][1] == "50.0"


def test_measure_trains_every_row() -> None:
    runs = measure.wanted_runs("yago11k", ["intervals"], [], [0, 1, 2])
    assert {spec.model for spec in runs} == set(INTERVAL_MODELS)
    assert all(spec.protocol == "strict" for spec in runs)
    pointers = {(spec.overrides, spec.seed) for spec in runs if spec.model == "pointer"}
    assert pointers == {((), 0), ((), 1), ((), 2), (("model.names=true",), 0)}
    assert [spec.seed for spec in runs if spec.model == "ted"] == [0]
