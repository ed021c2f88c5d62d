"""The explorer at / in a real browser, against a real service."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from exploring import (
    EVIL,
    FACT,
    HOURS,
    LONG,
    Open,
    accessibility_problems,
    answers,
    choose,
    complete,
    expect,
    found_names,
    url_query,
)
from serving import STORED, Served
from tempograph.prediction.answer import EvidenceFact, evidence_legend

pytest_plugins = ("serving_fixtures", "browser_fixtures", "explorer_fixtures")

TOKEN = "correct-horse-battery"
PARTS = ("subject", "relation", "object")


def test_the_first_visit_shows_an_example(page: Open) -> None:
    tab = page()
    expect(answers(tab)).to_have_count(10)
    expect(tab.get_by_role("heading", name="Why")).to_be_visible()
    assert {"subject", "relation", "time", "answer", "run"} == url_query(tab).keys()
    tab.locator("#examples a").first.click()
    expect(answers(tab)).to_have_count(10)
    expect(tab.locator("#examples")).to_be_hidden()


def test_a_query_can_be_typed(page: Open, service: Served) -> None:
    tab = page()
    choose(tab, "Subject", "vel", "President of Velessa")
    choose(tab, "Relation", "HOST", "hosts a visit from")
    tab.get_by_label("Time", exact=True).fill("2030-01-07")
    tab.get_by_label("Answers").select_option("5")
    expect(
        tab.get_by_role("heading", name="President of Velessa hosts a visit from ? on 2030-01-07")
    ).to_be_visible()
    wanted = complete(
        service,
        subject="President of Velessa",
        relation="hosts a visit from",
        time="2030-01-07",
        top=5,
        run="temp-gru",
    )
    expect(answers(tab)).to_have_count(5)
    for row, answer in zip(answers(tab).all(), wanted, strict=True):
        assert row.locator(".name").inner_text() == answer["name"]
        assert row.locator(".value").inner_text() == f"{answer['probability']:.1%}"
        assert row.locator(".badge").inner_text() == (
            f"known: {answer['known']}" if answer["known"] else "new"
        )
    widths = [row.bounding_box()["width"] for row in tab.locator("#first .fill").all()]
    shares = [answer["probability"] for answer in wanted]
    # A bar is drawn to the pixel, and answers with the same share have the same bar.
    assert np.allclose(np.array(widths) / widths[0], np.array(shares) / shares[0], atol=0.02)
    date = tab.get_by_label("Time", exact=True)
    assert (date.get_attribute("min"), date.get_attribute("max")) == ("2030-01-01", "2030-01-10")
    tab.get_by_role("button", name="One step ahead").click()
    assert url_query(tab)["time"] == "2030-01-08"


@pytest.mark.parametrize("part", ["subject", "relation"])
def test_subjects_and_relations_can_be_predicted(page: Open, service: Served, part: str) -> None:
    tab = page(**FACT, answer="Velessa")
    tab.locator(".asked label", has_text=part).click()
    given = (
        {"object": "Corenne", "relation": "visits"}
        if part == "subject"
        else {"subject": "Corenne", "object": "Velessa"}
    )
    wanted = complete(service, **given, time="2030-01-05")
    expect(answers(tab).first.locator(".name")).to_have_text(wanted[0]["name"])
    expect(answers(tab)).to_have_count(len(wanted))


def test_times_can_be_predicted_in_a_period(page: Open, service: Served) -> None:
    fact = {"subject": "Corenne", "relation": "visits", "object": "Velessa"}
    tab = page(**FACT, answer="Velessa")
    tab.locator(".asked label", has_text="time").click()
    expect(tab.locator("#asking")).to_have_text("Corenne visits Velessa when?")
    wanted = complete(service, **fact)
    expect(answers(tab).locator(".name")).to_have_text([each["name"] for each in wanted])
    assert url_query(tab)["answer"] == FACT["time"], "the time asked about before is explained"
    expect(tab.locator("#evidence .fact-text").first).to_be_visible()
    tab.get_by_label("Not before").fill("2030-01-03")
    tab.get_by_label("Not after").fill("2030-01-06")
    expect(tab.locator("#asking")).to_have_text(
        "Corenne visits Velessa when, from 2030-01-03 to 2030-01-06?"
    )
    expect(answers(tab)).to_have_count(4)
    wanted = complete(service, **fact, first="2030-01-03", last="2030-01-06")
    assert [row.locator(".value").inner_text() for row in answers(tab).all()] == [
        f"{each['probability']:.1%}" for each in wanted
    ]
    tab.locator("#timeline .day[data-time='2030-01-04']").click()
    expect(tab.get_by_role("heading", name="Why 2030-01-04?")).to_be_visible()
    tab.get_by_role("link", name="Ask about 2030-01-06").click()
    expect(tab.locator("#asking")).to_have_text("Corenne visits ? on 2030-01-06")
    assert url_query(tab)["answer"] == "Velessa"


def test_a_question_may_be_about_any_time_of_a_period(page: Open, service: Served) -> None:
    tab = page(**FACT)
    expect(tab.locator("#ask")).to_contain_text("add up to 100%")
    until = tab.get_by_label("Until", exact=True)
    assert until.get_attribute("min") == FACT["time"] and until.input_value() == ""
    tab.get_by_label("Time", exact=True).focus()
    tab.keyboard.press("Tab")
    while not until.evaluate("field => field === document.activeElement"):
        tab.keyboard.press("Tab")
    until.fill("2030-01-08")
    expect(tab.locator("#asking")).to_have_text(
        "Corenne visits ? at any time from 2030-01-05 to 2030-01-08"
    )
    period = FACT | {"until": "2030-01-08"}
    wanted = complete(service, **period)
    assert wanted != complete(service, **FACT)
    expect(answers(tab).locator(".value")).to_have_text(
        [f"{each['probability']:.1%}" for each in wanted]
    )
    expect(tab.locator("#ask")).not_to_contain_text("add up to 100%")
    answers(tab).first.click()
    body = period | {"object": wanted[0]["name"], "most": 20}
    evidence = service.http.post("/api/v1/evidence", json=body).json()
    expect(tab.locator("#first-evidence")).to_contain_text(
        f"The answer is most likely on {evidence['time']}."
    )
    expect(tab.locator("#evidence .fact-text")).to_have_count(len(evidence["evidence"]))
    (row, *_) = json.loads(saved_answers(tab))
    assert (row["time"], row["until"]) == ("2030-01-05", "2030-01-08")
    other = page(**url_query(tab))
    expect(other.get_by_label("Until", exact=True)).to_have_value("2030-01-08")
    other.set_viewport_size({"width": 390, "height": 844})
    assert not other.evaluate("document.documentElement.scrollWidth > innerWidth")
    tab.locator(".asked label", has_text="relation").click()
    expect(until).to_be_hidden()
    expect(tab.locator("#asking")).to_have_text(f"Corenne ? {wanted[0]['name']} on 2030-01-05")
    tab.go_back()
    tab.locator("#timeline .day[data-time='2030-01-06']").click()
    expect(tab.locator("#asking")).to_have_text("Corenne visits ? on 2030-01-06")
    backwards = page(refused=True, **FACT, until="2030-01-03")
    expect(backwards.locator("#first")).to_contain_text("must not be before its start")


def saved_answers(tab: Any) -> str:
    """The answers as they are saved as JSON."""
    with tab.expect_download() as download:
        tab.locator("#first .export button", has_text="JSON").click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_evidence_is_listed_and_drawn(page: Open, service: Served) -> None:
    tab = page(**FACT)
    expect(tab.locator("#evidence")).to_contain_text("Choose an answer")
    name = answers(tab).first.locator(".name").inner_text()
    answers(tab).first.click()
    body = FACT | {"object": name, "most": 20}
    wanted = service.http.post("/api/v1/evidence", json=body).json()["evidence"]
    expect(tab.locator("#evidence .fact-text").first).to_have_text(
        "{subject} {relation} {object}".format(**wanted[0])
    )
    assert len(tab.locator("#evidence .fact-text").all()) == len(wanted)
    expect(tab.locator("#evidence .meaning")).to_have_text(
        evidence_legend([EvidenceFact(**fact) for fact in wanted])
    )
    for row, fact in zip(tab.locator("#evidence .facts li:visible").all(), wanted, strict=False):
        shown = [row.locator(f".{part}") for part in ("time", "effect", *PARTS)]
        assert shown[0].inner_text() == fact["time"]
        assert [each.inner_text() for each in shown[2:]] == [fact[part] for part in PARTS]
        left = [each.bounding_box()["x"] for each in shown[:3]]
        assert left == sorted(left), "time, effect, subject"
    assert tab.locator("#evidence .effect").first.inner_text()[0] == (
        "▲" if wanted[0]["effect"] > 0 else "▼"
    )
    days = {(fact["time"], fact["effect"] > 0) for fact in wanted if fact["effect"]}
    expect(tab.locator("#timeline .mark")).to_have_count(len(days))
    for kind, sign in (("for", 1), ("against", -1)):
        own = [
            fact
            for fact in wanted
            if fact["effect"] * sign > 0 and "Corenne" in (fact["subject"], fact["object"])
        ]
        expect(tab.locator(f"#timeline rect.{kind}")).to_have_count(len(own))
    assert url_query(tab)["answer"] == name
    expect(tab.locator("#first")).not_to_contain_text("is not among")
    last = complete(service, **FACT, top=12)[-1]["name"]
    other = page(**FACT, answer=last, top="5")
    expect(other.locator("#first")).to_contain_text(
        f"The chosen answer, {last}, is not among the first 5."
    )
    expect(other.locator("#evidence .fact-text").first).to_be_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_names_of_evidence_are_folded_but_never_cut(page: Open, width: int) -> None:
    tab = page(run="long", subject=LONG[0], relation="meets", time=HOURS[1], answer=LONG[1])
    tab.set_viewport_size({"width": width, "height": 844})
    fact = tab.locator("#evidence .fact-text").first
    expect(fact).to_have_text(f"{LONG[0]} meets {LONG[1]}")
    expect(tab.locator("#timeline .tick.asked")).to_have_text(HOURS[1])
    tab.locator("#timeline .day").first.hover()
    expect(tab.locator("#timeline .reader")).to_contain_text(f"{LONG[0]} meets {LONG[1]}")
    for part in ("#evidence", "#timeline .legend", "#timeline .reader", "html"):
        hidden = tab.locator(part).evaluate("element => element.scrollWidth - element.clientWidth")
        assert hidden <= 0, f"{part} is {hidden} pixels too wide"


def test_the_timeline_shades_the_window_of_the_model(page: Open, service: Served) -> None:
    tab = page(**FACT | {"time": "2030-01-01"}, reach="90")
    total = service.http.get("/api/v1/timeline", params={"entity": "Corenne"}).json()["total"]
    expect(tab.locator("#timeline rect.fact")).to_have_count(total)
    shaded, whole = (
        tab.locator(f"#timeline {part}").bounding_box() for part in ("rect.window", "svg")
    )
    assert shaded["x"] == whole["x"] and abs(shaded["width"] - 0.9 * whole["width"]) < 1, (
        "nine of ten days"
    )
    tab.locator("#timeline .day").nth(2).hover()
    expect(tab.locator("#timeline .reader")).to_contain_text("2030-01-03:")
    tab.get_by_text(f"{total} facts as a table").click()
    expect(tab.locator("#timeline tbody tr")).to_have_count(total)
    tab.get_by_label("Run", exact=True).select_option("ted")
    expect(tab.locator("#timeline")).to_contain_text("ted has no window of steps")
    expect(tab.locator("#timeline rect.window")).to_have_count(0)


def test_links_lead_from_entity_to_entity_and_back(page: Open) -> None:
    tab = page(**FACT)
    name = answers(tab).nth(1).locator(".name").inner_text()
    tab.get_by_role("link", name=f"Ask about {name}").first.click()
    expect(tab.get_by_label("Subject", exact=True)).to_have_value(name)
    expect(tab.locator("#asking")).to_have_text(f"{name} visits ? on 2030-01-05")
    tab.locator("#graph summary").click()
    neighbor = tab.locator("#graph .graph-nodes li").nth(1)
    other = neighbor.locator(".label").inner_text()
    neighbor.get_by_role("button").hover()
    expect(tab.locator("#graph .reader")).to_contain_text(f"{other}: ")
    neighbor.get_by_role("link", name=f"Ask about {other}").click()
    expect(tab.get_by_label("Subject", exact=True)).to_have_value(other)
    tab.go_back()
    expect(tab.get_by_label("Subject", exact=True)).to_have_value(name)
    tab.go_back()
    expect(tab.locator("#asking")).to_have_text("Corenne visits ? on 2030-01-05")
    expect(answers(tab)).to_have_count(10)


def drawn(tab: Any, expression: str) -> Any:
    """A value of the graph that is drawn, in Cytoscape's terms."""
    return tab.locator(".graph-canvas").evaluate(
        f"canvas => {{ const {{ cy }} = canvas._cyreg; return {expression}; }}"
    )


