"""What a notebook shows of results: HTML with tables and a timeline."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tempograph
from predicting import GRAPH
from tempograph import Answer, Completion, EvidenceFact, Predictor
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world

pytest_plugins = ("predictor_fixtures",)

FACTS = (
    EvidenceFact("Ann", "meets", "Bob", "2024-01-02", share=None, effect=1.25),
    EvidenceFact("Bob", "calls", "Ann", "2024-01-05", share=None, effect=-0.5),
)
ANSWERS = (
    Answer(1, "Bob", 2.5, 0.754, "train", "same entity", FACTS, 7),
    Answer(2, "Cai", -1.0, 0.01, None, "same relation", FACTS[:1], 1),
)
COMPLETION = Completion("Ann", "meets", None, "2024-01-04", "object", ANSWERS, ("a remark",))


class Page(HTMLParser):
    """The cells of tables row by row; every element must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.classes: dict[str, str] = {}
        self._text: list[str] = []
        self._inside: list[list[str]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "link", "iframe"), tag
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]
        self.open.append(tag)
        if tag == "tr":
            # A row may hold another table.
            self._inside.append([])
            self.rows.append(self._inside[-1])
        self._text = [] if tag in ("td", "th") else self._text
        self._class = dict(attrs).get("class") or ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            text = "".join(self._text)
            self._inside[-1].append(text)
            self.classes[text] = self._class
        if tag == "tr":
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        self._text.append(data)


def test_answers_are_shown_with_whole_facts_as_evidence() -> None:
    page = Page(COMPLETION._repr_html_())
    assert ["#", "object", "score", "probability", "known in"] in page.rows
    assert ["1", "Bob", "2.500", "75.4%", "train"] in page.rows
    assert ["2", "Cai", "-1.000", "1.0%", ""] in page.rows
    assert ["time", "effect", "subject", "relation", "object"] in page.rows
    assert ["2024-01-02", "+1.25", "Ann", "meets", "Bob"] in page.rows
    assert ["2024-01-05", "-0.50", "Bob", "calls", "Ann"] in page.rows
    assert page.classes["75.4%"] == page.classes["+1.25"] == "number" != page.classes["Bob"]
    html = COMPLETION._repr_html_()
    assert "(Ann, meets, ?, 2024-01-04)" in html and "a remark" in html
    assert html.count("<details open>") == 1 and html.count("<details>") == 1
    assert "same entity, 7 facts, 2 shown<" in html and "same relation, 1 fact<" in html


def test_the_timeline_shows_the_evidence_of_each_answer() -> None:
    html = COMPLETION._repr_html_()
    assert "asked: 2024-01-04" in html and "speak against the answer" in html
    titles = re.findall("<title>(.*?)</title>", html)
    assert titles == [
        "Evidence over time for (Ann, meets, ?, 2024-01-04)",
        "2024-01-02  +1.25  Ann  meets  Bob",
        "2024-01-05  -0.50  Bob  calls  Ann",
        "2024-01-02  +1.25  Ann  meets  Bob",
    ]


def test_the_timeline_of_a_time_question_shows_the_answers() -> None:
    answers = (
        Answer(1, "2024-01-09", -0.5, 0.6, "test", "", (), 0),
        Answer(2, "2024-01-03", -0.9, 0.4, None, "", (), 0),
    )
    html = Completion("Ann", "meets", "Bob", None, "time", answers, ())._repr_html_()
    titles = re.findall("<title>(.*?)</title>", html)
    assert titles[1:] == ["1. 2024-01-09: 60.0%, known in test", "2. 2024-01-03: 40.0%"]
    assert html.count("<circle") == 1 and "asked:" not in html


def test_shares_take_the_place_of_effects() -> None:
    facts = (
        EvidenceFact("Ann", "meets", "Bob", "3", share=0.25, effect=None),
        EvidenceFact("Ann", "meets", "Bob", "5", share=None, effect=None),
    )
    completion = Completion(
        *("Ann", None, "Bob", "4", "relation"),
        (Answer(1, "meets", 0, 0.5, None, "", facts, 2),),
        (),
    )
    page = Page(completion._repr_html_())
    assert ["time", "share", "subject", "relation", "object"] in page.rows
    assert ["3", "25%", "Ann", "meets", "Bob"] in page.rows
    assert ["5", "", "Ann", "meets", "Bob"] in page.rows
    assert "larger share of the score" in completion._repr_html_()


