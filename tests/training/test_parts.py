"""Runs of ensembles: parts are trained, reused, stopped and resumed, or refused."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tempograph
from conftest import Call, as_json
from forked import PIPE, Popen
from graphs import make_graph
from messages import raises
from tempograph import Predictor, Run
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Queries
from tempograph.errors import ConfigError, DataError, RunError
from tempograph.experiments.scheduler import train_missing
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.worker import train_and_test

GRAPH = make_world(seed=2, entities=12, relations=4, steps=10, facts=200).graph
TINY = {
    "complex": '[model]\ndim = 4\n[train]\nepochs = 3\nfacts_per_step = 50\n',
    "temp-gru": '[model]\ndim = 4\nwindow = 2\n[train]\nepochs = 3\ntimes_per_step = 5\n',
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the presets of tiny parts lie."""
    path = tmp_path_factory.mktemp("parts")
    for name, text in TINY.items():
        (path / f"{name}.toml").write_text(text)
    return path


@pytest.fixture(scope="module")
def settings(folder: Path) -> list[str]:
    parts = [f"{name}:{folder / name}.toml" for name in TINY]
    return [f"model.parts={json.dumps(parts)}", "model.steps=60", "model.candidates=5"]


@pytest.fixture(scope="module")
def whole(folder: Path, settings: list[str]) -> Run:
    """An ensemble that was trained in one go."""
    return tempograph.train(
        GRAPH, "ensemble", out=folder / "whole", overrides=settings, device="cpu"
    )


@pytest.fixture(scope="module")
def single(folder: Path) -> Run:
    """One of its parts, trained by itself."""
    preset = str(folder / "complex.toml")
    return tempograph.train(GRAPH, "complex", out=folder / "single", preset=preset, device="cpu")


def outcome(path: Path) -> dict[str, Any]:
    """All weights and figures of a run and its parts, without times."""
    actual: dict[str, Any] = {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("model.safetensors"))
    }
    for file in sorted(path.rglob("results.json")):
        results = json.loads(file.read_text())
        actual[str(file.relative_to(path))] = [
            results["valid"]["metrics"],
            results["finished"],
            results["best_epoch"],
            results.get("gate"),
        ]
    return actual


def test_a_run_of_parts_holds_them_as_runs(whole: Run, single: Run) -> None:
    assert whole.path is not None and single.path is not None
    assert list(whole.parts) == ["complex", "temp-gru"]
    parts = {name: part.config.settings() for name, part in whole.parts.items()}
    assert whole.results.parts == parts, "results say what the parts were"
    assert {path.name for path in (whole.path / "parts").iterdir()} == {"complex", "temp-gru"}
    part = whole.path / "parts" / "complex"
    assert {path.name for path in single.path.glob("[!.]*")} - {
        path.name for path in part.iterdir()
    } == {"dataset", "dataset.json"}
    assert (part / "model.safetensors").read_bytes() == (
        single.path / "model.safetensors"
    ).read_bytes()
    assert not list(whole.path.rglob("checkpoint.safetensors"))
    results = json.loads((whole.path / "results.json").read_text())
    assert results["finished"] and "note" not in results["valid"] and "test" not in results
    held_out = round(0.1 * len(GRAPH.train))
    assert (results["gate"]["fitted_on"], results["gate"]["facts"]) == ("train", held_out)
    assert not (whole.path / "holdout").exists()
    assert set(results["gate"]["weights"][0]) == {"frequency", "questions", "complex", "temp-gru"}
    assert results["parameters"] > sum(part.results.parameters for part in whole.parts.values())
    assert results["train_seconds"] > sum(
        part.results.train_seconds for part in whole.parts.values()
    )
    assert [line.get("half") for line in whole.history] == [1, 2, None]
    card = (whole.path / "README.md").read_text()
    assert "Combines [complex](parts/complex), [temp-gru](parts/temp-gru)." in card
    assert f"The gate is fitted on {held_out} train facts, held out from copies of the" in card


