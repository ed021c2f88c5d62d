"""The report: true to the run folders, whole by itself, safe against any name, readable on a phone and in the dark."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tempograph
from conftest import Call
from tempograph import TemporalGraph
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.errors import ConfigError, RunError
from tempograph.report import run_report as report
from tempograph.report.run_report import write_report
from tempograph.report.sections import _rounded

pytest_plugins = ("browser_fixtures",)
EVIL = "<script>alert('x')</script> & \"$\\frac|`*_"
TINY = [
    "model.dim=8",
    "model.window=2",
    "model.heads=2",
    "train.epochs=2",
    "train.times_per_step=8",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ted and both kinds of TeMP on data with odd names, evaluated; bare, on other data, never evaluated."""
    folder = tmp_path_factory.mktemp("runs")
    graph = make_world(entities=30, relations=6, steps=24, facts=600).graph
    odd = TemporalGraph(
        "odd",
        tuple(f"{name} {EVIL}" for name in graph.entities),
        tuple(f"{name} {EVIL}" for name in graph.relations),
        graph.times,
        graph.train,
        graph.valid,
        graph.test,
    )
    write_folder(odd, folder / "<b>odd & $x")
    for model in ("ted", "temp-gru", "temp-sa"):
        overrides = [] if model == "ted" else TINY
        run = tempograph.train(
            folder / "<b>odd & $x", model, out=folder / model, overrides=overrides, device="cpu"
        )
        for split in ("valid", "test"):
            tempograph.evaluate(run, split)
    write_folder(
        make_world(seed=3, entities=20, relations=4, steps=12, facts=300).graph, folder / "other"
    )
    tempograph.train(folder / "other", "ted", out=folder / "bare run")
    return folder


@pytest.fixture(scope="module")
def page(runs: Path) -> Path:
    path = runs / "report.html"
    write_report(
        [runs / name for name in ("ted", "temp-gru", "temp-sa", "bare run")], path, window=3
    )
    return path


