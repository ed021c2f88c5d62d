"""Forecasts of a service: for clients of its API, and in the explorer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from exploring import accessibility_problems, expect, url_query
from live_service import KINDS, answerer_of, live_service
from predicting import FORECAST_GRAPH as GRAPH
from serving import STORED, Served, client_of, count_units
from tempograph import Forecast, Predictor, Run
from tempograph.errors import QueryError
from tempograph.server.limits import Limits

pytest_plugins = ("forecast_fixtures", "browser_fixtures", "serving_fixtures")
NEXT = "2030-02-20"
ENTITY = GRAPH.entities[0]


@pytest.fixture(scope="module")
def predictor(recurrency_run: Run) -> Predictor:
    """A forecaster that has learned to tell what will happen."""
    predictor = Predictor(recurrency_run)
    predictor.forecast(top=1, progress=False)
    return predictor


@pytest.fixture(scope="module")
def client(predictor: Predictor, predictors: dict[str, Predictor]) -> Iterator[TestClient]:
    runs = {"next": predictor, "ted": predictors["ted"]}
    with client_of(runs, Limits(facts=100)) as client:
        yield client


def rounded(forecast: Forecast) -> Forecast:
    facts = (replace(fact, probability=round(fact.probability, 6)) for fact in forecast.facts)
    return replace(forecast, facts=tuple(facts))


def test_clients_forecast_what_the_predictor_does(predictor: Predictor) -> None:
    searches: list[dict[str, Any]] = [
        {},
        {"top": 5, "days": 3, "evidence": 2},
        {"date": GRAPH.times[-3], "days": 2, "top": 4, "min_probability": 0.05},
        {"date": "+2", "entity": ENTITY, "relations": [GRAPH.relations[1]], "evidence": 1},
        {"relations": []},
    ]
    wanted = [predictor.forecast(**search, progress=False) for search in searches]
    assert len(wanted[0].facts) == 20 and wanted[1].evidence and wanted[3].facts
    assert {fact.happened for fact in wanted[2].facts} <= {True, False} and not wanted[4].facts
    with live_service({"next": predictor}) as url:
        for kind in KINDS[1:]:
            with answerer_of(kind, predictor, url) as answerer:
                for search, expected in zip(searches, wanted, strict=True):
                    found = answerer.forecast(**search, progress=False)
                    assert rounded(found) == rounded(expected)


def test_a_forecast_reports_its_progress_and_what_it_rests_on(client: TestClient) -> None:
    response = client.post("/api/v1/forecast", json={"days": 3, "top": 2})
    lines = [json.loads(line) for line in response.text.splitlines()]
    progress = [line for line in lines if line["event"] == "progress"]
    assert progress[0] == {"event": "progress", "done": 0, "total": 3}
    assert progress[-1]["done"] == 3 and len([x for x in lines if x["event"] == "fact"]) == 6
    end = lines[-1]
    assert (end["event"], end["facts"], end["steps"][0]) == ("end", 6, NEXT)
    assert end["known_until"] == GRAPH.times[-1] and "3 days after" in end["notes"][0]


def test_one_step_is_forecast_in_units(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    units = count_units(monkeypatch)
    assert client.post("/api/v1/forecast", json={"top": 2}).status_code == 200
    assert len(units) > 6


@pytest.mark.parametrize(
    ("body", "status", "part", "words"),
    [
        ({"entity": "Talene"}, 404, "entity", "Talene"),
        ({"relations": ["visits", "vists"]}, 404, "relations", "vists"),
        ({"date": "someday"}, 422, None, "'someday'"),
        ({"date": GRAPH.times[0]}, 422, None, "nothing is known before"),
        ({"top": 51, "days": 2}, 422, None, "at most 100"),
        ({"days": 0}, 422, None, "days"),
        ({"min_probability": 1.5}, 422, None, "min_probability"),
        ({"run": "ted"}, 422, None, "task forecast"),
    ],
)
def test_a_forecast_that_cannot_be_made_is_a_problem(
    client: TestClient, body: dict[str, Any], status: int, part: str | None, words: str
) -> None:
    response = client.post("/api/v1/forecast", json=body)
    problem = response.json()
    assert (response.status_code, problem["part"]) == (status, part)
    assert words in problem["detail"]


def test_questions_and_evidence_may_be_about_later_times(
    client: TestClient, predictor: Predictor
) -> None:
    subject, relation = ENTITY, GRAPH.relations[0]
    for time in (NEXT, "+1"):
        wanted = predictor.objects(subject, relation, time, top=3, evidence=2)
        body = {"subject": subject, "relation": relation, "time": time}
        options = {"top": 3, "evidence": 2}
        found = client.post("/api/v1/complete", json=body | options).json()
        assert found["time"] == NEXT and found["notes"] == list(wanted.notes)
        assert [each["name"] for each in found["answers"]] == [a.name for a in wanted.answers]
        evidence = {"asked": "object", "object": wanted.answers[0].name, "most": 2}
        one = client.post("/api/v1/evidence", json=body | evidence).json()
        assert one["time"] == NEXT and one["rank"] == 1
        assert [e["time"] for e in one["evidence"]] == [e.time for e in wanted.answers[0].evidence]
    response = client.post("/api/v1/complete", json=body | {"time": "20300-1"})
    assert response.status_code == 404 and response.json()["part"] == "time"


def test_a_period_may_reach_beyond_the_data(client: TestClient, predictor: Predictor) -> None:
    subject, relation = ENTITY, GRAPH.relations[0]
    for time in (GRAPH.times[-2], "+1"):
        wanted = predictor.objects(subject, relation, time, until="+3", top=3, evidence=1)
        assert wanted.until == "2030-02-22", "counted from the last step of the data"
        body = {"subject": subject, "relation": relation, "time": time, "until": "+3"}
        found = client.post("/api/v1/complete", json=body | {"top": 3, "evidence": 1}).json()
        assert (found["time"], found["until"]) == (wanted.time, wanted.until)
        assert [each["name"] for each in found["answers"]] == [a.name for a in wanted.answers]
    backwards = client.post("/api/v1/complete", json=body | {"until": GRAPH.times[3]})
    assert backwards.status_code == 422 and "must not be before" in backwards.json()["detail"]


def test_a_later_time_of_a_run_that_completes_has_a_note(predictors: dict[str, Predictor]) -> None:
    predictor = predictors["ted"]
    with live_service({"ted": predictor}) as url:
        for kind in KINDS:
            with answerer_of(kind, predictor, url) as answerer:
                found = answerer.objects("Corenne", "visits", "+2", top=2)
                assert "was trained to complete facts" in found.notes[-1]
                with pytest.raises(QueryError, match="task forecast"):
                    answerer.forecast(progress=False)


def test_the_explorer_shows_what_comes_next(
    predictor: Predictor, recurrency_run: Run, browser: Any
) -> None:
    wanted = predictor.forecast(top=10, evidence=3, progress=False)
    with Served(str(recurrency_run.path), str(STORED / "ted")) as service:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
        tab = context.new_page()
        errors: list[str] = []
        tab.on("console", lambda line: errors.append(line.text))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(f"http://localhost:{service.port}/?page=forecast")
        expect(tab.locator("#forecast-results")).to_contain_text("can take a while")
        tab.get_by_role("button", name="Forecast").press("Enter")
        rows = tab.locator("#forecast-results tbody tr")
        expect(rows).to_have_count(10)
        for number, fact in enumerate(wanted.facts):
            cells = rows.nth(number).locator("td").all_inner_texts()
            assert [cell.strip() for cell in cells[:7]] == [
                *(f"{fact.probability:.1%}", fact.time, fact.subject, fact.relation, fact.object),
                *(fact.last or "never", str(fact.count)),
            ]
        expect(tab.get_by_role("status")).to_have_text("10 likely facts found")
        first = rows.first.locator("details")
        first.locator("summary").click()
        expect(first.locator("li")).to_have_count(len(wanted.facts[0].evidence))
        assert accessibility_problems(tab) == []
        tab.get_by_label("First step").fill(GRAPH.times[-2])
        tab.get_by_label("Steps", exact=True).select_option("3")
        tab.get_by_role("button", name="Forecast").click()
        expect(rows).to_have_count(30)
        assert url_query(tab)["days"] == "3"
        expect(tab.locator("#forecast-results")).to_contain_text("Probabilities are calibrated on")
        expect(tab.get_by_role("columnheader", name="Happened")).to_be_visible()
        expect(rows.last.locator("td").nth(7)).to_have_text("no")
        expect(rows.first.get_by_role("link")).to_be_visible()
        tab.get_by_label("Run", exact=True).select_option("ted")
        expect(tab.locator("#forecast-results")).to_contain_text("trained to forecast")
        tab.goto(f"http://localhost:{service.port}/?page=missing&search=yes")
        expect(tab.locator("#missing-results")).to_contain_text("it was trained to forecast")
        tab.get_by_role("link", name="Over time").click()
        parts = tab.get_by_label("Look for").locator("option")
        expect(parts).to_have_text(["subject", "object"])
        assert errors == []
        context.close()
