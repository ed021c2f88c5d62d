"""The three rules of forecasts: every model of ours obeys them, and planted cheats are found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import tempograph
from conftest import Call, as_json
from forecasting import SMALL, tiny_world
from messages import message, raises
from tempograph.data.folder import read_folder, write_folder
from tempograph.data.graph import Facts
from tempograph.data.timeline import Queries, Timeline, both_directions
from tempograph.errors import ConfigError, DataError, RunError
from tempograph.evaluation import history
from tempograph.experiments.run_audit import audit
from tempograph.models.base import Model
from tempograph.models.recurrency import Recurrency
from tempograph.models.registry import MODELS, ModelKind
from tempograph.training import recipes
from tempograph.training.recipes import Recipe, register_recipe

STORED = Path(__file__).parents[1] / "stored" / "format-1"
PAST, ALONE, SPLITS = "Only the past is seen", "Each query is scored alone", "Splits are not mixed"
FILES = "The graph is what the files hold"
NAMES = [
    *(SPLITS, FILES, PAST, ALONE, "An independent ranker agrees", "The filter contains the time"),
    *("Results agree on valid", "Results agree on test", "Multi-step results agree on test"),
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a forecaster that is evaluated under both protocols, made once."""
    root = tmp_path_factory.mktemp("forecasters")

    def make(model: str) -> Path:
        if not (root / model).exists():
            run = tempograph.train(
                tiny_world(),
                model,
                task="forecast",
                out=root / model,
                overrides=SMALL[model],
                device="cpu",
            )
            tempograph.evaluate(run, "test")
            tempograph.evaluate(run, "test", protocol="forecast-multi")
        return root / model

    return make


def failures(folder: Path, num_facts: int = 12) -> dict[str, str]:
    """Audit a run; the checks that fail, with what was compared."""
    checks = audit(folder, num_facts=num_facts, device="cpu")["checks"]
    return {check["name"]: check["detail"] for check in checks if not check["holds"]}


@pytest.mark.parametrize("model", [model for model in MODELS if model != "srgcn"])
def test_every_model_obeys_the_rules(run_folder: Callable[[str], Path], model: str) -> None:
    summary = audit(run_folder(model), num_facts=12, device="cpu")
    assert [check["name"] for check in summary["checks"]] == NAMES
    assert summary["holds"], [check for check in summary["checks"] if not check["holds"]]
    compared = {check["name"]: check["detail"] for check in summary["checks"]}
    assert compared[SPLITS] == (
        "all facts are those of the training; train is 2030-01-01 to 2030-01-06, "
        "valid is 2030-01-07 to 2030-01-08, test is 2030-01-09 to 2030-01-10"
    )
    assert compared[PAST] == (
        "all facts from 2030-01-09, 2030-01-10 on replaced by random ones: scores of 24 queries "
        "at these steps are equal bit for bit; multi-step, with all test facts replaced: "
        "equal bit for bit"
    )
    assert tempograph.Run.load(run_folder(model)).results.audit == summary


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("srgcn", []),
        ("ensemble", ['model.parts=["complex", "srgcn"]']),
        ("temp-gru", ["model.temporal=none", "model.gate=false", "model.imputation=false"]),
    ],
)
def test_a_model_that_would_see_no_facts_is_refused(
    tmp_path: Path, model: str, settings: list[str]
) -> None:
    part = model if model == "temp-gru" else "srgcn"
    with raises(ConfigError, "setup.no_past", model=part):
        tempograph.train(
            tiny_world(), model, task="forecast", out=tmp_path / "run", overrides=settings
        )
    assert list(tmp_path.iterdir()) == []


def favour(self: Model, queries: Queries, scores: Tensor, shown: Tensor) -> Tensor:
    """Scores a little higher for answers that facts [n, 4] show: of either side, at their time."""
    entity, relation, answer, time = both_directions(shown, self.timeline.num_relations).T
    asked = torch.stack(queries)[:, :, None] == torch.stack([entity, relation, time])[:, None]
    row, fact = asked.all(0).nonzero().T
    scores = scores.clone()
    scores[row, answer[fact]] += 1e-9
    return scores


def same_day(self: Model, queries: Queries, scores: Tensor) -> Tensor:
    """The facts that are asked about are looked up."""
    return favour(self, queries, scores, self.timeline.facts)


def tomorrow(self: Model, queries: Queries, scores: Tensor) -> Tensor:
    """The facts of the day after are looked up."""
    shift = torch.tensor([0, 0, 0, 1])
    return favour(self, queries, scores, self.timeline.facts - shift)


def how_many(self: Model, queries: Queries, scores: Tensor) -> Tensor:
    """The most frequent entities of the day asked about gain a little."""
    facts = self.timeline.facts
    entities = self.timeline.num_entities
    counts = torch.bincount(facts[:, 3] * entities + facts[:, 2], minlength=1000).double()
    return scores + 1e-9 * counts[queries.time[:, None] * entities + torch.arange(entities)]