class Reader(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def every(self, attribute: str) -> list[str]:
        return [
            found for _, attributes in self.tags if (found := attributes.get(attribute)) is not None
        ]


def test_the_page_needs_nothing_else_and_no_name_becomes_a_tag(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
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
    assert any(EVIL in data for data in reader.text), "names are shown as they are"
    assert not reader.every("src")
    assert all(link.startswith(("#", "data:")) for link in reader.every("href"))
    assert "url(http" not in text and "@import" not in text and "$" + "{" not in text


def test_the_page_can_be_read_aloud(page: Path) -> None:
    reader = Reader(page.read_text(encoding="utf-8"))
    names = reader.every("id")
    assert len(names) == len(set(names))
    for attribute in ("href", "xlink:href", "aria-labelledby"):
        for target in reader.every(attribute):
            assert target == "data:," or target.removeprefix("#") in names, target
    headings = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch("h[1-6]", tag)]
    assert headings.count(1) == 1 and headings[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    pictures = [attributes for tag, attributes in reader.tags if tag == "svg"]
    assert len(pictures) == 2 + 3 * 6 + 2 * 2 and all(one["role"] == "img" for one in pictures)
    assert ("html", {"lang": "en"}) in reader.tags


def test_the_figures_are_those_of_the_runs(page: Path, runs: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in ("ted", "temp-gru", "temp-sa"):
        results = json.loads((runs / name / "results.json").read_text())
        for split in ("valid", "test"):
            for kind in ("metrics", "subject", "object", "optimistic", "pessimistic"):
                found = results[split][kind]
                hits = "".join(
                    f'<td class="number">{100 * found[f"hits@{k}"]:.1f}</td>' for k in (1, 3, 10)
                )
                assert f'<td class="number">{found["mrr"]:.3f}</td>{hits}' in text
    assert (
        text.count("protocol strict") > 10
        and "odd &amp; $x, test, filter time; protocol strict" in text
    )


def test_what_is_missing_is_said_with_the_way_to_have_it(page: Path, runs: Path) -> None:
    text = "".join(Reader(page.read_text(encoding="utf-8")).text)
    assert f"tempograph evaluate '{runs / 'bare run'}' --split test" in text
    assert "Not evaluated on test: ted on other. To have" in text
    assert (
        "Run: temp-sa on <b>odd" in text
        and "Attention: how much" in text
        and "The data: other" in text
    )


def test_runs_are_named_as_shortly_as_they_can_be_told_apart(runs: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(runs / "ted", tmp_path / "ted"))
    for folders, labels in (
        ([runs / "ted", runs / "ted"], ["ted"]),
        ([runs / "ted", runs / "temp-gru"], ["ted", "temp-gru"]),
        ([runs / "ted", runs / "bare run"], ["ted on <b>odd & $x", "ted on other"]),
        (
            [runs / "ted", copy, runs / "bare run"],
            [str(runs / "ted"), str(copy), str(runs / "bare run")],
        ),
    ):
        assert [entry.label for entry in report._entries(folders)] == labels
    text = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(text.replace('protocol = "strict"', 'protocol = "paper"'))
    assert [entry.label for entry in report._entries([runs / "temp-gru", copy])] == [
        "temp-gru, strict",
        "ted, paper",
    ]
    first, second, third = report._entries([runs / "ted", copy, runs / "bare run"])
    assert first.graph is second.graph and first.graph is not third.graph


def test_markdown_has_its_pictures_beside_it(runs: Path, tmp_path: Path) -> None:
    write_report([runs / "temp-gru"], tmp_path / "my report.md")
    text = (tmp_path / "my report.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\n]*\]\(<(.*?)>\)", text)
    assert len(pictures) == len(set(pictures)) == 1 + 2 * 6 + 2
    assert all((tmp_path / picture).read_text().count("<svg") == 1 for picture in pictures)
    assert "<script>" not in text.replace("\\<script\\>", "") and "| temp-gru | test |" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "my report-pictures",
        "my report.md",
    ]
    assert text.index("Gate: how much") < text.index("Decay: how much"), (
        "in the order of the panels"
    )
    assert "equally many questions" not in text


def test_a_report_that_cannot_be_made_says_why(runs: Path, tmp_path: Path) -> None:
    for folders, name, mistake, message in (
        ([runs / "ted"], "report.pdf", ConfigError, "report.pdf: a report ends in .html or .md"),
        (
            [],
            "report.html",
            ConfigError,
            "a report needs a run and a window of at least 1; found 0 and 8",
        ),
        ([tmp_path], "report.html", RunError, "no run here"),
    ):
        with pytest.raises(mistake, match=message):
            write_report(folders, tmp_path / name)
    damaged = Path(shutil.copytree(runs / "ted", tmp_path / "damaged"))
    (damaged / "environment.json").unlink()
    with pytest.raises(RunError, match="damaged: the run is damaged"):
        write_report([damaged], tmp_path / "report.html")
    assert not list(tmp_path.glob("report*"))


def test_the_command(call: Call, runs: Path) -> None:
    code, out, err = call("report", str(runs / "bare run"), "--out", "page.html", "--window", "2")
    assert (code, out, err) == (0, "written: page.html\n", "") and "within 2 steps" in Path(
        "page.html"
    ).read_text()
    write_report([runs / "bare run"], "again.HTML", window=2)
    assert Path("again.HTML").read_bytes() == Path("page.html").read_bytes(), (
        "the same runs make the same page"
    )
    code, out, err = call("report", "gone", "--out", "page.md")
    assert code == 2 and err.startswith("error: gone: no run here") and not Path("page.md").exists()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_in_a_browser(browser: Any, page: Path, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab, said, asked = context.new_page(), [], []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("dialog", lambda dialog: said.append(dialog.message))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page.as_uri())
    assert asked == [page.as_uri()] and said == []
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
    assert said == []
    context.close()


def test_in_print(browser: Any, page: Path) -> None:
    tab = browser.new_page()
    tab.goto(page.as_uri())
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


def test_without_a_script_everything_is_there(browser: Any, page: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert tab.locator("th button").count() == 0 and tab.locator("table").first.is_visible()
    assert tab.locator("svg").first.is_visible()
    context.close()


def test_a_run_that_was_stopped_is_reported_without_its_time(runs: Path, tmp_path: Path) -> None:
    stopped = Path(shutil.copytree(runs / "temp-gru", tmp_path / "stopped"))
    (stopped / "ranks.parquet").unlink()
    results = json.loads((stopped / "results.json").read_text()) | {
        "train_seconds": None,
        "finished": False,
    }
    (stopped / "results.json").write_text(
        json.dumps({k: results[k] for k in results.keys() - {"valid", "test"}})
    )
    write_report([stopped], tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "parameters, trained on" in text and "The training is not finished" in text


@pytest.mark.parametrize("text", ["{}", "[]", "null"])
def test_a_run_without_figures_is_named(runs: Path, tmp_path: Path, text: str) -> None:
    damaged = Path(shutil.copytree(runs / "ted", tmp_path / "damaged"))
    (damaged / "results.json").write_text(text)
    with pytest.raises(RunError, match=r"damaged.*: the run is damaged"):
        write_report([damaged], tmp_path / "report.html")


def test_ranks_of_other_facts_are_refused(runs: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(runs / "bare run", tmp_path / "other"))
    shutil.copy(runs / "ted" / "ranks.parquet", other / "ranks.parquet")
    with pytest.raises(
        RunError, match=r"ranks\.parquet: ranks of other facts than those of (valid|test)"
    ):
        write_report([other], tmp_path / "report.html")


def test_large_frequencies_are_written_out() -> None:
    shown = {
        0.0: "0",
        1.234: "1.23",
        99.96: "100",
        126.4: "126",
        12_649: "12,600",
        1_264_900: "1,260,000",
    }
    assert {value: _rounded(value) for value in shown} == shown