def click_node(tab: Any, name: str) -> None:
    place = drawn(tab, f"cy.getElementById({json.dumps(name)}).renderedPosition()")
    tab.locator(".graph-canvas").click(position=place)


def test_the_graph_shows_directed_and_labeled_edges_of_a_period(
    page: Open, service: Served
) -> None:
    tab = page(**FACT, span="3", answer="Velessa")
    expect(tab.locator("#graph-title")).to_have_text("Neighbors from 2030-01-02 to 2030-01-08")
    asked = {"entity": "Corenne", "time": "2030-01-05", "reach": 3, "limit": 10}
    wanted = service.http.get("/api/v1/neighborhood", params=asked).json()
    assert len({edge["first"] for edge in wanted["edges"]}) > 1, "more than one day"
    nodes = drawn(tab, "cy.nodes().map((node) => node.id())")
    assert set(nodes) == {node["name"] for node in wanted["nodes"]} | {"Velessa"}
    edges = drawn(
        tab,
        "cy.edges('[kind = \"known\"]').map((edge) => ({ ends: [edge.data('source'),"
        " edge.data('target')], label: edge.data('label'), arrow: edge.style('target-arrow-shape'),"
        " facts: edge.data('facts') }))",
    )
    ends = {(edge["subject"], edge["object"]) for edge in wanted["edges"]}
    assert {tuple(edge["ends"]) for edge in edges} == ends and len(edges) == len(ends)
    for edge in edges:
        own = [
            each for each in wanted["edges"] if [each["subject"], each["object"]] == edge["ends"]
        ]
        assert edge["arrow"] == "triangle" and edge["facts"] == sum(each["facts"] for each in own)
        assert edge["label"].startswith(own[0]["relation"][:20])
    guess = drawn(tab, "cy.edges('[kind = \"guess\"]').map((edge) => edge.data())")
    assert [(edge["source"], edge["label"], edge["target"]) for edge in guess] == [
        ("Corenne", "visits?", "Velessa")
    ]
    tab.get_by_label("Period").select_option("0")
    expect(tab.locator("#graph-title")).to_have_text("Neighbors on 2030-01-05")
    assert url_query(tab)["span"] == "0"


