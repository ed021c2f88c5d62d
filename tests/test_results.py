"""Tables from results: which settings are shown, and how seeds become one row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tempograph
from graphs import make_graph
from tempograph.errors import DataError
from tempograph.results import headline_table, keep_result, load_results


def result(model: str, protocol: str, width: int, seed: int, valid: float, test: float) -> dict[str, Any]:
    def split(mrr: float) -> dict[str, Any]:
        return {"metrics": {"mrr": mrr, "hits@1": mrr / 2, "hits@3": mrr, "hits@10": mrr}}

    head = {"dataset": "icews14", "model": model, "protocol": protocol, "seed": seed}
    return head | {"config": {"model": {"dim": width}}, "valid": split(valid), "test": split(test)}


def test_the_settings_best_on_valid_are_shown_whatever_they_do_on_test() -> None:
    wide = [
        result("temp-gru", "strict", 256, seed, valid, test) for seed, valid, test in ((0, 0.6, 0.5), (1, 0.7, 0.6))
    ]
    narrow = result("temp-gru", "strict", 128, 0, 0.64, 0.99)
    (row,) = headline_table([*wide, narrow]).splitlines()[2:]
    assert row == "| icews14 | temp-gru | strict | 2 | 0.550 ± 0.050 | 27.5 | 55.0 | 55.0 | - | - | - | - |"


def test_published_figures_stand_only_beside_their_own_protocol() -> None:
    rows = headline_table([result("srgcn", protocol, 8, 0, 0.5, 0.5) for protocol in ("strict", "paper")]).splitlines()[
        2:
    ]
    assert "0.604" in rows[0] and "paper" in rows[0] and "0.604" not in rows[1]


def test_a_run_is_kept_under_its_name(tmp_path: Path) -> None:
    run = tempograph.train(make_graph([(0, 0, 1, 0)], valid=[(0, 0, 1, 2)]), "ted", overrides=["model.sigma=1"])
    path = keep_result(run, tmp_path, "sigma1")
    assert path == tmp_path / "small" / "ted-sigma1-strict-seed0.json"
    assert load_results(tmp_path) == [json.loads(json.dumps(run.results))]
    path.write_text("{")
    with pytest.raises(DataError, match=r"ted-sigma1-strict-seed0.json: not a result"):
        load_results(tmp_path)