@pytest.mark.parametrize("model", ["recurrency", "ted", "complex"])
@pytest.mark.parametrize("cheat", [same_day, tomorrow, how_many])
def test_a_model_that_sees_later_facts_fails(
    run_folder: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    cheat: Callable[[Model, Queries, Tensor], Tensor],
) -> None:
    folder = run_folder(model)
    kind = type(tempograph.Run.load(folder).model)
    honest = kind.scores
    monkeypatch.setattr(kind, "scores", lambda self, asked: cheat(self, asked, honest(self, asked)))
    found = failures(folder)
    assert PAST in found and "largest relative difference" in found[PAST]
    assert ALONE not in found


def test_facts_of_the_same_day_in_a_baseline_fail(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An off-by-one error instead of a cheat: the index is asked one step too late."""
    folder, honest = run_folder("edgebank"), Recurrency._repeated

    def one_step_late(self: Recurrency, queries: Queries) -> tuple[Tensor, Tensor, Tensor]:
        later = (queries.time + 1).clamp(max=self.timeline.num_steps - 1)
        return honest(self, queries._replace(time=later))

    monkeypatch.setattr(Recurrency, "_repeated", one_step_late)
    assert PAST in failures(folder)


def test_a_history_that_does_not_end_fails_in_multi_step(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, honest = run_folder("recurrency"), history.history_facts

    def with_test(graph: tempograph.TemporalGraph, *_: object) -> Facts:
        return honest(graph, "test", "forecast-single")

    monkeypatch.setattr(history, "history_facts", with_test)
    history._timeline.cache_clear()
    found = failures(folder)
    history._timeline.cache_clear()
    assert found.keys() == {PAST, "Multi-step results agree on test"}
    assert "equal bit for bit; multi-step" in found[PAST]


def whole_batch(self: Model, queries: Queries, scores: Tensor) -> Tensor:
    """The entities of all queries about the same day gain a little."""
    row, other = (queries.time[:, None] == queries.time).nonzero().unbind(1)
    scores = scores.clone()
    scores[row, queries.entity[other]] += 1e-3
    return scores


def remembered(self: Model, queries: Queries, scores: Tensor) -> Tensor:
    """The entities of all queries so far gain a little."""
    kept = vars(self).setdefault("kept", set())
    kept |= set(queries.entity.tolist())
    scores = scores.clone()
    scores[:, sorted(kept)] += 1e-3
    return scores


@pytest.mark.parametrize("model", ["history-frequency", "tntcomplex", "pointer"])
@pytest.mark.parametrize("cheat", [whole_batch, remembered])
def test_a_model_that_sees_other_queries_fails(
    run_folder: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    cheat: Callable[[Model, Queries, Tensor], Tensor],
) -> None:
    """As in code that writes the day's queries into the vectors of entities."""
    folder = run_folder(model)
    kind = type(tempograph.Run.load(folder).model)
    honest = kind.scores
    monkeypatch.setattr(kind, "scores", lambda self, asked: cheat(self, asked, honest(self, asked)))
    assert ALONE in failures(folder)


@dataclass(frozen=True)
class CountingSettings:
    past_only: bool = True


class Counting(Model):
    """A model of another package that has only what the contract demands of a forecaster."""

    name = "counting"
    bytes_per_candidate = 16

    def __init__(self, timeline: Timeline, settings: CountingSettings) -> None:
        super().__init__()
        self.timeline, self.settings = timeline, settings

    def scores(self, queries: Queries) -> Tensor:
        counts = torch.zeros(len(queries.time), self.timeline.num_entities)
        for row, time in zip(counts, queries.time, strict=True):
            facts = self.timeline.facts
            facts = facts[facts[:, 3] < time] if self.settings.past_only else facts
            row += torch.bincount(facts[:, 2], minlength=len(row))
        return counts

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> Counting:
        return Counting(timeline, self.settings)


@pytest.mark.parametrize("past_only", [True, False])
def test_a_model_of_another_package_must_choose_the_past_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, past_only: bool
) -> None:
    kind = ModelKind(
        *("counting", "counts", "count(o)", "counts", "a test"),
        settings=CountingSettings,
        build=lambda settings, timeline: Counting(timeline, settings),
        defaults={"past_only": past_only},
    )
    monkeypatch.setattr(recipes, "_RECIPES", dict(recipes._RECIPES))
    monkeypatch.setitem(MODELS._kinds, "counting", kind)
    register_recipe(CountingSettings, Recipe(choose=lambda settings, *_: settings))
    tempograph.train(tiny_world(), "counting", task="forecast", out=tmp_path / "run", device="cpu")
    assert failures(tmp_path / "run").keys() == (set() if past_only else {PAST})