@pytest.fixture(scope="module")
def on_valid(whole: Run, folder: Path) -> Run:
    """An ensemble of the same parts whose gate is fitted on valid."""
    parts = json.dumps([str(part.path) for part in whole.parts.values()])
    asked = [f"model.parts={parts}", "model.fit_on=valid", "model.steps=60", "model.candidates=5"]
    return tempograph.train(
        GRAPH, "ensemble", out=folder / "on-valid", overrides=asked, device="cpu"
    )


def test_a_gate_fitted_on_valid_is_marked(whole: Run, on_valid: Run) -> None:
    gate = on_valid.results.gate
    assert gate is not None
    assert (gate["fitted_on"], gate["facts"]) == ("valid", len(GRAPH.valid))
    assert "cross-fitted" in on_valid.results.valid["note"]
    marked = "the gate of the ensemble was fitted on valid facts (fit_on=valid)"
    assert tempograph.evaluate(on_valid, "test").note == marked
    assert tempograph.evaluate(whole, "test").note is None
    card = ((on_valid.path or Path()) / "README.md").read_text()
    assert f"The gate is fitted on {len(GRAPH.valid)} valid facts." in card
    assert "Valid: cross-fitted" in card and f"Test: {marked}." in card


def test_ranking_valid_again_is_cross_fitted_again(on_valid: Run) -> None:
    before = on_valid.results.valid["metrics"]
    again = tempograph.evaluate(Run.load(on_valid.path or ""), "valid")
    assert again.summary()["metrics"] == before and again.note == on_valid.results.valid["note"]


