"""Settings: presets, overrides, and mistakes that must not pass in silence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import ClassVar, Literal, get_args, get_type_hints

import pytest

from tempograph.errors import ConfigError
from tempograph.models.registry import MODELS, model_kind
from tempograph.models.ted import TEDSettings
from tempograph.training.config import Config, make_config
from tempograph.training.preset_files import parse_toml
from tempograph.training.recipes import recipe_for
from tempograph.training.setting_values import make_settings
from tempograph.typing import (
    Bounds,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
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
    for values, message in (
        ({"rate": "fast"}, "x: rate must be a number, found 'fast'"),
        ({"layers": 1.5}, "x: layers must be a whole number, found 1.5"),
        ({"layers": True}, "x: layers must be a whole number, found True"),
        ({"gate": 1}, "x: gate must be true or false, found 1"),
        ({"kind": "lstm"}, "x: kind must be 'gru' or 'attention', found 'lstm'"),
        ({"parts": "a"}, 'x: parts must be a list of text, such as ["a", "b"], found \'a\''),
        (
            {"parts": ["a", 1]},
            'x: parts must be a list of text, such as ["a", "b"], found [\'a\', 1]',
        ),
        ({"layer": 1}, "x has no setting 'layer'; did you mean 'layers'?"),
    ):
        with pytest.raises(ConfigError) as caught:
            make_settings(Example, values, "x")
        assert str(caught.value) == message


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
    for values, message in (
        ({"speed": "fast"}, "x: speed must be a number, found 'fast'"),
        ({"aliases": {}}, "x has no setting 'aliases'"),
    ):
        with pytest.raises(ConfigError) as caught:
            make_settings(Renamed, values, "x")
        assert str(caught.value) == message


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
    for name, value, message in (
        ("count", 0, "at least 1"),
        ("natural", -1, "at least 0"),
        ("amount", -1e-9, "at least 0"),
        ("positive", 0.0, "above 0"),
        ("share", 1.001, "between 0 and 1"),
        ("share", -0.001, "between 0 and 1"),
        ("part", 1.0, "at least 0 and below 1"),
        *((name, math.nan, "") for name in ("amount", "positive", "share", "part")),
    ):
        with pytest.raises(ConfigError, match=f"^{name} must be {message}.*, found {value}$"):
            make_settings(Bounded, {name: value}, "x")


def bounded(settings: type) -> list[str]:
    hints = get_type_hints(settings, include_extras=True)
    return [
        name
        for name, hint in hints.items()
        if any(isinstance(each, Bounds) for each in get_args(hint))
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
    ("override", "message"),
    [
        ("sigma=1", "'sigma=1' is not an override; write section.setting=value"),
        ("model.sigma", "'model.sigma' is not an override"),
        ("train.epochs=1", "ted is not trained by gradient and has no settings under train"),
        ("trian.epochs=1", "there is no section 'trian'"),
        ("model.sigmma=1", "model ted has no setting 'sigmma'; did you mean 'sigma'?"),
        ("model.sigma=-1", "sigma must be a number of at least 0 or 'auto', found -1"),
        ("model.sigma=true", "model ted: sigma must be a number or text, found True"),
    ],
)
def test_a_wrong_override_is_named(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config("ted", "icews14", overrides=[override])
    assert message in str(caught.value)


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
    ("text", "message"),
    [
        ("[run]\nname = 'ted'\n", "c.toml: \\[run\\] lacks the setting 'dataset'"),
        (
            "[run]\nname = 'ted'\ndataset = 'x'\nseed = 'one'\n",
            "c.toml: \\[run\\]: seed must be a whole number, found 'one'",
        ),
        ("[run\n", "c.toml: Expected"),
        ("[modle]\n", "c.toml: unknown table or setting 'modle'; did you mean 'model'"),
    ],
)
def test_a_wrong_file_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.from_toml(text, "c.toml")


def test_unknown_models_and_presets_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no model 'tedd'; did you mean 'ted'?"):
        model_kind("tedd")
    with pytest.raises(
        ConfigError, match="there is no model 'xyzzy'; choose from ted, transe, distmult"
    ):
        model_kind("xyzzy")
    with pytest.raises(
        ConfigError,
        match="ted has no preset 'papre' for dataset icews14; there are gdelt.paper, icews",
    ):
        make_config("ted", "icews14", preset="papre")
    with pytest.raises(ConfigError, match="gone.toml: no such preset file"):
        make_config("ted", "icews14", preset=str(tmp_path / "gone.toml"))
    (tmp_path / "run.toml").write_text('[run]\nprotocol = "paper"\n')
    with pytest.raises(
        ConfigError, match="run.toml: a preset has no table 'run'; pass --protocol and --seed"
    ):
        make_config("ted", "icews14", preset=str(tmp_path / "run.toml"))
    (tmp_path / "odd.toml").write_bytes(b"[model]\nsigma = 1 # \xff\n")
    with pytest.raises(ConfigError, match="odd.toml: cannot be read: it is not UTF-8"):
        make_config("ted", "icews14", preset=str(tmp_path / "odd.toml"))


def test_every_shipped_preset_loads() -> None:
    presets = resources.files("tempograph") / "training" / "presets"
    files = [file for folder in presets.iterdir() for file in folder.iterdir()]
    assert len(files) == 75
    for file in files:
        tables = parse_toml(file.read_text(encoding="utf-8"), file.name)
        dataset, preset, _ = file.name.split(".")
        (model,) = (name for name in MODELS if f"presets/{name}/" in file.as_posix())
        assert make_config(model, dataset, preset=preset).target == tables.get("target", {})
        without = "No figure to reach" in file.read_text(encoding="utf-8")
        assert bool(tables.get("target")) != without, (
            "a preset carries the figure it must reach, or says there is none"
        )
