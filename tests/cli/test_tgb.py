"""evaluate --protocol tgb: figures by other rules, kept beside the usual ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from make_tgb_files import make_tgb_files

import tempograph
from conftest import Call, as_json
from messages import message, raises
from tempograph import Run
from tempograph.data.folder import write_folder
from tempograph.data.importers.tgb_reader import read_tgb
from tempograph.errors import ConfigError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run on a small dataset in the layout of tkgl-icews."""
    graph = read_tgb(make_tgb_files("tkgl-icews", tmp_path / "made"), "tkgl-icews", "day")
    write_folder(graph, tmp_path / "tkgl-icews")
    tempograph.train(tmp_path / "tkgl-icews", "ted", out=tmp_path / "run", device="cpu")
    return tmp_path / "run"


def results(run: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((run / "results.json").read_text())
    return found


def test_figures_are_stored_beside_the_usual_ones(call: Call, run: Path) -> None:
    usual = as_json(call("evaluate", str(run), "--json"))
    before, ranks = results(run), (run / "ranks.parquet").read_bytes()
    assert "tgb" not in before
    same = as_json(call("evaluate", str(run), "--protocol", "tgb", "--json"))
    assert same["metrics"] == usual["metrics"] and same["rules"] == "tgb"
    assert same["protocol"] == "strict" and "negatives" not in same
    sampled = as_json(
        call("evaluate", str(run), "--protocol", "tgb", "--negatives", "10", "--json")
    )
    assert sampled["negatives"] == 10 and sampled["metrics"]["mrr"] > usual["metrics"]["mrr"]
    assert "calibration_error" in usual and "calibration_error" not in sampled
    after = results(run)
    assert after.pop("tgb") == {"test": sampled} and after == before
    assert (run / "ranks.parquet").read_bytes() == ranks
    assert Run.load(run).results.tgb["test"]["negatives"] == 10


def test_sampled_ranks_are_named_in_the_table(call: Call, run: Path) -> None:
    code, out, _ = call("evaluate", str(run), "--protocol", "tgb", "--negatives", "10")
    assert code == 0 and "71 facts, sampled ranks" in out
    basis = "protocol strict, rules tgb, filter time, each answer ranked among 10 sampled entities"
    assert basis in " ".join(out.split())
    code, out, _ = call("evaluate", str(run), "--protocol", "tgb")
    assert code == 0 and "rules tgb" in out and "sampled" not in out


def test_options_that_do_not_go_together_are_refused(call: Call, run: Path) -> None:
    for options in (["--ask", "relation"], ["--ask", "all"], ["--check"]):
        code, _, err = call("evaluate", str(run), "--protocol", "tgb", *options)
        assert code == 2 and message("evaluate.tgb") in " ".join(err.split())
    code, _, err = call("evaluate", str(run), "--protocol", "paper", "--ask", "time")
    assert code == 2 and message("evaluate.paper") in " ".join(err.split())
    with raises(ConfigError, "run_evaluation.tgb", ask="entity", filter="static"):
        tempograph.evaluate(run, protocol="tgb", filter="static")
    with raises(ConfigError, "run_evaluation.negatives"):
        tempograph.evaluate(run, negatives=10)
    with raises(ConfigError, "relation_negatives.too_many", count="1,000", entities="40"):
        tempograph.evaluate(run, protocol="tgb", negatives=1_000, progress=False)


def test_figures_are_dropped_with_the_weights_they_were_measured_with(run: Path) -> None:
    loaded = Run.load(run)
    tempograph.evaluate(loaded, protocol="tgb", progress=False)
    assert loaded.results.tgb
    loaded.discard_evaluations()
    assert not loaded.results.tgb and "tgb" not in results(run)
