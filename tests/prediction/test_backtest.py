"""A replay of a period equals an evaluation of its facts, and a loop that learns day by day."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from torch.testing import assert_close

import tempograph
from conftest import Call, as_json, benchmark
from messages import raises
from predicting import FORECAST_GRAPH as GRAPH
from tempograph import DataError, QueryError, Run, RunError
from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Timeline
from tempograph.evaluation.evaluator import rank_facts
from tempograph.evaluation.ranking import metrics
from tempograph.report.backtest_report import backtest_figure, backtest_table, write_backtest
from tempograph.training.occurrence_proposals import OccurrenceProposals

pytest_plugins = ("forecast_fixtures",)
FIRST = 42
"""The first step of test."""


def names(facts: np.ndarray, times: tuple[str, ...] = GRAPH.times) -> list[dict[str, str]]:
    graph = replace(GRAPH, times=times)
    return [graph.describe(fact) for fact in facts]


def test_figures_equal_an_evaluation_of_the_same_facts(forecast_run: Run) -> None:
    evaluation = tempograph.evaluate(forecast_run, "test")
    found = tempograph.backtest(forecast_run)
    assert found.metrics == evaluation.summary()["metrics"] and found.facts == len(GRAPH.test)
    ranks, step = evaluation.ranks.realistic, torch.from_numpy(GRAPH.test[:, 3]).repeat(2)
    for row, number in zip(found.steps, range(FIRST, 50), strict=True):
        own = ranks[step == number]
        assert row.time == GRAPH.times[number] and row.facts == len(own) // 2
        assert row.mrr == metrics(own)["mrr"] and row.hits_10 == metrics(own)["hits@10"]


def test_a_replay_equals_a_loop_that_learns_day_by_day(forecast_run: Run) -> None:
    first, last = 43, 46
    found = tempograph.backtest(forecast_run, first=GRAPH.times[first], last=GRAPH.times[last])
    classifier = forecast_run.questions.occurrence()
    calibrator = forecast_run.questions.calibrator()
    for row, step in zip(found.steps, range(first, last + 1), strict=True):
        # Nothing but the facts of the days before exists.
        history = replace(GRAPH, train=GRAPH.all_facts[GRAPH.all_facts[:, 3] < step])
        timeline = Timeline(history, "forecast-single")
        model = forecast_run.model.with_timeline(timeline).eval()
        today = GRAPH.all_facts[GRAPH.all_facts[:, 3] == step]
        known = KnownAnswers(torch.from_numpy(today), GRAPH.sizes)
        with torch.inference_mode():
            ranks = rank_facts(model, torch.from_numpy(today), known).realistic
        expected = metrics(ranks)
        assert row.facts == len(today)
        assert row.mrr == pytest.approx(expected["mrr"], abs=1e-9)
        assert row.hits_1 == expected["hits@1"] and row.hits_10 == expected["hits@10"]
        source = OccurrenceProposals(model, timeline, calibrator)
        proposals = source.propose(classifier, step, step)
        probability = classifier.probability(
            proposals.features, source.log_probs(proposals.facts, step), proposals.recurring
        )
        happened = torch.tensor(
            [fact in today.tolist() for fact in proposals.facts.tolist()], dtype=torch.float64
        )
        assert row.proposals == len(happened) and row.happened == int(happened.sum())
        assert_close(torch.tensor(row.expected, dtype=torch.float64), probability.sum())
        assert row.brier == pytest.approx(float((probability - happened).square().mean()))


def test_events_after_the_data_enter_the_history(recurrency_run: Run, tmp_path: Path) -> None:
    """The test facts as a file give what the test split gives."""
    whole = tempograph.backtest(recurrency_run)
    cut = replace(GRAPH, test=GRAPH.test[:0], times=GRAPH.times[:FIRST])
    short = replace(recurrency_run, graph=cut, timeline=Timeline(cut, "forecast-single"), path=None)
    rows = names(GRAPH.test)
    lines = ["subject,relation,object,time"] + [",".join(row.values()) for row in rows]
    file = tmp_path / "events.csv"
    file.write_text("\n".join([*lines, "Nobody,visits,Nobody,2030-02-15"]))
    for events in (rows, file):
        found = tempograph.backtest(short, events)
        assert [row.mrr for row in found.steps] == pytest.approx([row.mrr for row in whole.steps])
        assert [row.time for row in found.steps] == [row.time for row in whole.steps]
    assert any("1 of" in note and "cannot be replayed" in note for note in found.notes)


def test_an_updated_run_replays_what_comes_after_its_updates(recurrency_run: Run) -> None:
    who = GRAPH.entities[0]
    first = [(who, "visits", "Zoe", "2030-02-20"), ("Zoe", "visits", who, "2030-02-20")]
    second = [(who, "visits", "Zoe", "2030-02-21")]
    updated = tempograph.update(recurrency_run, first, save=False).run
    found = tempograph.backtest(updated, second)
    assert (found.facts, found.notes) == (1, ()) and found.steps[0].time == "2030-02-21"
    # The fact of the day before is known: who visits Zoe comes first.
    assert found.metrics is not None and found.metrics["hits@1"] >= 0.5
    both = tempograph.backtest(updated, [*first, *second], first="2030-02-21")
    assert both.metrics == found.metrics


def test_facts_that_the_model_was_trained_on_are_not_replayed(recurrency_run: Run) -> None:
    rows = names(np.concatenate([GRAPH.train[-5:], GRAPH.test[:9]]))
    found = tempograph.backtest(recurrency_run, rows)
    assert found.facts == len(np.unique(GRAPH.test[:9], axis=0))
    assert any("5 facts are not later than" in note for note in found.notes)
    with pytest.raises(DataError, match="there are no facts to replay; 5 facts are not later"):
        tempograph.backtest(recurrency_run, names(GRAPH.train[-5:]))


def test_valid_is_replayed_with_a_warning(recurrency_run: Run) -> None:
    found = tempograph.backtest(recurrency_run, split="valid")
    expected = tempograph.evaluate(recurrency_run, "valid").summary()["metrics"]
    assert found.metrics == expected and "chosen and probabilities calibrated" in found.notes[0]


def test_wrong_requests_are_explained(recurrency_run: Run) -> None:
    with pytest.raises(QueryError, match="no fact to replay from 2030-01-02 to 2030-01-05; the"):
        tempograph.backtest(recurrency_run, first="2030-01-02", last="2030-01-05")
    with pytest.raises(QueryError, match="not on the time grid"):
        tempograph.backtest(recurrency_run, first="yesterday")
    with raises(QueryError, "backtesting.train"):
        tempograph.backtest(recurrency_run, split="train")
    complete = tempograph.train(GRAPH, "ted", overrides=["model.sigma=1"])
    with pytest.raises(RunError, match="a run of task complete cannot be replayed"):
        tempograph.backtest(complete)


def test_a_replay_is_a_table_a_picture_and_files(recurrency_run: Run, tmp_path: Path) -> None:
    found = tempograph.backtest(recurrency_run, first=GRAPH.times[45])
    write_backtest(found, tmp_path / "replay")
    folder = tmp_path / "replay"
    table = found.to_arrow()
    assert pq.read_table(folder / "steps.parquet").equals(table) and len(table) == 5
    assert pyarrow.csv.read_csv(folder / "steps.csv").num_rows == 5
    assert json.loads((folder / "backtest.json").read_text()) == json.loads(
        json.dumps(found.summary())
    )
    assert (folder / "backtest.png").stat().st_size > 10_000
    assert len(backtest_figure(found).axes) == 2 and len(backtest_table(found).rows) == 5
    assert "5 rows" not in repr(found) and "MRR" in repr(found) and "MRR" in found._repr_html_()
    bare = replace(
        found,
        steps=tuple(replace(row, expected=None, happened=None) for row in found.steps),
        calibration_error=None,
    )
    assert len(backtest_figure(bare).axes) == 1


def test_a_run_without_valid_facts_has_no_probabilities() -> None:
    graph = replace(GRAPH, valid=GRAPH.valid[:0])
    run = tempograph.train(graph, "ted", task="forecast", overrides=["model.sigma=1"])
    found = tempograph.backtest(run)
    assert found.metrics is not None and found.calibration_error is None
    assert found.notes == ("there are no valid facts to calibrate probabilities on",)


def test_the_command(call: Call, recurrency_run: Run) -> None:
    run = str(recurrency_run.path)
    tempograph.backtest(recurrency_run)
    day = GRAPH.times[47]
    code, out, err = call("backtest", run, "--from", day, "--out", "replay")
    assert code == 0 and day in out and "written: replay" in out, err
    written = sorted(path.name for path in Path("replay").iterdir())
    assert written == ["backtest.json", "backtest.png", "steps.csv", "steps.parquet"]
    printed = as_json(call("backtest", run, "--from", day, "--to", day, "--json"))
    assert [row["time"] for row in printed["steps"]] == [day] and printed["facts"] > 0
    Path("events.csv").write_text(
        "subject,relation,object,time\n"
        + "\n".join(",".join(row.values()) for row in names(GRAPH.test))
    )
    whole = as_json(call("backtest", run, "events.csv", "--json"))
    assert whole["metrics"] == tempograph.evaluate(recurrency_run).summary()["metrics"]


def test_icews14_equals_its_evaluation() -> None:
    graph = benchmark("icews14-forecast")
    # Valid facts are history here. One day of them is kept: calibration on all would be slow.
    kept = graph.valid[:, 3] == graph.valid[:, 3].max()
    history = np.concatenate([graph.train, graph.valid[~kept]])
    graph = replace(graph, train=history, valid=graph.valid[kept])
    run = tempograph.train(graph, "edgebank", task="forecast", device="cpu", progress=False)
    last = tempograph.evaluate(run, "test", progress=False)
    first = graph.times[-30]
    inside = torch.from_numpy(graph.test[:, 3] >= len(graph.times) - 30).repeat(2)
    found = tempograph.backtest(run, first=first, probabilities=False, progress=False)
    assert found.metrics == pytest.approx(metrics(last.ranks.realistic[inside]))
