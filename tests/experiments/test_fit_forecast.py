"""Fit for forecasts: the latest facts are held out, and the run answers about the future."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import tempograph
from conftest import Call, as_json
from messages import raises
from predicting import FORECAST_GRAPH as GRAPH
from tempograph import ConfigError, DataError, FitResult, ImportOptions, Predictor
from tempograph.data.synthetic.world import make_world
from tempograph.evaluation.history import require_chronological
from tempograph.experiments.autofit import choose_model
from tempograph.report.run_report import write_report

pytestmark = pytest.mark.usefixtures("short_fits")

QUICK = ["train.epochs=2"]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("events") / "events.csv"
    graph = make_world(seed=4, entities=20, relations=5, steps=40, facts=1_000).graph
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["subject", "relation", "object", "time"])
        writer.writeheader()
        writer.writerows(graph.describe(fact) for fact in graph.all_facts)
    return path


@pytest.fixture(scope="module")
def fitted(events: Path, tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    folder = tmp_path_factory.mktemp("fit") / "run"
    return tempograph.fit(events, out=folder, task="forecast", overrides=QUICK, device="cpu")


def test_a_fit_for_forecasts_holds_out_the_latest_facts(fitted: FitResult) -> None:
    run = fitted.run
    require_chronological(run.graph)
    assert fitted.choice.model == "pointer" and run.config.protocol == "forecast-single"
    assert run.import_options is not None and run.import_options.split == "chronological"
    summary = fitted.summary()
    assert summary["task"] == "forecast" and summary["finished"]
    assert summary["occurrence"]["proposals"] > 0
    assert [each["asked"] for each in summary["figures"]] == ["entity"]
    assert summary["figures"][0]["baseline"] == "recurrency"
    assert "each forecast from the facts before it" in fitted.describe()
    later = Predictor(run).objects(0, 0, "+1", top=2)
    assert later.answers and "1 day after the last known fact" in later.notes[0]


def test_the_trust_report_is_about_the_future(fitted: FitResult) -> None:
    assert fitted.report is not None and fitted.trust is not None
    page = fitted.report.read_text(encoding="utf-8")
    for text in (
        "how well the next step is forecast",
        "recurrency",
        "What comes next",
        "Will it happen? One step ahead",
        "tempograph forecast",
        "What is most surprising",
    ):
        assert text in page, text
    for text in ("when: (s, r, o, ?)", "What may be missing", "Train facts at the time step"):
        assert text not in page, text
    assert fitted.trust.forecast is not None and fitted.trust.missing is None
    card = (fitted.run.path / "README.md").read_text()  # type: ignore[operator]
    assert "answered from all facts before its time" in card and "`forecast`, `backtest`" in card


def test_reports_explain_the_protocol(fitted: FitResult, tmp_path: Path) -> None:
    assert fitted.run.path is not None
    write_report([fitted.run.path], tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "A forecast rests on facts before the query" in text and "Paper:" not in text


def test_splits_that_do_not_fit_are_refused(events: Path, tmp_path: Path) -> None:
    def fit(facts: object = events, **options: object) -> FitResult:
        return tempograph.fit(  # type: ignore[no-any-return, call-overload]
            facts, out=tmp_path / "run", task="forecast", overrides=QUICK, **options
        )

    with raises(ConfigError, "autofit.random_split"):
        fit(options=ImportOptions(split="random"))
    with raises(ConfigError, "autofit.keep_holdout"):
        fit(keep_holdout=True)
    with raises(ConfigError, "autofit.search"):
        fit(minutes=1)
    with pytest.raises(DataError, match="a forecast needs splits by time"):
        fit(replace(GRAPH, train=GRAPH.test, test=GRAPH.train))
    assert not (tmp_path / "run").exists()


def test_data_with_splits_by_time_keeps_them(tmp_path: Path) -> None:
    fitted = tempograph.fit(
        GRAPH, out=tmp_path / "run", task="forecast", model="recurrency", device="cpu"
    )
    assert fitted.run.graph.same_as(GRAPH) and fitted.trust is not None
    assert fitted.trust.figures.questions[0]["baseline"] is None, "it is the baseline itself"


def test_the_model_suits_the_task_and_the_device() -> None:
    for device, model in (("cpu", "pointer"), ("cuda", "temp-pointer")):
        assert choose_model(GRAPH, torch.device(device), "forecast").model == model
    strangers = replace(GRAPH, valid=GRAPH.valid[:0])
    assert choose_model(strangers, torch.device("cpu"), "forecast").model == "complex"


def test_the_command(call: Call, events: Path) -> None:
    arguments = (str(events), "--out", "run", "--task", "forecast", "--model", "recurrency")
    code, out, err = call("fit", *arguments)
    assert code == 0, err
    assert "--time +1, or tempograph forecast run" in out and "recurrency" in out
    assert "each forecast from the facts before it" in out
    assert len(as_json(call("forecast", "run", "--top", "1", "--json"))["facts"]) == 1
    code, out, _ = call("report", "run", "--trust", "--out", "again.html")
    assert code == 0 and Path("again.html").is_file()
    code, _, err = call("fit", str(events), "--out", "x", "--task", "forecast", "--split", "random")
    assert code == 2 and "cannot be split at random" in err
