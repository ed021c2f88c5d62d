"""What-if requests answer as a Predictor with other facts, and change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from serving import RUNS, STORED, client_of
from tempograph import Predictor

pytest_plugins = ("serving_fixtures",)
QUERY = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05"}
REMOVED = QUERY | {"object": "Central Bank of Velessa"}
ADDED = QUERY | {"object": "Velessa"}


def names(fact: dict[str, str]) -> tuple[str, ...]:
    return tuple(fact[part] for part in ("subject", "relation", "object", "time"))


@pytest.mark.parametrize("run", RUNS)
def test_ranks_are_those_of_a_changed_predictor(client: TestClient, run: str) -> None:
    predictor = Predictor(STORED / run, "cpu")
    query = QUERY["subject"], QUERY["relation"], QUERY["time"]
    before = {answer.name: answer for answer in predictor.objects(*query, 12, 0).answers}
    body = QUERY | {"run": run, "added": [ADDED], "removed": [REMOVED], "top": 3}
    plain = client.post("/api/v1/complete", json=QUERY | {"run": run}).json()
    response = client.post("/api/v1/what-if", json=body)
    predictor.add([names(ADDED)], strict=True)
    predictor.remove([names(REMOVED)], strict=True)
    after = {answer.name: answer for answer in predictor.objects(*query, 12, 0).answers}
    found = response.json()["answers"]
    best = [list(answers)[:3] for answers in (before, after)]
    assert {each["name"] for each in found} == {*best[0], *best[1]}
    assert [each["name"] for each in found][: len(best[1])] == best[1]
    assert before != after
    for each in found:
        for answers, when in ((before, "before"), (after, "after")):
            if each["name"] in answers:
                wanted = answers[each["name"]]
                assert each[f"rank_{when}"] == wanted.rank
                assert each[f"probability_{when}"] == pytest.approx(wanted.probability, rel=1e-4)
    assert client.post("/api/v1/complete", json=QUERY | {"run": run}).json() == plain


@pytest.mark.parametrize("asked", ["subject", "relation", "time"])
def test_every_part_can_be_asked_for(client: TestClient, asked: str) -> None:
    query = {part: name for part, name in ADDED.items() if part != asked}
    body = query | {"added": [ADDED]}
    found = client.post("/api/v1/what-if", json=body).json()
    assert found["asked"] == asked
    (move,) = [each for each in found["answers"] if each["name"] == ADDED[asked]]
    assert move["probability_after"] != move["probability_before"]


WRONG: dict[str, tuple[dict[str, Any], int, str]] = {
    "nothing": ({}, 422, "give facts to add or to remove"),
    "complete": ({"added": [ADDED], "object": "Velessa"}, 422, "give three of"),
    "known": ({"added": [ADDED, REMOVED]}, 422, "added.1: .*is already among the facts"),
    "unknown": ({"removed": [ADDED]}, 422, "removed.0: .*is not among the facts"),
    "name": ({"added": [ADDED | {"object": "Velesa"}]}, 404, "added.0.object: there is no"),
    "many": ({"added": [ADDED] * 101}, 422, "added: List should have at most 100 items"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_facts_are_named(client: TestClient, case: str) -> None:
    changes, status, words = WRONG[case]
    response = client.post("/api/v1/what-if", json=QUERY | changes)
    assert response.status_code == status
    start, _, end = words.partition(".*")
    detail = response.json()["detail"]
    assert detail.startswith(start) and end in detail


def test_all_facts_of_a_run_but_one_can_be_removed(small_run: Predictor) -> None:
    parts = ("subject", "relation", "object", "time")
    facts = [dict(zip(parts, row, strict=True)) for row in small_run.graph.train.tolist()]
    query = {"subject": "Ann", "relation": "meets", "time": "b"}
    with client_of({"small": small_run}) as client:
        every = client.post("/api/v1/what-if", json=query | {"removed": [*facts, facts[0]]})
        found = client.post("/api/v1/what-if", json=query | {"removed": facts[1:]})
    assert every.status_code == 422 and "at least one fact" in every.json()["detail"]
    assert found.status_code == 200
    assert all(each["rank_before"] >= 1 for each in found.json()["answers"])
