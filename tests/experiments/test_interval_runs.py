"""Runs on facts that hold for a while, measured as tables and reports need it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import tempograph
from intervals import interval_graph
from tempograph.data.folder import write_folder
from tempograph.data.spans import Bounds
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.worker import train_and_test
from tempograph.report.trust_report import make_trust_report, measure_questions

KNOWN = [(0, 0, 1, 0, 2, 0), (1, 0, 2, 1, 3, 0), (2, 1, 3, 0, 4, Bounds.OPEN_END)]
SINCE = [(1, 1, 3, 2, 2, Bounds.UNKNOWN_END), (1, 1, 2, 3, 3, Bounds.UNKNOWN_END)]
GRAPH = interval_graph(KNOWN, KNOWN[:1], SINCE)


def test_a_run_is_measured_though_no_test_fact_has_a_known_interval(tmp_path: Path) -> None:
    write_folder(replace(GRAPH, name="data"), tmp_path / "data")
    spec = RunSpec("data", "ted", overrides=("model.sigma=1",), device="cpu")
    spec = replace(spec, source=str(tmp_path / "data"), folder=tmp_path / "run")
    results = train_and_test(spec, lambda line: None).results
    assert set(results.intervals) == {"valid"} and set(results.paper) == {"valid", "test"}
    assert results.is_measured(("valid", "test"))
    results.intervals = {}
    assert not results.is_measured(("valid", "test"))


def test_a_trust_report_says_what_was_asked(tmp_path: Path) -> None:
    overrides = ["model.sigma=1"]
    run = tempograph.train(GRAPH, "ted", out=tmp_path / "run", overrides=overrides, device="cpu")
    measure_questions(run, lambda name: nullcontext(None))
    assert run.results.test is not None and not run.results.intervals
    make_trust_report(run, lambda name: nullcontext(None)).write(tmp_path / "trust.md")
    text = " ".join((tmp_path / "trust.md").read_text().split())
    assert "It was asked for the subject and the object of each of them." in text
    assert "Counts of the pair" not in text


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_a_run_without_valid_facts_is_evaluated(tmp_path: Path, protocol: str) -> None:
    """Its probabilities are not calibrated, so TED gives some right answers none at all."""
    train = [*KNOWN, (3, 1, 0, 2, 2, Bounds.UNKNOWN_END)]
    graph = interval_graph(train, [], [(1, 1, 3, 0, 4, 0)])
    overrides = ["model.sigma=1"]
    run = tempograph.train(graph, "ted", out=tmp_path / "run", overrides=overrides, device="cpu")
    summary = tempograph.evaluate(run, protocol=protocol, progress=False).summary()
    assert "log_loss" not in summary and 0 <= summary["calibration_error"] <= 1
