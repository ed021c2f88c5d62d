"""Runs travel: stored ones load and answer as they did, damaged and hostile ones are refused, vectors can be had."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch

import tempograph
from conftest import Call, as_json
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import fact_queries
from tempograph.errors import DataError, QueryError, TempographError
from tempograph.prediction.vectors import export_vectors
from tempograph.training.run_folder import FORMAT
from tempograph.training.runs import Run

STORED = sorted(Path(__file__).parents[1].glob("stored/*/*.json"))


@pytest.mark.parametrize("expected", STORED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_stored_run_answers_as_it_did(expected: Path) -> None:
    run = Run.from_pretrained(expected.with_suffix(""))
    queries, _ = fact_queries(torch.from_numpy(run.graph.test[:3]), len(run.graph.relations))
    with torch.inference_mode():
        found = run.model.scores(queries).double().clamp(min=-1e9)
    torch.testing.assert_close(
        found,
        torch.tensor(json.loads(expected.read_text()), dtype=torch.float64),
        rtol=1e-4,
        atol=1e-5,
    )


def test_this_version_is_stored() -> None:
    assert {path.stem for path in STORED if path.parent.name == f"format-{FORMAT}"} >= {
        "ted",
        "temp-gru",
        "pointer",
        "ensemble",
    }


def test_a_saved_run_is_whole_and_small(tmp_path: Path) -> None:
    graph = make_world(seed=1, entities=10, relations=4, steps=8, facts=100).graph
    run = tempograph.train(
        graph, "complex", out=tmp_path / "run", overrides=["model.dim=4", "train.epochs=2"]
    )
    tempograph.evaluate(run, "valid")
    sent = run.save_pretrained(tmp_path / "sent")
    assert sent.path == tmp_path / "sent" and not (tmp_path / "sent" / "ranks.parquet").exists()
    there = Run.from_pretrained(tmp_path / "sent")
    assert (
        there.results == run.results and there.config == run.config and there.graph.same_as(graph)
    )
    for name, value in run.model.state_dict().items():
        assert torch.equal(there.model.state_dict()[name], value)


def test_the_parts_of_a_saved_mixture_are_small_too(tmp_path: Path) -> None:
    graph = make_world(seed=1, entities=10, relations=4, steps=8, facts=100).graph
    settings = ["model.dim=4", "train.epochs=1"]
    parts = [tmp_path / name for name in ("complex", "distmult")]
    for part in parts:
        tempograph.evaluate(
            tempograph.train(graph, part.name, out=part, overrides=settings), "valid"
        )
    named = json.dumps([str(part) for part in parts])
    run = tempograph.train(
        graph, "ensemble", out=tmp_path / "run", overrides=[f"model.parts={named}", "model.steps=5"]
    )
    run.save_pretrained(tmp_path / "sent")
    assert list((tmp_path / "run").rglob("ranks.parquet")) and not list(
        (tmp_path / "sent").rglob("ranks.parquet")
    )
    assert Run.from_pretrained(tmp_path / "sent").results == run.results


def rewrite(folder: Path, file: str, old: str, new: str) -> None:
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))


def later(folder: Path) -> None:
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "999"})


def of_another_make(folder: Path) -> None:
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(weights, folder / "model.safetensors")


def too_long_a_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((2**60).to_bytes(8, "little") + b"{}")


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "later format": (later, "made by a later version (format 999, here 1); update tempograph"),
    "weights of something else": (
        of_another_make,
        "model.safetensors holds no weights of tempograph",
    ),
    "endless header": (too_long_a_header, "the run is damaged"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "the run is damaged"),
    "half the weights": (
        lambda folder: os.truncate(folder / "model.safetensors", 900),
        "the run is damaged",
    ),
    "a pickle": (
        lambda folder: torch.save({"entity": torch.ones(3)}, folder / "model.safetensors"),
        "the run is damaged",
    ),
    "a model that would fill the memory": (
        lambda folder: rewrite(folder, "config.toml", "dim = 8", "dim = 80000000"),
        "config.toml asks for dim = 80000000, which its weights do not have",
    ),
    "a thousand layers": (
        lambda folder: rewrite(folder, "config.toml", "layers = 2", "layers = 100000"),
        "asks for layers = 100000",
    ),
    "another width": (
        lambda folder: rewrite(folder, "config.toml", "dim = 8", "dim = 6"),
        "the run is damaged",
    ),
    "no such model": (
        lambda folder: rewrite(folder, "config.toml", 'name = "temp-gru"', 'name = "temp-gro"'),
        "temp-gro",
    ),
    "no names": (lambda folder: (folder / "dataset" / "entities.txt").unlink(), "entities.txt"),
    "an id out of range": (
        lambda folder: (
            (folder / "dataset" / "train.tsv.gz").unlink(),
            (folder / "dataset" / "train.tsv").write_text("0\t0\t99\t0\n"),
        ),
        "train.tsv",
    ),
    "results that are none": (
        lambda folder: (folder / "results.json").write_text("{"),
        "the run is damaged",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_damaged_or_hostile_folder_is_refused_with_one_line(
    what: str, tmp_path: Path, call: Call
) -> None:
    folder = Path(
        shutil.copytree(
            next(path for path in STORED if path.stem == "temp-gru").with_suffix(""),
            tmp_path / "run",
        )
    )
    harm, message = HOSTILE[what]
    harm(folder)
    with pytest.raises(TempographError) as caught:
        Run.from_pretrained(folder)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    code, _, err = call("evaluate", str(folder))
    assert code == 2 and "Traceback" not in err


def stored(model: str) -> Run:
    return Run.from_pretrained(next(path for path in STORED if path.stem == model).with_suffix(""))


def test_vectors_are_those_of_the_model(tmp_path: Path) -> None:
    run = stored("temp-gru")
    wanted = run.graph.times[2:5]
    export_vectors(run, tmp_path / "v.parquet", wanted)
    rows = pq.read_table(tmp_path / "v.parquet").to_pylist()
    assert [row["time"] for row in rows] == [time for time in wanted for _ in run.graph.entities]
    with torch.inference_mode():
        expected = run.model.entity_vectors(torch.tensor([2, 3, 4]))
    assert torch.equal(torch.tensor([row["vector"] for row in rows]), expected.flatten(0, 1))
    assert [row["entity"] for row in rows[: len(run.graph.entities)]] == list(run.graph.entities)
    assert not torch.equal(expected[0], expected[1]), "vectors of TeMP depend on the time"


def test_vectors_without_time_are_written_once(tmp_path: Path) -> None:
    run = stored("tntcomplex")
    export_vectors(run, tmp_path / "v.parquet", run.graph.times)
    found = pq.read_table(tmp_path / "v.parquet")
    assert found.num_rows == len(run.graph.entities) and found["time"].null_count == found.num_rows


def test_the_command_exports(call: Call, tmp_path: Path) -> None:
    folder = str(next(path for path in STORED if path.stem == "atise-ee").with_suffix(""))
    made = as_json(call("export", folder, "--out", "v.parquet", "--times", "all", "--json"))
    assert made["width"] == 8 and pq.read_table("v.parquet").num_rows == 12 * 10
    code, out, _ = call("export", folder, "--out", "w.parquet")
    assert code == 0 and "12 entities, 8 numbers each, in w.parquet" in out
    code, _, err = call("export", folder, "--out", "x.parquet", "--times", "1066-10-14")
    assert code == 2 and "1066-10-14" in err and not Path("x.parquet").exists()
    pointer = str(next(path for path in STORED if path.stem == "pointer").with_suffix(""))
    code, _, err = call("export", pointer, "--out", "y.parquet")
    assert (
        code == 2
        and "pointer has no vectors for entities" in err
        and not Path("y.parquet").exists()
    )


def test_a_wrong_time_is_an_error_of_the_data(tmp_path: Path) -> None:
    with pytest.raises((DataError, QueryError)):
        export_vectors(stored("temp-gru"), tmp_path / "v.parquet", ["never"])