@pytest.fixture
def interpolation_run(tmp_path: Path) -> Path:
    """A run of completion whose config.toml says that it forecasts."""
    shutil.copytree(STORED / "ted", tmp_path / "run")
    config = (tmp_path / "run" / "config.toml").read_text()
    assert 'protocol = "strict"' in config
    edited = config.replace('protocol = "strict"', 'protocol = "forecast-single"')
    (tmp_path / "run" / "config.toml").write_text(edited)
    return tmp_path / "run"


def test_a_run_from_an_interpolation_split_fails(interpolation_run: Path) -> None:
    about = "ted on demo; protocol forecast-single, seed 0"
    values = {"about": about, "own": "forecast-single", "trained": "strict"}
    expected = message("run_protocol.config", **values)
    summary = audit(interpolation_run, device="cpu")
    check, _ = summary["checks"]
    assert not summary["holds"] and (check["name"], check["detail"]) == (SPLITS, expected)
    with raises(RunError, "run_protocol.config", **values):
        tempograph.evaluate(interpolation_run, device="cpu")
    # Nor does it help to edit the results.
    results = json.loads((interpolation_run / "results.json").read_text())
    results |= {"protocol": "forecast-single"}
    (interpolation_run / "results.json").write_text(json.dumps(results))
    values = {"dataset": "demo", "split": "valid", "start": "2030-01-01", "end": "2030-01-10"}
    assert failures(interpolation_run) == {SPLITS: message("history.not_by_time", **values)}
    with raises(DataError, "history.not_by_time", **values):
        tempograph.evaluate(interpolation_run, device="cpu")


def test_a_run_that_completes_is_not_evaluated_as_a_forecaster(
    run_folder: Callable[[str], Path],
) -> None:
    values = {"about": "ted on demo; protocol strict, seed 0", "own": "strict"}
    with raises(RunError, "run_protocol.task", protocol="forecast-multi", **values):
        tempograph.evaluate(STORED / "ted", protocol="forecast-multi", device="cpu")
    values = {"about": "ted on tiny; protocol forecast-single, seed 0", "own": "forecast-single"}
    with raises(RunError, "run_protocol.task", protocol="strict", **values):
        tempograph.evaluate(run_folder("ted"), protocol="strict", device="cpu")


def test_other_facts_than_those_of_the_training_fail(
    run_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(run_folder("ted"), tmp_path / "run")
    graph = read_folder(tmp_path / "run" / "dataset", "tiny")
    # Without its checksums, the run cannot tell that its files changed.
    (tmp_path / "run" / "dataset.json").unlink()
    for changed, expected in (
        (replace(graph, train=graph.train[1:]), "train"),
        (replace(graph, valid=graph.valid[:-1], test=graph.test[1:]), "valid and test"),
        (replace(graph, test=graph.test[::-1].copy()), "test"),
    ):
        shutil.rmtree(tmp_path / "run" / "dataset")
        write_folder(changed, tmp_path / "run" / "dataset")
        expected = f"the facts of {expected} are not those of the training"
        assert failures(tmp_path / "run") == {SPLITS: expected}


def test_forecasts_need_splits_by_time() -> None:
    graph = tiny_world()
    mixed = replace(graph, train=np.concatenate([graph.train, graph.test[-1:]]))
    values = {"dataset": "tiny", "split": "valid", "start": "2030-01-07", "end": "2030-01-10"}
    with raises(DataError, "history.not_by_time", **values):
        tempograph.train(mixed, "ted", task="forecast")


def test_the_command_prints_a_row_for_each_check(
    call: Call, run_folder: Callable[[str], Path], interpolation_run: Path
) -> None:
    shutil.copytree(run_folder("ted"), "forecaster")
    arguments = ("evaluate", "forecaster", "--audit", "--audit-facts", "4", "--device", "cpu")
    code, out, err = call(*arguments)
    assert (code, err) == (0, "")
    assert "Audit of ted on tiny; protocol forecast-single, seed 0" in out
    assert all(f"{name} " in out for name in NAMES)
    assert "all checks hold" in out and "FAILS" not in out
    printed = as_json(call(*arguments, "--json"))
    stored = json.loads(Path("forecaster/results.json").read_text())
    assert printed == stored["test"] | {"audit": stored["audit"]}
    multi = as_json(call(*arguments, "--json", "--protocol", "forecast-multi", "--split", "valid"))
    assert multi["protocol"] == "forecast-multi" and multi["split"] == "valid"
    assert multi["audit"]["checks"][-1]["name"] == "Multi-step results agree on valid"
    code, out, _ = call("evaluate", str(interpolation_run), "--audit", "--device", "cpu")
    assert code == 1 and "FAILS" in out and "1 of 2 checks fail" in out
    refused = message("evaluate.audit")
    options = (("--check",), ("--ask", "relation"), ("--filter", "raw"), ("--protocol", "tgb"))
    for option in options:
        code, _, err = call("evaluate", "forecaster", "--audit", *option)
        assert (code, err) == (2, f"error: {refused}\n")
