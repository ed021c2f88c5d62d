"""Reports on run folders: metrics, labels, Markdown, and requests that are refused."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest

from conftest import Call
from messages import raises
from tempograph.errors import ConfigError, RunError
from tempograph.report.reported_runs import read_runs
from tempograph.report.run_report import write_report
from tempograph.report.sections import _round

pytest_plugins = ("report_fixtures",)


def test_the_metrics_equal_those_of_the_runs(report_page: Path, runs: Path) -> None:
    text = report_page.read_text(encoding="utf-8")
    for name in ("ted", "temp-gru", "temp-sa"):
        results = json.loads((runs / name / "results.json").read_text())
        for split in ("valid", "test"):
            for kind in ("metrics", "subject", "object", "optimistic", "pessimistic"):
                metrics = results[split][kind]
                hits = "".join(
                    f'<td class="number">{100 * metrics[f"hits@{k}"]:.1f}</td>' for k in (1, 3, 10)
                )
                assert f'<td class="number">{metrics["mrr"]:.3f}</td>{hits}' in text
    assert (
        text.count("protocol strict") > 10
        and "odd &amp; $x, test, filter time; protocol strict" in text
    )


def test_missing_evaluations_are_listed_with_their_command(report_page: Path, runs: Path) -> None:
    text = unescape(report_page.read_text(encoding="utf-8"))
    assert f"tempograph evaluate '{runs / 'bare run'}' --split test" in text
    assert "Not evaluated on test: ted on other. To evaluate" in text
    assert (
        "Run: temp-sa on <b>odd" in text
        and "Attention: the mean weight" in text
        and "The data: other" in text
    )


def test_labels_are_as_short_as_possible(runs: Path, tmp_path: Path) -> None:
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
        assert [run.label for run in read_runs(folders)] == labels
    text = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(text.replace('protocol = "strict"', 'protocol = "paper"'))
    assert [run.label for run in read_runs([runs / "temp-gru", copy])] == [
        "temp-gru, strict",
        "ted, paper",
    ]
    first, second, third = read_runs([runs / "ted", copy, runs / "bare run"])
    assert first.graph is second.graph and first.graph is not third.graph


def test_markdown_has_its_pictures_in_a_folder(runs: Path, tmp_path: Path) -> None:
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
    assert "equally many queries" not in text


def test_a_wrong_request_is_refused(runs: Path, tmp_path: Path) -> None:
    picture, page = tmp_path / "report.pdf", tmp_path / "report.html"
    with raises(ConfigError, "run_report.suffix", path=picture):
        write_report([runs / "ted"], picture)
    with raises(ConfigError, "run_report.no_runs", runs=0, window=8):
        write_report([], page)
    with raises(RunError, "run_folder.no_run", path=tmp_path):
        write_report([tmp_path], page)
    damaged = Path(shutil.copytree(runs / "ted", tmp_path / "damaged"))
    (damaged / "environment.json").unlink()
    with pytest.raises(RunError, match="damaged: the run is damaged"):
        write_report([damaged], tmp_path / "report.html")
    assert not list(tmp_path.glob("report*"))


def test_the_report_command(call: Call, runs: Path) -> None:
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


def test_an_unfinished_run_is_reported_without_its_duration(runs: Path, tmp_path: Path) -> None:
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
    assert "parameters, trained on" in text and "Training is not finished" in text


@pytest.mark.parametrize("text", ["{}", "[]", "null"])
def test_a_run_with_damaged_results_is_refused(runs: Path, tmp_path: Path, text: str) -> None:
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


def test_frequencies_are_rounded_to_three_digits() -> None:
    shown = {
        0.0: "0",
        1.234: "1.23",
        99.96: "100",
        126.4: "126",
        12_649: "12,600",
        1_264_900: "1,260,000",
    }
    assert {value: _round(value) for value in shown} == shown
