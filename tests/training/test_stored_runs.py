"""Stored runs load and answer as they did; damaged and hostile folders are refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import safetensors.torch
import torch

import tempograph
from conftest import Call
from messages import message
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import fact_queries
from tempograph.errors import TempographError
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.training.run_folder import FORMAT
from tempograph.training.runs import Run

STORED = sorted(Path(__file__).parents[1].glob("stored/*/*.json"))


@pytest.mark.parametrize("expected", STORED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_stored_run_gives_the_same_scores(expected: Path) -> None:
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


def test_the_gate_of_a_stored_ensemble_was_fitted_on_valid() -> None:
    """Earlier versions had no setting for it; resumed or ranked again, a run stays what it is."""
    run = Run.from_pretrained(Path(__file__).parents[1] / "stored" / "format-1" / "ensemble")
    assert "fit_on" not in ((run.path or Path()) / "config.toml").read_text()
    assert run.config.model.fit_on == "valid" and len(run.model.half_gates) == 2
    again = evaluate_model(run.model, run.graph, "valid", "strict").summary()
    assert again["note"] == run.results.valid["note"]
    assert again["metrics"] == pytest.approx(run.results.valid["metrics"])


def test_the_current_format_is_stored() -> None:
    assert {path.stem for path in STORED if path.parent.name == f"format-{FORMAT}"} >= {
        "ted",
        "temp-gru",
        "pointer",
        "ensemble",
    }


def test_a_saved_run_is_complete_without_ranks(tmp_path: Path) -> None:
    graph = make_world(seed=1, entities=10, relations=4, steps=8, facts=100).graph
    run = tempograph.train(
        graph, "complex", out=tmp_path / "run", overrides=["model.dim=4", "train.epochs=2"]
    )
    tempograph.evaluate(run, "valid")
    sent = run.save_pretrained(tmp_path / "sent")
    assert sent.path == tmp_path / "sent" and not (tmp_path / "sent" / "ranks.parquet").exists()
    loaded = Run.from_pretrained(tmp_path / "sent")
    assert (
        loaded.results == run.results
        and loaded.config == run.config
        and loaded.graph.same_as(graph)
    )
    for name, value in run.model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], value)


def test_the_parts_of_a_saved_ensemble_have_no_ranks(tmp_path: Path) -> None:
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


def set_later_format(folder: Path) -> None:
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "999"})


def remove_format(folder: Path) -> None:
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(weights, folder / "model.safetensors")


def write_endless_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((2**60).to_bytes(8, "little") + b"{}")


# The reason of a damage comes from the library that reads the file.
DAMAGED = partial(message, "run_folder.damaged", reason="")

DAMAGES: dict[str, tuple[Callable[[Path], object], Callable[..., str]]] = {
    "later format": (set_later_format, partial(message, "run_folder.later_format", format=999)),
    "weights of something else": (remove_format, partial(message, "run_folder.no_weights")),
    "endless header": (write_endless_header, DAMAGED),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), DAMAGED),
    "half the weights": (lambda folder: os.truncate(folder / "model.safetensors", 900), DAMAGED),
    "a pickle": (
        lambda folder: torch.save({"entity": torch.ones(3)}, folder / "model.safetensors"),
        DAMAGED,
    ),
    "a model that would fill the memory": (
        lambda folder: rewrite(folder, "config.toml", "dim = 8", "dim = 80000000"),
        partial(message, "run_folder.size", setting="dim", value=80000000),
    ),
    "a thousand layers": (
        lambda folder: rewrite(folder, "config.toml", "layers = 2", "layers = 100000"),
        partial(message, "run_folder.size", setting="layers", value=100000),
    ),
    "another width": (lambda folder: rewrite(folder, "config.toml", "dim = 8", "dim = 6"), DAMAGED),
    "no such model": (
        lambda folder: rewrite(folder, "config.toml", 'name = "temp-gru"', 'name = "temp-gro"'),
        lambda path: message(
            "config.no_model",
            path=path / "config.toml",
            problem=message(
                "suggestions.did_you_mean",
                kind="model",
                value="temp-gro",
                names="'temp-gru', 'temp-sa' or 'temp-pointer'",
            ),
        ),
    ),
    "no names": (
        lambda folder: (folder / "dataset" / "entities.txt").unlink(),
        lambda path: message("folder.no_file", path=path / "dataset" / "entities.txt"),
    ),
    "an id out of range": (
        lambda folder: (
            (folder / "dataset" / "train.tsv.gz").unlink(),
            (folder / "dataset" / "train.tsv").write_text("0\t0\t99\t0\n"),
        ),
        lambda path: message(
            "folder.out_of_range",
            path=path / "dataset" / "train.tsv",
            line=1,
            column="object",
            value=99,
            last=11,
        ),
    ),
    "results that are not JSON": (
        lambda folder: (folder / "results.json").write_text("{"),
        DAMAGED,
    ),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_or_hostile_folder_is_refused_with_one_line(
    case: str, tmp_path: Path, call: Call
) -> None:
    folder = Path(
        shutil.copytree(
            next(path for path in STORED if path.stem == "temp-gru").with_suffix(""),
            tmp_path / "run",
        )
    )
    damage, expected = DAMAGES[case]
    damage(folder)
    with pytest.raises(TempographError) as caught:
        Run.from_pretrained(folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(expected(path=folder))
    assert expected is DAMAGED or str(caught.value) == expected(path=folder)
    code, _, err = call("evaluate", str(folder))
    assert code == 2 and "Traceback" not in err
