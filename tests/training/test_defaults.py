"""Settings suggested for a dataset: those of the presets on the benchmarks, and rules between."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tempograph.data.graph import TemporalGraph
from tempograph.models.sparse_scores import MANY_ENTITIES
from tempograph.training.setup import configure, part_configs

CPU, GPU = torch.device("cpu"), torch.device("cuda")
SHAPES = {"icews14": (72_826, 7_128, 365), "icews05-15": (368_962, 10_488, 4_017)}
"""Train facts, entities and time steps."""
LARGE = (376_000, 23_000, 304)


def graph_of_shape(facts: int, entities: int, steps: int, name: str = "made") -> TemporalGraph:
    """A graph of which only the size matters."""
    train = np.zeros((facts, 4), dtype=np.int64)
    none = np.empty((0, 4), dtype=np.int64)
    names = tuple(f"e{number}" for number in range(entities))
    return TemporalGraph(name, names, ("r",), ("t",) * steps, train, none, none)


@pytest.fixture
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that there is a GPU with 139 GiB."""
    properties = SimpleNamespace(total_memory=139 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)


@pytest.mark.usefixtures("h200")
@pytest.mark.parametrize("model", ["tntcomplex", "pointer", "temp-gru", "temp-sa"])
@pytest.mark.parametrize("dataset", SHAPES)
def test_the_suggestions_for_a_benchmark_are_its_preset(model: str, dataset: str) -> None:
    graph = graph_of_shape(*SHAPES[dataset], dataset)
    suggested = configure(graph, model, GPU).flat()
    preset = configure(graph, model, GPU, preset="tuned").flat()
    assert suggested == preset


@given(
    st.integers(1, 10**7),
    st.integers(1, 10**4),
    st.integers(1, 10**4),
    st.sampled_from(["tntcomplex", "tcomplex", "pointer"]),
)
def test_suggestions_are_valid_settings_whatever_the_size(
    facts: int, entities: int, steps: int, model: str
) -> None:
    graph: Any = SimpleNamespace(
        name="made",
        train=range(facts),
        entities=[f"e{number}" for number in range(entities)],
        times=range(steps),
        attributes={},
        has_intervals=False,
    )
    config = configure(graph, model, CPU)
    assert config.train.epochs >= 3


@pytest.mark.usefixtures("h200")
def test_n3_falls_with_the_facts_of_an_entity() -> None:
    n3 = [
        configure(graph_of_shape(facts, 1000, 365), "tntcomplex", GPU).train.n3
        for facts in (100, 1_000, 10_000, 100_000)
    ]
    assert n3 == sorted(n3, reverse=True)
    assert n3[0] > n3[-1]


@pytest.mark.usefixtures("h200")
def test_tables_of_many_entities_fit_into_memory() -> None:
    graph: Any = SimpleNamespace(
        name="made",
        train=range(10**7),
        entities=range(10**6),
        times=range(10**3),
        has_intervals=False,
    )
    dim = configure(graph, "tntcomplex", GPU).model.dim
    assert 64 <= dim < 4000
    assert 3 * 4 * dim * 10**6 <= 2**33


@pytest.mark.usefixtures("h200")
@pytest.mark.parametrize("device", [CPU, GPU], ids=str)
@pytest.mark.parametrize("model", ["transe", "complex", "ta-distmult", "tntcomplex"])
def test_many_entities_are_trained_against_a_sample_with_sparse_gradients(
    model: str, device: torch.device
) -> None:
    few, many = (
        configure(graph_of_shape(100_000, entities, 30), model, device).train
        for entities in (MANY_ENTITIES - 1, MANY_ENTITIES)
    )
    assert (few.negative_sampling, few.sparse_gradients) == ("uncorrected", False)
    assert (many.negative_sampling, many.sparse_gradients) == ("mixed", True)
    assert 1000 <= many.negatives <= 10_000


@pytest.mark.usefixtures("h200")
@pytest.mark.parametrize("model", ["hyte", "de-simple", "atise-er"])
def test_many_entities_that_change_with_time_are_never_all_scored_in_a_step(model: str) -> None:
    assert configure(graph_of_shape(100_000, MANY_ENTITIES, 30), model, GPU).train.negatives == 500


@pytest.mark.usefixtures("h200")
def test_temp_with_many_entities_corrects_negatives_and_seldom_ranks_valid() -> None:
    few, many = (
        configure(graph_of_shape(100_000, entities, 300), "temp-gru", GPU).train
        for entities in (MANY_ENTITIES - 1, MANY_ENTITIES)
    )
    assert (few.negative_sampling, many.negative_sampling) == ("uncorrected", "frequency")
    assert (few.validate_every, many.validate_every) == (1, 5)
    # Training goes on for equally many epochs without a better model.
    assert few.patience * few.validate_every == many.patience * many.validate_every


def test_the_pointer_lays_out_few_candidates_of_many_entities() -> None:
    graph: Any = SimpleNamespace(
        name="made",
        train=range(10**6),
        entities=["Ann Lee"] * 10**5,
        times=range(10),
        attributes={},
        has_intervals=False,
    )
    settings = configure(graph, "pointer", CPU).model
    assert (settings.counts, settings.paths, settings.names) == ("voting", False, False)
    graph.has_intervals = True
    assert configure(graph, "pointer", CPU).model.counts == "all"
    assert configure(graph, "pointer", CPU).train.facts_per_step == 2000
    assert configure(graph_of_shape(3, 5, 3), "pointer", CPU).model.counts == "all"


