"""Many questions or facts in one request, and scans that send lines, as the Predictor has them."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from starlette.testclient import TestClient
from test_app import FACT, ask_predictor, assert_close, without
from torch import Tensor

import tempograph
from live_service import live_service
from messages import message
from serving import RUNS, client_of, count_units
from tempograph import Client, Predictor, QueryError
from tempograph.data.graph import COLUMNS
from tempograph.models.heads.fact_candidates import ProposalSearch
from tempograph.prediction.missing import MissingSearch
from tempograph.server.limits import Limits
from tempograph.typing import Progress

pytest_plugins = ("serving_fixtures",)


def lines_of(client: TestClient, path: str, **body: Any) -> list[dict[str, Any]]:
    """The facts that a scan sends, after its other lines are checked."""
    response = client.post(f"/api/v1/{path}", json=body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in response.text.splitlines()]
    facts = [line["fact"] for line in lines if line["event"] == "fact"]
    progress = [line for line in lines if line["event"] == "progress"]
    assert lines == [
        *progress,
        *({"event": "fact", "fact": fact} for fact in facts),
        {"event": "end", "facts": len(facts)},
    ]
    done = [line["done"] for line in progress]
    assert done[0] == 0 and done == sorted(set(done)) and done[-1] == progress[-1]["total"]
    return facts


@pytest.mark.parametrize("run", RUNS)
def test_a_batch_has_the_answers_to_each_question_in_order(
    client: TestClient, predictors: dict[str, Predictor], run: str
) -> None:
    asked = [*COLUMNS, *reversed(COLUMNS)]
    body = {"questions": [without(part) for part in asked], "run": run, "top": 4, "evidence": 1}
    answer = client.post("/api/v1/complete/batch", json=body).json()
    assert answer["run"] == run and len(answer["results"]) == len(asked)
    for part, result in zip(asked, answer["results"], strict=True):
        assert result["error"] is None
        assert_close(result["completion"], asdict(ask_predictor(predictors[run], part, 4, 1)))
    new = client.post("/api/v1/complete/batch", json=body | {"evidence": 0, "new": True}).json()
    answers = [each for result in new["results"] for each in result["completion"]["answers"]]
    assert answers and not any(each["known"] for each in answers)


def test_no_questions_have_no_answers(client: TestClient) -> None:
    for strict in (True, False):
        body = {"questions": [], "strict": strict}
        assert client.post("/api/v1/complete/batch", json=body).json()["results"] == []


def test_a_wrong_question_is_reported_with_its_index(client: TestClient) -> None:
    good = without("object")
    questions = [good, good | {"time": 3}, good | {"subject": "Corene"}, FACT]
    response = client.post("/api/v1/complete/batch", json={"questions": questions})
    problem = response.json()
    assert response.status_code == 404 and (problem["index"], problem["part"]) == (2, "subject")
    assert problem["detail"] == "questions.2.subject: there is no subject 'Corene'"
    assert problem["suggestions"][0] == "Corenne"
    response = client.post("/api/v1/complete/batch", json={"questions": [good, FACT]})
    assert response.status_code == 422 and response.json()["index"] == 1
    assert response.json()["detail"] == f"questions.1: {message('completions.one_missing')}"


def test_other_questions_are_answered_unless_strict(client: TestClient) -> None:
    good = without("object")
    questions = [good | {"subject": "Corene"}, good, FACT, without("time")]
    body = {"questions": questions, "strict": False, "top": 2}
    results = client.post("/api/v1/complete/batch", json=body).json()["results"]
    assert [result["completion"] is None for result in results] == [True, False, True, False]
    assert results[0]["error"].startswith("there is no entity 'Corene'")
    assert results[2]["error"] == message("questions.one_missing", count=0)
    assert results[1]["error"] is None and len(results[1]["completion"]["answers"]) == 2
    mixed = {"questions": [good | {"subject": 1}, good], "strict": False}
    response = client.post("/api/v1/complete/batch", json=mixed)
    assert response.status_code == 422 and "several kinds" in response.json()["detail"]


def test_batches_have_limits(predictors: dict[str, Predictor]) -> None:
    with client_of({"ted": predictors["ted"]}, Limits(top=1000, facts=200)) as client:
        good = without("object")
        for questions, status in ((200, 200), (201, 422)):
            body = {"questions": [good] * questions, "top": 1}
            response = client.post("/api/v1/complete/batch", json=body)
            assert response.status_code == status
        response = client.post(
            "/api/v1/complete/batch", json={"questions": [good] * 101, "top": 1000}
        )
        wanted = message("batch_completions.too_many", questions=101, top="1,000")
        assert response.status_code == 422 and response.json()["detail"] == wanted
        for path in ("missing", "surprising"):
            response = client.post(f"/api/v1/{path}", json={"top": 201})
            assert response.status_code == 422 and "top is at most 200" in response.text


def test_facts_that_cannot_be_scored_have_an_error_unless_strict(
    client: TestClient, predictors: dict[str, Predictor]
) -> None:
    facts = [FACT, FACT | {"object": "Velesa"}, FACT | {"subject": None}, FACT | {"time": 4}]
    body = {"facts": facts, "strict": False, "ranks": False}
    found = client.post("/api/v1/score", json=body).json()["facts"]
    rows = [tuple(fact.values()) for fact in facts]
    wanted = predictors[RUNS[0]].score(rows, ranks=False).to_pylist()
    for fact, row in zip(found, wanted, strict=True):
        assert fact["error"] == row["error"]
        assert fact["fact"] == {name: row[name] for name in COLUMNS}
        if row["error"] is None:
            assert math.isclose(fact["object"]["score"], row["object_score"], rel_tol=1e-4)
            assert fact["object"]["rank"] is fact["object"]["probability"] is None
        else:
            assert fact["object"] is fact["subject"] is fact["known"] is None
    response = client.post("/api/v1/score", json={"facts": facts[2:]})
    assert response.status_code == 422 and response.json()["index"] == 0
    assert response.json()["detail"] == "facts.0: the subject is missing"


@pytest.mark.parametrize("run", RUNS)
def test_missing_facts_are_those_of_the_predictor(
    client: TestClient, predictors: dict[str, Predictor], run: str
) -> None:
    predictor = predictors[run]
    assert_close(lines_of(client, "missing", run=run, top=7), predictor.missing(top=7).to_pylist())  # type: ignore[union-attr]
    bounds: dict[str, Any] = {"entity": "Corenne", "relations": ["visits"], "first": 2, "last": 6}
    found = lines_of(client, "missing", run=run, **bounds)
    assert found and all("Corenne" in (fact["subject"], fact["object"]) for fact in found)
    assert_close(found, predictor.missing(**bounds).to_pylist())  # type: ignore[union-attr]
    assert lines_of(client, "missing", run=run, relations=[]) == []


def test_all_facts_above_a_probability_come_in_the_order_of_time(
    client: TestClient, predictors: dict[str, Predictor], tmp_path: Path
) -> None:
    found = lines_of(client, "missing", at_least=0.01)
    out = tmp_path / "facts.parquet"
    assert len(found) == predictors[RUNS[0]].missing(at_least=0.01, out=out) > 0
    assert [fact["time"] for fact in found] == sorted(fact["time"] for fact in found)
    assert min(fact["probability"] for fact in found) >= 0.01
    assert not any(fact["other_times"] for fact in found)


def test_proposals_and_evidence_of_a_batch_come_in_units(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = count_units(monkeypatch)
    batch = {"questions": [without("object")], "top": 8, "evidence": 2}
    assert client.post("/api/v1/complete/batch", json=batch).status_code == 200
    assert len(units) > 5
    assert len(lines_of(client, "missing", top=7)) == 7
    parts: list[range] = []
    answer = ProposalSearch.answer

    def counted(search: ProposalSearch, questions: range) -> None:
        parts.append(questions)
        answer(search, questions)

    monkeypatch.setattr(ProposalSearch, "answer", counted)
    assert len(lines_of(client, "missing", top=7)) == 7
    assert len(parts) > 3 and parts[0].start == 0
    assert all(one.stop == other.start for one, other in pairwise(parts))


def test_a_search_that_finds_more_facts_than_the_limit_is_refused(
    predictors: dict[str, Predictor],
) -> None:
    with client_of({"ted": predictors["ted"]}, Limits(facts=5)) as client:
        response = client.post("/api/v1/missing", json={"at_least": 1e-9})
        problem = json.loads(response.text.splitlines()[-1])["problem"]
        assert problem["status"] == 422
        found = re.fullmatch(
            r"[\d,]+ facts have a probability of at least 1e-09, and a response has at most 5; "
            r"search a part of the data, or for facts of at least (\S+)",
            problem["detail"],
        )
        assert found is not None
        fewer = lines_of(client, "missing", at_least=min(1, 1.01 * float(found[1])))
        assert 0 < len(fewer) <= 5


@pytest.mark.parametrize("run", RUNS)
def test_surprising_facts_are_those_of_the_predictor(
    client: TestClient, predictors: dict[str, Predictor], run: str
) -> None:
    for splits in (["test"], ["train", "valid", "test"], []):
        found = lines_of(client, "surprising", run=run, splits=splits, top=9)
        wanted = predictors[run].surprising(splits, top=9).to_pylist()  # type: ignore[arg-type]
        assert [fact["surprise"] for fact in found] == pytest.approx(
            [fact["surprise"] for fact in wanted], rel=1e-3
        )
        assert {fact["known"] for fact in found} == {fact["known"] for fact in wanted}


def test_a_scan_that_cannot_start_is_a_problem(client: TestClient) -> None:
    for body, status, part in (
        ({"entity": "Corene"}, 404, "entity"),
        ({"relations": ["visits", "vists"]}, 404, "relations"),
        ({"first": "2031-01-01"}, 404, "first"),
        ({"first": 3, "last": 2}, 422, None),
        ({"at_least": 0}, 422, None),
        ({"run": "x"}, 404, "run"),
    ):
        response = client.post("/api/v1/missing", json=body)
        assert response.status_code == status and response.json()["part"] == part
    assert client.post("/api/v1/surprising", json={"splits": ["x"]}).status_code == 422


@pytest.mark.parametrize("asked", ["entity", "relation", "time"])
def test_calibration_is_that_of_the_predictor(
    client: TestClient, predictors: dict[str, Predictor], asked: Any
) -> None:
    answer = client.get("/api/v1/calibration", params={"asked": asked, "run": "ted"}).json()
    assert (answer["run"], answer["asked"]) == ("ted", asked)
    wanted = predictors["ted"].calibration(asked)
    assert_close(answer["calibration"], wanted)
    assert sum(row["questions"] for row in wanted["reliability"]) >= wanted["facts"]


def test_a_run_without_valid_facts_has_no_calibration(small_run: Predictor) -> None:
    graph = small_run.run.graph
    graph = dataclasses.replace(graph, valid=graph.valid[:0])
    predictor = Predictor(tempograph.train(graph, "ted", device="cpu", overrides=["model.sigma=1"]))
    with client_of({"one": predictor}) as client:
        response = client.get("/api/v1/calibration")
        wanted = message("question_models.not_calibrated", data="small")
        assert response.status_code == 422 and response.json()["detail"] == wanted
        assert client.post("/api/v1/missing", json={}).status_code == 422


def slow_search(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
    """Make the first part of a search slow, and let it fail."""
    proposals = MissingSearch.proposals

    def slow(search: MissingSearch, progress: Progress | None = None) -> ProposalSearch:
        time.sleep(1.5)
        if error is not None:
            raise error
        return proposals(search, progress)

    monkeypatch.setattr(MissingSearch, "proposals", slow)


def test_a_long_search_sends_progress_until_it_is_done(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_search(monkeypatch)
    with client_of({"ted": predictors["ted"]}, Limits(seconds=0.9)) as client:
        response = client.post("/api/v1/missing", json={"top": 2})
    events = [json.loads(line) for line in response.text.splitlines()]
    waiting = {"event": "progress", "done": 0, "total": 0}
    assert events.count(waiting) >= 3 and events[0] == waiting
    assert events[-1] == {"event": "end", "facts": 2}


def test_a_search_that_fails_late_ends_with_the_problem(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_search(monkeypatch, QueryError("nothing can be found"))
    with live_service({"ted": predictors["ted"]}, Limits(seconds=0.9)) as url:
        response = httpx2.post(f"{url}/api/v1/missing", json={}, timeout=30)
        *_, last = (json.loads(line) for line in response.text.splitlines())
        assert response.status_code == 200 and last["event"] == "error"
        assert last["problem"]["detail"] == "nothing can be found"
        with Client(url) as client, pytest.raises(QueryError, match="^nothing can be found$"):
            client.missing()


def test_a_search_ends_when_the_client_leaves(
    predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def slow(_: MissingSearch, facts: Tensor) -> Tensor:
        calls.append(len(facts))
        time.sleep(0.2)
        return torch.zeros(len(facts), dtype=torch.float64)

    monkeypatch.setattr(MissingSearch, "probability", slow)
    with live_service({"ted": predictors["ted"]}) as url:
        with httpx2.stream("POST", f"{url}/api/v1/missing", json={}, timeout=30) as response:
            lines = response.iter_lines()
            total = json.loads(next(lines))["total"]
            assert json.loads(next(lines))["done"] < total
        time.sleep(1.5)
        stopped = len(calls)
        time.sleep(0.7)
    assert len(calls) == stopped < total
