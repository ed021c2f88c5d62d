"""The pages of the explorer beside its first one, in a real browser."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from exploring import (
    FACT,
    HOURS,
    LONG,
    Open,
    accessibility_problems,
    answers,
    complete,
    expect,
    url_query,
)
from serving import Served

pytest_plugins = ("serving_fixtures", "browser_fixtures", "explorer_fixtures")


def rows(tab: Any) -> Any:
    return tab.locator("#page tbody tr:visible")


def cells(tab: Any, number: int) -> list[str]:
    """The texts of a row of the table."""
    texts: list[str] = rows(tab).nth(number).locator("td").all_inner_texts()
    return [text.strip() for text in texts]


def scanned(service: Served, question: str, **request: Any) -> list[dict[str, Any]]:
    response = service.http.post(f"/api/v1/{question}", json=request)
    lines = [json.loads(line) for line in response.text.splitlines()]
    return [line["fact"] for line in lines if line["event"] == "fact"]


def saved(tab: Any, kind: str, part: str = "#page") -> str:
    """The text of a table saved as CSV or JSON."""
    with tab.expect_download() as download:
        tab.locator(f"{part} .export button", has_text=kind).first.click()
    return Path(download.value.path()).read_bytes().decode()


def test_every_page_is_linked_and_takes_over_the_run(page: Open) -> None:
    tab = page(**FACT, run="ted")
    expect(answers(tab)).to_have_count(10)
    links = tab.get_by_role("navigation", name="Pages").get_by_role("link")
    names = links.all_inner_texts()
    assert names[0] == "Ask" and len(names) > 2
    for name in [*names[1:], names[0]]:
        links.get_by_text(name, exact=True).focus()
        tab.keyboard.press("Enter")
        current = tab.locator("#pages [aria-current=page]")
        expect(current).to_have_text(name)
        expect(current).to_be_focused()
        assert url_query(tab)["run"] == "ted"
        expect(tab.locator("main section:visible h2").first).to_be_visible()
        target = tab.locator("#skip").get_attribute("href")
        expect(tab.locator(target)).to_be_visible()
    expect(answers(tab)).to_have_count(10)


def test_missing_facts_are_found_with_the_keyboard(page: Open, service: Served) -> None:
    tab = page(page="missing")
    expect(tab.locator("#missing-results")).to_contain_text("can take a while")
    entity = tab.get_by_label("Entity", exact=True)
    entity.focus()
    entity.press_sequentially("velessa")
    entity.press("Enter")
    expect(tab.get_by_role("heading", name="Missing facts of Velessa")).to_be_visible()
    tab.get_by_label("Not before").fill("2030-01-03")
    tab.get_by_label("Facts", exact=True).select_option("20")
    tab.get_by_role("button", name="Search").press("Enter")
    wanted = scanned(service, "missing", entity="Velessa", first="2030-01-03", top=20)
    expect(rows(tab)).to_have_count(len(wanted))
    assert wanted, "something to look at"
    for number, fact in enumerate(wanted):
        assert cells(tab, number)[:5] == [
            f"{fact['probability']:.1%}",
            *(fact[part] for part in ("time", "subject", "relation", "object")),
        ]
        bar, fill = (
            rows(tab).nth(number).locator(part).bounding_box()["width"]
            for part in (".bar", ".fill")
        )
        assert abs(fill / bar - fact["probability"]) < 0.02, "a part of the whole"
    expect(tab.get_by_role("status")).to_have_text(f"{len(wanted)} missing facts found")
    hidden = tab.locator("#page .scroll").evaluate("table => table.scrollWidth - table.clientWidth")
    assert hidden <= 0, "all columns are in sight"
    other = page(**url_query(tab))
    expect(rows(other)).to_have_count(len(wanted))
    entity.fill("")
    entity.press("Enter")
    expect(tab.get_by_role("heading", name="Missing facts from 2030-01-03")).to_be_visible()
    expect(rows(tab)).to_have_count(0)
    tab.go_back()
    expect(rows(tab)).to_have_count(len(wanted))
    rows(tab).first.get_by_role("link").click()
    first = wanted[0]
    expect(tab.locator("#asking")).to_have_text(
        f"{first['subject']} {first['relation']} ? on {first['time']}"
    )
    assert url_query(tab)["answer"] == first["object"]


def test_surprising_facts_of_a_split(page: Open, service: Served) -> None:
    tab = page(page="surprising")
    tab.get_by_label("Split", exact=True).select_option("test")
    tab.get_by_role("button", name="Search").click()
    wanted = scanned(service, "surprising", splits=["test"], top=10)
    expect(rows(tab)).to_have_count(len(wanted))
    for number, fact in enumerate(wanted):
        row = cells(tab, number)
        assert float(row[0]) == pytest.approx(fact["surprise"], rel=5e-3)
        assert row[1:6] == [
            *(fact[part] for part in ("time", "subject", "relation", "object")),
            "test",
        ]
    expect(tab.get_by_role("status")).to_have_text(f"{len(wanted)} surprising facts found")


def test_a_wrong_name_of_a_search_is_corrected(page: Open) -> None:
    tab = page(refused=True, page="missing", entity="Corene", search="yes")
    notice = tab.get_by_role("alert")
    expect(notice).to_contain_text("There is no entity 'Corene'.")
    notice.get_by_role("link", name="Corenne", exact=True).click()
    expect(rows(tab)).to_have_count(10)
    expect(notice).to_be_empty()


HOLD_STREAM = """
const fetched = window.fetch;
window.fetch = (url, options) => {
  if (!String(url).includes("api/v1/missing")) return fetched(url, options);
  const encoder = new TextEncoder();
  const body = new ReadableStream({
    start(stream) {
      window.sendLine = (line) => stream.enqueue(encoder.encode(line));
      window.endStream = () => stream.close();
      options.signal.addEventListener("abort", () => {
        window.aborted = true;
        stream.error(options.signal.reason);
      });
    },
  });
  return Promise.resolve(new Response(body));
};
null;
"""


def test_a_search_shows_progress_and_can_be_canceled(page: Open) -> None:
    tab = page(page="missing")
    tab.evaluate(HOLD_STREAM)
    tab.get_by_role("button", name="Search").click()
    results = tab.locator("#missing-results")
    expect(results).to_contain_text("Starting")
    # A line may arrive in pieces.
    tab.evaluate('sendLine(`{"event":"progress","done":1500,`)')
    tab.evaluate('sendLine(`"total":6000}\\n`)')
    expect(results).to_contain_text("1,500 of 6,000 candidates")
    assert results.get_by_role("progressbar").evaluate("bar => bar.position") == 0.25
    results.get_by_role("button", name="Cancel").press("Enter")
    expect(results).to_contain_text("Canceled.")
    assert tab.evaluate("window.aborted") is True
    again = results.get_by_role("button", name="Start again")
    expect(again).to_be_focused()
    again.click()
    fact = FACT | {"object": "Velessa", "probability": 0.5, "other_times": [],
                   "other_probabilities": []}  # fmt: skip
    for line in ({"event": "fact", "fact": fact}, {"event": "end", "facts": 1}):
        tab.evaluate("line => sendLine(line)", json.dumps(line) + "\n")
    tab.evaluate("endStream()")
    expect(rows(tab)).to_have_count(1)
    tab.evaluate("window.aborted = false")
    tab.get_by_label("Facts", exact=True).select_option("20")
    tab.get_by_role("button", name="Search").click()
    expect(results).to_contain_text("Starting")
    tab.get_by_role("link", name="Surprising").click()
    tab.wait_for_function("window.aborted === true")


def test_a_search_that_breaks_off_is_an_error(page: Open) -> None:
    tab = page(page="missing")
    tab.evaluate(HOLD_STREAM)
    tab.get_by_role("button", name="Search").click()
    results = tab.locator("#missing-results")
    expect(results).to_contain_text("Starting")
    tab.evaluate("endStream()")
    expect(results).to_contain_text("The service did not finish the search.")
    results.get_by_role("button", name="Retry").click()
    expect(results).to_contain_text("Starting")
    broken = {"event": "error", "problem": {"status": 500, "detail": "it failed", "part": None}}
    tab.evaluate("line => sendLine(line)", json.dumps(broken) + "\n")
    expect(results).to_contain_text("It failed.")


def test_tables_are_saved_as_csv_and_json(page: Open, service: Served) -> None:
    tab = page(page="missing", entity="Velessa", search="yes")
    wanted = scanned(service, "missing", entity="Velessa", top=10)
    expect(rows(tab)).to_have_count(len(wanted))
    parts = ("time", "subject", "relation", "object")
    found = json.loads(saved(tab, "JSON"))
    table = list(csv.DictReader(io.StringIO(saved(tab, "CSV"), newline="")))
    assert list(table[0]) == ["probability", *parts, "other_times"]
    for record, row, fact in zip(found, table, wanted, strict=True):
        assert row["other_times"] == "; ".join(fact["other_times"])
        for each in (record, row):
            # A service that prepares answers meanwhile rounds differently.
            assert float(each["probability"]) == pytest.approx(fact["probability"], rel=1e-5)
            assert {part: each[part] for part in parts} == {part: fact[part] for part in parts}


def test_lists_are_saved_whole_and_quoted(page: Open, service: Served) -> None:
    tab = page(**FACT, answer="Velessa")
    expect(tab.locator("#evidence .fact-text").first).to_be_visible()
    found = json.loads(saved(tab, "JSON", "#first"))
    wanted = complete(service, **FACT)
    assert [row["object"] for row in found] == [answer["name"] for answer in wanted]
    probabilities = [answer["probability"] for answer in wanted]
    assert [row["probability"] for row in found] == pytest.approx(probabilities, rel=1e-5)
    assert all(row | FACT == row for row in found), "whole facts"
    evidence = list(csv.reader(io.StringIO(saved(tab, "CSV", "#evidence"), newline="")))
    assert evidence[0] == ["time", "subject", "relation", "object", "effect", "share"]
    shown = tab.locator("#evidence .fact-text").all_text_contents()
    assert [" ".join(row[1:4]) for row in evidence[1:]] == shown
    # A name with a comma and quotes, in place of one of the service.
    odd = 'Ann, "the" one'
    tab.route(
        "**/api/v1/complete",
        lambda route: route.fulfill(
            json={
                "run": "temp-gru",
                "model": "temp-gru",
                "subject": odd,
                "relation": "meets",
                "object": None,
                "time": "last",
                "asked": "object",
                "notes": [],
                "answers": [
                    {"rank": 1, "name": "Cai", "score": None, "probability": 1.0, "known": None}
                ],
            }
        ),
    )
    tab.get_by_label("Answers").select_option("5")
    expect(answers(tab)).to_have_count(1)
    text = saved(tab, "CSV", "#first")
    assert text.endswith("\r\n") and '"Ann, ""the"" one"' in text
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (row["subject"], row["known"], row["score"]) == (odd, "", "")


def test_an_entity_has_relations_partners_and_near_facts(page: Open, service: Served) -> None:
    tab = page(**FACT)
    expect(answers(tab)).to_have_count(10)
    tab.get_by_role("link", name="Entity").press("Enter")
    asked = {"entity": "Corenne", "time": FACT["time"], "limit": 50}
    wanted = service.http.get("/api/v1/entity", params=asked).json()
    results = tab.locator("#entity-results")
    expect(results.locator("tbody tr")).to_have_count(
        len(wanted["relations"]) + len(wanted["partners"])
    )
    assert results.locator(".plain-facts .fact-text").all_inner_texts() == [
        "{subject} {relation} {object}".format(**fact) for fact in wanted["near"]
    ]
    total = sum(wanted["facts"].values())
    expect(results.locator(".figures div").first).to_have_text(f"facts{total}")
    expect(tab.get_by_role("status")).to_have_text(f"Corenne: {total} facts")
    partner = wanted["partners"][0]
    table = results.locator("table").nth(1)
    bars = table.locator("tr").nth(1).locator("rect")
    assert [round(bar.bounding_box()["height"], 3) > 0 for bar in bars.all()] == [
        count > 0 for count in partner["counts"]
    ]
    expect(table.get_by_role("img").first).to_have_accessible_name(
        f"{partner['name']}: most facts on "
        f"{wanted['parts'][partner['counts'].index(max(partner['counts']))]['from']}, "
        f"{max(partner['counts'])}"
    )
    tab.locator("#page").get_by_label("Not before").fill("2030-01-09")
    expect(tab.get_by_role("heading", name="Corenne from 2030-01-09")).to_be_visible()
    later = service.http.get("/api/v1/entity", params=asked | {"from": "2030-01-09"}).json()
    expect(results.locator("tbody tr")).to_have_count(
        len(later["relations"]) + len(later["partners"])
    )
    expect(table.get_by_role("link").first).to_have_text(later["partners"][0]["name"])
    table.get_by_role("link").first.click()
    expect(tab.get_by_label("Entity", exact=True)).to_have_value(later["partners"][0]["name"])
    results.get_by_role("link", name="Ask about it").click()
    expect(tab.get_by_label("Subject", exact=True)).to_have_value(later["partners"][0]["name"])


def test_an_empty_day_of_an_entity_shows_the_nearest_facts_and_figures(page: Open) -> None:
    tab = page(page="entity", run="plain", entity="Newcomer", time="last")
    results = tab.locator("#entity-results")
    expect(results).to_contain_text("No facts at last. The nearest facts:")
    expect(results.locator(".plain-facts li")).to_have_text("later Newcomer greets Ann valid")
    expect(results.locator(".figures")).to_contain_text("MRR on valid")
    results.locator(".plain-facts a").click()
    expect(tab.locator("#asking")).to_have_text("Newcomer greets ? at later")


def test_answers_move_when_facts_are_added_and_removed(page: Open, service: Served) -> None:
    tab = page(**FACT, answer="Velessa")
    expect(answers(tab)).to_have_count(10)
    before = complete(service, **FACT)
    tab.get_by_role("link", name="What if").click()
    expect(rows(tab)).to_have_count(10)
    assert cells(tab, 0)[:2] == ["1", before[0]["name"]]
    add = tab.get_by_role("button", name="Add the fact")
    expect(add).to_be_disabled()
    for part, name in (("Subject", "Corenne"), ("Relation", "visits"), ("Object", "Velessa")):
        field = tab.get_by_label(f"{part} of it", exact=True)
        field.focus()
        field.press_sequentially(name)
        field.press("Enter")
        # The title is the chosen name, not what is typed.
        expect(field).to_have_attribute("title", name)
    expect(add).to_be_enabled()
    add.press("Enter")
    fact = FACT | {"object": "Velessa"}
    body = FACT | {"added": [fact]}
    check_moves(tab, service, body)
    remove = tab.get_by_role("button", name="Remove", exact=False).filter(has_text="Remove")
    label = remove.last.get_attribute("aria-label")
    remove.last.press("Enter")
    expect(tab.locator("#what-if-results")).to_be_focused()
    removed = json.loads(url_query(tab)["removed"])
    assert label == "Remove {} {} {} {}".format(*removed[0])
    parts = ("subject", "relation", "object", "time")
    check_moves(tab, service, body | {"removed": [dict(zip(parts, removed[0], strict=True))]})
    other = page(**url_query(tab))
    expect(rows(other)).to_have_count(rows(tab).count())
    assert [cells(other, row) for row in range(3)] == [cells(tab, row) for row in range(3)]
    tab.get_by_role("button", name="Undo: added Corenne visits Velessa").press("Enter")
    expect(tab.get_by_role("list", name="Facts added and removed")).to_be_focused()
    assert "added" not in url_query(tab)
    tab.get_by_role("button", name="Undo: removed").click()
    expect(tab.locator("#what-if-results th")).to_have_count(3)
    assert complete(service, **FACT) == before, "the service keeps nothing"
    assert tab.evaluate("Object.keys(localStorage).some((key) => /change|what/.test(key))") is False


def check_moves(tab: Any, service: Served, body: dict[str, Any]) -> None:
    """The table has the ranks and probabilities of the service."""
    wanted = service.http.post("/api/v1/what-if", json=body).json()["answers"]
    expect(tab.locator("#what-if-results th")).to_have_count(5)
    expect(rows(tab)).to_have_count(len(wanted))
    moved = sum(each["rank_before"] != each["rank_after"] for each in wanted)
    expect(tab.get_by_role("status")).to_contain_text(f"{moved or 'No'} answer")
    for row, each in enumerate(wanted):
        by = each["rank_before"] - each["rank_after"]
        sign = f"▲{by}" if by > 0 else f"▼{-by}" if by else "="
        found = cells(tab, row)
        assert found[:3] == [
            str(each["rank_before"]),
            each["name"],
            f"{each['probability_before']:.1%}",
        ]
        assert found[3].startswith(f"{each['rank_after']} {sign}")
        assert found[4] == f"{each['probability_after']:.1%}"


def test_a_fact_that_cannot_be_added_is_named(page: Open) -> None:
    known = json.dumps([["Corenne", "visits", "Central Bank of Velessa", "2030-01-05"]])
    tab = page(refused=True, page="what-if", **FACT, added=known)
    results = tab.locator("#what-if-results")
    expect(results).to_contain_text("is already among the facts that the model uses")
    tab.get_by_role("button", name="Undo").click()
    expect(rows(tab)).to_have_count(10)
    wrong = json.dumps([["Corene", "visits", "Velessa", "2030-01-05"]])
    other = page(refused=True, page="what-if", **FACT, added=wrong)
    expect(other.locator("#what-if-results")).to_contain_text("there is no subject 'Corene'")
    links = other.get_by_role("alert").get_by_role("link")
    # The question itself is right.
    expect(links).to_have_text(["start over"])


def test_a_question_over_a_period(page: Open, service: Served) -> None:
    tab = page(**FACT)
    expect(answers(tab)).to_have_count(10)
    tab.get_by_role("link", name="Over time").press("Enter")
    tab.locator("#page").get_by_label("Not before").fill("2030-01-03")
    tab.locator("#page").get_by_label("Not after").fill("2030-01-07")
    tab.locator("#page").get_by_label("Answers", exact=True).select_option("5")
    days = [f"2030-01-{day:02}" for day in range(3, 8)]
    expect(tab.get_by_role("heading", name="Corenne visits ? from 2030-01-03 to")).to_be_visible()
    expect(rows(tab)).to_have_count(5 + len(days))
    found = {day: complete(service, **FACT | {"time": day}, top=100) for day in days}
    shares = {
        answer["name"]: [
            next((each["probability"] for each in found[day] if each["name"] == answer["name"]), 0)
            for day in days
        ]
        for answers_of_day in found.values()
        for answer in answers_of_day
    }
    means = sorted((sum(each) / len(days) for each in shares.values()), reverse=True)
    for number in range(5):
        name, mean, _, highest, when = cells(tab, number)
        assert mean == f"{sum(shares[name]) / len(days):.1%}" == f"{means[number]:.1%}"
        assert highest == f"{max(shares[name]):.1%}"
        assert when == days[shares[name].index(max(shares[name]))]
        bars = rows(tab).nth(number).locator("rect").all()
        whole = rows(tab).nth(number).locator("svg").bounding_box()["height"]
        drawn = [bar.bounding_box()["height"] / whole for bar in bars]
        assert drawn == pytest.approx(shares[name], abs=0.02), "a scale from 0 to 100%"
    for number, day in enumerate(days):
        assert cells(tab, 5 + number)[:3] == [
            day,
            found[day][0]["name"],
            f"{found[day][0]['probability']:.1%}",
        ]
    expect(tab.get_by_role("status")).to_have_text("Answers at 5 steps")
    rows(tab).nth(5).get_by_role("link").click()
    expect(tab.locator("#asking")).to_have_text("Corenne visits ? on 2030-01-03")
    back = page(page="period", subject="Corenne", relation="visits", first=days[2], last=days[0])
    expect(back.locator("#period-results")).to_contain_text(
        "No step is from 2030-01-05 to 2030-01-03."
    )


def test_two_runs_have_figures_and_agreement(page: Open, service: Served) -> None:
    tab = page(page="compare")
    results = tab.locator("#compare-results")
    expect(results).to_contain_text("Choose a run above.")
    tab.locator("#page").get_by_label("Compare with").select_option("ted")
    facts = service.http.get("/api/v1/examples", params={"limit": 10}).json()["facts"]
    expect(results.locator("table").nth(1).locator("tbody tr")).to_have_count(len(facts))
    info = service.http.get("/api/v1/info").json()["runs"]
    for number, run in enumerate(("temp-gru", "ted")):
        (metrics,) = [each["metrics"]["valid"] for each in info if each["name"] == run]
        row = results.locator("table").first.locator("tbody tr").nth(number)
        found = row.locator("td").all_inner_texts()
        assert [found[0], *found[4:]] == [
            run,
            *(f"{metrics[name]:.3f}" for name in ("mrr", "hits@1", "hits@3", "hits@10")),
        ]
    same, shared, first = 0, 0, {"temp-gru": 0, "ted": 0}
    for fact in facts:
        query = {part: fact[part] for part in ("subject", "relation", "time")}
        lists = {
            run: [each["name"] for each in complete(service, **query, run=run)] for run in first
        }
        same += lists["temp-gru"][0] == lists["ted"][0]
        shared += len({*lists["temp-gru"]} & {*lists["ted"]})
        for run, names in lists.items():
            first[run] += names[0] == fact["object"]
    assert results.locator(".figures dd").all_inner_texts() == [
        f"{same} of 10",
        f"{shared / 10:.1f} on average",
        f"{first['temp-gru']} of 10",
        f"{first['ted']} of 10",
    ]
    verdicts = [cells(tab, 2 + row)[-1] for row in range(len(facts))]
    assert verdicts.count("yes") == same and len({*verdicts}) == 2
    expect(tab.get_by_role("status")).to_have_text("Both runs answered 10 questions")
    other = page(page="compare", other="plain")
    expect(other.locator("#compare-results")).to_contain_text("plain knows none of the names")


def test_two_answer_lists_say_how_far_they_agree(page: Open, service: Served) -> None:
    tab = page(**FACT, run="temp-gru", other="ted")
    here, there = (
        [answer["name"] for answer in complete(service, **FACT, run=run)]
        for run in ("temp-gru", "ted")
    )
    shared = len({*here} & {*there})
    verdict = "The best answer is the same" if here[0] == there[0] else "The best answers differ"
    expect(tab.locator("#second")).to_contain_text(
        f"{verdict}; {shared} of {len(there)} answers are in both lists."
    )
    info = {run["name"]: run for run in service.http.get("/api/v1/info").json()["runs"]}
    for column, run in (("#first", "temp-gru"), ("#second", "ted")):
        mrr = info[run]["metrics"]["valid"]["mrr"]
        expect(tab.locator(f"{column} h3")).to_have_text(f"{run}, MRR {mrr:.3f} on valid")


@pytest.mark.parametrize("kind", ["entity", "time"])
def test_the_reliability_of_probabilities_is_drawn(page: Open, service: Served, kind: str) -> None:
    tab = page(page="calibration", run="ted")
    names = {"entity": "entities", "time": "times"}
    tab.get_by_label("Probabilities of", exact=True).select_option(kind)
    asked = {"asked": kind, "run": "ted"}
    wanted = service.http.get("/api/v1/calibration", params=asked).json()["calibration"]
    expect(
        tab.get_by_role("heading", name=f"Reliability of the probabilities of {names[kind]}")
    ).to_be_visible()
    bins = wanted["reliability"]
    expect(tab.locator(".dot")).to_have_count(len(bins))
    frame = tab.locator(".frame").bounding_box()
    for dot, each in zip(tab.locator(".dot").all(), bins, strict=True):
        box = dot.bounding_box()
        right = (box["x"] + box["width"] / 2 - frame["x"]) / frame["width"]
        up = 1 - (box["y"] + box["height"] / 2 - frame["y"]) / frame["height"]
        assert (right, up) == pytest.approx((each["confidence"], each["right"]), abs=0.01)
    expect(tab.locator(".figures dd").first).to_have_text(
        f"{wanted['calibration_error']:.1%} {wanted['calibration_error_before']:.1%} before"
    )
    table = [row.split(",") for row in saved(tab, "CSV").splitlines()]
    assert table[0] == ["from", "questions", "confidence", "right", "among_ten"]
    assert [float(row[2]) for row in table[1:]] == [each["confidence"] for each in bins]
    expect(tab.get_by_role("status")).to_contain_text("ted: calibration error")


def test_questions_are_saved_and_remembered_in_the_browser(page: Open) -> None:
    tab = page(**FACT)
    expect(answers(tab)).to_have_count(10)
    tab.get_by_role("button", name="Save", exact=False).filter(has_text="☆").press("Enter")
    save = tab.locator("#save")
    expect(save).to_have_text("★ Saved")
    expect(save).to_have_attribute("aria-pressed", "true")
    tab.get_by_role("button", name="One step ahead").click()
    expect(save).to_have_text("☆ Save")
    expect(answers(tab)).to_have_count(10)
    tab.get_by_role("link", name="History").press("Enter")
    expect(save).to_be_hidden()
    saved_list, history = tab.locator("#saved .questions a"), tab.locator("#history .questions a")
    expect(saved_list).to_have_text(["Corenne visits ? on 2030-01-05"])
    expect(history).to_have_text(
        ["Corenne visits ? on 2030-01-06", "Corenne visits ? on 2030-01-05"]
    )
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.url))
    tab.reload()
    expect(saved_list).to_have_count(1)
    asked = [urlsplit(url).path for url in sent if "/api/" in url]
    assert asked == ["/api/v1/info"], "questions stay in the browser"
    saved_list.first.press("Enter")
    expect(tab.locator("#asking")).to_have_text("Corenne visits ? on 2030-01-05")
    expect(save).to_have_text("★ Saved")
    tab.go_back()
    tab.get_by_role("button", name="Remove Corenne visits ? on 2030-01-06").click()
    expect(history).to_have_text(["Corenne visits ? on 2030-01-05"])
    tab.locator("#saved").get_by_role("button", name="Clear 1 question").click()
    expect(saved_list).to_have_count(0)
    expect(tab.locator("#saved")).to_be_focused()
    expect(history).to_have_count(1)
    tab.get_by_label("Remember questions in this browser").uncheck()
    expect(history).to_have_count(0)
    tab.get_by_role("link", name="Ask").click()
    expect(tab.locator("#asking")).not_to_be_empty()
    tab.get_by_role("link", name="History").click()
    expect(tab.get_by_label("Remember questions in this browser")).not_to_be_checked()
    expect(history).to_have_count(0)
    assert tab.evaluate("Object.keys(localStorage)") == ["tempograph-keep-history"]


def test_damaged_stored_questions_are_ignored(page: Open) -> None:
    tab = page(**FACT)
    expect(answers(tab)).to_have_count(10)
    tab.evaluate("localStorage['tempograph-saved'] = '{not json'")
    tab.evaluate(
        "localStorage['tempograph-history'] ="
        " JSON.stringify([{address: 'javascript:alert(1)', title: 'x'}, {}])"
    )
    tab.get_by_role("link", name="History").click()
    expect(tab.locator("#saved")).to_contain_text("Save a question")
    expect(tab.locator("#history")).to_contain_text("No question is remembered.")


def reach(tab: Any, target: Any) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(150):
        if target.evaluate("element => element === document.activeElement"):
            return
        tab.keyboard.press("Tab")
    raise AssertionError(f"{target} cannot be reached with the keyboard")


def test_the_keyboard_alone_completes_each_task(page: Open) -> None:
    tab = page(**FACT)
    shown, status = tab.locator("#page"), tab.get_by_role("status")

    def press(target: Any, *keys: str) -> None:
        reach(tab, target)
        for key in keys:
            tab.keyboard.press(key) if len(key) > 1 else tab.keyboard.type(key)

    def open_page(name: str) -> None:
        press(tab.get_by_role("link", name=name, exact=True).first, "Enter")

    expect(answers(tab)).to_have_count(10)
    press(tab.locator("#save"), "Enter")
    open_page("Surprising")
    press(tab.get_by_label("Split", exact=True), "t", "e")
    press(tab.get_by_role("button", name="Search"), "Enter")
    expect(status).to_contain_text("surprising facts found")
    press(rows(tab).first.get_by_role("link"), "Enter")
    expect(answers(tab).first).to_be_visible()
    open_page("Entity")
    press(tab.get_by_label("Entity", exact=True), *"velessa", "Enter")
    expect(status).to_contain_text("Velessa: ")
    press(shown.locator("table").nth(1).get_by_role("link").first, "Enter")
    expect(status).not_to_contain_text("Velessa: ")
    open_page("What if")
    for part, name in (("Subject", "Corenne"), ("Relation", "visits"), ("Object", "Velessa")):
        field = tab.get_by_label(f"{part} of it", exact=True)
        press(field, "Control+a", *name, "Enter")
        expect(field).to_have_attribute("title", name)
    press(tab.get_by_role("button", name="Add the fact"), "Enter")
    expect(tab.locator("#what-if-results th")).to_have_count(5)
    press(tab.get_by_role("button", name="Undo"), "Enter")
    expect(tab.locator("#what-if-results th")).to_have_count(3)
    open_page("Over time")
    press(tab.locator("#period-top"), "ArrowUp")
    expect(rows(tab)).to_have_count(15)
    open_page("Compare runs")
    press(shown.get_by_label("Compare with"), *"ted")
    expect(status).to_have_text("Both runs answered 10 questions")
    open_page("Calibration")
    press(tab.get_by_label("Probabilities of", exact=True), "t")
    expect(tab.get_by_role("heading", name="probabilities of times")).to_be_visible()
    open_page("History")
    press(tab.locator("#saved .questions a").first, "Enter")
    expect(tab.locator("#asking")).to_have_text("Corenne visits ? on 2030-01-05")


PAGES = {
    "missing": {"page": "missing", "entity": "Corenne", "search": "yes"},
    "surprising": {"page": "surprising", "search": "yes"},
    "entity": {"page": "entity", "entity": "Corenne", "time": "2030-01-05"},
    "what-if": FACT | {"page": "what-if", "added": '[["Corenne","visits","Velessa","2030-01-05"]]'},
    "period": {"page": "period", "subject": "Corenne", "relation": "visits"},
    "compare": {"page": "compare", "other": "ted"},
    "calibration": {"page": "calibration", "other": "ted"},
    "history": {"page": "history"},
}
READY = {"history": "#history .questions li"}
"""What is shown last; a row of a table, unless it is said here."""


def test_every_page_is_accessible(browser: Any, service: Served) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 844}, bypass_csp=True)
    tab = context.new_page()
    for name, view in PAGES.items():
        tab.goto(f"http://localhost:{service.port}/?{urlencode(view)}")
        expect(tab.locator(READY.get(name, "#page tbody tr")).first).to_be_visible()
        expect(tab.locator("[aria-busy]")).to_have_count(0)
        assert accessibility_problems(tab) == [], name
    context.close()


LONG_PAGES = {
    "missing": {"page": "missing", "entity": LONG[0], "search": "yes"},
    "surprising": {"page": "surprising", "search": "yes"},
    "entity": {"page": "entity", "entity": LONG[0], "time": HOURS[1]},
    "what-if": {
        "page": "what-if",
        "subject": LONG[0],
        "relation": "meets",
        "time": HOURS[1],
        "added": json.dumps([[LONG[0], "greets", LONG[2], HOURS[1]]]),
    },
    "period": {"page": "period", "subject": LONG[0], "relation": "meets"},
    "compare": {"page": "compare", "other": "plain"},
    "history": {"page": "history"},
}


@pytest.mark.parametrize("width", [1440, 390])
def test_long_names_stay_inside_pages(page: Open, width: int) -> None:
    for name, view in LONG_PAGES.items():
        tab = page(run="long", **view)
        tab.set_viewport_size({"width": width, "height": 844})
        expect(tab.locator(READY.get(name, "#page tbody tr")).first).to_be_visible()
        for part in ("html", "#page .card"):
            for each in tab.locator(part).all():
                hidden = each.evaluate("element => element.scrollWidth - element.clientWidth")
                assert hidden <= 0, f"{part} of {name} is {hidden} pixels too wide"