def test_a_click_or_the_keyboard_expands_a_node(page: Open) -> None:
    tab = page(**FACT, span="0")
    expect(tab.locator(".graph-canvas")).to_be_visible()
    tab.locator("#graph summary").click()
    rows = tab.locator("#graph .graph-nodes li")
    before = rows.locator(".label").all_inner_texts()
    click_node(tab, before[1])
    expect(rows.nth(1).get_by_role("button")).to_have_attribute("aria-expanded", "true")
    assert url_query(tab)["expanded"] == before[1]
    after = rows.locator(".label").all_inner_texts()
    assert set(before) < set(after) == set(drawn(tab, "cy.nodes().map((node) => node.id())"))
    places = drawn(tab, "cy.nodes().map((node) => JSON.stringify(node.position()))")
    assert len(set(places)) == len(places)
    other = page(**url_query(tab))
    expect(other.locator("#graph summary")).to_have_text(tab.locator("#graph summary").inner_text())
    button = rows.nth(1).get_by_role("button")
    button.focus()
    expect(tab.locator("#graph .reader")).to_contain_text(f"{before[1]}: ")
    button.press("Enter")
    expect(rows).to_have_count(len(before))
    expect(rows.nth(1).get_by_role("button")).to_be_focused()
    assert "expanded" not in url_query(tab)
    click_node(tab, before[0])
    assert "expanded" not in url_query(tab), "the entity of the query is always expanded"


