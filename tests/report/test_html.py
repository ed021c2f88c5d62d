"""HTML pages: self-contained, escaped, labelled, sortable, readable in the dark and on paper."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("browser_fixtures", "report_fixtures")


class Reader(HTMLParser):
    """Collects the tags and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def values(self, attribute: str) -> list[str]:
        return [
            value for _, attributes in self.tags if (value := attributes.get(attribute)) is not None
        ]


def test_the_page_is_self_contained_and_escapes_names(report_page: Path, hostile_name: str) -> None:
    text = report_page.read_text(encoding="utf-8")
    reader = Reader(text)
    tags = [tag for tag, _ in reader.tags]
    assert (
        tags.count("script") == 1
        and "b" in tags
        and not {"img", "iframe", "object", "embed"} & set(tags)
    )
    assert (
        "<b>odd" not in text and "<script>alert" not in text and "on <b>odd" in "".join(reader.text)
    )
    assert any(hostile_name in data for data in reader.text), "names are shown as they are"
    assert not reader.values("src")
    assert all(link.startswith(("#", "data:")) for link in reader.values("href"))
    assert "url(http" not in text and "@import" not in text and "$" + "{" not in text


def test_the_page_has_labels_for_screen_readers(report_page: Path) -> None:
    reader = Reader(report_page.read_text(encoding="utf-8"))
    names = reader.values("id")
    assert len(names) == len(set(names))
    for attribute in ("href", "xlink:href", "aria-labelledby"):
        for target in reader.values(attribute):
            assert target == "data:," or target.removeprefix("#") in names, target
    headings = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch("h[1-6]", tag)]
    assert headings.count(1) == 1 and headings[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    pictures = [attributes for tag, attributes in reader.tags if tag == "svg"]
    assert len(pictures) == 2 + 3 * 6 + 2 * 2 and all(one["role"] == "img" for one in pictures)
    assert ("html", {"lang": "en"}) in reader.tags


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_in_a_browser(browser: Any, report_page: Path, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab, messages, requests = context.new_page(), [], []
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("pageerror", lambda error: messages.append(str(error)))
    tab.on("dialog", lambda dialog: messages.append(dialog.message))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(report_page.as_uri())
    assert requests == [report_page.as_uri()] and messages == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width, (
        "the page itself never scrolls sideways"
    )
    text, paper = (
        [
            int(part)
            for part in re.findall(r"\d+", tab.evaluate(f"getComputedStyle(document.body).{name}"))
        ][:3]
        for name in ("color", "backgroundColor")
    )
    assert (sum(text) > sum(paper)) is (scheme == "dark")
    drawn = tab.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
    assert [int(part) for part in re.findall(r"\d+", drawn)][:3] == text

    column = tab.locator("table").first.locator("tbody tr td:nth-child(4)")
    before = [float(cell) for cell in column.all_inner_texts()]
    for click, direction in enumerate(("descending", "ascending")):
        tab.locator("table").first.locator("th button").nth(3).click()
        shown = [float(cell) for cell in column.all_inner_texts()]
        assert shown == sorted(before, reverse=click == 0)
        assert (
            tab.locator("table").first.locator("th").nth(3).get_attribute("aria-sort") == direction
        )
    ranks = tab.locator("table").first.locator("tbody tr td:last-child")
    tab.locator("table").first.locator("th button").last.click()
    shown = [float(cell.replace(",", "")) for cell in ranks.all_inner_texts()]
    assert shown == sorted(shown), "of mean ranks the lowest is best"
    tab.locator("summary", has_text="All relations").first.click()
    assert tab.locator("details[open] table").first.is_visible()
    assert messages == []
    context.close()


def test_the_page_on_paper(browser: Any, report_page: Path) -> None:
    tab = browser.new_page()
    tab.goto(report_page.as_uri())
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    opened = tab.evaluate(
        "[...document.querySelectorAll('details[open] > summary')].map(part => part.textContent)"
    )
    assert len(opened) == 8 and set(opened) == {"Settings (config.toml)", "Environment"}
    assert (
        tab.evaluate("getComputedStyle(document.querySelector('thead')).display")
        == "table-header-group"
    )
    assert tab.evaluate("getComputedStyle(document.querySelector('h3')).breakAfter") == "avoid"
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details[open]").count() == 0
    tab.close()


def test_the_page_works_without_scripts(browser: Any, report_page: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(report_page.as_uri())
    assert tab.locator("th button").count() == 0 and tab.locator("table").first.is_visible()
    assert tab.locator("svg").first.is_visible()
    context.close()
