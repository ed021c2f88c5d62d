"""The trust report: its figures are those of the ranks, its examples follow the stated rule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tempograph
from conftest import Call
from messages import message, raises
from tempograph import FitResult, TrustReport
from tempograph.cli import console
from tempograph.data.synthetic.world import make_world
from tempograph.errors import RunError
from tempograph.evaluation.rank_table import RankTable
from tempograph.report.trust_examples import choose_rows
from tempograph.report.trust_figures import MIN_QUESTIONS
from tempograph.report.trust_report import make_trust_report
from tempograph.report.trust_sections import figures_table

BAD_NAME = "<script>alert('x')</script> & \"$|`*_"


@contextmanager
def quietly(_: str) -> Iterator[None]:
    yield


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    """A fit of a table with a repeated row, a bad one, and a column that is not used."""
    graph = make_world(seed=4, entities=20, relations=5, steps=20, facts=500).graph
    rows = [
        {
            "subject": f"{graph.entities[s]} {BAD_NAME}",
            "relation": graph.relations[r],
            "object": f"{graph.entities[o]} {BAD_NAME}",
            "time": graph.times[t],
            "remark": "x",
        }
        for s, r, o, t in graph.all_facts
    ]
    rows += [rows[0], rows[0] | {"time": "one fine day"}]
    return tempograph.fit(
        rows,
        out=tmp_path_factory.mktemp("fit") / "run",
        options=tempograph.ImportOptions(skip_bad=True),
        model="pointer",
        overrides=["train.epochs=2"],
        device="cpu",
    )


@pytest.fixture
def trust(fitted: FitResult) -> TrustReport:
    assert fitted.trust is not None
    return fitted.trust


def test_figures_stand_beside_baselines(fitted: FitResult, trust: TrustReport) -> None:
    who, relation, when = trust.figures.questions
    assert [each["asked"] for each in (who, relation, when)] == ["entity", "relation", "time"]
    assert fitted.evaluation is not None
    assert who["metrics"] == fitted.evaluation.summary()["metrics"]
    assert who["questions"] == 2 * relation["questions"] == 2 * len(fitted.run.graph.test)
    ted = tempograph.train(fitted.run.graph, "ted", device="cpu")
    assert who["baseline"] == "TED"
    assert who["baseline_metrics"] == tempograph.evaluate(ted).summary()["metrics"]
    assert relation["baseline_metrics"] == fitted.run.results.relation["test"]["baseline"]
    assert when["metrics"] == fitted.run.results.time["test"]["metrics"]


def test_groups_hold_every_question_once(trust: TrustReport) -> None:
    for figures in trust.figures.questions:
        for by in ("pair", "entity", "step", "relation"):
            groups = trust.figures.group(by, figures["asked"])  # type: ignore[arg-type]
            assert sum(each["questions"] for each in groups) == figures["questions"]
            mean = sum(each["questions"] * each["mrr"] for each in groups) / figures["questions"]
            assert mean == pytest.approx(figures["metrics"]["mrr"])


def test_the_weakest_groups_are_below_the_average(trust: TrustReport) -> None:
    overall = trust.figures.questions[0]["metrics"]["hits@10"]
    weakest = trust.figures.weakest()
    assert weakest and len({each["by"] for each in weakest}) == len(weakest) <= 4
    for each in weakest:
        assert each["questions"] >= MIN_QUESTIONS and each["hits@10"] < overall
        rivals = trust.figures.group(each["by"])
        large = [one["hits@10"] for one in rivals if one["questions"] >= MIN_QUESTIONS]
        assert each["hits@10"] == min(large)


def test_examples_are_half_right_and_spread_over_time() -> None:
    facts = np.stack([np.zeros(40), np.zeros(40), np.ones(40), np.arange(40)], axis=1).astype(int)
    rank = np.where(np.arange(40) % 4 == 0, 1.0, 5.0)
    table = RankTable(facts, np.zeros(40, dtype=bool), rank)
    rows = choose_rows(table, 6)
    assert (rank[rows] == 1).tolist() == [True] * 3 + [False] * 3
    assert facts[rows[:3], 3].tolist() == [4, 20, 32]
    assert np.diff(facts[rows[3:], 3]).min() >= 12
    wrong = RankTable(facts, np.zeros(40, dtype=bool), np.full(40, 2.0))
    assert len(choose_rows(wrong, 6)) == 6
    assert len(choose_rows(RankTable(facts[:3], np.zeros(3, dtype=bool), rank[:3]), 6)) == 3


def test_examples_are_answered_as_they_were_measured(fitted: FitResult, trust: TrustReport) -> None:
    assert [example.asked for example in trust.examples] == (
        ["entity"] * 6 + ["relation"] * 2 + ["time"] * 2
    )
    for example in trust.examples:
        assert example.right.known is None
        if example.is_right:
            assert example.right.rank == 1 and example.best.name == example.right.name
        assert all(answer.known is None for answer in example.completion.answers)
    held_out = fitted.run.graph.test
    times = {fitted.run.graph.times[time] for time in held_out[:, 3]}
    asked = {example.completion.time for example in trust.examples} - {None}
    assert asked <= times


def test_the_page_says_how_the_data_was_read(fitted: FitResult) -> None:
    assert fitted.report is not None
    page = fitted.report.read_text()
    assert "502 rows = 500 facts + 1 duplicates + 1 bad" in page
    assert "no readable time" in page and "one fine day" in page and "Not used: remark." in page
    assert "They say nothing about the future." in page
    assert "asked for the subject, the object, the relation and the time of each" in page
    for heading in ("Where it is weak", "Examples", "What may be missing", "most surprising"):
        assert heading in page
    assert "Answers rest on all 500 facts" in page
    assert "<script>alert" not in page and "http://" not in page.replace("http://www.w3.org", "")
    assert page.count("<svg") >= 4


def test_the_report_can_be_markdown(trust: TrustReport, tmp_path: Path) -> None:
    trust.write(tmp_path / "trust.md")
    text = (tmp_path / "trust.md").read_text()
    assert text.startswith("# How far to trust pointer on run")
    assert (tmp_path / "trust-pictures" / "calibration-entity.svg").is_file()


def test_a_run_that_was_not_measured_has_no_report(tmp_path: Path) -> None:
    graph = make_world(seed=4, entities=20, relations=5, steps=20, facts=500).graph
    path = tmp_path / "run"
    run = tempograph.train(graph, "ted", out=path, overrides=["model.sigma=1"], device="cpu")
    with raises(RunError, "trust_report.not_measured", path=path):
        make_trust_report(run, quietly)


def test_the_command_measures_what_is_missing(call: Call) -> None:
    graph = make_world(seed=4, entities=20, relations=5, steps=20, facts=500).graph
    tempograph.train(graph, "ted", out="run", overrides=["model.sigma=1"], device="cpu")
    code, out, err = call("report", "run", "--trust", "--out", "trust.md")
    assert code == 0, err
    assert "written: trust.md" in out and "counts of the pair" in Path("trust.md").read_text()
    code, _, err = call("report", "run")
    assert code == 2 and message("reporting.no_file") in err
    code, _, err = call("report", "run", "run", "--trust")
    assert code == 2 and message("reporting.one_run", count=2) in err


def test_no_name_is_cut_in_the_figures_on_a_narrow_terminal(
    trust: TrustReport, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    made = figures_table(trust.figures, "history-frequency")
    assert not console.show(made)
    shown = capsys.readouterr().out
    assert all(f" {row[1]} " in shown and row[3] in shown for row in made.rows)
    assert "first, 3, 10" in shown and "history-frequency" in shown