def test_a_click_hits_a_node_when_the_page_has_grown_above_the_graph(page: Open) -> None:
    tab = page(**FACT, span="0")
    canvas = tab.locator(".graph-canvas")
    canvas.scroll_into_view_if_needed()
    canvas.hover()
    names = tab.locator("#graph .graph-nodes li .label").all_text_contents()
    # Without a scroll event, which Cytoscape would notice.
    tab.evaluate(
        "() => { document.documentElement.style.overflowAnchor = 'none';"
        " document.body.style.paddingTop = '90px'; }"
    )
    click_node(tab, names[1])
    row = tab.locator("#graph .graph-nodes li").nth(1)
    tab.locator("#graph summary").click()
    expect(row.get_by_role("button")).to_have_attribute("aria-expanded", "true")
    assert url_query(tab)["expanded"] == names[1]


def test_the_graph_zooms_and_moves(page: Open) -> None:
    tab = page(**FACT)
    canvas = tab.locator(".graph-canvas")
    canvas.scroll_into_view_if_needed()
    fitted, pan = drawn(tab, "[cy.zoom(), cy.pan()]")
    canvas.hover(position={"x": 5, "y": 5})
    tab.mouse.wheel(0, -100)
    tab.wait_for_timeout(200)
    assert drawn(tab, "cy.zoom()") == fitted, "the wheel scrolls the page"
    canvas.focus()
    canvas.press("+")
    larger = drawn(tab, "cy.zoom()")
    assert larger > fitted
    canvas.press("ArrowLeft")
    canvas.press("ArrowUp")
    moved = drawn(tab, "cy.pan()")
    canvas.press("-")
    assert drawn(tab, "cy.zoom()") == pytest.approx(fitted)
    canvas.press("0")
    assert drawn(tab, "[cy.zoom(), cy.pan()]") == [fitted, pan] and moved != pan
    tab.get_by_role("button", name="Zoom in").click()
    assert drawn(tab, "cy.zoom()") == pytest.approx(larger)
    tab.get_by_role("button", name="Show all").click()
    assert drawn(tab, "cy.zoom()") == fitted
    colors = "cy.nodes()[0].style('background-color')"
    before = drawn(tab, colors)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_timeout(200)
    assert drawn(tab, colors) != before


def test_a_shared_link_restores_the_view(page: Open) -> None:
    tab = page(**FACT)
    tab.get_by_label("Run", exact=True).select_option("pointer")
    tab.get_by_label("compare with").select_option("ted")
    tab.get_by_label("Answers").select_option("5")
    answers(tab).nth(2).click()
    expect(tab.locator("#evidence .fact-text").first).to_be_visible()
    other = page(**url_query(tab))
    for part in (
        "#asking",
        "#first",
        "#second",
        "#first-evidence",
        "#second-evidence",
        "#graph .reader",
        ".legend",
    ):
        expect(other.locator(part)).to_have_text(tab.locator(part).text_content())
    assert url_query(other) == url_query(tab)
    other.get_by_role("button", name="Copy link").click()
    expect(other.get_by_role("button", name="Link copied")).to_be_visible()
    assert other.evaluate("navigator.clipboard.readText()") == other.url
    assert answers(other).nth(2).get_attribute("aria-pressed") == "true"


def test_two_runs_side_by_side(page: Open, service: Served) -> None:
    tab = page(**FACT, run="temp-gru", other="ted")
    here, there = (
        [answer["name"] for answer in complete(service, **FACT, run=run, top=10)]
        for run in ("temp-gru", "ted")
    )
    expect(answers(tab, "#second")).to_have_count(len(there))
    assert [row.inner_text() for row in answers(tab, "#second").locator(".name").all()] == there
    ranks = {row["name"]: row["rank"] for row in complete(service, **FACT, run="temp-gru", top=10)}
    for row, answer in zip(
        answers(tab, "#second").all(), complete(service, **FACT, run="ted", top=10), strict=True
    ):
        by = ranks[answer["name"]] - answer["rank"] if answer["name"] in ranks else None
        sign = "–" if by is None else "=" if by == 0 else f"▲{by}" if by > 0 else f"▼{-by}"
        assert row.locator(".rank small [aria-hidden]").inner_text() == sign
    both = next(name for name in here if name in there)
    answers(tab).nth(here.index(both)).hover()
    assert tab.locator(".choose.highlighted .name").all_inner_texts() == [both, both]
    answers(tab, "#second").nth(there.index(both)).click()
    expect(tab.locator(".choose[aria-pressed=true]")).to_have_count(2)
    expect(tab.locator("#second-evidence")).to_contain_text("ted")
    tab.get_by_label("Run", exact=True).select_option("ted")
    assert (url_query(tab)["run"], url_query(tab)["other"]) == ("ted", "temp-gru"), (
        "they change places"
    )


