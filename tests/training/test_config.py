"""Settings: presets, overrides, and mistakes that must not pass in silence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import ClassVar, Literal, get_args, get_type_hints

import pytest

from messages import raises
from tempograph.errors import ConfigError
from tempograph.experiments.forecast_tables import FORECAST_DATASETS
from tempograph.experiments.interval_tables import INTERVAL_DATASETS, published_intervals
from tempograph.experiments.published import PAPER_TEST, PROTOCOL_DEPENDENT
from tempograph.experiments.results import load_results, metric
from tempograph.experiments.specs import RunSpec
from tempograph.models.registry import MODELS, model_kind
from tempograph.models.ted import TEDSettings
from tempograph.training.config import Config, make_config
from tempograph.training.preset_files import parse_toml, shipped_presets
from tempograph.training.recipes import recipe_for
from tempograph.training.setting_values import make_settings
from tempograph.typing import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    NumberBounds,
    PositiveFloat,
    PositiveInt,
    ProperFraction,
    check_bounds,
)


@dataclass(frozen=True)
class Example:
    rate: float = 0.5
    layers: int = 2
    gate: bool = True
    kind: Literal["gru", "attention"] = "gru"
    parts: tuple[str, ...] = ()


def test_values_are_checked_by_type() -> None:
    assert make_settings(Example, {"rate": 1, "gate": False}, "x") == Example(1, gate=False)
    assert make_settings(Example, {"parts": ["a", "b"]}, "x") == Example(parts=("a", "b"))
    for setting, value, kind in (
        ("rate", "fast", "a number"),
        ("layers", 1.5, "a whole number"),
        ("layers", True, "a whole number"),
        ("gate", 1, "true or false"),
        ("kind", "lstm", "'gru' or 'attention'"),
        ("parts", "a", 'a list of text, such as ["a", "b"]'),
        ("parts", ["a", 1], 'a list of text, such as ["a", "b"]'),
    ):
        fault = {"owner": "x", "setting": setting, "kind": kind, "value": value}
        with raises(ConfigError, "setting_values.wrong_type", **fault):
            make_settings(Example, {setting: value}, "x")
    typo = {"owner": "x", "setting": "layer", "names": "'layers'"}
    with raises(ConfigError, "setting_values.misspelt", **typo):
        make_settings(Example, {"layer": 1}, "x")


@dataclass(frozen=True)
class Renamed:
    aliases: ClassVar = {"speed": "rate"}
    rate: float = 0.5


def test_earlier_spellings_of_settings_are_accepted() -> None:
    assert (
        make_settings(Renamed, {"speed": 2.0}, "x")
        == make_settings(Renamed, {"rate": 2.0}, "x")
        == Renamed(2.0)
    )
    assert make_settings(Renamed, {"rate": 1.0, "speed": 2.0}, "x") == Renamed(2.0), (
        "the later one counts"
    )
    fault = {"owner": "x", "setting": "speed", "kind": "a number", "value": "fast"}
    with raises(ConfigError, "setting_values.wrong_type", **fault):
        make_settings(Renamed, {"speed": "fast"}, "x")
    with raises(ConfigError, "setting_values.unknown", owner="x", setting="aliases"):
        make_settings(Renamed, {"aliases": {}}, "x")


@dataclass(frozen=True)
class Bounded:
    count: PositiveInt = 1
    natural: NonNegativeInt = 0
    amount: NonNegativeFloat = 0.0
    positive: PositiveFloat = 0.1
    share: Fraction = 1.0
    part: ProperFraction = 0.0
    free: int = -5

    def __post_init__(self) -> None:
        check_bounds(self)


def test_numbers_stay_within_the_bounds_of_their_types() -> None:
    assert (
        Bounded(count=10**9, natural=10**9, amount=1e9, positive=1e9, share=0.0, part=0.999).free
        == -5
    )
    for name, value, bounds in (
        ("count", 0, "at least 1"),
        ("natural", -1, "at least 0"),
        ("amount", -1e-9, "at least 0"),
        ("positive", 0.0, "above 0"),
        ("share", 1.001, "between 0 and 1"),
        ("share", -0.001, "between 0 and 1"),
        ("part", 1.0, "at least 0 and below 1"),
        ("amount", math.nan, "at least 0"),
        ("positive", math.nan, "above 0"),
        ("share", math.nan, "between 0 and 1"),
        ("part", math.nan, "at least 0 and below 1"),
    ):
        with raises(ConfigError, "typing.bounds", setting=name, bounds=bounds, value=value):
            make_settings(Bounded, {name: value}, "x")


def bounded(settings: type) -> list[str]:
    hints = get_type_hints(settings, include_extras=True)
    return [
        name
        for name, hint in hints.items()
        if any(isinstance(each, NumberBounds) for each in get_args(hint))
    ]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "ted"])
def test_no_model_accepts_a_number_out_of_bounds(name: str) -> None:
    kind = model_kind(name)
    tables = [
        ("model", kind.settings),
        *([("train", gradient.settings)] if (gradient := recipe_for(kind).gradient) else []),
    ]
    for section, settings in tables:
        assert bounded(settings)
        for setting in bounded(settings):
            with pytest.raises(ConfigError, match=f"^{setting} must be "):
                make_config(name, "icews14", overrides=[f"{section}.{setting}=-1"])


def test_overrides_beat_presets_beat_defaults() -> None:
    assert make_config("ted", "icews14").model == TEDSettings("auto")
    assert make_config("ted", "icews14", preset="paper").model == TEDSettings(0.1)
    assert make_config(
        "ted", "icews14", preset="paper", overrides=["model.sigma=1e-5"]
    ).model == TEDSettings(1e-5)
    assert make_config("ted", "icews14", overrides=["model.sigma=auto"]).model == TEDSettings(
        "auto"
    )


@pytest.mark.parametrize(
    ("override", "name", "values"),
    [
        ("sigma=1", "setting_values.not_an_override", {}),
        ("model.sigma", "setting_values.not_an_override", {}),
        ("train.epochs=1", "config.no_gradient", {"model": "ted"}),
        ("trian.epochs=1", "setting_values.no_section", {"section": "trian"}),
        (
            "model.sigmma=1",
            "setting_values.misspelt",
            {"owner": "model ted", "setting": "sigmma", "names": "'sigma'"},
        ),
        ("model.sigma=-1", "ted.sigma", {"value": -1}),
        (
            "model.sigma=true",
            "setting_values.wrong_type",
            {"owner": "model ted", "setting": "sigma", "kind": "a number or text", "value": True},
        ),
    ],
)
def test_a_wrong_override_is_named(override: str, name: str, values: dict[str, object]) -> None:
    with raises(ConfigError, name, override=override, **values):
        make_config("ted", "icews14", overrides=[override])


def test_a_config_is_read_as_it_was_written() -> None:
    config = make_config(
        "ted",
        'odd "name"\\ \n',
        protocol="paper",
        seed=7,
        preset=None,
        overrides=["model.sigma=0.25"],
    )
    assert Config.from_toml(config.to_toml(), "config.toml") == config
    lists = make_config(
        "ensemble", "icews14", overrides=['model.parts=["runs/a \\"b\\"", "complex:tuned"]']
    )
    assert lists.model.parts == ('runs/a "b"', "complex:tuned")
    assert Config.from_toml(lists.to_toml(), "config.toml") == lists
    paper = make_config("ted", "icews14", preset="paper")
    assert (
        Config.from_toml(paper.to_toml(), "config.toml") == paper
        and paper.target["test/mrr"] == 0.441
    )


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("[run]\nname = 'ted'\n", "config.lacks_setting", {"setting": "dataset"}),
        (
            "[run]\nname = 'ted'\ndataset = 'x'\nseed = 'one'\n",
            "setting_values.wrong_type",
            {"owner": "c.toml: [run]", "setting": "seed", "kind": "a whole number", "value": "one"},
        ),
        (
            "[run\n",
            "preset_files.not_toml",
            {"reason": "Expected ']' at the end of a table declaration (at line 1, column 5)"},
        ),
        ("[modle]\n", "preset_files.unknown_table", {"table": "modle", "names": "'model'"}),
    ],
)
def test_a_wrong_file_is_named(text: str, name: str, values: dict[str, str]) -> None:
    with raises(ConfigError, name, path="c.toml", **values):
        Config.from_toml(text, "c.toml")


def test_unknown_models_and_presets_are_named(tmp_path: Path) -> None:
    typo = {"kind": "model", "value": "tedd", "names": "'ted'"}
    with raises(ConfigError, "suggestions.did_you_mean", **typo):
        model_kind("tedd")
    wrong = {"kind": "model", "value": "xyzzy", "names": ", ".join(MODELS)}
    with raises(ConfigError, "suggestions.choose", **wrong):
        model_kind("xyzzy")
    presets = "gdelt.paper, icews05-15.paper, icews14.paper"
    fault = {"model": "ted", "preset": "papre", "dataset": "icews14", "presets": presets}
    with raises(ConfigError, "preset_files.no_preset", **fault):
        make_config("ted", "icews14", preset="papre")
    gone, run, odd = (tmp_path / f"{name}.toml" for name in ("gone", "run", "odd"))
    with raises(ConfigError, "preset_files.no_file", path=gone):
        make_config("ted", "icews14", preset=str(gone))
    run.write_text('[run]\nprotocol = "paper"\n')
    with raises(ConfigError, "preset_files.run_table", path=run):
        make_config("ted", "icews14", preset=str(run))
    odd.write_bytes(b"[model]\nsigma = 1 # \xff\n")
    with raises(ConfigError, "preset_files.not_utf8", path=odd):
        make_config("ted", "icews14", preset=str(odd))


def test_every_shipped_preset_loads() -> None:
    presets = resources.files("tempograph") / "training" / "presets"
    files = [file for folder in presets.iterdir() for file in folder.iterdir()]
    assert len(files) == 91
    for file in files:
        tables = parse_toml(file.read_text(encoding="utf-8"), file.name)
        dataset, preset, _ = file.name.split(".")
        (model,) = (name for name in MODELS if f"presets/{name}/" in file.as_posix())
        assert make_config(model, dataset, preset=preset).target == tables.get("target", {})
        without = "No figure to reach" in file.read_text(encoding="utf-8")
        assert bool(tables.get("target")) != without, (
            "a preset carries the figure it must reach, or says there is none"
        )


def test_only_published_figures_are_targets_on_test() -> None:
    """A preset of ours aims at valid: test is ranked once its settings are chosen."""
    own = (*PROTOCOL_DEPENDENT, "pointer", "temp-pointer")
    for model in MODELS:
        for name in shipped_presets(model):
            dataset, _, preset = name.rpartition(".")
            target = make_config(model, dataset, preset=preset).target
            if dataset in INTERVAL_DATASETS:
                paper = [f"paper/test/{metric}" for metric in ("mrr", "hits@1", "hits@10")]
                assert target.keys() <= {"valid/mrr", *paper}, f"{model} {name}"
                published = [tuple(row.ranking) for row in published_intervals(dataset)]
                goal = tuple(round(100 * target[each], 1) for each in paper if each in target)
                assert goal in [row[: len(goal)] for row in published], f"{model} {name}"
            elif dataset in FORECAST_DATASETS or (model in own and preset != "paper"):
                assert target.keys() <= {"valid/mrr"}, f"{model} {name}"
            elif model in PAPER_TEST[dataset] and target:
                mrr, *hits = PAPER_TEST[dataset][model]
                printed = (mrr, *(None if one is None else round(one / 100, 3) for one in hits))
                metrics = ("mrr", "hits@1", "hits@3", "hits@10")
                published = dict(zip(metrics, printed, strict=True))
                assert target == {
                    f"test/{metric}": figure
                    for metric, figure in published.items()
                    if figure is not None
                }, f"{model} {name}"


def test_measured_runs_reach_the_valid_targets_of_their_presets() -> None:
    checked = 0
    for run in load_results(Path(__file__).parents[2] / "results", ("valid",)):
        spec = RunSpec(run.dataset, run.model, run.protocol, run.seed, run.preset)
        if run.preset is not None and spec.matches(run):
            target = make_config(run.model, run.dataset, preset=run.preset).target
            if "valid/mrr" in target:
                assert target["valid/mrr"] <= metric([run], "valid", "mrr")[0], spec.name
                checked += 1
    assert checked >= 10
