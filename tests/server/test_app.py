"""The service answers as the Predictor does; errors name the value and the way out."""

from __future__ import annotations

import ast
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import tempograph
import tempograph.progress
import tempograph.server.app
from conftest import Call, as_json
from messages import message
from serving import RUNS, STORED, client_of
from tempograph import Predictor, TemporalGraph, train
from tempograph.data.graph import COLUMNS
from tempograph.prediction.answer import EvidenceFact, evidence_legend
from tempograph.prediction.answers import Completion
from tempograph.server.limits import Limits
from tempograph.server.problems import KINDS

pytest_plugins = ("serving_fixtures",)
FACT = {"subject": "Corenne", "relation": "visits", "object": "Velessa", "time": "2030-01-05"}


def without(part: str) -> dict[str, str]:
    return {name: value for name, value in FACT.items() if name != part}


def assert_close(found: Any, wanted: Any) -> None:
    """Assert equality up to rounding: a batch adds numbers up in another order."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert_close(found[name], wanted[name])
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_close(one, other)
    elif isinstance(wanted, float):
        assert math.isclose(found, wanted, rel_tol=1e-4, abs_tol=1e-5)
    else:
        assert found == wanted


def ask_predictor(predictor: Predictor, asked: str, top: int, evidence: int) -> Completion:
    if asked == "object":
        return predictor.objects(FACT["subject"], FACT["relation"], FACT["time"], top, evidence)
    if asked == "subject":
        return predictor.subjects(FACT["relation"], FACT["object"], FACT["time"], top, evidence)
    if asked == "relation":
        return predictor.relations(FACT["subject"], FACT["object"], FACT["time"], top, evidence)
    return predictor.times(FACT["subject"], FACT["relation"], FACT["object"], top, evidence)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("asked", COLUMNS)
def test_completions_are_those_of_the_predictor(
    client: TestClient, predictors: dict[str, Predictor], run: str, asked: str
) -> None:
    for top, evidence in ((3, 2), (1000, 0)):
        body = without(asked) | {
            "run": run,
            "top": min(top, 100) if evidence else top,
            "evidence": evidence,
        }
        answer = client.post("/api/v1/complete", json=body)
        assert answer.status_code == 200
        wanted = asdict(ask_predictor(predictors[run], asked, top, evidence))
        assert_close(answer.json(), {"run": run, "model": predictors[run].run.config.name} | wanted)


def test_the_first_run_is_the_default(client: TestClient) -> None:
    answer = client.post("/api/v1/complete", json=without("object")).json()
    assert answer["run"] == RUNS[0] and len(answer["answers"]) == 10


@pytest.mark.parametrize("run", RUNS)
def test_scores_are_those_of_the_predictor(
    client: TestClient, predictors: dict[str, Predictor], run: str
) -> None:
    predictor, graph = predictors[run], predictors[run].graph
    facts = graph.all_facts[::3]
    answer = client.post(
        "/api/v1/score", json={"run": run, "facts": [graph.describe(fact) for fact in facts]}
    ).json()
    assert answer["run"] == run and len(answer["facts"]) == len(facts)
    for found, wanted in zip(answer["facts"], predictor.score(facts).to_pylist(), strict=True):
        assert found["known"] == wanted["known"] and found["error"] is None
        assert found["fact"] == {name: wanted[name] for name in COLUMNS}
        for side in ("object", "subject"):
            standing = {name: wanted[f"{side}_{name}"] for name in ("score", "probability", "rank")}
            assert_close(
                found[side],
                standing | {"score": None if standing["score"] == -math.inf else standing["score"]},
            )
    assert {found["known"] for found in answer["facts"]} == {"train", "valid", "test"}
    assert client.post("/api/v1/score", json={"run": run, "facts": []}).json() == {
        "run": run,
        "facts": [],
    }


def test_a_service_in_a_terminal_shows_no_bars(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []
    monkeypatch.setattr(tempograph.progress, "in_notebook", lambda: looked.append(True))
    assert client.post("/api/v1/score", json={"facts": [FACT]}).status_code == 200
    assert looked == []


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("asked", COLUMNS)
def test_evidence_is_that_of_the_predictor(
    client: TestClient, predictors: dict[str, Predictor], run: str, asked: str
) -> None:
    answer = client.post(
        "/api/v1/evidence", json=FACT | {"run": run, "asked": asked, "most": 4}
    ).json()
    if asked in ("object", "subject"):
        completion = predictors[run].why(*FACT.values(), side=asked, evidence=4)
        (wanted,) = completion.answers
    else:
        completion = ask_predictor(predictors[run], asked, 12, 4)
        (wanted,) = [each for each in completion.answers if each.name == FACT[asked]]
    shown = asdict(wanted)
    # An entity that is explained has no interval of its own.
    for part in ("name", "start", "end"):
        del shown[part]
    shown |= {"legend": evidence_legend(wanted.evidence), "notes": completion.notes}
    assert_close(answer, FACT | {"run": run, "asked": asked} | shown)


@pytest.mark.parametrize("run", RUNS)
def test_evidence_has_the_same_fields_in_the_service_and_on_the_command_line(
    client: TestClient, call: Call, run: str
) -> None:
    query = without("object")
    options = [word for part, name in query.items() for word in (f"--{part}", name)]
    command = ["complete", str(STORED / run), *options, "--device", "cpu", "--json"]
    served = client.post("/api/v1/complete", json=query | {"run": run, "evidence": 3}).json()
    asked = as_json(call(*command))
    explained = as_json(call(*command, "--why", FACT["object"]))["answers"][0]
    one = client.post("/api/v1/evidence", json=FACT | {"run": run, "most": 3}).json()
    assert_close(served["answers"], asked["answers"])
    assert_close(one["evidence"], explained["evidence"])
    facts = [fact for answer in served["answers"] for fact in answer["evidence"]]
    names = [field.name for field in fields(EvidenceFact)]
    assert facts and all(list(fact) == names for fact in [*facts, *one["evidence"]])
    assert names[:4] == ["subject", "relation", "object", "time"]


def test_info_describes_runs_and_limits(
    client: TestClient, predictors: dict[str, Predictor]
) -> None:
    info = client.get("/api/v1/info").json()
    assert info["version"] == tempograph.__version__ and info["limits"]["top"] == 1000
    assert [run["name"] for run in info["runs"]] == list(RUNS)
    temp = info["runs"][0]
    graph = predictors["temp-gru"].graph
    assert temp["times"] == list(graph.times) and (temp["first"], temp["last"]) == (
        graph.times[0],
        graph.times[-1],
    )
    assert temp["facts"] == {"train": 120, "valid": 15, "test": 15} and temp["entities"] == 12
    assert temp["window"] == {"past": 8, "future": 8} and temp["metrics"]["valid"]["mrr"] > 0
    assert info["runs"][1]["window"] is None


def test_names_can_be_searched(client: TestClient) -> None:
    found = client.get("/api/v1/entities", params={"q": "VELES", "limit": 2}).json()
    assert [each["name"] for each in found["names"]] == ["Velessa", "Central Bank of Velessa"]
    relations = client.get("/api/v1/relations", params={"q": "vis", "run": "ted"}).json()
    assert relations["run"] == "ted" and relations["names"][0]["name"] == "visits"
    assert len(client.get("/api/v1/relations").json()["names"]) == 4


def test_timelines_have_pages_and_snapshots_have_limits(
    client: TestClient, predictors: dict[str, Predictor]
) -> None:
    graph = predictors["temp-gru"].graph
    asked = {"entity": "corenne", "from": "2030-01-03", "to": "2030-01-04", "time": "2030-01-09"}
    page = client.get("/api/v1/timeline", params=asked | {"limit": 5, "offset": 2}).json()
    whole = client.get("/api/v1/timeline", params=asked).json()
    wanted = [f for f in graph.all_facts if 0 in (f[0], f[2]) and 2 <= f[3] <= 3]
    assert (
        whole["total"]
        == page["total"]
        == len(wanted)
        == sum(each["facts"] for each in whole["counts"])
    )
    assert page["facts"] == whole["facts"][2:7] and whole["window"] == {
        "from": "2030-01-01",
        "to": "2030-01-10",
    }
    assert (whole["entity"], whole["from"], whole["to"]) == ("Corenne", "2030-01-03", "2030-01-04")
    assert (
        client.get("/api/v1/timeline", params={"entity": "Corenne", "run": "ted"}).json()["window"]
        is None
    )
    snapshot = client.get(
        "/api/v1/snapshot", params={"entity": "Corenne", "time": "2030-01-03", "limit": 3}
    ).json()
    assert snapshot["nodes"][0]["name"] == "Corenne" and len(snapshot["nodes"]) == 3
    assert {edge["time"] for edge in snapshot["edges"]} == {"2030-01-03"}


def test_a_neighborhood_has_limits(client: TestClient) -> None:
    asked = {"entity": ["corenne", "Velessa"], "time": "2030-01-05"}
    found = client.get("/api/v1/neighborhood", params=asked | {"reach": 2, "limit": 1}).json()
    assert (found["from"], found["to"]) == ("2030-01-03", "2030-01-07")
    assert [node["name"] for node in found["nodes"][:2]] == ["Corenne", "Velessa"]
    assert len(found["nodes"]) <= 4 and found["total_edges"] == len(found["edges"]) > 0
    assert client.get("/api/v1/neighborhood", params=asked).json()["from"] == "2030-01-05"
    for wrong in ({"entity": []}, {"entity": ["Velessa"] * 21}, {"reach": -1}, {"limit": 51}):
        assert client.get("/api/v1/neighborhood", params=asked | wrong).status_code == 422
    unknown = client.get("/api/v1/neighborhood", params=asked | {"entity": ["Velessa", "Velesa"]})
    assert unknown.status_code == 404 and "Velessa" in unknown.json()["suggestions"]


def test_a_timeline_can_extend_to_both_sides_of_a_time(client: TestClient) -> None:
    near = client.get(
        "/api/v1/timeline", params={"entity": "Corenne", "time": "2030-01-02", "reach": 2}
    ).json()
    days = [f"2030-01-{day:02d}" for day in range(1, 5)]
    assert (near["from"], near["to"], near["times"]) == (days[0], days[-1], days), (
        "it ends where the data do"
    )
    same_days = client.get(
        "/api/v1/timeline", params={"entity": "Corenne", "to": days[-1], "time": "2030-01-02"}
    ).json()
    assert near == same_days
    for parameters in ({"reach": 2}, {"reach": 2, "time": days[0], "from": days[0]}):
        response = client.get("/api/v1/timeline", params={"entity": "Corenne"} | parameters)
        assert response.status_code == 422
        assert response.json()["detail"].startswith("reach needs time")


def test_examples_are_facts_of_the_run(
    client: TestClient, predictors: dict[str, Predictor]
) -> None:
    facts = client.get("/api/v1/examples", params={"limit": 3, "run": "ted"}).json()["facts"]
    assert len({fact["subject"] for fact in facts}) == 3
    rows = [[fact[part] for part in ("subject", "relation", "object", "time")] for fact in facts]
    assert all(predictors["ted"].score(rows)["known"].to_pylist())


WRONG: dict[str, tuple[dict[str, Any], int, str, list[str]]] = {
    "misspelled": (
        without("object") | {"subject": "Corene"},
        404,
        "there is no subject 'Corene'",
        ["Corenne"],
    ),
    "relation": (
        without("object") | {"relation": "visit"},
        404,
        "there is no relation 'visit'",
        ["visits"],
    ),
    "late": (
        without("object") | {"time": "9999-01-01"},
        404,
        "there is no time '9999-01-01'",
        ["2030-01-10"],
    ),
    "early": (without("object") | {"time": "1999"}, 404, "there is no time '1999'", ["2030-01-01"]),
    "run": (without("object") | {"run": "tde"}, 404, "there is no run 'tde'", list(RUNS)),
    "one part": (
        {"subject": "Corenne", "time": "2030-01-05"},
        422,
        message("completions.one_missing"),
        [],
    ),
    "all parts": (FACT, 422, message("completions.one_missing"), []),
    "id": (without("object") | {"subject": 99}, 404, "there is no subject '99'", []),
    "negative id": (
        without("object") | {"subject": -1},
        422,
        "subject: Input should be a valid string; subject: Input should be greater than or equal",
        [],
    ),
    "first": (
        without("time") | {"first": "2029-12-31"},
        404,
        "there is no first '2029-12-31'",
        ["2030-01-01"],
    ),
    "backwards": (
        without("time") | {"first": "2030-01-05", "last": 2},
        422,
        "the period from 2030-01-05 to 2 runs backwards",
        [],
    ),
    "period": (without("object") | {"last": "2030-01-05"}, 422, "first and last bound", []),
    "top": (without("object") | {"top": 1001}, 422, "top is at most 1000, found 1001", []),
    "top 0": (
        without("object") | {"top": 0},
        422,
        "top: Input should be greater than or equal to 1",
        [],
    ),
    "text": (without("object") | {"top": "3"}, 422, "top: Input should be a valid integer", []),
    "explained": (
        without("object") | {"top": 101, "evidence": 1},
        422,
        "with evidence, top is at most 100",
        [],
    ),
    "typo": (without("object") | {"tpo": 3}, 422, "tpo: Extra inputs are not permitted", []),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_gets_a_problem(client: TestClient, case: str) -> None:
    body, status, detail, suggestions = WRONG[case]
    answer = client.post("/api/v1/complete", json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status and problem["title"]
    assert problem["type"].startswith("urn:tempograph:problem:")
    assert problem["detail"].startswith(detail)
    assert problem["suggestions"][: len(suggestions)] == suggestions
    assert problem["part"] == (detail.split()[3] if status == 404 else None)


def test_wrong_parameters_get_a_problem(client: TestClient) -> None:
    cases = [
        ("/api/v1/timeline?entity=Corenn", 404),
        ("/api/v1/timeline?entity=Corenne&from=2030-01-04&to=2030-01-03", 422),
        ("/api/v1/timeline", 422),
        ("/api/v1/snapshot?entity=Corenne&time=x", 404),
        ("/api/v1/snapshot?entity=Corenne&time=2030-01-03&limit=201", 422),
        ("/api/v1/entities?limit=0", 422),
        ("/api/v1/entities?run=x", 404),
        ("/api/v1/nothing", 404),
        ("/api/v1/complete", 405),
    ]
    for path, status in cases:
        answer = client.get(path)
        assert (answer.status_code, answer.json()["status"]) == (status, status), path


def test_concurrent_clients_get_their_own_answers(
    client: TestClient, predictors: dict[str, Predictor]
) -> None:
    questions = [
        (run, graph.describe(fact), asked)
        for run in RUNS
        for graph in [predictors[run].graph]
        for fact in graph.all_facts[::10]
        for asked in ("object", "subject")
    ]

    def ask(question: tuple[str, dict[str, str], str]) -> Any:
        run, named, asked = question
        given = {part: value for part, value in named.items() if part != asked}
        return client.post("/api/v1/complete", json=given | {"run": run, "top": 12}).json()

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, questions))
    for (run, named, asked), answer in zip(questions, answers, strict=True):
        assert answer["run"] == run and answer["asked"] == asked
        assert all(answer[part] == named[part] for part in named if part != asked)
        if asked == "object":
            wanted = predictors[run].objects(
                named["subject"], named["relation"], named["time"], top=12, evidence=0
            )
        else:
            wanted = predictors[run].subjects(
                named["relation"], named["object"], named["time"], top=12, evidence=0
            )
        known = {each.name: each.score for each in wanted.answers}
        assert {each["name"] for each in answer["answers"]} == known.keys()
        for each in answer["answers"]:
            assert math.isclose(each["score"], known[each["name"]], rel_tol=1e-4, abs_tol=1e-5)


def test_runs_are_separate(predictors: dict[str, Predictor], small_run: Predictor) -> None:
    with client_of({"one": predictors["temp-gru"], "other": small_run}) as client:
        assert client.get("/api/v1/entities", params={"q": "ann"}).json()["names"] == []
        found = client.get("/api/v1/entities", params={"q": "ann", "run": "other"}).json()
        assert [each["name"] for each in found["names"]] == ["Ann"]
        for path in ("/api/v1/timeline?entity=Ann", "/api/v1/snapshot?entity=Ann&time=2030-01-03"):
            problem = client.get(path)
            assert problem.status_code == 404 and "Ann" not in str(problem.json()["suggestions"])
        body = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05", "run": "other"}
        problem = client.post("/api/v1/complete", json=body).json()
        unknown = message("suggestions.unknown", kind="subject", value="Corenne")
        assert problem["detail"] == unknown and problem["suggestions"] == []


def test_a_dataset_may_have_one_time_step() -> None:
    facts = np.array([(0, 0, 1, 0), (1, 0, 0, 0)])
    graph = TemporalGraph(
        "small", ("Ann", "Bob"), ("meets",), ("now",), facts, facts[:1], facts[:0]
    )
    run = train(graph, "temp-gru", device="cpu", overrides=["train.epochs=1", "model.dim=4"])
    with client_of({"one": Predictor(run, "cpu")}) as client:
        body = {"subject": "Ann", "relation": "meets", "time": "now"}
        assert client.post("/api/v1/complete", json=body).status_code == 200


def test_limits_are_enforced(predictors: dict[str, Predictor]) -> None:
    with client_of(predictors, Limits(top=2, facts=1, body=300)) as client:
        assert (
            client.post("/api/v1/complete", json=without("object") | {"top": 3}).status_code == 422
        )
        assert client.post("/api/v1/score", json={"facts": [FACT]}).status_code == 200
        assert client.post("/api/v1/score", json={"facts": [FACT, FACT]}).status_code == 422
        assert client.post("/api/v1/score", json={"facts": [FACT] * 4}).status_code == 413


def test_an_unknown_name_in_a_batch_has_an_index(client: TestClient) -> None:
    facts = [FACT, FACT, FACT | {"object": "Velesa"}, FACT | {"subject": "x"}]
    response = client.post("/api/v1/score", json={"facts": facts})
    problem = response.json()
    assert response.status_code == 404
    assert (problem["index"], problem["part"]) == (2, "object")
    wanted = {"index": 2, "part": "object", "name": "Velesa"}
    assert problem["detail"] == message("problems.unknown_in_batch", **wanted)
    assert problem["suggestions"][0] == "Velessa"
    alone = client.post("/api/v1/complete", json=without("object") | {"subject": "x"})
    assert alone.json()["index"] is None


def test_as_many_facts_as_allowed_fit_into_a_body(small_run: Predictor) -> None:
    fact = dict.fromkeys(("subject", "relation", "object"), "x" * 55) | {"time": "2014-01-01"}
    facts = [fact] * Limits().facts
    with client_of({"small": small_run}) as client:
        response = client.post("/api/v1/score", json={"facts": facts})
        assert response.status_code == 404 and response.json()["index"] == 0
        response = client.post("/api/v1/score", json={"facts": [*facts, fact]})
        assert response.status_code == 422
        assert "at most 10000 items" in response.json()["detail"]


def test_the_api_documentation_is_complete_and_loads_nothing_from_other_hosts(
    client: TestClient,
) -> None:
    api = client.get("/openapi.json").json()
    assert {
        "/api/v1/complete",
        "/api/v1/complete/batch",
        "/api/v1/score",
        "/api/v1/evidence",
        "/api/v1/missing",
        "/api/v1/surprising",
        "/api/v1/forecast",
        "/api/v1/calibration",
        "/api/v1/timeline",
        "/api/v1/snapshot",
    } <= api["paths"].keys()
    for path in ("/", "/docs"):
        page = client.get(path)
        assert page.status_code == 200 and "://" not in page.text.replace("http://localhost", "")
    assert all(f"{path}</code>" in client.get("/docs").text for path in api["paths"])


def test_the_api_description_has_tags_examples_and_the_token(client: TestClient) -> None:
    api = client.get("/openapi.json").json()
    routes = [route for methods in api["paths"].values() for route in methods.values()]
    tags = {tag["name"] for tag in api["tags"]}
    assert all(set(route["tags"]) <= tags and len(route["tags"]) == 1 for route in routes)
    for route in routes:
        for content in route.get("requestBody", {}).get("content", {}).values():
            body = api["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
            assert body["examples"]
            for example in body["examples"]:
                assert example.keys() <= body["properties"].keys()
    assert api["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert {} in api["security"], "this service has no token"
    assert api["paths"]["/health"]["get"]["security"] == []


def test_a_service_with_a_token_says_that_it_is_required(small_run: Predictor) -> None:
    token = "s3cret-s3cret-s3cret"
    with client_of({"small": small_run}, token=token) as client:
        headers = {"authorization": f"Bearer {token}"}
        assert client.get("/openapi.json", headers=headers).json()["security"] == [{"token": []}]


def test_every_problem_is_described(client: TestClient) -> None:
    kinds = {
        node.args[1].value
        for file in Path(tempograph.server.app.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem"
        if isinstance(node.args[1], ast.Constant)
    }
    assert {"unknown-name", "failed", "token", "too-slow"} <= kinds <= KINDS.keys()
    types = client.get("/openapi.json").json()["components"]["schemas"]["ProblemDetails"]
    assert types["properties"]["type"]["enum"] == [f"urn:tempograph:problem:{k}" for k in KINDS]
    assert KINDS.keys() >= {"no-such-page", "wrong-method", "refused"}
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in page] == []


def test_unversioned_paths_are_gone(client: TestClient) -> None:
    assert client.get("/api/info").status_code == 404
    assert client.post("/api/complete", json=without("object")).status_code == 404