def test_a_run_that_cannot_answer_is_marked_in_its_column(page: Open) -> None:
    tab = page(refused=True, **FACT, run="temp-gru", other="plain")
    expect(answers(tab)).to_have_count(10)
    expect(tab.locator("#second")).to_have_text("plainThere is no subject 'Corenne'.")
    expect(tab.locator("#notice")).to_be_empty()


WRONG = {
    "name": ({"subject": "Corene"}, "there is no (subject|entity) 'Corene'", "Corenne"),
    "relation": ({"relation": "visit"}, "there is no relation 'visit'", "visits"),
    "late": ({"time": "2031-01-01"}, "there is no time '2031-01-01'", "2030-01-10"),
    "run": ({"run": "tde"}, "there is no run 'tde'", "temp-gru"),
    "other run": ({"other": "tde"}, "there is no run 'tde'", "ted"),
    "top": ({"top": "many"}, "top: Input should be a valid integer", "start over"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_names_the_value_and_the_way_out(page: Open, case: str) -> None:
    wrong, words, way_out = WRONG[case]
    tab = page(refused=True, **FACT | wrong)
    notice = tab.get_by_role("alert")
    expect(notice).to_have_text(re.compile(words, re.IGNORECASE))
    notice.get_by_role("link", name=way_out, exact=True).click()
    expect(answers(tab)).to_have_count(10)
    expect(notice).to_be_empty()


def problem(status: int, detail: str) -> dict[str, Any]:
    """What a request is answered with, in place of the service."""
    body = {"detail": detail, "status": status, "part": None, "suggestions": []}
    return {"status": status, "body": json.dumps(body)}


def test_a_timeout_is_shown_in_its_panel_and_not_retried(page: Open) -> None:
    tab = page(refused=True, **FACT)
    expect(answers(tab)).to_have_count(10)
    sent: list[Any] = []

    def refuse(route: Any) -> None:
        sent.append(route)
        route.fulfill(**problem(504, "the request took more than 30 s"))

    tab.clock.install()
    tab.route("**/api/v1/evidence", refuse)
    answers(tab).first.click()
    evidence = tab.locator("#evidence")
    expect(evidence).to_contain_text("The request took more than 30 s.")
    tab.clock.run_for(60_000)
    tab.wait_for_timeout(200)
    assert len(sent) == 1, "the user decides whether to ask again"
    expect(tab.get_by_role("alert")).to_be_empty()
    expect(tab.get_by_role("status")).to_have_text("The request took more than 30 s.")
    expect(answers(tab)).to_have_count(10)
    expect(tab.locator("#timeline svg")).to_be_visible()
    tab.unroute("**/api/v1/evidence")
    evidence.get_by_role("button", name="Retry").click()
    expect(tab.locator("#evidence .fact-text").first).to_be_visible()
    expect(evidence.get_by_role("button", name="Retry")).to_have_count(0)


@pytest.mark.parametrize("panel", ["complete", "timeline", "neighborhood"])
def test_an_error_of_one_panel_leaves_the_others(page: Open, panel: str) -> None:
    tab = page(**FACT)
    expect(answers(tab)).to_have_count(10)
    other = page(refused=True, **FACT | {"run": "ted"})
    other.route(f"**/api/v1/{panel}*", lambda route: route.fulfill(status=500, body="<html>"))
    other.reload()
    expect(other.get_by_text("The service answered with status 500.").last).to_be_visible()
    places = {"complete": "#first", "timeline": "#timeline .body", "neighborhood": "#graph .body"}
    for name, place in places.items():
        retry = other.locator(place).get_by_role("button", name="Retry")
        expect(retry).to_have_count(1 if name == panel else 0)
        expect(other.locator(place)).to_be_visible()
    expect(answers(other)).to_have_count(0 if panel == "complete" else 10)


def test_retries_of_a_busy_service_end(page: Open) -> None:
    tab = page(refused=True, **FACT)
    expect(answers(tab)).to_have_count(10)
    tab.clock.install()
    sent: list[Any] = []

    def refuse(route: Any) -> None:
        sent.append(route)
        route.fulfill(**problem(503, "too many requests are waiting"))

    tab.route("**/api/v1/complete", refuse)
    tab.get_by_label("Answers").select_option("5")
    notice = tab.get_by_role("alert")
    expect(notice).to_contain_text("Retrying.")
    deadline = time.monotonic() + 60
    while len(sent) < 6 and time.monotonic() < deadline:
        tab.clock.run_for(31_000)
        tab.wait_for_timeout(100)
    expect(notice).to_contain_text("5 retries failed.")
    tab.clock.run_for(600_000)
    tab.wait_for_timeout(200)
    assert len(sent) == 6
    expect(tab.locator("#timeline svg")).to_be_visible()
    tab.unroute("**/api/v1/complete")
    notice.get_by_role("button", name="Retry").click()
    expect(answers(tab)).to_have_count(5)
    expect(notice).to_be_empty()


@pytest.mark.parametrize("asked", [*PARTS, "time"])
def test_a_wrong_answer_is_corrected_where_the_evidence_would_be(page: Open, asked: str) -> None:
    fact = FACT | {"object": "Velessa", "time": "2030-01-10"}
    view = {part: name for part, name in fact.items() if part != asked}
    wrong = "2030-01-11" if asked == "time" else fact[asked][:-2] + fact[asked][-1]
    tab = page(refused=True, **view, asked=asked, answer=wrong)
    evidence = tab.locator("#evidence")
    expect(evidence).to_contain_text(f"There is no {asked} '{wrong}'. Did you mean:")
    expect(answers(tab).first).to_be_visible()
    expect(tab.get_by_role("alert")).to_be_empty()
    evidence.get_by_role("link", name=fact[asked], exact=True).click()
    expect(evidence.locator(".fact-text").first).to_be_visible()
    assert url_query(tab)["answer"] == fact[asked]


def test_enter_waits_for_the_names_of_a_text(page: Open) -> None:
    tab = page(**FACT)
    field = tab.get_by_label("Subject", exact=True)
    field.fill("vel")
    field.press("Enter")
    expect(tab.locator("#asking")).to_have_text("Velessa visits ? on 2030-01-05")
    expect(answers(tab)).to_have_count(10)
    held: list[Any] = []
    tab.route("**/api/v1/entities*", lambda route: held.append(route))
    field.fill("cor")
    field.press("Enter")
    field.press("Escape")
    tab.wait_for_timeout(200)
    for route in held:
        route.continue_()
    tab.wait_for_timeout(200)
    expect(field).to_have_value("Velessa")


def test_typos_are_forgiven_while_typing(page: Open) -> None:
    tab = page(**FACT)
    tab.get_by_label("Subject", exact=True).fill("prezident of vellesa")
    expect(found_names(tab)).to_have_text(re.compile("^President of Velessa"))


@pytest.mark.parametrize("run", ["temp-gru", "pointer", "ted"])
def test_every_run_ranks_what_the_page_offers(page: Open, run: str) -> None:
    tab = page(**FACT, answer="Velessa", run=run)
    offered = tab.locator("[name=asked]")
    assert [each.get_attribute("value") for each in offered.all()] == [
        "object",
        "subject",
        "relation",
        "time",
    ]
    tab.locator(".asked label", has_text="relation").click()
    expect(answers(tab)).to_have_count(4)


def test_an_unknown_name_is_reported_while_typing_and_on_submit(page: Open) -> None:
    tab = page(refused=True, **FACT)
    field = tab.get_by_label("Subject", exact=True)
    field.fill("Nobody at all")
    expect(found_names(tab)).to_have_text("No name contains “Nobody at all”.")
    field.press("Enter")
    expect(tab.get_by_role("alert")).to_contain_text("'Nobody at all'")
    tab.go_back()
    expect(answers(tab)).to_have_count(10)


def test_an_empty_result_is_explained(page: Open) -> None:
    tab = page(run="plain", subject="Newcomer", relation="greets", time="last", span="0")
    expect(tab.locator("#first")).to_contain_text("plain has no answer")
    expect(tab.locator("#first")).to_contain_text("'Newcomer' is in no known fact")
    expect(tab.locator("#graph")).to_contain_text(
        "There are no facts about Newcomer at last. Nearest times with facts: later"
    )
    tab.locator("#graph").get_by_role("link", name="later").click()
    expect(tab.get_by_label("Time", exact=True)).to_have_value("later")
    tab.locator(".asked label", has_text="relation").click()
    expect(tab.locator("#first")).to_contain_text("Choose the object above.")


@pytest.mark.parametrize("run", ["temp-gru", "ted"])
def test_bars_show_probabilities_as_parts_of_the_whole(
    page: Open, service: Served, run: str
) -> None:
    tab = page(**FACT, run=run)
    wanted = complete(service, **FACT, run=run)
    expect(answers(tab)).to_have_count(len(wanted))
    for row, answer in zip(answers(tab).all(), wanted, strict=True):
        fill, bar = (row.locator(part).bounding_box()["width"] for part in (".fill", ".bar"))
        assert abs(fill / bar - max(0.01, answer["probability"])) < 0.005


def test_bars_of_shares_are_parts_of_the_whole(page: Open) -> None:
    tab = page(**FACT)
    expect(answers(tab)).to_have_count(10)
    fact = FACT | {"object": "Velessa", "effect": None}
    body = FACT | {
        "run": "temp-gru",
        "object": "Velessa",
        "asked": "object",
        "known": None,
        "why": "votes",
        "legend": "",
        "evidence": [fact | {"share": 0.04}, fact | {"share": 0.02, "relation": "hosts"}],
        "evidence_count": 2,
    }
    tab.route("**/api/v1/evidence", lambda route: route.fulfill(json=body))
    answers(tab).first.click()
    bars = tab.locator("#evidence .facts .bar")
    expect(bars).to_have_count(2)
    for row, share in zip(bars.all(), (0.04, 0.02), strict=True):
        width = row.bounding_box()["width"]
        assert abs(row.locator(".fill").bounding_box()["width"] / width - share) < 0.005


def test_loaded_evidence_is_announced(page: Open) -> None:
    tab = page(**FACT)
    live = tab.locator("#evidence-status[aria-live=polite]")
    expect(live).to_be_empty()
    answers(tab).first.click()
    name = url_query(tab)["answer"]
    expect(live).to_have_text(
        re.compile(rf"^\d+ facts? of evidence from temp-gru for {name}; the strongest is .+\.$")
    )
    answers(tab).first.click()
    expect(live).to_be_empty()


@pytest.mark.parametrize("width", [1440, 390])
def test_the_list_of_facts_ends_with_a_whole_line(page: Open, width: int) -> None:
    tab = page(run="long", subject=LONG[0], relation="meets", time=HOURS[0])
    tab.set_viewport_size({"width": width, "height": 844})
    reader = tab.locator("#timeline .reader")
    expect(reader).to_contain_text(LONG[1])
    inner, line, hidden = reader.evaluate(
        "list => [list.clientHeight, parseFloat(getComputedStyle(list).lineHeight),"
        " list.scrollHeight - list.clientHeight]"
    )
    assert hidden > 0 and abs(inner / line - round(inner / line)) < 0.05
    for fact in reader.locator("li").all():
        assert fact.evaluate("item => item.getClientRects().length") == 1, "in one column"


def test_forced_colors_keep_bars_and_keys(browser: Any, service: Served) -> None:
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, forced_colors="active", color_scheme="dark"
    )
    tab = context.new_page()
    tab.goto(f"http://localhost:{service.port}/?{urlencode(FACT | {'answer': 'Velessa'})}")
    expect(tab.locator("#evidence .fact-text").first).to_be_visible()
    expect(tab.locator("#timeline .legend")).to_be_visible()

    def style(selector: str, *names: str) -> tuple[str, ...]:
        return tuple(
            tab.locator(selector).first.evaluate(
                "(element, names) => names.map((name) => getComputedStyle(element)[name])", names
            )
        )

    for bar in ("#first .choose", "#evidence li"):
        fill, behind = (
            style(f"{bar} {part}", "backgroundColor", "borderTop") for part in (".fill", ".bar")
        )
        assert fill != behind, bar
    kinds = (".alike", ":not(.window, .alike, .for, .against)", ".for", ".against", ".window")
    keys = [style(f".key{kind}", "backgroundColor", "borderTop") for kind in kinds]
    assert len(set(keys)) == len(keys)
    paper = style("body", "backgroundColor")[0]
    blocks = "rect.alike", "rect.for", "rect.against", "rect.fact:not(.alike, .for, .against)"
    looks = [style(f"#timeline {block}", "fill", "stroke") for block in blocks]
    assert len(set(looks)) == len(looks)
    assert all(look != (paper, "none") for look in looks)
    context.close()


@pytest.mark.parametrize("width", [1440, 768, 320])
def test_long_names_stay_inside_their_cards(page: Open, width: int) -> None:
    tab = page(run="long", other="plain", refused=True, subject=LONG[0], relation="meets",
               time=HOURS[1], answer=LONG[1])  # fmt: skip
    tab.set_viewport_size({"width": width, "height": 844})
    expect(tab.locator("#evidence .fact-text").first).to_be_visible()
    tab.get_by_label("Subject", exact=True).fill("ministry")
    expect(found_names(tab)).to_have_count(3)
    for part in ("html", ".card", "#question", "[role=listbox]:visible", "#evidence .column"):
        for each in tab.locator(part).all():
            hidden = each.evaluate("element => element.scrollWidth - element.clientWidth")
            assert hidden <= 0, f"{part} is {hidden} pixels too wide"
    names = tab.locator("[role=listbox]:visible").bounding_box()
    assert names["x"] + names["width"] <= width


def test_names_are_never_markup_and_steps_can_have_any_label(page: Open) -> None:
    tab = page(run="plain", subject=EVIL, relation="meets", time="early", answer="Ann")
    expect(tab.locator("#asking")).to_have_text(f"{EVIL} meets ? at early")
    steps = tab.get_by_label("Time", exact=True)
    assert steps.locator("option").all_inner_texts() == ["early", "later", "last"]
    tab.get_by_role("button", name="One step ahead").click()
    expect(tab.locator("#asking")).to_have_text(f"{EVIL} meets ? at later")
    tab.get_by_label("Subject", exact=True).fill("img")
    expect(found_names(tab)).to_contain_text(EVIL)
    expect(tab.locator("main img")).to_have_count(0)


def test_a_slow_response_shows_progress_and_late_responses_are_ignored(page: Open) -> None:
    tab = page(**FACT)
    expect(answers(tab)).to_have_count(10)
    held: list[Any] = []
    tab.route("**/api/v1/complete", lambda route: held.append(route))
    tab.get_by_label("Answers").select_option("5")
    expect(tab.locator("#first[aria-busy=true]")).to_be_visible()
    tab.get_by_label("Answers").select_option("20")
    tab.wait_for_timeout(200)
    old, new = held
    new.continue_()
    expect(answers(tab)).to_have_count(12)
    expect(tab.locator("#first[aria-busy]")).to_have_count(0)
    old.continue_()
    tab.wait_for_timeout(200)
    expect(answers(tab)).to_have_count(12)


def test_a_slow_start_shows_a_message(page: Open) -> None:
    tab = page(**FACT)
    expect(answers(tab)).to_have_count(10)
    held: list[Any] = []
    tab.route("**/api/v1/info*", lambda route: held.append(route))
    tab.reload()
    expect(tab.get_by_text("Connecting to the service")).to_be_visible()
    held[0].continue_()
    expect(answers(tab)).to_have_count(10)
    expect(tab.get_by_text("Connecting to the service")).to_be_hidden()


def test_a_stopped_service_is_reported_and_retried(
    page: Open, served: Callable[..., Served]
) -> None:
    dying = served(str(STORED / "ted"))
    tab = page(refused=True, at=dying, **FACT)
    expect(answers(tab)).to_have_count(10)
    dying.end(signal.SIGKILL)
    tab.get_by_role("button", name="One step back").click()
    notice = tab.get_by_role("alert")
    expect(notice).to_contain_text("The service does not answer.")
    notice.get_by_role("button", name="Retry").click()
    expect(notice).to_contain_text("The service does not answer.")
    served(str(STORED / "ted"), "--port", str(dying.port))
    expect(tab.locator("#asking")).to_have_text("Corenne visits ? on 2030-01-04")
    expect(answers(tab)).to_have_count(10)
    expect(notice).to_be_empty()


def test_a_busy_service_is_retried(page: Open) -> None:
    tab = page(refused=True, **FACT)
    expect(answers(tab)).to_have_count(10)
    busy = (
        '{"detail": "too many requests wait already; try again", "status": 503, "suggestions": []}'
    )
    tab.route("**/api/v1/complete", lambda route: route.fulfill(status=503, body=busy), times=1)
    tab.get_by_label("Answers").select_option("5")
    expect(tab.get_by_role("alert")).to_contain_text("too many requests wait already")
    expect(answers(tab)).to_have_count(5)


def test_the_token_is_requested_and_stored_for_the_tab(
    page: Open, served: Callable[..., Served]
) -> None:
    guarded = served(str(STORED / "ted"), TEMPOGRAPH_TOKEN=TOKEN)
    tab = page(refused=True, at=guarded, **FACT)
    field = tab.get_by_label("This service requires a token")
    field.fill("something else")
    field.press("Enter")
    expect(tab.get_by_role("alert")).to_have_text("That is not the token of this service.")
    field.fill(TOKEN)
    tab.get_by_role("button", name="Open").click()
    expect(answers(tab)).to_have_count(10)
    expect(tab.get_by_role("alert")).to_be_empty()
    tab.reload()
    expect(answers(tab)).to_have_count(10)
    expect(tab.get_by_role("link", name="API")).to_be_hidden()
    assert TOKEN not in tab.url and TOKEN not in tab.evaluate("JSON.stringify(localStorage)")


def test_everything_can_be_done_with_the_keyboard(page: Open) -> None:
    tab = page(**FACT)
    subject = tab.get_by_label("Subject", exact=True)
    subject.focus()
    subject.press_sequentially("president")
    expect(found_names(tab)).to_have_count(2)
    subject.press("ArrowDown")
    marked = tab.locator("[role=option][aria-selected=true]")
    assert subject.get_attribute("aria-activedescendant") == marked.get_attribute("id")
    name = marked.locator("span").inner_text()
    subject.press("Enter")
    expect(tab.locator("#asking")).to_have_text(f"{name} visits ? on 2030-01-05")
    expect(subject).to_be_focused()
    subject.press_sequentially("x")
    subject.press("Escape")
    expect(subject).to_have_value(name)
    answers(tab).first.press("Enter")
    expect(tab.locator("#evidence .fact-text").first).to_be_visible()
    expect(answers(tab).first).to_be_focused()
    day = tab.locator("#timeline .day[tabindex='0']")
    day.focus()
    before = url_query(tab)["time"]
    day.press("ArrowLeft")
    tab.keyboard.press("Enter")
    expect(tab.locator("#asking")).not_to_contain_text(before)
    expect(tab.locator(f"#timeline .day[data-time='{url_query(tab)['time']}']")).to_be_focused()
    expect(tab.get_by_role("status")).to_contain_text("10 answers from temp-gru; the best is ")


VIEWS = {
    "answers": FACT | {"answer": "Velessa", "expanded": "Velessa"},
    "comparison": FACT | {"answer": "Velessa", "other": "pointer"},
    "relation": {
        "asked": "relation",
        "subject": "Corenne",
        "object": "Velessa",
        "time": "2030-01-05",
    },
    "time": FACT | {"asked": "time", "object": "Velessa", "answer": "2030-01-05"},
    "wrong": FACT | {"subject": "Corene"},
}


def test_every_view_is_accessible(browser: Any, service: Served) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 844}, bypass_csp=True)
    tab = context.new_page()
    for name, view in VIEWS.items():
        tab.goto(f"http://localhost:{service.port}/?{urlencode(view)}")
        expect(tab.locator("#notice p, #graph .reader").first).to_be_visible()
        expect(tab.locator("[aria-busy]")).to_have_count(0)
        if name == "answers":
            tab.get_by_text("as a table").click()
            tab.get_by_text("as a list").click()
            tab.get_by_label("Subject", exact=True).fill("p")
            expect(found_names(tab).first).to_be_visible()
        assert accessibility_problems(tab) == [], name
    context.close()


def test_light_and_dark_follow_the_system_or_the_button(browser: Any, service: Served) -> None:
    context = browser.new_context(color_scheme="dark")
    tab = context.new_page()
    tab.goto(f"http://localhost:{service.port}/?{urlencode(FACT)}")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = tab.evaluate(paper)
    tab.get_by_role("button", name="Theme: auto").click()
    light = tab.evaluate(paper)
    tab.reload()
    assert dark != light == tab.evaluate(paper)
    tab.get_by_role("button", name="Theme: light").click()
    assert tab.evaluate(paper) == dark
    context.close()


def test_static_files_refer_to_no_other_host() -> None:
    static = Path(__file__).parents[2] / "src/tempograph/server/static"
    files = [file for file in static.iterdir() if file.is_file()]
    assert len(files) > 10
    for file in files:
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text and "innerHTML" not in text and "style=" not in text, file.name
