"""What comes next: likely facts with probabilities, from the past alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from torch.testing import assert_close

import tempograph
from conftest import Call, as_json
from messages import message, raises
from predicting import FORECAST_GRAPH as GRAPH
from predicting import split_by_time, train_forecaster
from tempograph import ConfigError, Forecast, Predictor, QueryError, Run
from tempograph.cli import console
from tempograph.cli.answer_tables import print_forecast
from tempograph.data.graph import rows_in
from tempograph.data.timeline import Timeline
from tempograph.prediction.answer import EvidenceFact
from tempograph.prediction.forecast import ForecastFact
from tempograph.prediction.outlook import Outlook
from tempograph.training.occurrence_proposals import OccurrenceProposals

pytest_plugins = ("forecast_fixtures",)
NEXT = "2030-02-20"


def ids(forecast: Forecast) -> np.ndarray:
    """The triples of a forecast."""
    return np.array(
        [
            (
                GRAPH.entity_id(fact.subject),
                GRAPH.relation_id(fact.relation),
                GRAPH.entity_id(fact.object),
            )
            for fact in forecast.facts
        ]
    )


def test_the_next_step_is_forecast_by_default(forecaster: Predictor) -> None:
    found = forecaster.forecast(top=12, evidence=2)
    assert found.steps == (NEXT,) and found.known_until == GRAPH.times[-1]
    assert found.notes[0] == f"'{NEXT}' is 1 day after the last known fact, {GRAPH.times[-1]}"
    assert len(found) == 12 and len({tuple(row) for row in ids(found)}) == 12
    probability = [fact.probability for fact in found.facts]
    assert probability == sorted(probability, reverse=True) and 0 < probability[-1] < 1
    for fact, triple in zip(found.facts, ids(found), strict=True):
        times = GRAPH.all_facts[(GRAPH.all_facts[:, :3] == triple).all(1), 3]
        assert fact.count == len(times) and fact.happened is None
        assert fact.last == (GRAPH.times[times.max()] if len(times) else None)
        assert len(fact.evidence) <= 2 and all(each.time < NEXT for each in fact.evidence)
    table = found.to_arrow()
    assert table.column_names[:5] == ["subject", "relation", "object", "time", "probability"]
    assert table["evidence"].to_pylist()[0] == [vars(each) for each in found.facts[0].evidence]
    assert "12 facts" in repr(found) and NEXT in repr(found)
    assert f"What may happen at {NEXT}" in found._repr_html_()


def test_facts_of_an_entity_and_a_relation(recurrency_run: Run, tmp_path: Path) -> None:
    predictor = Predictor(recurrency_run)
    name, relation = GRAPH.entities[3], GRAPH.relations[1]
    found = predictor.forecast(NEXT, entity=name.upper(), relations=[relation], top=50)
    assert found.facts and all(fact.relation == relation for fact in found.facts)
    assert all(name in (fact.subject, fact.object) for fact in found.facts)
    every = predictor.forecast(NEXT, top=5000)
    likely = predictor.forecast(NEXT, top=5000, min_probability=0.2, out=tmp_path / "likely.csv")
    assert [vars(fact) for fact in likely.facts] == [
        vars(fact) for fact in every.facts if fact.probability >= 0.2
    ]
    written = pyarrow.csv.read_csv(tmp_path / "likely.csv")
    assert written["probability"].to_pylist() == pytest.approx(
        [fact.probability for fact in likely.facts]
    )


def test_several_steps_rest_on_what_is_known(recurrency_run: Run) -> None:
    predictor = Predictor(recurrency_run)
    found = predictor.forecast("+2", days=3, top=4)
    assert found.steps == ("2030-02-21", "2030-02-22", "2030-02-23")
    assert [fact.time for fact in found.facts] == [day for day in found.steps for _ in range(4)]
    assert found.known_until == GRAPH.times[-1]
    assert any("nothing is known of the steps in between" in note for note in found.notes)
    assert predictor.graph.times == GRAPH.times, "a forecast leaves the predictor as it is"


def test_a_forecast_inside_the_data_says_what_happened(recurrency_run: Run) -> None:
    predictor = Predictor(recurrency_run)
    day = 45
    found = predictor.forecast(GRAPH.times[day], top=30)
    facts = np.column_stack([ids(found), np.full(30, day)])
    assert [fact.happened for fact in found.facts] == rows_in(facts, GRAPH.all_facts).tolist()
    assert found.known_until == GRAPH.times[day - 1] and "happened" in found._repr_html_()
    right = np.mean([bool(fact.happened) for fact in found.facts])
    rate = len(GRAPH.all_facts) / 50 / (20 * 20 * 5)
    assert right > 3 * rate, "the most likely facts happen more often than any"


def test_nothing_at_or_after_a_step_matters_for_its_forecast(forecaster: Predictor) -> None:
    classifier, step = forecaster.run.questions.occurrence(), 44
    rng = np.random.default_rng(0)
    past = GRAPH.all_facts[GRAPH.all_facts[:, 3] < step]
    future = rng.integers(0, GRAPH.sizes, (200, 4))
    future[:, 3] = rng.integers(step, 50, 200)
    found = []
    for facts in (GRAPH.all_facts, past, np.unique(np.concatenate([past, future]), axis=0)):
        timeline = Timeline(replace(GRAPH, train=facts), "forecast-single")
        model = forecaster.run.model.with_timeline(timeline)
        source = OccurrenceProposals(model, timeline, forecaster.run.questions.calibrator())
        proposals = source.propose(classifier, step, step)
        log_probs = source.log_probs(proposals.facts, step)
        probability = classifier.probability(proposals.features, log_probs, proposals.recurring)
        order = np.lexsort(proposals.facts.T.numpy())
        found.append((proposals.facts[order], probability[order]))
    for facts, probability in found[1:]:
        assert torch.equal(facts, found[0][0])
        assert_close(probability, found[0][1])


def test_probabilities_are_calibrated(recurrency_run: Run) -> None:
    outlook = Outlook(Predictor(recurrency_run).scenario)
    steps = range(42, 50)
    found = [outlook.at(step) for step in steps]
    probability = torch.cat([each.probability for each in found])
    happened = outlook.scenario.occurrences.features.happened(
        torch.cat([each.facts for each in found])
    )
    assert abs(float(probability.mean() - happened.double().mean())) < 0.03
    high = probability > probability.quantile(0.9)
    assert happened[high].double().mean() > 2 * happened.double().mean()


PER_DAY = 18


@pytest.fixture(scope="module")
def steady_run() -> Run:
    """A forecaster of a world in which every day has as many facts."""
    rng = np.random.default_rng(0)
    usual = rng.integers(0, (20, 5, 20), (150, 3))
    days = []
    for day in range(60):
        often = usual[(150 * rng.random(2 * PER_DAY) ** 3).astype(int)]
        seldom = rng.integers(0, (20, 5, 20), (PER_DAY, 3))
        triples = rng.permutation(np.unique(np.concatenate([often, seldom]), axis=0))[:PER_DAY]
        days.append(np.column_stack([triples, np.full(PER_DAY, day)]))
    graph = replace(GRAPH, train=np.concatenate(days), times=make_days(60))
    graph = split_by_time(replace(graph, valid=GRAPH.valid[:0], test=GRAPH.test[:0]), 8, 1)
    return tempograph.train(graph, "recurrency", task="forecast", device="cpu", progress=False)


def make_days(count: int) -> tuple[str, ...]:
    first = date.fromisoformat(GRAPH.times[0])
    return tuple((first + timedelta(days=day)).isoformat() for day in range(count))


@pytest.mark.parametrize("quiet", [0, 1, 4])
def test_an_unusually_quiet_day_does_not_make_facts_likely(steady_run: Run, quiet: int) -> None:
    """Not even if no day of train was quiet: an incomplete last day is common."""
    graph, days = steady_run.graph, make_days(64)
    named = [tuple(graph.describe(fact).values())[:3] for fact in graph.test]
    events = [(*triple, days[60]) for triple in named[:quiet]]
    found = tempograph.backtest(steady_run, [*events, *((*each, days[63]) for each in named[-9:])])
    assert [row.facts for row in found.steps] == ([quiet, 0, 0, 9] if quiet else [9])
    for row in found.steps:
        assert row.expected is not None and 2 < row.expected < 2 * PER_DAY
    if quiet:
        predictor = Predictor(steady_run)
        predictor.add(events)
        rare = [fact for fact in predictor.forecast(top=2000).facts if fact.count <= 2]
        assert rare and max(fact.probability for fact in rare) < 0.3


def test_the_classifier_is_stored_and_loaded_without_fitting_again(
    recurrency_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Predictor(recurrency_run).forecast(top=5)
    assert recurrency_run.path is not None
    assert (recurrency_run.path / "occurrence.safetensors").is_file()
    stored = json.loads((recurrency_run.path / "results.json").read_text())["occurrence"]
    assert stored["proposals"] >= stored["found"] > 0 and stored["calibration_error"] < 0.1

    def refuse(*_: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr("tempograph.training.question_models.fit_occurrence", refuse)
    again = Predictor(recurrency_run.path).forecast(top=5)
    assert [vars(fact) for fact in again.facts] == [vars(fact) for fact in first.facts]


def test_wrong_requests_are_explained(recurrency_run: Run) -> None:
    predictor = Predictor(recurrency_run)
    with pytest.raises(QueryError, match="there is no entity 'Nobody'"):
        predictor.forecast(entity="Nobody")
    with pytest.raises(QueryError, match="steps after the last one"):
        predictor.forecast("2130-01-01")
    for start, most in ((None, "10,000"), ("+3", "9,998")):
        far = {"most": most, "found": "20,000", "last": GRAPH.times[-1]}
        with raises(QueryError, "outlook.days", **far):
            predictor.forecast(start, days=20_000)
    with raises(QueryError, "outlook.first", first=GRAPH.times[0]):
        predictor.forecast(GRAPH.times[0])
    with pytest.raises(ConfigError, match="at least 1, found 0 and 1"):
        predictor.forecast(top=0)
    with pytest.raises(ConfigError, match="between 0 and 1, found 2"):
        predictor.forecast(min_probability=2)
    complete = tempograph.train(GRAPH, "ted", overrides=["model.sigma=1"])
    with raises(QueryError, "question_models.completes", graph=GRAPH.name, model="ted"):
        Predictor(complete).forecast()
    without = train_forecaster_without_valid()
    with raises(QueryError, "question_models.nothing_held_out", graph=GRAPH.name):
        Predictor(without).forecast()


def train_forecaster_without_valid() -> Run:
    graph = replace(GRAPH, valid=GRAPH.valid[:0])
    return tempograph.train(graph, "ted", task="forecast", overrides=["model.sigma=1"])


def test_help_writes_an_optional_argument_once(call: Call) -> None:
    _, out, _ = call("backtest", "--help")
    assert "[EVENTS]" in out and "[[EVENTS]]" not in out


def test_the_command(call: Call, recurrency_run: Run) -> None:
    run = str(recurrency_run.path)
    Predictor(recurrency_run).forecast()
    code, out, err = call("forecast", run, "--top", "3", "--out", "next.parquet")
    assert code == 0 and f"What may happen at {NEXT}" in out and "probability: that it" in out
    assert "1 day after the last known fact" in err
    assert len(pq.read_table("next.parquet")) == 3
    printed = as_json(call("forecast", run, "--days", "2", "--top", "2", "--json"))
    assert [fact["time"] for fact in printed["facts"]] == [NEXT, NEXT, "2030-02-21", "2030-02-21"]
    assert printed["model"] == "recurrency" and printed["facts"][0]["evidence"]
    code, _, err = call("forecast", run, "--entity", GRAPH.entities[2][:-1])
    assert code == 2 and "did you mean" in err
    day = GRAPH.times[46]
    code, out, _ = call("forecast", run, "--date", day, "--top", "2", "--evidence", "0")
    assert code == 0 and "happened" in out and day in out


def test_facts_and_evidence_fit_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    names = ("Court (India)", "Arrest, detain, or charge with legal action", "Citizen (India)")
    evidence = (EvidenceFact(*names, "2030-02-19", 0.02, None),)
    fact = ForecastFact(*names, NEXT, 0.645, "2030-02-19", 130, None, "votes", evidence)
    print_forecast(Forecast((fact,), (NEXT,), "2030-02-19", ()))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    start = next(number for number, line in enumerate(lines) if line.startswith(f"  {NEXT}"))
    assert lines[start : start + 7] == [
        "  2030-02-20   Court (India), Arrest, detain, or   2030-02-19            64.5%",
        "               charge with legal action, Citizen   130 in all",
        "               (India)",
        "                 2030-02-19  2%  Court (India)",
        "                   Arrest, detain, or charge",
        "                   with legal action  Citizen",
        "                   (India)",
    ]


def test_a_complete_run_is_told_what_to_train(call: Call, tmp_path: Path) -> None:
    tempograph.train(GRAPH, "ted", out=tmp_path / "ted", overrides=["model.sigma=1"])
    code, _, err = call("forecast", str(tmp_path / "ted"))
    told = message("question_models.completes", graph=GRAPH.name, model="ted")
    assert code == 2 and told in err


def test_a_forecaster_without_weights_can_be_asked(tmp_path: Path) -> None:
    run = train_forecaster("edgebank")
    assert Predictor(run).forecast(top=3).facts
