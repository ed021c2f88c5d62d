"""Training in several processes: two processes with half the batch equal one."""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import tempograph
from messages import raises
from processes import run_processes
from tempograph.cli.train import refuse_unfinished
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.errors import StorageError
from tempograph.training.distributed import Processes
from tempograph.training.runs import Run

RUNS = (Path(__file__).parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")


@given(st.integers(1, 40), st.integers(1, 8))
def test_processes_share_all_batches_evenly(batches: int, size: int) -> None:
    shares = [Processes(rank, size, rank, size).shard(range(batches)) for rank in range(size)]
    assert len({len(share) for share in shares}) == 1
    assert {batch for share in shares for batch in share} == set(range(batches))
    assert sum(map(len, shares)) < batches + size


def test_without_a_launcher_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert Processes.from_environment() == Processes(0, 1, 0, 1)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert not Processes.from_environment().is_main and Processes.from_environment().size == 4


def test_two_processes_are_one_with_twice_the_batch(tmp_path: Path) -> None:
    # Adagrad, because the first steps of Adam magnify rounding where a gradient is almost 0.
    settings = [
        "model.dim=8",
        "train.epochs=2",
        "train.dropout=0",
        "train.optimizer=adagrad",
        "train.validate_every=2",
    ]
    two, data = tmp_path / "two", tmp_path / "data"
    write_folder(make_world(facts=2000).graph, data)
    (shown,) = re.findall("^torchrun (.* -m tempograph train) ", RUNS, re.MULTILINE)
    options = ["--model", "distmult", "--device", "cpu", "--out", str(two)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run"),
            *(*shlex.split(shown), str(data), *options, "train.facts_per_step=50", *settings),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("valid MRR") == 1, "one process talks"
    one = tempograph.train(
        data, "distmult", device="cpu", overrides=["train.facts_per_step=100", *settings]
    )
    weights = safetensors.torch.load_file(two / "model.safetensors")
    assert_close(weights, dict(one.model.state_dict()), rtol=1e-3, atol=1e-4)
    assert Run.load(two).results.valid["metrics"]["mrr"] == pytest.approx(
        one.results.valid["metrics"]["mrr"], abs=0.01
    )


def test_copies_of_a_model_exchange_dense_gradients(tmp_path: Path) -> None:
    """Suggested settings of many entities ask for sparse ones, which copies cannot exchange."""
    graph = make_world(entities=40, relations=4, steps=10, facts=300).graph
    count = len(graph.train) // 4
    graph = dataclasses.replace(graph, train=graph.train[: 4 * count])
    two, data = tmp_path / "two", tmp_path / "data"
    write_folder(graph, data)
    settings = [
        "model.dim=8",
        "train.epochs=2",
        "train.validate_every=2",
        f"train.negatives={len(graph.entities)}",
        "train.negative_sampling=uniform",
        "train.sparse_gradients=true",
        "train.optimizer=adagrad",
        "train.dropout=0",
        "train.clip=0",
    ]
    options = ["--model", "distmult", "--device", "cpu", "--out", str(two)]
    steps = f"train.facts_per_step={count}", f"train.facts_per_step={2 * count}"
    run_processes(2, ["train", str(data), *options, *settings, steps[0]])
    one = tempograph.train(data, "distmult", device="cpu", overrides=[*settings, steps[1]])
    weights = safetensors.torch.load_file(two / "model.safetensors")
    assert_close(weights, dict(one.model.state_dict()), rtol=1e-3, atol=1e-4)


def test_only_the_main_process_checks_for_an_unfinished_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others would find the one that the first has just begun."""
    (tmp_path / "results.json").write_text('{"finished": false}')
    with raises(StorageError, "train.unfinished", path=tmp_path):
        refuse_unfinished(tmp_path)
    monkeypatch.setenv("RANK", "1")
    refuse_unfinished(tmp_path)
