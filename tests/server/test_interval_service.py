"""A service over facts that hold for a while."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import tempograph
from exploring import accessibility_problems, answers, expect
from intervals import interval_graph, random_intervals
from live_service import live_service
from serving import Served, client_of, count_units
from tempograph import Client, Predictor, TemporalGraph
from tempograph.data.spans import Bounds
from tempograph.server.fact_lookup import FactLookup
from tempograph.typing import SPLITS

pytest_plugins = ("browser_fixtures", "serving_fixtures")


@pytest.fixture(scope="module")
def graph() -> TemporalGraph:
    facts = np.unique(random_intervals(np.random.default_rng(5), 70, 6, 2, 12), axis=0)
    facts = np.concatenate([facts, [(0, 0, 1, 3, 6, 0), (0, 0, 2, 9, 11, Bounds.OPEN_END)]])
    return interval_graph(facts[10:], facts[:5], facts[5:10], entities=6, steps=12, first=1990)


@pytest.fixture(scope="module")
def predictor(graph: TemporalGraph, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    folder = tmp_path_factory.mktemp("runs") / "held"
    return Predictor(tempograph.train(graph, "ted", out=folder, device="cpu"), "cpu")


@pytest.fixture(scope="module")
def client(predictor: Predictor) -> Iterator[TestClient]:
    with client_of({"run": predictor}) as client:
        yield client


def test_facts_of_a_period_are_those_that_hold_in_it(graph: TemporalGraph) -> None:
    lookup = FactLookup(graph)
    rows = [(*row, split) for split in SPLITS for row in graph.facts(split).tolist()]
    for entity in range(len(graph.entities)):
        for first, last in ((0, 11), (4, 4), (5, 8)):
            wanted = [
                row
                for row in rows
                if entity in (row[0], row[2]) and row[3] <= last and first <= row[4]
            ]
            positions = lookup.of_entity(entity, first, last)
            found = [(*lookup.facts[i].tolist(), SPLITS[lookup.split[i]]) for i in positions]
            assert sorted(found) == sorted(wanted)
            counts = {
                each.time: each.facts
                for each in lookup.step_counts(positions, range(first, last + 1))
            }
            assert counts == {
                graph.times[step]: count
                for step in range(first, last + 1)
                if (count := sum(row[3] <= step <= row[4] for row in wanted))
            }
            among = lookup.among([entity, 0, 1], first, last)
            assert sorted(map(tuple, lookup.facts[among].tolist())) == sorted(
                row[:6]
                for row in rows
                if {row[0], row[2]} <= {entity, 0, 1} and row[3] <= last and first <= row[4]
            )


def test_facts_and_answers_have_a_start_and_an_end(
    client: TestClient, predictor: Predictor
) -> None:
    facts = client.get("/api/v1/timeline", params={"entity": "e0", "limit": 1000}).json()["facts"]
    assert {"start": "1993", "end": "1996", "time": "1993"}.items() <= next(
        fact for fact in facts if (fact["object"], fact["start"]) == ("e1", "1993")
    ).items()
    assert any(fact["end"] == ".." for fact in facts)
    question = {"subject": "e0", "relation": "r0", "time": "1994", "evidence": 2}
    reply = client.post("/api/v1/complete", json=question).json()
    expected = predictor.objects("e0", "r0", "1994", evidence=2)
    assert [answer["since"] for answer in reply["answers"]] == [
        answer.since for answer in expected.answers
    ]
    known = next(answer for answer in reply["answers"] if answer["name"] == "e1")
    assert known["since"] is not None and known["until"] is not None
    assert all(fact["start"] is not None for fact in known["evidence"])
    page = client.get("/api/v1/entity", params={"entity": "e0", "time": "1994"}).json()
    assert page["near"] and all(fact["start"] is not None for fact in page["near"])


def test_periods_and_intervals_are_answered(client: TestClient, predictor: Predictor) -> None:
    question = {"subject": "e0", "relation": "r0", "time": "1993", "until": "1996"}
    reply = client.post("/api/v1/complete", json=question).json()
    expected = predictor.objects("e0", "r0", "1993", until="1996")
    assert [each["name"] for each in reply["answers"]] == [each.name for each in expected.answers]
    assert (reply["time"], reply["until"]) == ("1993", "1996")
    backwards = client.post("/api/v1/complete", json=question | {"until": "1990"})
    assert backwards.status_code == 422 and "must not be before" in backwards.json()["detail"]
    when = {"subject": "e0", "relation": "r0", "object": "e1", "evidence": 1}
    reply = client.post("/api/v1/complete", json=when).json()
    expected = predictor.when("e0", "r0", "e1", top=10, evidence=1)
    assert [(each["start"], each["end"]) for each in reply["answers"]] == [
        (each.start, each.end) for each in expected.answers
    ]
    refused = {key: value for key, value in when.items() if key != "evidence"}
    explained = client.post("/api/v1/evidence", json=refused | {"time": "1994", "asked": "time"})
    assert explained.status_code == 422 and "intervals" in explained.json()["detail"]


QUESTION = {"subject": "e0", "relation": "r0", "time": "1994"}
HELD = {"subject": "e0", "relation": "r0", "object": "e1", "start": "1993", "end": "1996"}
NEW = {"subject": "e0", "relation": "r0", "object": "e3", "start": "1990", "end": "1999"}
OPEN = {"subject": "e4", "relation": "r1", "object": "e5", "start": "1995"}
CLOSED = {"subject": "e0", "relation": "r0", "object": "e2", "start": "1999"}
"""Known with an open end."""
MOMENT = {"subject": "e0", "relation": "r0", "object": "e4", "time": "1994"}
CHANGES: dict[str, tuple[list[dict[str, str]], list[dict[str, str]]]] = {
    "interval added": ([NEW], []),
    "interval removed": ([], [HELD]),
    "removed at a moment": ([], [{**QUESTION, "object": "e1"}]),
    "end known": ([{**CLOSED, "end": "2000"}], []),
    "all kinds": ([NEW, OPEN, MOMENT], [HELD]),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_if_changes_are_those_of_a_predictor(
    client: TestClient, predictor: Predictor, case: str
) -> None:
    added, removed = CHANGES[case]
    other = Predictor(predictor.run, "cpu")
    question = ("e0", "r0", "2001" if case == "end known" else "1994")
    before = {each.name: each for each in other.objects(*question, 6, 0).answers}
    for change, facts in ((other.add, added), (other.remove, removed)):
        for fact in facts:
            when = ("start", "end") if "start" in fact else ("time",)
            row = [fact.get(part) for part in ("subject", "relation", "object", *when)]
            change([row], strict=True)  # type: ignore[operator]
    after = {each.name: each for each in other.objects(*question, 6, 0).answers}
    assert before != after
    body = QUESTION | {"time": question[2]} | {"added": added, "removed": removed, "top": 6}
    found = client.post("/api/v1/what-if", json=body).json()["answers"]
    assert {each["name"] for each in found} == before.keys() | after.keys()
    for each in found:
        for ranked, when in ((before, "before"), (after, "after")):
            if each["name"] in ranked:
                wanted = ranked[each["name"]]
                assert each[f"rank_{when}"] == wanted.rank
                assert each[f"probability_{when}"] == pytest.approx(wanted.probability, rel=1e-4)


def test_what_if_may_ask_for_the_relation(client: TestClient, predictor: Predictor) -> None:
    other = Predictor(predictor.run, "cpu")
    other.add([("e0", "r1", "e1", "1992", "1997")], strict=True)
    wanted = {each.name: each for each in other.relations("e0", "e1", "1994").answers}
    fact = HELD | {"relation": "r1", "start": "1992", "end": "1997"}
    body = {"subject": "e0", "object": "e1", "time": "1994", "added": [fact]}
    found = client.post("/api/v1/what-if", json=body).json()["answers"]
    assert {each["name"] for each in found} == {"r0", "r1"}
    for each in found:
        assert each["rank_after"] == wanted[each["name"]].rank
        probability = pytest.approx(wanted[each["name"]].probability, rel=1e-4)
        assert each["probability_after"] == probability
    before = {each.name: each.score for each in predictor.relations("e0", "e1", "1994").answers}
    assert {name: each.score for name, each in wanted.items()} != before


WRONG: dict[str, tuple[dict[str, Any], int, str]] = {
    "known": ({"added": [NEW, HELD]}, 422, "added.1: .*1993 to 1996) is already among"),
    "unknown": ({"removed": [MOMENT, NEW]}, 422, "removed.0: .*is not among the facts"),
    "backwards": ({"added": [NEW | {"end": "1989"}]}, 422, "added.0: .*is before"),
    "swapped": ({"added": [NEW, NEW | {"start": "1999", "end": "1990"}]}, 422, "added.1: .*after"),
    "off the grid": ({"added": [NEW | {"end": "2050"}]}, 422, "added.0: .*its end is '..'"),
    "no time": ({"added": [{**HELD, "start": None, "end": None}]}, 422, "added.0: neither"),
    "nothing": ({"added": [dict(list(HELD.items())[:3])]}, 422, "added.0: the time is missing"),
    "name": ({"added": [NEW | {"object": "e33"}]}, 404, "added.0.object: there is no"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_facts_with_an_end_are_named(client: TestClient, case: str) -> None:
    changes, status, words = WRONG[case]
    response = client.post("/api/v1/what-if", json=QUESTION | changes)
    start, _, end = words.partition(".*")
    detail = response.json()["detail"]
    assert response.status_code == status and detail.startswith(start) and end in detail


def test_facts_at_a_moment_and_with_an_end_are_scored_in_one_request(
    client: TestClient, predictor: Predictor
) -> None:
    wrong = HELD | {"end": "1900"}
    body = {"facts": [HELD, MOMENT, wrong, NEW], "strict": False}
    found = client.post("/api/v1/score", json=body).json()["facts"]
    intervals = [list(fact.values()) for fact in (HELD, wrong, NEW)]
    held = iter(predictor.score(intervals).to_pylist())
    at_moment = [MOMENT[part] for part in ("subject", "relation", "object", "time")]
    (moment,) = predictor.score([at_moment]).to_pylist()
    for fact, row in zip(found, (next(held), moment, *held), strict=True):
        names = ("subject", "relation", "object", "time", "start", "end")
        assert fact["fact"] == {
            name: row[name] for name in names if name == "time" or row.get(name) is not None
        }
        assert (fact["known"], fact["error"]) == (row["known"], row["error"])
        if row["error"] is None:
            assert fact["object"]["rank"] == pytest.approx(row["object_rank"])
    assert [fact["error"] is None for fact in found] == [True, True, False, True]
    strict = client.post("/api/v1/score", json={"facts": body["facts"]})
    assert strict.status_code == 422 and strict.json()["index"] == 2


def test_facts_of_events_have_no_start(small_run: Predictor) -> None:
    with client_of({"small": small_run}) as client:
        fact = {"subject": 0, "relation": 0, "object": 1, "start": 0}
        bodies = {"score": {"facts": [fact]}, "what-if": {**fact, "object": None, "added": [fact]}}
        bodies["what-if"] |= {"time": 0}
        del bodies["what-if"]["start"]
        for path, body in bodies.items():
            response = client.post(f"/api/v1/{path}", json=body)
            assert response.status_code == 422
            assert "the facts of small are events; give a time" in response.json()["detail"]


def test_a_batch_may_ask_for_every_part(client: TestClient) -> None:
    fact = {"subject": "e0", "relation": "r0", "object": "e1", "time": "1994"}
    asked = ("object", "relation", "time")
    questions = [{key: value for key, value in fact.items() if key != part} for part in asked]
    body = {"questions": questions, "strict": False}
    results = client.post("/api/v1/complete/batch", json=body).json()["results"]
    assert [result["error"] for result in results] == [None, None, None]


def test_intervals_and_their_evidence_are_found_in_units(
    client: TestClient, predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = {"subject": "e0", "relation": "r0", "object": "e1"}
    options = {"top": 5, "evidence": 2}
    wanted = predictor.when(*question.values(), **options)  # type: ignore[arg-type]
    units = count_units(monkeypatch)
    reply = client.post("/api/v1/complete", json=question | options).json()
    assert len(units) > 6, "steps, then answers"
    assert [each["name"] for each in reply["answers"]] == [each.name for each in wanted.answers]
    effects = [[fact["effect"] for fact in each["evidence"]] for each in reply["answers"]]
    assert effects == [
        pytest.approx([fact.effect for fact in each.evidence]) for each in wanted.answers
    ]
    alone = len(units)
    both = {"questions": [question, question | {"time": "1994", "object": None}]}
    results = client.post("/api/v1/complete/batch", json=both | options).json()["results"]
    assert results[0]["completion"]["answers"] == reply["answers"]
    assert len(units) > 2 * alone
    for strict, status in ((True, 422), (False, 200)):
        body = both | {"new": True, "strict": strict}
        refused = client.post("/api/v1/complete/batch", json=body)
        assert refused.status_code == status and "new leaves out steps" in refused.text


def test_evidence_over_a_period_is_that_of_the_best_step(
    client: TestClient, predictor: Predictor
) -> None:
    wanted = predictor.objects("e0", "r0", "1991", until="1997", evidence=3)
    question = {"subject": "e0", "relation": "r0", "time": "1991", "until": "1997"}
    for answer in wanted.answers[:3]:
        body = question | {"object": answer.name, "most": 3}
        found = client.post("/api/v1/evidence", json=body).json()
        assert found["rank"] == answer.rank
        assert found["probability"] == pytest.approx(answer.probability)
        assert [each["time"] for each in found["evidence"]] == [e.time for e in answer.evidence]
        assert found["time"] in predictor.graph.times[1:8]
        alone = predictor.objects("e0", "r0", found["time"], evidence=0)
        assert found["probability"] == pytest.approx(
            next(each.probability for each in alone.answers if each.name == answer.name)
        )
    wrong = client.post("/api/v1/evidence", json=body | {"until": "199"})
    assert (wrong.status_code, wrong.json()["part"]) == (404, "until")
    assert set(wrong.json()["suggestions"]) <= set(predictor.graph.times)


def test_scans_name_the_start_and_the_end(client: TestClient) -> None:
    missing = client.post("/api/v1/missing", json={"top": 3})
    assert missing.status_code == 200 and missing.text.count('"start":"') == 3
    surprising = client.post("/api/v1/surprising", json={"top": 3})
    assert surprising.status_code == 200 and '"start":"' in surprising.text


def test_clients_name_the_start_and_the_end_of_surprising_facts(predictor: Predictor) -> None:
    wanted = predictor.surprising(top=4, progress=False)
    with live_service({"run": predictor}) as url, Client(url) as client:
        found = client.surprising(top=4, progress=False)
    assert found.column_names == wanted.column_names
    for name in ("subject", "time", "start", "end"):
        assert found[name].to_pylist() == wanted[name].to_pylist()


def test_the_explorer_knows_since_when_until_when(predictor: Predictor, browser: Any) -> None:
    when = predictor.when("e0", "r0", "e1", top=10)
    assert " to " in when.answers[0].name
    with Served(str(predictor.run.path)) as service:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
        tab = context.new_page()
        errors: list[str] = []
        tab.on("console", lambda line: errors.append(line.text))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        address = f"http://localhost:{service.port}/"
        tab.goto(f"{address}?asked=time&subject=e0&relation=r0&object=e1")
        expect(answers(tab).locator(".name")).to_have_text([each.name for each in when.answers])
        tab.locator(".asked label", has_text="relation").click()
        expect(answers(tab)).to_have_count(2)
        tab.goto(f"{address}?asked=time&subject=e0&relation=r0&object=e1")
        expect(answers(tab).locator(".name")).to_have_text([each.name for each in when.answers])
        answers(tab).first.click()
        expect(tab.locator("#evidence-title")).to_have_text(f"Why {when.answers[0].name}?")
        expect(tab.locator("#evidence .fact-text").first).to_be_visible()
        expect(tab.locator("#timeline-title")).to_contain_text(f"around {when.answers[0].start}")
        tab.locator(".asked label", has_text="object").click()
        expect(tab.locator("#asking")).to_have_text(f"e0 r0 ? at {when.answers[0].start}")
        expect(answers(tab).first).to_be_visible()
        tab.goto(f"{address}?subject=e0&relation=r0&time=1994")
        expect(tab.get_by_text("known: 1993 to 1996, train")).to_be_visible()
        expect(tab.locator("#graph .reader")).to_be_visible()
        assert accessibility_problems(tab) == []
        shown = predictor.run.graph
        held = [
            row for split in SPLITS for row in shown.facts(split).tolist() if 0 in (row[0], row[2])
        ]
        assert sum(row[4] > row[3] for row in held) > 3
        expect(tab.locator("#timeline rect.fact")).to_have_count(len(held))
        # In one call, so that the timeline is not drawn again in between.
        shares = tab.locator("#timeline svg").evaluate(
            """svg => [...svg.querySelectorAll("rect.fact")].map(
                (bar) => bar.getBoundingClientRect().width / svg.getBoundingClientRect().width,
            )"""
        )
        steps = sorted(round(12 * share) for share in shares)
        assert steps == sorted(row[4] - row[3] + 1 for row in held), "one bar per fact"
        day = tab.locator("#timeline .day[data-time='1994']")
        day.focus()
        at_step = [row for row in held if row[3] <= 4 <= row[4]]
        expect(day).to_have_attribute("aria-label", re.compile(rf"1994: {len(at_step)} facts. e\d"))
        expect(tab.locator("#timeline .reader li")).to_have_count(len(at_step))
        tab.goto(f"{address}?page=entity&entity=e0&time=1995")
        results = tab.locator("#entity-results")
        expect(results.get_by_role("heading", name="Facts at 1995")).to_be_visible()
        expect(results.locator(".plain-facts")).to_contain_text("1993 to 1996 e0 r0 e1")
        tab.goto(f"{address}?page=surprising&search=yes")
        expect(
            tab.locator("#page tbody td:nth-child(2)").filter(has_text=" to ")
        ).not_to_have_count(0)
        ranks = tab.locator("#page tbody td:nth-child(8)").all_inner_texts()
        assert max(map(len, ranks)) <= 4
        tab.goto(f"{address}?page=missing&search=yes")
        when = tab.locator("#missing-results tbody td:nth-child(2)").filter(has_text=" to ")
        expect(when).not_to_have_count(0)
        expect(tab.get_by_role("columnheader", name="Other times")).to_have_count(0)
        tab.goto(f"{address}?page=calibration")
        expect(tab.get_by_label("Probabilities of").locator("option")).to_have_text(
            ["entities", "relations"]
        )
        assert errors == []
        context.close()


def test_the_explorer_adds_and_removes_facts_with_an_end(
    predictor: Predictor, client: TestClient, browser: Any
) -> None:
    with Served(str(predictor.run.path)) as service:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
        tab = context.new_page()
        errors: list[str] = []
        tab.on("console", lambda line: errors.append(line.text))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        question = "subject=e0&relation=r0&time=1994"
        tab.goto(f"http://localhost:{service.port}/?page=what-if&{question}")
        for part, name in (("Subject", "e0"), ("Relation", "r0"), ("Object", "e3")):
            field = tab.get_by_label(f"{part} of it", exact=True)
            field.focus()
            field.press_sequentially(name)
            field.press("Enter")
            expect(field).to_have_attribute("title", name)
        tab.get_by_label("Time of it").select_option("1990")
        tab.get_by_label("Until").select_option("1999")
        tab.get_by_role("button", name="Add the fact").press("Enter")
        changes = tab.get_by_role("list", name="Facts added and removed")
        expect(changes).to_contain_text("1990 to 1999 e0 r0 e3")
        # Buttons are drawn again when the answers arrive.
        tab.wait_for_load_state("networkidle")
        remove = tab.get_by_role("button", name="Remove e0 r0 e1 1993 to 1996")
        remove.press("Enter")
        expect(changes).to_contain_text("removed 1993 to 1996 e0 r0 e1")
        expect(remove).to_have_count(0)
        body = QUESTION | {"added": [NEW], "removed": [HELD]}
        wanted = client.post("/api/v1/what-if", json=body).json()["answers"]
        rows = tab.locator("#what-if-results tbody tr")
        expect(rows).to_have_count(len(wanted))
        for row, each in zip(rows.all(), wanted, strict=True):
            cells = (str(each["rank_before"]), each["name"], f"{each['probability_after']:.1%}")
            for column, text in zip((0, 1, 4), cells, strict=True):
                expect(row.locator("td").nth(column)).to_have_text(text)
        assert accessibility_problems(tab) == []
        tab.get_by_role("button", name="Undo: added").press("Enter")
        tab.get_by_label("Until").select_option("any")
        tab.get_by_role("button", name="Add the fact").press("Enter")
        expect(changes).to_contain_text("added 1990 e0 r0 e3")
        assert errors == []
        context.close()
