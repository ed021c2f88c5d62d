"""Questions about times after the data: forecasters answer them, and completion runs too."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import tempograph
from intervals import interval_graph, random_intervals
from messages import message, raises
from predicting import FORECAST_GRAPH, GRAPH, entity_scores
from tempograph import Predictor, QueryError, Run, TemporalGraph
from tempograph.data.importers.later_steps import MAX_NEW_STEPS, describe_steps, later_label
from tempograph.data.importers.time_grid import step_labels
from tempograph.data.timeline import Timeline
from tempograph.prediction.completion import complete, score_candidates
from tempograph.prediction.scenario import Scenario
from tempograph.typing import Granularity

pytest_plugins = ("predictor_fixtures", "forecast_fixtures")
LAST = FORECAST_GRAPH.times[-1]
NEXT = "2030-02-20"


def on_grid(times: tuple[str, ...]) -> TemporalGraph:
    return replace(
        GRAPH,
        times=times,
        train=GRAPH.train[GRAPH.train[:, 3] < len(times)],
        valid=GRAPH.valid[:0],
        test=GRAPH.test[:0],
    )


@pytest.mark.parametrize(
    ("granularity", "later", "words"),
    [
        ("day", "1970-01-08", "3 days"),
        ("week", "1970-W08", "3 weeks"),
        ("month", "1970-08", "3 months"),
        ("year", "1977", "3 years"),
        ("hour", "1970-01-01T07", "3 hours"),
        (None, "7", "3 steps"),
    ],
)
def test_a_count_of_steps_is_a_label_on_every_regular_grid(
    granularity: Granularity | None, later: str, words: str
) -> None:
    graph = on_grid(step_labels(0, 4, granularity))
    assert later_label(graph, "+3") == later == later_label(graph, "+003")
    assert describe_steps(graph, 3) == words and describe_steps(graph, 1) == words.replace(
        "3", "1"
    ).removesuffix("s")
    predictor = Predictor(tempograph.train(graph, "ted", overrides=["model.sigma=1"]))
    completion = predictor.objects(0, 0, "+3", evidence=0)
    assert completion.time == later
    assert f"'{later}' is {words} after the last known fact" in completion.notes[0]
    assert predictor.graph.times == graph.times


def check_farther_times(predictor: Predictor) -> None:
    """A scenario for farther times is built for each power of two, and answers as an exact one."""
    base = predictor.scenario
    steps = len(base.graph.times)
    later = base.at("+3")[0]
    assert later is base.at("+4")[0] is base.at("+1")[0]
    assert len(later.graph.times) == steps + 4
    farther = base.at("+5")[0]
    assert farther is not later and len(farther.graph.times) == steps + 8
    assert farther is base.at("+2")[0], "it answers for nearer times too"
    for count in (1, 2, 5):
        exact = base.graph.with_later_times(farther.graph.times[steps : steps + count])
        alone = Scenario(base.run, base.cache_bytes, base.base, exact, steps - 1)
        fact = (0, 0, -1, steps + count - 1)
        wanted = complete(alone, fact, score_candidates(alone, fact), 5, 2)
        found = complete(farther, fact, score_candidates(farther, fact), 5, 2)
        assert replace(found, answers=()) == replace(wanted, answers=())
        assert [each.name for each in found.answers] == [each.name for each in wanted.answers]
        for one, other in zip(found.answers, wanted.answers, strict=True):
            assert one.probability == pytest.approx(other.probability, rel=1e-5)
            assert [e.when for e in one.evidence] == [e.when for e in other.evidence]


def test_farther_times_of_a_completion_run_rarely_need_another_scenario(run: Run) -> None:
    check_farther_times(Predictor(run))


def test_farther_times_of_a_forecaster_rarely_need_another_scenario(forecaster: Predictor) -> None:
    check_farther_times(forecaster)


@pytest.mark.parametrize("model", ["ted", "pointer"])
def test_farther_times_of_facts_that_hold_rarely_need_another_scenario(model: str) -> None:
    facts = np.unique(random_intervals(np.random.default_rng(3), 60, 5, 2, 9), axis=0)
    graph = interval_graph(facts[8:], facts[:4], facts[4:8], entities=5, steps=9, first=1990)
    settings = {"ted": ["model.sigma=0.5"], "pointer": ["train.epochs=2"]}[model]
    check_farther_times(Predictor(tempograph.train(graph, model, device="cpu", overrides=settings)))


def test_the_farthest_time_is_the_last_step() -> None:
    graph = on_grid(("spring", "summer", "autumn"))
    predictor = Predictor(tempograph.train(graph, "ted", overrides=["model.sigma=1"]))
    later, step = predictor.scenario.at(f"+{MAX_NEW_STEPS}")
    assert len(later.graph.times) == step + 1 == 3 + MAX_NEW_STEPS


def test_a_grid_without_a_rule_is_counted_on() -> None:
    graph = on_grid(("spring", "summer", "autumn"))
    predictor = Predictor(tempograph.train(graph, "ted", overrides=["model.sigma=1"]))
    assert predictor.objects(0, 0, "+2").time == "+2"
    labels = {"graph": graph.name, "first": "spring", "last": "autumn"}
    with raises(QueryError, "time_grid.no_continuation", time="winter", **labels):
        predictor.objects(0, 0, "winter")


@pytest.mark.parametrize("when", ["2130-01-01", "+10001", "+999999999999999999"])
def test_absurd_times_are_refused(forecaster: Predictor, when: str) -> None:
    with pytest.raises(QueryError, match=f"'{when[:1]}.*steps after the last one.*is it a typo"):
        forecaster.objects(0, 0, when)


def test_a_date_of_unclear_order_is_refused(forecaster: Predictor) -> None:
    for ask in (
        lambda: forecaster.objects(0, 0, "03/04/2030"),
        lambda: forecaster.scenario.period("03/04/2030", None),
    ):
        with raises(QueryError, "scenario.unclear", value="03/04/2030"):
            ask()


def test_times_before_the_data_are_refused(forecaster: Predictor) -> None:
    grid = {"graph": FORECAST_GRAPH.name, "count": 50, "first": "2030-01-01", "last": LAST}
    for when in ("2029-12-31", "+0", "soon"):
        with raises(QueryError, "graph.not_on_grid", time=when, **grid):
            forecaster.objects(0, 0, when)


def test_a_forecaster_answers_from_the_facts_of_all_splits(forecaster: Predictor) -> None:
    later = forecaster.scenario.at(NEXT)[0]
    assert len(later.graph.times) == len(FORECAST_GRAPH.times) + 1
    assert np.array_equal(
        np.unique(later.graph.train, axis=0), np.unique(FORECAST_GRAPH.all_facts, axis=0)
    )
    # A graph whose grid had the day from the start, with all facts in train.
    graph = replace(later.graph)
    model = forecaster.model.with_timeline(
        Timeline(graph, "forecast-single", history_end=len(FORECAST_GRAPH.times) - 1)
    )
    for entity, relation in ((0, 0), (3, 6), (9, 2)):
        expected = entity_scores(model, entity, relation, 50)
        assert_close(
            torch.tensor(entity_scores(later.model, entity, relation, 50)), torch.tensor(expected)
        )


def test_every_way_to_write_tomorrow_gives_the_same_answers(forecaster: Predictor) -> None:
    first = forecaster.objects(0, 0, NEXT, evidence=2)
    assert first.notes[0] == f"'{NEXT}' is 1 day after the last known fact, {LAST}"
    for when in ("+1", date(2030, 2, 20), np.datetime64(NEXT), "20 February 2030"):
        assert forecaster.objects(0, 0, when, evidence=2) == first
    assert all(fact.time <= LAST for fact in first.evidence)
    table = [(0, 0, None, "+1"), (None, 0, 1, NEXT), (0, 0, None, LAST)]
    asked = forecaster.ask(
        [dict(zip(("subject", "relation", "object", "time"), row, strict=True)) for row in table],
        top=2,
    )
    assert asked["answer"].to_pylist()[:2] == [answer.name for answer in first.answers[:2]]
    assert set(asked["time"].to_pylist()) == {NEXT, LAST}
    scored = forecaster.score([(0, 0, forecaster.graph.entity_id(first.answers[0].name), NEXT)])
    assert scored["object_rank"].to_pylist() == [first.answers[0].rank]


def test_a_forecast_inside_the_data_rests_on_earlier_facts(forecaster: Predictor) -> None:
    day = FORECAST_GRAPH.times[30]
    completion = forecaster.objects(0, 0, day, top=3, evidence=5)
    assert completion.notes[0] == (
        f"a forecast of '{day}' rests on earlier facts; it leaves out later ones"
    )
    assert all(fact.time < day for fact in completion.evidence)
    past = replace(FORECAST_GRAPH, train=FORECAST_GRAPH.train[FORECAST_GRAPH.train[:, 3] < 30])
    model = forecaster.model.with_timeline(Timeline(past, "forecast-single", history_end=49))
    assert_close(
        torch.tensor(entity_scores(model, 0, 0, 30)),
        torch.tensor(entity_scores(forecaster.model, 0, 0, 30)),
    )


def test_a_completion_run_says_that_it_is_not_made_for_the_future(run: Run) -> None:
    predictor = Predictor(run)
    completion = predictor.subjects(0, 1, "+2", top=2)
    first, second = completion.notes[:2]
    assert first == "'2030-01-22' is 2 days after the last known fact, 2030-01-20"
    assert second == message("time_notes.completion", model=run.config.name, last="2030-01-20")
    assert predictor.why(0, 0, 1, "+2").answers
    errors = predictor.ask([{"subject": 0, "relation": 0, "object": None, "time": "+2"}])["error"]
    assert "is not on the time grid" in errors.to_pylist()[0]


def test_forecasters_rank_entities_alone(forecaster: Predictor) -> None:
    for call in (
        lambda: forecaster.relations(0, 1, NEXT),
        lambda: forecaster.times(0, 0, 1),
        lambda: forecaster.missing(),
        lambda: tempograph.evaluate(forecaster.run, ask="relation"),
    ):
        with raises(QueryError, "question_models.forecaster", graph=FORECAST_GRAPH.name):
            call()


def test_questions_that_a_forecaster_does_not_rank_are_reported_row_by_row(
    forecaster: Predictor,
) -> None:
    who, which = FORECAST_GRAPH.entities, FORECAST_GRAPH.relations
    good = {"subject": who[0], "relation": which[0], "object": None, "time": NEXT}
    when = good | {"object": who[1], "time": None}
    table = [good | {"object": who[1], "relation": None}, good, when, good | {"subject": "Nobody"}]
    rows = forecaster.ask(table, top=1).to_pylist()
    reason = message("question_models.forecaster", graph=FORECAST_GRAPH.name)
    unknown = message("suggestions.unknown", kind="entity", value="Nobody")
    assert [row["error"] for row in rows] == [reason, None, reason, unknown]
    assert rows[1]["answer"] == forecaster.objects(0, 0, NEXT, top=1).answers[0].name
    with pytest.raises(QueryError) as caught:
        forecaster.ask([good, when], strict=True)
    assert str(caught.value) == f"question 1: {reason}"
