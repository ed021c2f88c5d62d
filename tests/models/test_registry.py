"""The registry, the models of other packages and the contract of every model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch import Tensor

import tempograph
from graphs import make_graph
from messages import raises
from tempograph import models
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import ConfigError, TempographWarning
from tempograph.models import registry
from tempograph.models.base import Evidence, Model
from tempograph.models.registry import MODELS, ModelKind, ModelRegistry, model_kind
from tempograph.training import recipes
from tempograph.training.config import make_config
from tempograph.training.recipes import Recipe, recipe_for, register_recipe
from tempograph.typing import MODEL_ENTRY_POINTS

GRAPH = make_graph([(0, 0, 1, 0), (0, 0, 1, 1), (2, 0, 1, 1)], valid=[(0, 0, 2, 2)])


@dataclass(frozen=True)
class PopularSettings:
    smoothing: float = 1.0


class Popular(Model):
    """Ranks entities by how many train facts name them."""

    name = "popular"
    bytes_per_candidate = 16

    def __init__(self, timeline: Timeline, smoothing: float) -> None:
        super().__init__()
        named = timeline.facts[:, [0, 2]].flatten()
        counts = torch.bincount(named, minlength=timeline.num_entities) + smoothing
        self.register_buffer("counts", counts.double())

    @property
    def device(self) -> torch.device:
        return self.counts.device

    def scores(self, queries: Queries) -> Tensor:
        return self.counts.expand(len(queries.time), -1)

    def evidence(self, query: Queries, answer: int) -> Evidence:
        return Evidence("popularity", torch.empty(0, 4, dtype=torch.int64))


KIND = ModelKind(
    name="popular",
    summary="popularity",
    formula="count(o)",
    time_dependent="nothing",
    reference="a test",
    settings=PopularSettings,
    build=lambda settings, timeline: Popular(timeline, settings.smoothing),
)
NOT_A_KIND = 3


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> object:
    """Fake an installed package with one entry point; what is loaded is forgotten after."""
    loads: list[str] = []

    class Counted(EntryPoint):
        def load(self) -> object:
            loads.append(self.value)
            return super().load()

    def fake(value: str) -> list[str]:
        entry = Counted("popular", value, MODEL_ENTRY_POINTS)
        dist = type("Distribution", (), {"name": "mypackage"})()
        entry = entry._for(dist)  # type: ignore[attr-defined]
        monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
        MODELS.__dict__.pop("_kinds", None)
        return loads

    monkeypatch.setattr(recipes, "_RECIPES", dict(recipes._RECIPES))
    yield fake
    MODELS.__dict__.pop("_kinds", None)


def test_an_entry_point_adds_a_model(install, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    loads = install(f"{__name__}:KIND")
    assert MODELS["popular"] is KIND and "popular" in MODELS and "ted" in MODELS
    assert len(MODELS) == len(list(MODELS)) and loads == [f"{__name__}:KIND"], "loaded once"
    assert MODELS.package("popular") == "package 'mypackage'"
    missing = {"model": "popular", "settings": "PopularSettings"}
    with raises(ConfigError, "recipes.none_in_package", package="mypackage", **missing):
        recipe_for(KIND)
    with raises(ConfigError, "recipes.none", **missing | {"model": "other"}):
        recipe_for(replace(KIND, name="other"))
    nothing_to_train = Recipe(choose=lambda settings, *_: settings)
    register_recipe(PopularSettings, nothing_to_train)
    with raises(ConfigError, "recipes.twice", settings="PopularSettings"):
        register_recipe(PopularSettings, nothing_to_train)
    run = tempograph.train(
        GRAPH, "popular", overrides=["model.smoothing=2"], out=tmp_path / "run", device="cpu"
    )
    again = tempograph.Run.load(tmp_path / "run")
    query = Queries(*torch.zeros(3, 1, dtype=torch.int64))
    assert again.model.scores(query)[0].tolist() == run.model.scores(query)[0].tolist()
    assert run.model.scores(query)[0].tolist()[:3] == [4.0, 5.0, 3.0]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("no_such_module:KIND", "cannot be loaded .ModuleNotFoundError"),
        (f"{__name__}:MISSING", "cannot be loaded .AttributeError"),
        (f"{__name__}:NOT_A_KIND", "is not a ModelKind but int"),
    ],
)
def test_a_broken_entry_point_names_its_package(install, value: str, problem: str) -> None:  # type: ignore[no-untyped-def]
    install(value)
    problem = f"^package 'mypackage': entry point popular.*{problem}"
    with pytest.raises(ConfigError, match=problem):
        model_kind("popular")
    with pytest.warns(TempographWarning, match=problem):
        assert "ted" in MODELS
    assert "popular" not in MODELS and MODELS.package("ted") is None


def test_no_package_replaces_a_model(install) -> None:  # type: ignore[no-untyped-def]
    install(f"{__name__}:KIND")
    registry = ModelRegistry([KIND])
    with pytest.warns(TempographWarning, match="adds a model 'popular', which exists already;"):
        assert registry["popular"] is KIND
    assert registry.problem("popular") is None, "the model itself can be used"


def test_every_model_is_exported() -> None:
    for name in models.__all__:
        assert issubclass(getattr(models, name), Model)
    exported = {getattr(models, name) for name in models.__all__}
    single = [kind for kind in MODELS.values() if not kind.has_parts]
    for kind in single:
        settings = make_config(kind.name, GRAPH.name).model
        if kind.name == "ted":
            settings = type(settings)(sigma=0.1)
        assert type(kind.build(settings, Timeline(GRAPH))) in exported


def test_the_contract_says_what_callers_need() -> None:
    timeline = Timeline(GRAPH)
    ted = models.TED(timeline, 0.5)
    pointer = MODELS["pointer"].build(make_config("pointer", GRAPH.name).model, timeline)
    config = make_config("temp-gru", GRAPH.name, overrides=["model.dim=8", "model.window=3"])
    temp = MODELS["temp-gru"].build(config.model, timeline)
    assert (ted.window, pointer.window, temp.window) == (None, None, (3, 3))
    assert ted.num_parameters == 0 and temp.num_parameters > 0
    assert ted.uses_train_facts and temp.uses_train_facts and temp.caches == ()
    cached = temp.with_timeline(timeline, cache_bytes=2**20)
    assert cached.window == (3, 3) and [cache.budget for cache in cached.caches] == [2**20]
    settings = make_config("ensemble", GRAPH.name).model
    ensemble = MODELS["ensemble"].build(settings, timeline, pointer, temp)
    assert ensemble.window is None
    gates = sum(weight.numel() for weight in ensemble.parameters())
    assert ensemble.num_parameters == gates + pointer.num_parameters + temp.num_parameters
    assert [cache.budget for cache in ensemble.with_timeline(timeline, 2**20).caches] == [2**19]


def test_settings_keep_their_earlier_spellings() -> None:
    old = ["model.most=5", "model.most_of_relation=6", "model.most_of_both=7"]
    new = ["model.max_facts=5", "model.max_facts_per_relation=6", "model.max_facts_per_pair=7"]
    one, other = (make_config("pointer", "demo", overrides=each) for each in (old, new))
    assert one == other and one.model.max_facts_per_pair == 7 and "max_facts = 5" in one.to_toml()
    old = ["model.through_others=false", "model.facts=8", "model.questions_per_step=9"]
    new = ["model.common_neighbors=false", "model.max_facts=8", "model.queries_per_step=9"]
    one, other = (make_config("temp-pointer", "demo", overrides=each) for each in (old, new))
    assert one == other and not one.model.common_neighbors and one.model.queries_per_step == 9