def test_without_a_folder_everything_happens_in_memory(
    whole: Run, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[dict[str, Any]] = []
    monkeypatch.chdir(tmp_path)
    run = tempograph.train(GRAPH, "ensemble", overrides=settings, device="cpu", report=heard.append)
    assert run.path is None and list(tmp_path.iterdir()) == []
    assert run.results.valid["metrics"] == whole.results.valid["metrics"]
    epochs = {name: part.results.best_epoch or 0 for name, part in run.parts.items()}
    copies = [f"{name} without the holdout" for name in epochs for _ in range(epochs[name])]
    assert [line["part"] for line in heard] == [
        *["complex"] * 3,
        *["temp-gru"] * 3,
        *copies,
        *["gate"] * 3,
    ]
    assert not any("valid/mrr" in line for line in heard if line["part"] in copies)


def test_a_run_folder_is_complete(whole: Run, single: Run, folder: Path, tmp_path: Path) -> None:
    """Parts given as run folders are copied: the folder can be moved, and they can be removed."""
    part = whole.parts["temp-gru"].path
    shutil.copytree(single.path or "", tmp_path / "one")
    parts = json.dumps([str(tmp_path / "one"), str(part)])
    run = tempograph.train(
        GRAPH,
        "ensemble",
        out=tmp_path / "made",
        overrides=[f"model.parts={parts}", "model.steps=60"],
        device="cpu",
    )
    assert list(run.parts) == ["one", "temp-gru"]
    figures = tempograph.evaluate(run, "test").summary()["metrics"]
    shutil.rmtree(tmp_path / "one")
    shutil.move(tmp_path / "made", tmp_path / "elsewhere")
    moved = Run.load(tmp_path / "elsewhere")
    assert tempograph.evaluate(moved, "test").summary()["metrics"] == figures
    assert Run.load(tmp_path / "elsewhere" / "parts" / "one").results.valid == single.results.valid
    names = GRAPH.describe(GRAPH.test[0])
    actual = Predictor(moved).objects(names["subject"], names["relation"], names["time"], top=12)
    assert sum(answer.probability for answer in actual.answers) == pytest.approx(1)
    assert {answer.why.split(":")[0] for answer in actual.answers} <= {
        "complex",
        "temp-gru",
        "facts with an effect",
    }
    assert Predictor(moved).relations(names["subject"], names["object"], names["time"]).answers


def test_parts_keep_their_weights(whole: Run, single: Run) -> None:
    query = Queries(*torch.tensor([[0], [0], [0]]))
    with torch.inference_mode():
        assert torch.equal(
            Run.load(whole.path or "").parts["complex"].model.scores(query),
            single.model.scores(query),
        )


def test_a_part_named_twice_has_two_seeds(single: Run, folder: Path, tmp_path: Path) -> None:
    part = f"complex:{folder / 'complex'}.toml"
    shelved = tempograph.train(
        GRAPH, "complex", out=tmp_path / "other", preset=part[8:], seed=1000, device="cpu"
    )
    being_written = tmp_path / ".another.abc"
    being_written.mkdir()
    shutil.copy(tmp_path / "other" / "config.toml", being_written)
    asked = [f"model.parts={json.dumps([part, part])}", "model.steps=20", "model.candidates=5"]
    run = tempograph.train(
        GRAPH,
        "ensemble",
        out=tmp_path / "run",
        overrides=asked,
        device="cpu",
        finished_runs=tmp_path,
    )
    assert {name: each.config.seed for name, each in run.parts.items()} == {
        "complex": 0,
        "complex-2": 1000,
    }
    query = Queries(*torch.tensor([[0], [0], [0]]))
    with torch.inference_mode():
        one, other = (
            Run.load(run.path or "").parts[name].model.scores(query)
            for name in ("complex", "complex-2")
        )
        assert torch.equal(one, single.model.scores(query)) and torch.equal(
            other, shelved.model.scores(query)
        )
        assert not torch.equal(one, other)


@pytest.mark.parametrize(
    "stop",
    [
        *[("complex", 2), ("complex", 3), ("temp-gru", 1), ("temp-gru", 2)],
        *[("complex without the holdout", 1), ("temp-gru without the holdout", 1), ("gate", 0)],
    ],
)
def test_a_run_stopped_anywhere_resumes(
    whole: Run, settings: list[str], tmp_path: Path, stop: tuple[str, int]
) -> None:
    def report(line: dict[str, Any]) -> None:
        if (line["part"], line.get("epoch", 0)) == stop:
            raise KeyboardInterrupt

    path, heard = tmp_path / "run", list[str]()
    with pytest.raises(KeyboardInterrupt):
        tempograph.train(
            GRAPH, "ensemble", out=path, overrides=settings, device="cpu", report=report
        )
    assert not json.loads((path / "results.json").read_text())["finished"]
    assert (path / "holdout").exists() == (stop[0] not in TINY)
    tempograph.resume(path, device="cpu", report=lambda line: heard.append(line["part"]))
    assert not (path / "holdout").exists()
    assert outcome(path) == outcome(whole.path or Path())
    assert heard.count("complex") == (3 - stop[1] if stop[0] == "complex" else 0)
    if stop[0] in ("temp-gru without the holdout", "gate"):
        assert "complex without the holdout" not in heard
    with raises(RunError, "trainer.finished", path=path):
        tempograph.resume(path)


def test_a_run_in_pieces_equals_a_run_in_one(
    whole: Run, settings: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "run"
    run = tempograph.train(
        GRAPH, "ensemble", out=path, overrides=settings, device="cpu", max_seconds=0
    )
    pieces = 1
    while not run.results.finished:
        run = tempograph.resume(path, device="cpu", max_seconds=0)
        pieces += 1
    assert 4 < pieces < 14 and outcome(path) == outcome(whole.path or Path())


def test_a_run_killed_in_its_second_part_resumes(
    whole: Run, settings: list[str], tmp_path: Path
) -> None:
    write_folder(GRAPH, tmp_path / "demo")
    program = (
        "import time, tempograph.training.train_state as state; save = state.TrainState.save\n"
        "def slowly(*state): save(*state); time.sleep(0.3)\n"
        "state.TrainState.save = slowly\n"
        "from tempograph.cli import main; main()"
    )
    command = [
        sys.executable,
        "-c",
        program,
        "train",
        "demo",
        "--model",
        "ensemble",
        "--device",
        "cpu",
        "--out",
        "run",
    ]
    with Popen([*command, *settings], cwd=tmp_path, stderr=PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "temp-gru:  epoch 1" in line:
                break
        process.send_signal(signal.SIGKILL)
    path = tmp_path / "run"
    first, second = (
        json.loads((path / "parts" / name / "results.json").read_text())["finished"]
        for name in TINY
    )
    assert first and not second
    tempograph.resume(path, device="cpu")
    assert outcome(path) == outcome(whole.path or Path())


def test_a_comparison_resumes_a_part(whole: Run, settings: list[str], tmp_path: Path) -> None:
    write_folder(GRAPH, tmp_path / "demo")
    spec = RunSpec(
        GRAPH.name,
        "ensemble",
        overrides=tuple(settings),
        source=str(tmp_path / "demo"),
        folder=tmp_path / "run",
        device="cpu",
        max_seconds=0,
    )
    reported: list[str] = []
    run = train_and_test(spec, lambda line: None)
    while not run.results.finished:
        run = train_and_test(spec, lambda line: reported.append(line["part"]))
    assert reported.count("complex") == 2 and run.results.test is not None
    assert outcome(tmp_path / "run") == outcome(whole.path or Path())


def test_an_ensemble_waits_for_its_parts_and_takes_them_over(
    whole: Run, folder: Path, settings: list[str], tmp_path: Path
) -> None:
    """The ensemble comes first, all may run at once, and one part is trained already."""
    write_folder(GRAPH, tmp_path / "demo")

    def spec(
        name: str, model: str, preset: str | None = None, overrides: tuple[str, ...] = ()
    ) -> RunSpec:
        return RunSpec(
            GRAPH.name,
            model,
            preset=preset,
            overrides=overrides,
            source=str(tmp_path / "demo"),
            folder=tmp_path / name,
            device="cpu",
        )

    ensemble = spec("all", "ensemble", overrides=tuple(settings))
    first, second = (spec(f"one-{name}", name, str(folder / f"{name}.toml")) for name in TINY)
    train_missing([first], GRAPH, 1)
    events: list[tuple[str, str]] = []
    runs = train_missing(
        [ensemble, first, second],
        GRAPH,
        3,
        watch=lambda _, run: events.append((run.name, run.state)),
    )
    assert {run.state for run in runs} == {"finished"}
    order = list(dict.fromkeys(events))
    assert order == [
        (run.folder.name, state) for run in (second, ensemble) for state in ("running", "finished")
    ]
    for name in TINY:
        copied, made = (tmp_path / "all" / "parts" / name, tmp_path / f"one-{name}")
        assert (copied / "metrics.jsonl").read_bytes() == (made / "metrics.jsonl").read_bytes(), (
            "not trained again"
        )
    assert outcome(tmp_path / "all") == outcome(whole.path or Path())


Spoil = Callable[[Path], None]


def other_protocol(run: Path) -> None:
    config = run / "config.toml"
    config.write_text(config.read_text().replace('protocol = "strict"', 'protocol = "paper"'))


def other_data(run: Path) -> None:
    shutil.rmtree(run / "dataset")
    # Without its checksums, the run cannot tell that its data changed.
    (run / "dataset.json").unlink()
    write_folder(
        make_world(seed=3, entities=12, relations=4, steps=10, facts=200).graph, run / "dataset"
    )


def unfinished(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(json.dumps(results | {"finished": False}))


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (other_protocol, "setup.other_protocol"),
        (other_data, "setup.other_data"),
        (unfinished, "setup.unfinished_part"),
    ],
)
def test_a_run_that_cannot_be_a_part_is_refused(
    single: Run, tmp_path: Path, spoil: Spoil, name: str
) -> None:
    shutil.copytree(single.path or "", tmp_path / "part")
    spoil(tmp_path / "part")
    parts = json.dumps([str(tmp_path / "part")])
    with raises(RunError, name, path=tmp_path / "part", graph=GRAPH.name):
        tempograph.train(
            GRAPH,
            "ensemble",
            out=tmp_path / "run",
            overrides=[f"model.parts={parts}"],
            device="cpu",
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("parts", "name", "values"),
    [
        (
            '["complx"]',
            "setup.no_such_part",
            {"part": "complx", "names": "'complex', 'tcomplex' or 'tntcomplex'"},
        ),
        ('["complex", "ted"]', "ensemble_model.no_probabilities", {"part": "ted"}),
        ('["ensemble"]', "ensemble_model.fitted_part", {"part": "ensemble"}),
        (
            '["complex:best"]',
            "preset_files.no_preset",
            {
                "model": "complex",
                "preset": "best",
                "dataset": GRAPH.name,
                "presets": "gdelt.tuned, icews05-15.tuned, icews14.tuned",
            },
        ),
        ("[]", "ensemble_settings.no_parts", {}),
        (
            "complex",
            "setting_values.wrong_type",
            {
                "owner": "model ensemble",
                "setting": "parts",
                "kind": 'a list of text, such as ["a", "b"]',
                "value": "complex",
            },
        ),
    ],
)
def test_invalid_parts_are_refused(
    tmp_path: Path, parts: str, name: str, values: dict[str, str]
) -> None:
    with raises(ConfigError, name, **{"model": "ensemble"} | values):
        tempograph.train(
            GRAPH,
            "ensemble",
            out=tmp_path / "run",
            overrides=[f"model.parts={parts}"],
            device="cpu",
        )
    assert list(tmp_path.iterdir()) == []


def test_an_ensemble_needs_valid_facts(tmp_path: Path) -> None:
    for settings, use in (
        ([], "to know when its parts should stop"),
        (["model.fit_on=valid"], "to fit its gate"),
    ):
        with raises(DataError, "trainer.no_valid_facts", graph="small", model="ensemble", use=use):
            tempograph.train(
                make_graph([(0, 0, 1, 0)]), "ensemble", out=tmp_path / "run", overrides=settings
            )
    assert list(tmp_path.iterdir()) == []


def test_a_lost_part_is_named(whole: Run, tmp_path: Path) -> None:
    shutil.copytree(whole.path or "", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "parts" / "complex")
    with raises(RunError, "run_folder.no_run", path=tmp_path / "run" / "parts" / "complex"):
        Run.load(tmp_path / "run")


def test_from_the_command_line(call: Call, settings: list[str]) -> None:
    write_folder(GRAPH, Path("demo"))
    code, out, err = call(
        "train", "demo", "--model", "ensemble", "--out", "run", "--device", "cpu", *settings
    )
    assert code == 0 and "; next: tempograph evaluate run" in out and "cross-fitted" not in out
    assert "complex:  epoch 1" in err and "temp-gru:  epoch 3" in err and "gate:  half 2" in err
    assert "complex without the holdout:  epoch 1" in err
    assert "note" not in as_json(call("evaluate", "run", "--json"))
    code, out, _ = call("evaluate", "run", "--split", "valid")
    assert code == 0 and "fitted" not in out
    on_valid = [*settings, "model.fit_on=valid"]
    code, out, _ = call(
        "train", "demo", "--model", "ensemble", "--out", "other", "--device", "cpu", *on_valid
    )
    assert code == 0 and "cross-fitted; next: tempograph evaluate other" in out
    code, out, _ = call("evaluate", "other", "--split", "valid")
    assert code == 0 and "cross-fitted: each half of valid" in out
    code, out, _ = call("evaluate", "other")
    assert code == 0 and "the gate of the ensemble was fitted on valid facts" in out
    assert call("evaluate", "run/parts/complex")[0] == 0
    names = GRAPH.describe(GRAPH.test[0])
    question = (
        "--subject",
        names["subject"],
        "--relation",
        names["relation"],
        "--time",
        names["time"],
    )
    code, out, _ = call("complete", "run", *question)
    assert code == 0 and "probability" in out and "facts with an effect" in out
    code, _, err = call(
        "train", "demo", "--model", "ensemble", "--out", "bad", 'model.parts=["gone"]'
    )
    assert (
        code == 2
        and err.startswith("error: 'gone' cannot be a part of ensemble")
        and err.count("\n") == 1
    )
