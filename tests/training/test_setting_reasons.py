"""What a run says about the settings that were chosen for many entities."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from tempograph.data.graph import TemporalGraph
from tempograph.data.synthetic.many_entities import SyntheticWorld
from tempograph.experiments.autofit import fit
from tempograph.models.sparse_scores import MANY_ENTITIES
from tempograph.training import defaults, setting_reasons, setup, trainer
from tempograph.training.run_folder import read_results
from tempograph.typing import Protocol

CPU = torch.device("cpu")


def graph_with(entities: int) -> TemporalGraph:
    """A small world with more names than it uses."""
    graph = SyntheticWorld(60, 5, 10, 300, 20, 20).graph("made")
    names = tuple(f"{number}" for number in range(entities))
    return dataclasses.replace(graph, entities=names)


FEW, MANY = graph_with(MANY_ENTITIES - 1), graph_with(MANY_ENTITIES)


def reasons(
    graph: TemporalGraph, model: str, *overrides: str, protocol: Protocol = "strict"
) -> list[str]:
    config = setup.configure(graph, model, CPU, protocol=protocol, overrides=overrides)
    return setting_reasons.explain_settings(config, graph)


@pytest.mark.parametrize("model", ["ted", "tntcomplex", "pointer", "temp-gru", "temp-pointer"])
def test_nothing_is_said_about_few_entities(model: str) -> None:
    assert reasons(FEW, model) == []


def test_sampled_training_is_explained_with_its_numbers() -> None:
    sampled, sparse = reasons(MANY, "tntcomplex")
    assert "scores 1,000 sampled entities, because scoring all 30,000" in sampled
    assert "with Adagrad" in sparse
    assert reasons(MANY, "tntcomplex", "train.negatives=50")[0].startswith(
        "Each training step scores 50 sampled"
    )
    assert "2,000 sampled" in reasons(MANY, "temp-gru")[0]


def test_the_pointer_says_what_it_lays_out_and_what_it_ignores() -> None:
    laid_out, ignored = reasons(MANY, "pointer")
    assert "because there are 30,000 entities" in laid_out
    assert ignored.startswith("The model ignores common neighbors and words in names")
    assert "common neighbors" not in reasons(MANY, "pointer", protocol="forecast-single")[1]
    assert reasons(MANY, "pointer", "model.counts=all") == []


def test_an_ensemble_says_which_part_it_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reasons(MANY, "temp-pointer") == []
    monkeypatch.setattr(defaults, "_MAX_FACTORED", 10)
    for graph, scored in ((FEW, "29,999"), (MANY, "4,096")):
        (reason,) = reasons(graph, "temp-pointer")
        assert reason.startswith("The ensemble does without tntcomplex: with 300 train facts, and ")
        assert f"{scored} entities scored for each" in reason


def test_an_ensemble_keeps_a_part_whose_training_is_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Above the number of entities from which a sample is scored, their number does not count."""
    monkeypatch.setattr(defaults, "_MAX_FACTORED", 300 * 4096)
    parts = [setup.configure(graph, "temp-pointer", CPU).model.parts for graph in (FEW, MANY)]
    assert ["tntcomplex" in each for each in parts] == [False, True]
    assert reasons(MANY, "temp-pointer") == []


@pytest.mark.parametrize(("entities", "names"), [(MANY_ENTITIES - 1, True), (MANY_ENTITIES, False)])
def test_an_ensemble_of_many_entities_has_no_names(entities: int, names: bool) -> None:
    graph = graph_with(entities)
    graph = dataclasses.replace(
        graph, entities=tuple(f"team {number % 3}, {number}" for number in range(entities))
    )
    config = setup.configure(graph, "temp-pointer", CPU)
    parts = {part.name: part.model for part in setup.part_configs(config, graph, CPU)}
    assert config.model.names == parts["pointer"].names == names


def test_train_says_the_reasons_and_keeps_them(tmp_path: Path) -> None:
    said: list[str] = []
    overrides = ["model.dim=4", "train.epochs=1", "train.negatives=50"]
    trainer.train(
        MANY,
        "tntcomplex",
        out=tmp_path / "run",
        overrides=overrides,
        device="cpu",
        progress=False,
        note=said.append,
    )
    assert said == reasons(MANY, "tntcomplex", *overrides)
    assert read_results(tmp_path / "run").reasons == said
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert all(reason in card for reason in said)


def test_fit_says_the_reasons(tmp_path: Path) -> None:
    said: list[str] = []
    overrides = ["model.dim=4", "train.epochs=1", "train.negatives=50"]
    fit(
        MANY,
        out=tmp_path / "fit",
        model="tntcomplex",
        overrides=overrides,
        device="cpu",
        progress=False,
        max_seconds=0,
        note=said.append,
    )
    assert [line for line in said if "sampled entities" in line]