def test_every_result_is_well_formed_html(predictor: Predictor, tmp_path: Path) -> None:
    shown = {
        "objects": predictor.objects(0, 0, 4, top=3),
        "subjects": predictor.subjects(0, 1, 4, top=3),
        "why": predictor.why(0, 0, 1, 4),
        "times": predictor.times(0, 0, 1, top=3),
        "no evidence": predictor.objects(0, 0, 4, evidence=0),
        "missing": predictor.missing(top=20),
        "surprising": predictor.surprising(top=5),
        "scores": predictor.score(GRAPH.test[:4]),
        "scores alone": predictor.score(GRAPH.test[:4], ranks=False),
        "nothing": predictor.score([]),
        "answers": predictor.ask([{"subject": 0, "relation": 0, "time": 4}], top=2),
        "evaluation": tempograph.evaluate(predictor.run, "test"),
        "run": predictor.run,
        "predictor": predictor,
    }
    for name, result in shown.items():
        html = result._repr_html_()  # type: ignore[union-attr]
        assert Page(html).rows, name
        assert html.startswith('<div class="tempograph"><style>'), name
        has_time = name not in (
            "no evidence",
            "nothing",
            "answers",
            "evaluation",
            "run",
            "predictor",
        )
        assert ("<svg" in html) == has_time, name
    # Lists are written out.
    assert "[&#x27;" not in shown["missing"]._repr_html_()  # type: ignore[union-attr]


def test_names_are_escaped() -> None:
    rows = [("<b>Ann</b>", "meets & greets", "Bob", f"2024-01-{day:02d}") for day in range(1, 29)]
    predictor = Predictor(tempograph.train(rows, "ted", device="cpu"))
    completion = predictor.objects("<b>Ann</b>", "meets & greets", "2024-01-03")
    for html in (completion._repr_html_(), predictor.surprising()._repr_html_()):
        assert "<b>" not in html and "<td>&lt;b&gt;Ann&lt;/b&gt;</td>" in html
        assert "<td>meets &amp; greets</td>" in html
    assert "(&lt;b&gt;Ann&lt;/b&gt;, meets &amp; greets, ?, 2024-01-03)" in completion._repr_html_()


def test_only_the_first_rows_are_shown(ted_predictor: Predictor) -> None:
    html = ted_predictor.surprising(top=28)._repr_html_()
    assert html.count("<tr>") == 22 and "the first 20 of 28 rows; to_pandas() has all" in html
    assert "1 row<" in ted_predictor.surprising(top=1)._repr_html_()
    many = tuple(Answer(rank, f"a{rank}", -rank, 0.0, None, "", (), 0) for rank in range(1, 26))
    html = Completion("Ann", "meets", None, "4", "object", many, ())._repr_html_()
    assert html.count("<tr>") == 21 and "5 more answers; to_pandas() has all of them" in html


def test_facts_are_grouped_by_side_and_counted_per_step(ted_predictor: Predictor) -> None:
    scored = ted_predictor.score(GRAPH.test[:4])
    page = Page(scored._repr_html_())
    assert page.rows[0] == ["subject", "relation", "object", "time", "known", "object", "subject"]
    assert page.rows[1] == ["score", "probability", "rank"] * 2
    times = scored["time"].to_pylist()
    for time in set(times):
        count = times.count(time)
        facts = "1 fact" if count == 1 else f"{count} facts"
        assert f"<title>{time}: {facts}</title>" in scored._repr_html_()


def test_an_evaluation_shows_its_metrics(ted_predictor: Predictor) -> None:
    evaluation = tempograph.evaluate(ted_predictor.run, "test")
    metrics = evaluation.summary()["metrics"]
    rows = Page(evaluation._repr_html_()).rows
    assert rows[0] == ["ranked", "MRR", "MR", "Hits@1", "Hits@3", "Hits@10"]
    assert rows[1][:4] == [
        "both sides",
        f"{metrics['mrr']:.3f}",
        f"{metrics['mr']:,.1f}",
        f"{metrics['hits@1']:.1%}",
    ]


def test_a_run_shows_its_settings_and_figures(ted_predictor: Predictor) -> None:
    run = ted_predictor.run
    tempograph.evaluate(run, "test")
    rows = Page(run._repr_html_()).rows
    assert ["settings", "protocol strict, seed 0"] in rows
    assert [row[0] for row in rows[-2:]] == ["valid", "test"]
    run.results.finished = False
    assert "training is not finished" in run._repr_html_()


def test_a_fitted_model_shows_why_it_was_chosen_and_how_good_it_is(tmp_path: Path) -> None:
    rows = [tuple(GRAPH.describe(fact).values()) for fact in GRAPH.all_facts]
    fitted = tempograph.fit([*rows, rows[0]], out=tmp_path / "run", model="ted", device="cpu")
    page = Page(fitted._repr_html_())
    assert ["rows", "301 read, 1 repeated"] in page.rows
    assert ["model", "ted, because it was requested"] in page.rows
    assert ["relation", "queries", "first", "first ten"] in page.rows
    assert "held-out facts" in fitted._repr_html_()


@pytest.mark.usefixtures("started")
def test_a_comparison_shows_its_table(tmp_path: Path) -> None:
    world = make_world(entities=20, relations=5, steps=20, facts=500).graph
    write_folder(world, tmp_path / "world")
    comparison = tempograph.compare(tmp_path / "world", ["ted"], out=tmp_path, device="cpu")
    page = Page(comparison._repr_html_())
    assert page.rows[0][:4] == ["model", "settings", "seeds", "MRR"] and page.rows[1][0] == "ted"
