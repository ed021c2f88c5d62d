"""Tables sharded over processes: the same training as in one process, and checkpoints."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch.testing import assert_close

import tempograph
from processes import run_processes, start_processes
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.errors import ConfigError, TempographWarning
from tempograph.nn.row_shards import RowShards
from tempograph.training.config import make_config
from tempograph.training.runs import Run
from tempograph.training.sharding import row_shards

GRAPH = make_world(seed=2, entities=21, relations=4, steps=10, facts=300).graph
SETTINGS = [
    "train.tables=sharded",
    "model.dim=8",
    "train.epochs=5",
    "train.facts_per_step=110",
    "train.optimizer=adagrad",
    "train.learning_rate=0.1",
    "train.n3=0.01",
    "train.smoothness=0.1",
    "train.dropout=0.2",
    "train.average=0.5",
    "train.validate_every=5",
]
"""Two steps in each of five epochs; the second has fewer facts than the first."""
VARIANTS = {
    "all": ["train.negatives=all", "train.clip=0.1"],
    "sampled": ["train.negatives=30", "train.clip=0"],
    "corrected": [
        "train.negatives=12",
        "train.negative_sampling=mixed",
        "train.sparse_gradients=true",
        "train.average=0",
        "train.clip=0",
    ],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "world"
    write_folder(GRAPH, path)
    return path


def arguments(data: Path, out: Path, *more: str) -> list[str]:
    options = ["--model", "tntcomplex", "--device", "cpu", "--out", str(out)]
    return ["train", str(data), *options, *SETTINGS, *more]


def losses(path: Path) -> torch.Tensor:
    lines = (path / "metrics.jsonl").read_text().splitlines()
    return torch.tensor([json.loads(line)["loss"] for line in lines])


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    paths = {}
    for name, variant in VARIANTS.items():
        paths[name] = tmp_path_factory.mktemp("alone") / name
        tempograph.train(
            data, "tntcomplex", device="cpu", out=paths[name], overrides=[*SETTINGS, *variant]
        )
    return paths


def assert_same_training(path: Path, other: Path) -> None:
    assert_close(losses(path), losses(other), rtol=0, atol=1e-5)
    one, many = (load_file(each / "model.safetensors") for each in (other, path))
    # Adagrad's first steps divide gradients by their size, which enlarges what rounding adds.
    assert_close(many, one, rtol=0, atol=1e-4)
    first, second = (Run.load(each).results for each in (other, path))
    assert first.valid is not None and second.valid is not None
    assert second.valid["metrics"] == pytest.approx(first.valid["metrics"], abs=1e-3)
    assert second.parameters == first.parameters and second.finished


@pytest.mark.parametrize(
    ("size", "variant"), [(2, "all"), (4, "all"), (4, "sampled"), (4, "corrected")]
)
def test_processes_with_sharded_tables_train_as_one(
    data: Path, alone: dict[str, Path], tmp_path: Path, size: int, variant: str
) -> None:
    out = tmp_path / "run"
    run_processes(size, arguments(data, out, *VARIANTS[variant]))
    assert_same_training(out, alone[variant])
    assert not list(out.glob("checkpoint*"))


def test_an_evaluation_is_shared_out(alone: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(alone["all"], out)
    printed = run_processes(2, ["evaluate", str(out), "--split", "test", "--json"])
    metrics = tempograph.evaluate(alone["all"], "test", device="cpu").summary()["metrics"]
    assert json.loads(printed)["metrics"] == pytest.approx(metrics, abs=1e-3)
    results = Run.load(out).results
    assert results.test is not None and results.test["metrics"] == json.loads(printed)["metrics"]


def test_several_processes_refuse_other_questions(
    alone: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="^several processes rank entities by our own rules;"):
        tempograph.evaluate(alone["all"], "test", ask="relation", device="cpu")


def test_other_models_say_why_their_tables_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    sharded = "train.tables=sharded"
    for model, override, reason in (
        ("temp-gru", sharded, "only embedding methods whose entities have one fixed vector each"),
        ("de-simple", sharded, "only embedding methods whose entities have one fixed vector each"),
        ("complex", "train.batch=times", "sharded tables need train.batch=facts"),
        ("complex", "train.loss=margin", "sharded tables need train.loss=softmax"),
    ):
        config = make_config(model, "world", overrides=[sharded, override])
        with pytest.warns(
            TempographWarning, match=f"^{model}: every process holds all tables; {reason}"
        ):
            assert row_shards(config) is None
    assert row_shards(make_config("complex", "world")) is None
    assert row_shards(make_config("complex", "world", overrides=[sharded])) == RowShards(0, 2)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert row_shards(make_config("temp-gru", "world", overrides=[sharded])) is None


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 1)])
def test_a_checkpoint_resumes_on_another_number_of_processes(
    data: Path, alone: dict[str, Path], tmp_path: Path, before: int, after: int
) -> None:
    out, variant = tmp_path / "run", VARIANTS["all"]
    run_processes(before, arguments(data, out, *variant, "--max-time", "0"))
    assert len(losses(out)) == 1, "stopped after the first epoch"
    names = [f"checkpoint-1-{rank}-of-{before}.safetensors" for rank in range(before)]
    assert {path.name for path in out.glob("checkpoint-*")} == set(names)
    rows = [len(load_file(out / name)["model.entities.entity"]) for name in names]
    assert sum(rows) == len(GRAPH.entities) and max(rows) - min(rows) <= 1
    if after == 1:
        tempograph.resume(out, device="cpu")
    else:
        run_processes(after, ["resume", str(out), "--device", "cpu"])
    assert_same_training(out, alone["all"])
    assert not list(out.glob("checkpoint*"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_processes_end_when_another_one_dies_or_hangs(
    data: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "run"
    long = ["train.epochs=100000", "train.patience=100000"]
    timeout = {"TEMPOGRAPH_PROCESS_TIMEOUT": "3"}
    processes = start_processes(3, arguments(data, out, *long), **timeout)
    deadline = time.monotonic() + 40
    while not (out / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    killed = processes.pop(1)
    killed.send_signal(number)
    reasons = []
    for rank, process in zip((0, 2), processes, strict=True):
        _, lines = process.communicate(timeout=20)
        assert process.returncode == 2
        (line,) = [line for line in lines.splitlines() if line.startswith("error:")]
        start, end = f"error: process {rank} of 3: ", f"with: tempograph resume {out}"
        assert line.startswith(start) and line.endswith(end)
        reasons.append(line.removeprefix(start).partition(";")[0])
    if number == signal.SIGKILL:
        assert reasons == ["another process is gone"] * 2
    else:
        assert "process 1 has given no sign of life for 3 s" in reasons
    killed.kill()
    killed.communicate()
    with safe_open(out / "checkpoint.safetensors", "pt") as file:
        done = json.loads(file.metadata()["progress"])["epoch"]
    before = losses(out)[:done]
    tempograph.resume(out, device="cpu", max_seconds=0)
    assert len(losses(out)) == done + 1 and torch.equal(losses(out)[:done], before)