def test_few_facts_that_hold_for_a_while_are_not_learned_by_heart() -> None:
    graph: Any = SimpleNamespace(
        name="made",
        train=range(20_000),
        entities=["Ann Lee", "Bob Lee"] * 5000,
        times=range(3000),
        attributes={},
        has_intervals=True,
    )
    settings = configure(graph, "pointer", CPU)
    assert (settings.model.prior, settings.model.names) == ("counts", False)
    assert settings.model.max_similar and settings.model.candidate_facts
    assert settings.train.epochs <= 6
    assert configure(graph, "temp-pointer", CPU).model.parts == ("pointer", "tntcomplex")
    graph.train = range(100_000)
    assert "temp-gru" in configure(graph, "temp-pointer", CPU).model.parts
    settings = configure(graph, "pointer", CPU)
    assert (settings.model.prior, settings.model.names) == ("entities", True)
    assert settings.model.candidate_facts
    graph.times = range(10**6)
    assert not configure(graph, "pointer", CPU).model.candidate_facts, "its table is too large"
    graph.times, graph.train = range(100), range(600_000)
    assert not configure(graph, "pointer", CPU).model.candidate_facts, "it takes hours"
    graph.has_intervals, graph.train = False, range(20_000)
    settings = configure(graph, "pointer", CPU)
    assert (settings.model.prior, settings.model.names) == ("entities", True)
    assert not settings.model.max_similar and not settings.model.candidate_facts


@pytest.mark.parametrize(
    ("names", "attributes", "matter"),
    [
        (("Police (India)", "Citizen (India)", "Ann", "Bob"), {}, True),
        (("Police (India)", "Citizen (India)", "Ann", "Bob", "Cai"), {}, False),
        (("Ann Ann", "Bob"), {}, False),
        (("entity 1", "entity 2", "entity 3"), {}, False),
        (("Ann", "Bob"), {"type": ("person", "")}, True),
    ],
)
def test_names_matter_if_half_of_them_share_words_or_there_are_attributes(
    names: tuple[str, ...], attributes: dict[str, tuple[str, ...]], matter: bool
) -> None:
    graph = dataclasses.replace(
        graph_of_shape(3, len(names), 3), entities=names, attributes=attributes
    )
    assert configure(graph, "pointer", CPU).model.names is matter


@pytest.mark.usefixtures("h200")
def test_an_ensemble_does_without_factored_embeddings_if_there_is_much_to_do() -> None:
    small, large = (graph_of_shape(*shape) for shape in (SHAPES["icews05-15"], LARGE))
    preset = configure(dataclasses.replace(small, name="icews05-15"), "temp-pointer", GPU)
    assert preset.model.parts == ("pointer", "temp-gru", "tntcomplex")
    config = configure(large, "temp-pointer", GPU)
    assert config.model.parts == ("pointer", "temp-gru")
    assert config.model.max_facts < preset.model.max_facts
    assert configure(large, "ensemble", GPU).model == configure(small, "ensemble", GPU).model


@pytest.mark.usefixtures("h200")
def test_a_step_of_temp_takes_fewer_times_if_they_have_many_facts() -> None:
    """27 of them took 94 GB of an H200."""
    train = configure(graph_of_shape(*LARGE), "temp-gru", GPU).train
    assert (train.times_per_step, train.epochs) == (4, 30)
    facts, entities, steps = LARGE
    assert train.times_per_step * 2 * math.ceil(facts / steps) * entities * 4 <= 2**30


@pytest.mark.parametrize("entities", [5_000, MANY_ENTITIES])
def test_a_step_of_temp_on_a_cpu_takes_fewer_times_if_there_are_many_messages(
    entities: int,
) -> None:
    """100 steps of 10,000 facts would take 25 GB for the messages in eight windows."""
    dense = configure(graph_of_shape(1_000_000, entities, 100), "temp-gru", CPU).train
    sparse = configure(graph_of_shape(*SHAPES["icews14"]), "temp-gru", CPU).train
    assert (dense.times_per_step, sparse.times_per_step) == (1, 8)


def test_names_go_to_the_gate_and_to_the_parts_that_gain_by_them() -> None:
    names = ("Police (India)", "Citizen (India)", "Ann", "Bob")
    graph = dataclasses.replace(graph_of_shape(3, 4, 3), entities=names)
    ensemble = configure(graph, "temp-pointer", CPU)
    assert ensemble.model.names
    parts = part_configs(ensemble, graph, CPU)
    assert [(part.name, part.model.names) for part in parts] == [
        ("pointer", True),
        ("temp-gru", True),
        ("tntcomplex", False),
    ]
    without = configure(graph, "temp-pointer", CPU, overrides=["model.names=false"])
    assert not part_configs(without, graph, CPU)[1].model.names


@pytest.mark.usefixtures("h200")
def test_facts_that_hold_for_long_take_smaller_steps() -> None:
    """Each is an edge of many snapshots, and each vote of one is listed."""
    events = graph_of_shape(1_000_000, 1000, 400)
    spans = np.zeros((len(events.train), 6), dtype=np.int64)
    spans[:, 4] = 200
    empty = spans[:0]
    intervals = dataclasses.replace(events, train=spans, valid=empty, test=empty)
    for model, name in (("temp-gru", "train.times_per_step"), ("pointer", "model.max_facts")):
        short, long = (configure(graph, model, GPU).flat()[name] for graph in (events, intervals))
        assert isinstance(short, int) and isinstance(long, int) and 1 <= long < short
    assert long == 1024
