"""A resumed run equals one that was never interrupted, whatever interrupted it."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import tempograph
from forked import DEVNULL, PIPE, Popen
from graphs import make_graph
from messages import raises
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.errors import RunError
from tempograph.training import loop
from tempograph.training.question_models import QuestionModels
from tempograph.training.run_folder import replace_run
from tempograph.training.train_state import TrainState
from tempograph.training.trainer import end_training

GRAPH = make_world(seed=2, entities=12, relations=4, steps=10, facts=200).graph
SETTINGS = [
    "model.dim=8",
    "model.window=2",
    "train.epochs=6",
    "train.times_per_step=3",
    "train.learning_rate=0.01",
    "train.average=0.5",
    "train.validate_every=2",
]


def train(path: Path, **options: object) -> tempograph.Run:
    return tempograph.train(
        GRAPH, "temp-gru", out=path, overrides=SETTINGS, device="cpu", **options
    )  # type: ignore[arg-type]


def outcome(path: Path) -> tuple[bytes, list[dict[str, float]], object]:
    """The weights, the history without its times, and the figures on valid."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    history = [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
    results = json.loads((path / "results.json").read_text())
    return (
        (path / "model.safetensors").read_bytes(),
        history,
        (results["valid"]["metrics"], results["best_epoch"]),
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "whole"
    train(path)
    return path


def test_the_same_seed_gives_the_same_run(uninterrupted: Path, tmp_path: Path) -> None:
    train(tmp_path / "again")
    assert outcome(tmp_path / "again") == outcome(uninterrupted)
    train(tmp_path / "other", seed=1)
    assert outcome(tmp_path / "other")[0] != outcome(uninterrupted)[0]


def test_a_run_in_pieces_equals_a_run_in_one(uninterrupted: Path, tmp_path: Path) -> None:
    path = tmp_path / "pieces"
    run = train(path, max_seconds=0)
    pieces = 1
    while not run.results.finished:
        assert (path / "checkpoint.safetensors").is_file() and len(run.history) == pieces
        run = tempograph.resume(path, device="cpu", max_seconds=0)
        pieces += 1
    assert pieces == 6
    assert outcome(path) == outcome(uninterrupted)
    assert not (path / "checkpoint.safetensors").exists()
    with raises(RunError, "trainer.finished", path=path):
        tempograph.resume(path)


def test_checkpoints_that_take_long_are_saved_less_often(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was stopped between two of them repeats the epochs since the last."""
    saved, save = [], TrainState.save

    def count(state: TrainState, path: Path) -> None:
        saved.append(state.progress.epoch)
        save(state, path)

    def stop(line: dict[str, float]) -> None:
        if line["epoch"] == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainState, "save", count)
    monkeypatch.setattr(loop, "_SLOW_SAVING", -1.0)
    monkeypatch.setattr(loop, "_MAX_SAVING", 1e-9)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", report=stop)
    assert saved == [1]
    tempograph.resume(tmp_path / "run", device="cpu")
    assert saved == [1, 2, 6], "the first of a call and the last"
    assert outcome(tmp_path / "run") == outcome(uninterrupted)


def test_resuming_discards_evaluations_of_the_unfinished_run(
    uninterrupted: Path, tmp_path: Path
) -> None:
    path = tmp_path / "asked"
    train(path, max_seconds=0)
    tempograph.evaluate(tempograph.Run.load(path), "test")
    one, other = (
        tempograph.Run.load(each).questions.calibrator() for each in (path, uninterrupted)
    )
    assert one.temperature != other.temperature
    on_the_way = json.loads((path / "results.json").read_text())
    assert on_the_way["test"] and on_the_way["calibration"] and (path / "ranks.parquet").exists()
    run = tempograph.resume(path, device="cpu")
    assert (
        run.results.test is None
        and "test" not in (path / "README.md").read_text().split("`tempograph")[0]
    )
    assert set(pq.read_table(path / "ranks.parquet")["split"].to_pylist()) == {"valid"}
    assert (
        run.results.calibration
        == json.loads((uninterrupted / "results.json").read_text())["calibration"]
    )


def test_a_run_interrupted_while_it_is_calibrated_is_not_finished(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(QuestionModels, "calibrator", interrupted)
        train(path)
    assert not json.loads((path / "results.json").read_text())["finished"]
    tempograph.resume(path, device="cpu")
    assert (
        outcome(path) == outcome(uninterrupted) and not (path / "checkpoint.safetensors").exists()
    )
    assert json.loads((path / "results.json").read_text())["calibration"]


FACTS = [
    "model.dim=8",
    "train.epochs=4",
    "train.learning_rate=0.05",
    "train.validate_every=1",
    "train.negatives=5",
]


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (
            "tntcomplex",
            [
                "train.optimizer=adagrad",
                "train.negatives=all",
                "train.n3=0.01",
                "train.smoothness=0.01",
            ],
        ),
        (
            "distmult",
            [
                "train.optimizer=adagrad",
                "train.weight_decay=0.01",
                "train.average=0.5",
                "train.dropout=0.2",
            ],
        ),
        ("de-simple", ["train.batch=facts", "train.facts_per_step=50", "train.dropout=0.2"]),
        ("hyte", ["train.loss=margin", "train.average=0.5"]),
        ("ta-distmult", ["train.loss=logistic"]),
        ("atise-ee", ["train.negatives=20"]),
        ("atise-er", ["train.negatives=20", "train.season_penalty=0.01"]),
    ],
)
def test_an_embedding_method_in_pieces_equals_one_in_one(
    model: str, settings: list[str], tmp_path: Path
) -> None:
    paths = tmp_path / "whole", tmp_path / "pieces"
    options: dict[str, Any] = {"overrides": [*FACTS, *settings], "device": "cpu"}
    tempograph.train(GRAPH, model, out=paths[0], **options)
    run = tempograph.train(GRAPH, model, out=paths[1], max_seconds=0, **options)
    while not run.results.finished:
        run = tempograph.resume(paths[1], device="cpu", max_seconds=0)
    assert len(run.history) == 4 and outcome(paths[1]) == outcome(paths[0])


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


# Torch uses several threads from 32768 numbers on, and then the order of a sum may change. This
# many facts of one relation make that happen in every part of the models.
MANY = np.random.default_rng(0).integers(0, [500, 1, 500, 12], (2500, 4))
CROWD = make_graph(MANY[:2400], MANY[2400:], entities=500, relations=1, steps=12)


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ("temp-gru", ["model.window=4", "model.time_embedding=true"]),
        ("srgcn", ["model.structure=rgat", "model.heads=32"]),
        ("srgcn", ["model.blocks=1", "model.inverse_edges=false"]),
        ("tntcomplex", ["train.n3=0.01", "train.smoothness=0.01"]),
        ("de-simple", []),
        ("ta-distmult", ["train.facts_per_step=600"]),
        ("atise-ee", ["train.negatives=20"]),
        ("atise-er", ["train.negatives=20", "train.season_penalty=0.01"]),
        (
            "pointer",
            [
                "model.max_facts=40",
                "model.max_facts_per_relation=10",
                "model.max_facts_per_time=10",
            ],
        ),
    ],
)
@pytest.mark.usefixtures("two_threads")
def test_two_threads_repeat_and_resume_a_run(tmp_path: Path, model: str, parts: list[str]) -> None:
    size = [] if model == "pointer" else ["model.dim=32"]
    if model in ("temp-gru", "srgcn"):
        size += ["model.edge_dropout=0.1", "train.times_per_step=12"]
    settings = [*size, *parts, "train.epochs=2", "train.validate_every=2"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    tempograph.train(CROWD, model, out=whole, overrides=settings, device="cpu")
    tempograph.train(CROWD, model, out=stopped, overrides=settings, device="cpu", max_seconds=0)
    tempograph.resume(stopped, device="cpu")
    assert outcome(stopped) == outcome(whole)


def start(tmp_path: Path) -> Popen:
    """A training of its own process that halts for a moment after each epoch."""
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
        "temp-gru",
        "--device",
        "cpu",
        "--out",
        "run",
    ]
    return Popen([*command, *SETTINGS], cwd=tmp_path, stderr=PIPE, stdout=DEVNULL)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_run_resumes_to_the_same_result(
    uninterrupted: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    with start(tmp_path) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "epoch 2" in line:
                break
        time.sleep(0.1)
        process.send_signal(stop)
        rest = process.stderr.read()
    if stop != signal.SIGKILL:
        assert process.returncode == 130 and "continue with: tempograph resume run" in rest
    path = tmp_path / "run"
    unfinished = json.loads((path / "results.json").read_text())
    assert not unfinished["finished"]
    tempograph.resume(path, device="cpu")
    assert outcome(path) == outcome(uninterrupted)


def test_a_run_killed_before_its_first_epoch_starts_again(
    uninterrupted: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    train(path, max_seconds=0)
    tempograph.resume(path, max_seconds=0, device="cpu")
    # As if killed after the best weights were written and before the checkpoint was.
    (path / "checkpoint.safetensors").unlink()
    tempograph.resume(path, device="cpu")
    assert outcome(path) == outcome(uninterrupted)


def test_the_best_weights_are_kept_not_the_last(uninterrupted: Path) -> None:
    run = tempograph.Run.load(uninterrupted)
    best = max(
        (line for line in run.history if "valid/mrr" in line), key=lambda line: line["valid/mrr"]
    )
    assert run.results.best_epoch == best["epoch"]
    assert tempograph.evaluate(run, "valid").summary()["metrics"]["mrr"] == best["valid/mrr"]
    assert set(load_file(uninterrupted / "model.safetensors")) == set(run.model.state_dict())


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(path, max_seconds=0)
    content = (path / "checkpoint.safetensors").read_bytes()
    (path / "checkpoint.safetensors").write_bytes(content[: len(content) // 2])
    reason = "Error while deserializing header: incomplete metadata, file not fully covered"
    file = path / "checkpoint.safetensors"
    with raises(RunError, "train_state.damaged", path=file, reason=reason):
        tempograph.resume(path, device="cpu")


def test_a_checkpoint_of_an_earlier_version_resumes(uninterrupted: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(path, max_seconds=0)
    file = path / "checkpoint.safetensors"
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    tensors = load_file(file)
    tensors["chance."] = tensors.pop("generator.")
    save_file(tensors, file, metadata)
    tempograph.resume(path, device="cpu")
    assert outcome(path) == outcome(uninterrupted)


def test_a_checkpoint_of_another_kind_of_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(path, max_seconds=0)
    file = path / "checkpoint.safetensors"
    with safe_open(file, "pt") as opened:
        about = opened.metadata()
    save_file(load_file(file), file, about | {"device": "cuda"})
    with raises(RunError, "train_state.other_device", path=file, device="cuda", here="cpu"):
        tempograph.resume(path, device="cpu")


def test_a_run_stopped_before_it_is_validated_keeps_its_weights(tmp_path: Path) -> None:
    """It is validated after two epochs, and stopped after one."""
    path = tmp_path / "run"
    run = train(path, max_seconds=0)
    assert run.results.best_epoch == 0
    kept, learned = (load_file(path / f"{name}.safetensors") for name in ("model", "checkpoint"))
    assert all(torch.equal(value, learned[f"model.{name}"]) for name, value in kept.items())
    assert all(torch.equal(kept[name], value) for name, value in run.model.state_dict().items())


@pytest.mark.parametrize("precision", ["tf32", "32-true"])
def test_training_restores_the_precision_of_matrix_products(tmp_path: Path, precision: str) -> None:
    seen, before = [], torch.get_float32_matmul_precision()
    settings = [
        *SETTINGS,
        f"train.precision={precision}",
        "train.epochs=1",
        "train.validate_every=1",
    ]
    torch.set_float32_matmul_precision("medium")
    try:
        tempograph.train(
            GRAPH,
            "temp-gru",
            overrides=settings,
            device="cpu",
            report=lambda line: seen.append(torch.get_float32_matmul_precision()),
        )
        assert seen == ["high" if precision == "tf32" else "highest"]
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_tensorboard_gets_every_line(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(tmp_path / "run", tensorboard=True)
    events = reader.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3, 4, 5, 6]
    assert [event.step for event in events.Scalars("valid/mrr")] == [2, 4, 6]


def test_a_run_that_is_ended_early_keeps_its_best_weights(tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(path, max_seconds=0)
    for _ in range(2):
        tempograph.resume(path, device="cpu", max_seconds=0, progress=False)
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    best = max((line for line in lines if "valid/mrr" in line), key=lambda line: line["valid/mrr"])
    weights = (path / "model.safetensors").read_bytes()
    run = end_training(path, device="cpu")
    assert run.results.finished and run.results.best_epoch == best["epoch"] and len(lines) == 3
    assert run.results.valid is not None and run.results.calibration is not None
    assert run.results.valid["metrics"]["mrr"] == pytest.approx(best["valid/mrr"])
    assert (path / "model.safetensors").read_bytes() == weights
    assert not (path / "checkpoint.safetensors").exists()
    assert end_training(path, device="cpu").results.to_json() == run.results.to_json()


def test_a_run_without_an_epoch_cannot_be_ended(tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(path, max_seconds=0)
    (path / "metrics.jsonl").write_text("")
    with raises(RunError, "trainer.no_epoch", path=path):
        end_training(path, device="cpu")


def test_a_run_gets_the_model_of_another(uninterrupted: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    tempograph.train(GRAPH, "ted", out=path, overrides=["model.sigma=1"], device="cpu")
    for _ in range(2):
        replace_run(path, uninterrupted)
        assert outcome(path) == outcome(uninterrupted)
        run = tempograph.Run.load(path)
        assert run.config == tempograph.Run.load(uninterrupted).config and run.graph.same_as(GRAPH)
