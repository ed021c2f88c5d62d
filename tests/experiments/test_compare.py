"""Comparisons: runs are trained, reused, resumed or refused, and a failure stops no other run."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import queue
import re
import shutil
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import forked
import tempograph
from conftest import Call, as_json
from messages import raises
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.errors import ConfigError, DataError, RunError, StorageError
from tempograph.evaluation.evaluations import BASELINES
from tempograph.experiments.comparison import COLUMNS, Comparison
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.status import RunStatus, State, seconds_left
from tempograph.io import lock_folder
from tempograph.training.run_results import RunResults
from tempograph.typing import HEAD_ASKED

MODELS = ["ted", "srgcn"]
TINY = ["model.dim=8", "train.epochs=3", "train.times_per_step=4", "train.precision=32-true"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world named like a benchmark, so that it has presets and published figures."""
    path = tmp_path_factory.mktemp("data") / "icews14"
    write_folder(make_world(seed=2, entities=12, relations=4, steps=10, facts=200).graph, path)
    return path


@pytest.fixture(scope="module")
def fresh(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Two models, trained in two processes at a time."""
    out = tmp_path_factory.mktemp("runs") / "table"
    states: list[list[str]] = []
    comparison = tempograph.compare(
        world,
        MODELS,
        out=out,
        overrides=TINY,
        device="cpu",
        jobs=2,
        watch=lambda runs, _: states.append([run.state for run in runs]),
    )
    assert ["running", "running"] in states and states[-1] == ["finished", "finished"]
    return comparison


@pytest.fixture
def folder(fresh: Comparison, tmp_path: Path) -> Path:
    """A copy of the fresh comparison."""
    return Path(shutil.copytree(fresh.folder, tmp_path / "table"))


def test_models_are_trained_and_their_table_is_written(fresh: Comparison, world: Path) -> None:
    ted, srgcn = fresh.rows
    assert (ted.model, ted.settings, srgcn.model, srgcn.settings) == (
        "ted",
        "paper",
        "srgcn",
        "tuned",
    )
    for row in fresh.rows:
        (run,) = row.runs
        results = json.loads((fresh.folder / f"{row.model}-seed0" / "results.json").read_text())
        assert run.state == "finished" and run.results == RunResults.from_json(results)
        assert results["finished"] and {"valid", "test"} <= set(results)
        assert results["protocol"] == "strict"
        assert row.cells()[3] == f"{results['test']['metrics']['mrr']:.3f}"
    assert not list(fresh.folder.glob("*.log")) and not fresh.failed
    assert json.loads((fresh.folder / "compare.json").read_text()) == fresh.summary()
    text = (fresh.folder / "compare.md").read_text()
    assert (
        "protocol strict" in text
        and "with model.dim=8" in text
        and "up to 2 runs in parallel" in text
    )
    assert len([line for line in text.splitlines() if line.count("|") == len(COLUMNS) + 1]) == 4


def test_relations_and_times_are_ranked_by_heads_that_the_runs_share(fresh: Comparison) -> None:
    ted, srgcn = (row.finished[0] for row in fresh.rows)
    for asked in HEAD_ASKED:
        assert set(ted.questions(asked)) == set(srgcn.questions(asked)) == {"valid", "test"}
        found, other = (run.questions(asked)["test"] for run in (ted, srgcn))
        assert found["metrics"] == other["metrics"] and found["baseline"] == other["baseline"]
        mrr = fresh.question_mrr()[asked]
        assert mrr == {"mrr": found["metrics"]["mrr"], "baseline": found["baseline"]["mrr"]}
        (note,) = (note for note in fresh.notes() if note.startswith(asked.capitalize()))
        assert f"MRR {mrr['mrr']:.3f}; {BASELINES[asked]} {mrr['baseline']:.3f}." in note


def test_a_later_run_takes_over_the_heads_of_another(folder: Path, world: Path) -> None:
    heads = folder / "ted-seed0" / "heads.safetensors"
    # Weights that no training would find.
    changed = {name: weight + 0.1 for name, weight in load_file(heads).items()}
    save_file(changed, heads)
    shutil.rmtree(folder / "srgcn-seed0")
    tempograph.compare(world, MODELS, out=folder, overrides=TINY, device="cpu")
    copied = folder / "srgcn-seed0" / "heads.safetensors"
    assert copied.read_bytes() == heads.read_bytes()


def test_published_figures_appear_under_the_protocol_they_hold_for(fresh: Comparison) -> None:
    ted, srgcn = (row.cells() for row in fresh.rows)
    assert ted[7:11] == ["0.441", "35.3", "49.1", "60.8"] and srgcn[7:11] == ["-"] * 4
    summaries = fresh.summary()["models"]
    assert summaries[0]["published"] == {
        "mrr": 0.441,
        "hits@1": 0.353,
        "hits@3": 0.491,
        "hits@10": 0.608,
    }
    assert summaries[1]["published"] is None


@pytest.mark.parametrize(
    ("preset", "overrides", "shown"),
    [
        ("paper", [], True),
        ("paper", ["train.epochs=3"], False),
        ("tuned-leak", [], False),
        (None, [], False),
    ],
)
def test_published_figures_of_protocol_paper_stand_beside_the_settings_of_the_paper(
    preset: str | None,
    overrides: list[str],
    shown: bool,
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempograph.experiments.comparison.train_missing", lambda *_, **__: [])
    comparison = tempograph.compare(
        world, ["srgcn"], out=tmp_path, protocol="paper", preset=preset, overrides=overrides
    )
    theirs = ["0.604", "48.3", "68.0", "83.0"]
    assert comparison.rows[0].cells()[7:11] == (theirs if shown else ["-"] * 4)
    assert "protocol paper" in comparison.caption()


def test_finished_runs_are_reused_and_only_missing_ones_are_trained(
    folder: Path, world: Path, started: list[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*")}
    notes: list[str] = []
    comparison = tempograph.compare(
        world, MODELS, out=folder, seeds=(0, 1), overrides=TINY, device="cpu", note=notes.append
    )
    assert started == ["ted-seed1", "srgcn-seed1"]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert notes == [
        "paper settings: ted",
        "tuned settings: srgcn",
        f"ted has no setting for {', '.join(TINY)}",
        "2 of 4 runs are already finished",
    ]
    for row in comparison.rows:
        first, second = (metrics["mrr"] for metrics in row.test_metrics)
        assert row.cells()[2:4] == [
            "2",
            f"{(first + second) / 2:.3f} ± {abs(first - second) / 2:.3f}",
        ]
        summary = row.summary()
        assert summary["seeds"] == [0, 1] and summary["spread"]["mrr"] == pytest.approx(
            abs(first - second) / 2
        )


def test_test_is_ranked_once(folder: Path, world: Path, started: list[str]) -> None:
    path = folder / "srgcn-seed0"
    results = json.loads((path / "results.json").read_text())
    figures = results.pop("test")["metrics"], results.pop("valid")["metrics"]
    # As if killed after training and before ranking.
    (path / "results.json").write_text(json.dumps(results))
    comparison = tempograph.compare(world, MODELS, out=folder, overrides=TINY, device="cpu")
    again = comparison.rows[1].runs[0].results.to_json()
    assert (
        started == ["srgcn-seed0"]
        and (again["test"]["metrics"], again["valid"]["metrics"]) == figures
    )


def test_a_run_stopped_by_the_time_limit_has_no_test_figure_and_resumes(
    fresh: Comparison, world: Path, tmp_path: Path, started: list[str]
) -> None:
    options: dict[str, Any] = {"out": tmp_path, "overrides": TINY, "device": "cpu"}
    comparison = tempograph.compare(world, MODELS, max_seconds=0, **options)
    (run,) = comparison.rows[1].runs
    assert run.state == "unfinished" and run.results.test is None
    assert comparison.rows[1].cells()[2:7] == ["0/1", "not finished", "-", "-", "-"]
    stopped = "srgcn-seed0: stopped by the time limit; the same command resumes it"
    assert comparison.notes()[-1] == stopped
    comparison = tempograph.compare(world, MODELS, **options)
    assert started == ["ted-seed0", "srgcn-seed0", "srgcn-seed0"]
    assert comparison.rows[1].test_metrics == fresh.rows[1].test_metrics, "as if never stopped"


def test_an_interrupt_ends_the_processes_and_the_same_command_resumes(
    call: Call, world: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    processes: list[forked.Popen] = []

    class RecordedPopen(forked.Popen):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            processes.append(self)

    path = Path("table/srgcn-seed0").absolute()

    def interrupt() -> None:
        metrics = path / "metrics.jsonl"
        while (
            not (path / "checkpoint.safetensors").exists()
            or not metrics.exists()
            or not metrics.stat().st_size
        ):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    patient = ("train.epochs=80", "train.patience=80")
    command = (
        "compare",
        str(world),
        "--models",
        "srgcn",
        "--out",
        "table",
        "--device",
        "cpu",
        *TINY,
        *patient,
    )
    with monkeypatch.context() as patch:
        patch.setattr(forked, "Popen", RecordedPopen)
        threading.Thread(target=interrupt, daemon=True).start()
        code, out, err = call(*command)
    assert code == 130 and out == "" and "stopped; the same command resumes" in err
    assert [
        process.poll()
        for process in processes
        if "tempograph.experiments.worker" in str(process.args)
    ] == [130]
    assert [file.name for file in Path("table").glob("[!.]*")] == ["srgcn-seed0"]
    history = (path / "metrics.jsonl").read_text().splitlines()
    assert 1 <= len(history) < 80
    assert request.getfixturevalue("started") == []
    assert as_json(call(*command, "--json"))["models"][0]["seeds"] == [0]
    assert (path / "metrics.jsonl").read_text().splitlines()[: len(history)] == history


def test_a_failed_run_is_reported_and_stops_no_other(call: Call, folder: Path, world: Path) -> None:
    shutil.rmtree(folder / "srgcn-seed0")
    command = (
        "compare",
        str(world),
        "--models",
        "srgcn,ted",
        "--out",
        str(folder),
        "--device",
        "cpu",
    )
    code, out, err = call(*command, *TINY, "model.dim=10000000000")
    assert code == 1 and "ted" in out and "failed" in out
    assert re.search(
        r"srgcn-seed0: failed: RuntimeError: .*allocate.*; see .*srgcn-seed0.log",
        err.splitlines()[-1],
    )
    assert "Traceback" in (folder / "srgcn-seed0.log").read_text()
    rows = json.loads((folder / "compare.json").read_text())["models"]
    assert [row["runs"][0]["state"] for row in rows] == ["failed", "finished"]


def test_the_command_prints_the_table_and_one_json_object(
    call: Call, folder: Path, world: Path
) -> None:
    command = (
        "compare",
        str(world),
        "--models",
        "ted, srgcn",
        "--out",
        str(folder),
        "--device",
        "cpu",
        *TINY,
    )
    assert as_json(call(*command, "--json")) == json.loads((folder / "compare.json").read_text())
    code, out, err = call(*command)
    assert code == 0 and "2 of 2 runs are already finished" in err
    for text in (
        "Models on icews14, test",
        "protocol strict",
        "settings",
        "published",
        "0.441",
        "s/epoch",
        "tuned",
    ):
        assert text in out


def test_a_narrow_terminal_gets_two_tables_and_every_figure(
    call: Call, folder: Path, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempograph.cli.compare.out._width", 80)
    code, out, _ = call(
        "compare",
        str(world),
        "--models",
        "ted,srgcn",
        "--out",
        str(folder),
        "--device",
        "cpu",
        *TINY,
    )
    assert code == 0 and "0.441 35.3 49.1 60.8" in out and "What they cost" in out
    assert max(len(line) for line in out.splitlines()[:-1]) <= 80


MISTAKES = {
    "model": (["--models", "ted,srgnc"], "there is no model 'srgnc'; did you mean 'srgcn'?"),
    "no model": (["--models", ","], "compare needs at least one model, found 0"),
    "seed": (
        ["--seeds", "0,one"],
        "--seeds takes whole numbers separated by commas, found '0,one'",
    ),
    "negative seed": (
        ["--seeds", "-1"],
        "--seeds takes whole numbers separated by commas, found '-1'",
    ),
    "preset": (["--preset", "tunde"], "there is no preset 'tunde'; did you mean 'tuned'?"),
    "setting": (
        ["train.epoch=1"],
        "none of the models has a setting 'train.epoch'; did you mean 'train.epochs'",
    ),
    "value": (["train.epochs=many"], "train: epochs must be a whole number, found 'many'"),
    "device": (["--device", "tpu9"], "there is no device 'tpu9' here"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_user_error_is_one_line_before_anything_is_trained(
    call: Call, world: Path, started: list[str], arguments: list[str], message: str
) -> None:
    code, out, err = call("compare", str(world), "--out", "table", *arguments)
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1
    assert message in err and not started and not Path("table").exists()


def test_a_run_with_other_settings_or_data_is_refused(
    folder: Path, world: Path, tmp_path: Path, started: list[str]
) -> None:
    def again(data: Path = world, **options: Any) -> None:
        tempograph.compare(
            data, MODELS, out=folder, device="cpu", **({"overrides": TINY} | options)
        )

    other = [*TINY, "train.epochs=4"]
    ted = folder / "ted-seed0"
    change = {"setting": "train.epochs", "there": 3, "wanted": 4}
    with raises(RunError, "specs.other_settings", path=folder / "srgcn-seed0", **change):
        again(overrides=other)
    change = {"setting": "protocol", "there": "strict", "wanted": "paper"}
    with raises(RunError, "specs.other_settings", path=ted, **change):
        again(protocol="paper")
    change = {"setting": "model.sigma", "there": 0.1, "wanted": "auto"}
    with raises(RunError, "specs.other_settings", path=ted, **change):
        again(preset="tuned")
    larger = tmp_path / "data" / "icews14"
    write_folder(make_world(seed=3, entities=12, relations=4, steps=10, facts=200).graph, larger)
    with raises(RunError, "specs.other_data", path=ted, graph="icews14"):
        again(larger)
    shutil.rmtree(folder / "ted-seed0")
    (folder / "ted-seed0").mkdir()
    with raises(RunError, "specs.not_a_run", path=ted):
        again()
    assert started == []


def test_settings_chosen_on_valid_do_not_count_as_other_settings(
    tmp_path: Path, world: Path, started: list[str]
) -> None:
    for _ in range(2):
        comparison = tempograph.compare(world, ["ted"], out=tmp_path, preset="tuned", device="cpu")
        assert comparison.rows[0].settings == "default"
    assert started == ["ted-seed0"]


def test_two_comparisons_cannot_use_one_folder(folder: Path, world: Path) -> None:
    with lock_folder(folder), raises(StorageError, "io.in_use", path=folder):
        tempograph.compare(world, MODELS, out=folder, overrides=TINY, device="cpu")


def test_comparing_needs_test_facts_and_a_seed(tmp_path: Path) -> None:
    graph = make_world(seed=2, entities=12, relations=4, steps=10, facts=200).graph
    write_folder(
        type(graph)(
            "bare",
            graph.entities,
            graph.relations,
            graph.times,
            graph.train,
            graph.valid,
            graph.test[:0],
        ),
        tmp_path / "bare",
    )
    with raises(DataError, "comparison.no_test_facts", graph="bare"):
        tempograph.compare(tmp_path / "bare", out=tmp_path / "table")
    with raises(ConfigError, "comparison.no_seed"):
        tempograph.compare("demo", MODELS * 2, out=tmp_path / "table", seeds=())


def status(name: str, state: State = "waiting", **values: float) -> RunStatus:
    spec = RunSpec("icews14", name.partition("-")[0], folder=Path(name))
    return RunStatus(spec, state, **values)  # type: ignore[arg-type]


def test_the_time_left_is_estimated_from_the_same_model_or_from_any() -> None:
    waiting = [status("a-seed1"), status("b-seed0")]
    assert seconds_left(waiting, 1, 0.0) is None
    done = status("a-seed0", "finished", seconds=10.0)
    assert seconds_left([done, *waiting], 1, 0.0) == 20
    assert seconds_left([done, *waiting], 2, 0.0) == 10
    running = status(
        "b-seed1", "running", max_seconds_left=30.0, started_at=100.0, reported_at=110.0
    )
    assert seconds_left([done, running], 1, 115.0) == 25
    assert seconds_left([done, running, *waiting], 2, 115.0) == 40, "no sooner than the longest"
    assert seconds_left([done, running, *waiting], 1, 115.0, max_seconds=20.0) == 5 + 10 + 20
    assert seconds_left([done], 1, 0.0) == 0


def test_output_of_a_process_that_is_no_message_is_ignored() -> None:
    said: queue.SimpleQueue[Any] = queue.SimpleQueue()
    process = SimpleNamespace(stdout=io.StringIO('Welcome to this machine\n{"epoch": 1}\n12\n'))
    tempograph.experiments.scheduler._read_messages("the job", process, said)  # type: ignore[arg-type]
    assert [said.get_nowait() for _ in range(2)] == [
        ("the job", {"epoch": 1}),
        ("the job", None),
    ] and said.empty()


def test_seeds_of_different_code_are_marked(fresh: Comparison) -> None:
    table = fresh.text_table()
    assert table.notes[0].startswith("Measured on ") and set(table.marks) == {""}
    row = fresh.rows[1]
    (run,) = row.runs
    assert run.results is not None
    other = dataclasses.replace(
        run, results=dataclasses.replace(run.results, commit="1" * 40, dirty=False, code="other")
    )
    mixed = dataclasses.replace(row, runs=(run, other))
    table = dataclasses.replace(fresh, rows=(fresh.rows[0], mixed)).text_table()
    assert table.marks == ["", "‡"] and "1111111: srgcn" in table.notes[1]
