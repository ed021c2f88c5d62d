"""The audit passes on a run of every kind of model, and fails on every planted cheat."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tempograph
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.filters import KnownAnswers
from tempograph.data.folder import read_folder, write_folder
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import DataError
from tempograph.evaluation import evaluator
from tempograph.evaluation.audit_checks import AuditCheck, largest_difference
from tempograph.evaluation.ranking import Ranks, filtered_ranks
from tempograph.experiments.run_audit import audit
from tempograph.models.base import Model
from tempograph.models.pointer.pointer_model import Pointer
from tempograph.models.registry import MODELS, ModelKind
from tempograph.models.ted import TED
from tempograph.training import recipes, runs
from tempograph.training.recipes import Recipe, register_recipe

STORED = Path(__file__).parents[1] / "stored" / "format-1"
PARTS = ("pointer", "temp-gru", "tntcomplex")
TINY = {
    "srgcn": ["model.dim=4", "train.epochs=1"],
    "temp-sa": ["model.dim=4", "model.heads=2", "model.window=2", "train.epochs=1"],
    "hyte": ["model.dim=4", "train.epochs=1"],
    "temp-pointer": [
        f"model.parts={json.dumps([str(STORED / name) for name in PARTS])}",
        "model.steps=5",
    ],
}
SPLITS, FILES = "Splits are not mixed", "The graph is what the files hold"
TEST, VALID, ASKED = "Test is not seen", "Valid is not seen", "The asked fact is not seen"
ALONE, RANKER = "Each query is scored alone", "An independent ranker agrees"
FILTER, RESULTS = "The filter contains the time", "Results agree on test"
NAMES = [
    *(SPLITS, FILES, TEST, VALID, ASKED, ALONE, RANKER, FILTER),
    *("Results agree on valid", RESULTS),
]


def stored_graph() -> TemporalGraph:
    return read_folder(STORED / "ted" / "dataset", "stored")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an evaluated run of a model, made once."""
    root = tmp_path_factory.mktemp("audited")

    def make(model: str) -> Path:
        if not (root / model).exists():
            if model in TINY:
                overrides = TINY[model]
                tempograph.train(
                    stored_graph(), model, out=root / model, overrides=overrides, device="cpu"
                )
            else:
                shutil.copytree(STORED / model, root / model)
            tempograph.evaluate(root / model, "valid", device="cpu")
            tempograph.evaluate(root / model, "test", device="cpu")
        return root / model

    return make


Details = dict[str, str]
"""What each check of an audit compared, by its name."""


def details(folder: Path, num_facts: int = 4) -> Details:
    """Audit a run that is meant to pass."""
    checks = audit(folder, num_facts=num_facts, device="cpu")["checks"]
    assert failing_checks(checks) == {}
    return {check["name"]: check["detail"] for check in checks}


def failures(folder: Path, num_facts: int = 4) -> Details:
    """Audit a run; the checks that fail."""
    return failing_checks(audit(folder, num_facts=num_facts, device="cpu")["checks"])


def failing_checks(checks: list[AuditCheck]) -> Details:
    return {check["name"]: check["detail"] for check in checks if not check["holds"]}


@pytest.mark.parametrize(
    "model",
    [
        "ted",
        "tntcomplex",
        "atise-ee",
        "hyte",
        "pointer",
        "srgcn",
        "temp-gru",
        "temp-sa",
        "ensemble",
    ],
)
def test_a_run_of_each_kind_passes(run_folder: Callable[[str], Path], model: str) -> None:
    compared = details(run_folder(model))
    assert list(compared) == NAMES
    asked = compared[ASKED]
    if model in ("tntcomplex", "atise-ee", "hyte"):
        assert "because scores do not look facts up" in asked
    elif model == "ted":
        assert "changes no score" in asked, "facts of the same day never count"
    else:
        assert "changes scores by up to" in asked
    assert "of them are those of the filter by time" in compared[FILTER]


def test_a_part_of_an_ensemble_is_audited_with_the_data_of_the_ensemble(
    run_folder: Callable[[str], Path],
) -> None:
    part = next((run_folder("ensemble") / "parts").iterdir())
    assert list(details(part, 2)) == NAMES


def test_asking_about_all_facts_gives_the_stored_figures(run_folder: Callable[[str], Path]) -> None:
    compared = details(run_folder("ted"), 10**6)[RESULTS]
    queries = 2 * len(stored_graph().test)
    assert f"of {queries} ranked again {queries} are equal" in compared
    difference = compared.partition("figures of the independent ranks differ by ")[2]
    assert float(difference) < 1e-12


@dataclass(frozen=True)
class PlainSettings:
    """Nothing to set."""


class Plain(Model):
    """A model of another package that has only what the contract demands."""

    name = "plain"
    bytes_per_candidate = 16

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.counts = torch.bincount(timeline.facts[:, 2], minlength=timeline.num_entities)

    def scores(self, queries: Queries) -> Tensor:
        return self.counts.expand(len(queries.time), -1).double()


@pytest.fixture
def plain_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    kind = ModelKind(
        *("plain", "counts", "count(o)", "nothing", "a test"),
        settings=PlainSettings,
        build=lambda settings, timeline: Plain(timeline),
    )
    monkeypatch.setattr(recipes, "_RECIPES", dict(recipes._RECIPES))
    monkeypatch.setitem(MODELS._kinds, "plain", kind)
    register_recipe(PlainSettings, Recipe(choose=lambda settings, *_: settings))
    tempograph.train(stored_graph(), "plain", out=tmp_path / "run", device="cpu")
    return tmp_path / "run"


def test_a_model_of_another_package_passes(plain_folder: Path) -> None:
    assert "plain leaves no facts out of scores" in details(plain_folder)[ASKED]


@pytest.mark.parametrize("leaked", ["valid", "test"])
def test_a_timeline_with_held_out_facts_fails(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, leaked: str
) -> None:
    folder, honest = run_folder("ted"), Timeline.__init__

    def leaky(self: Timeline, graph: TemporalGraph, *rest: Any) -> None:
        train = np.concatenate([graph.train, graph.facts(leaked)])  # type: ignore[arg-type]
        honest(self, replace(graph, train=train), *rest)

    monkeypatch.setattr(Timeline, "__init__", leaky)
    # Valid is checked with other test facts as well.
    expected = {"valid": {VALID}, "test": {TEST, VALID}}[leaked]
    assert {TEST, VALID} & failures(folder, 20).keys() == expected


def test_the_paper_protocol_is_reported_as_a_known_leak(tmp_path: Path) -> None:
    overrides = ["model.dim=4", "model.window=2", "train.epochs=1"]
    tempograph.train(
        stored_graph(),
        "temp-gru",
        protocol="paper",
        out=tmp_path / "run",
        overrides=overrides,
        device="cpu",
    )
    found = failures(tmp_path / "run")
    assert found.keys() == {TEST, VALID}
    for detail in found.values():
        assert detail.startswith(
            "known leak of protocol paper: test decides which entities are active, so scores change"
        )


def test_a_filter_without_the_time_fails(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder("ted")

    def without_time(self: KnownAnswers, queries: Queries) -> Tensor:
        return queries.entity * 2 * self.num_relations + queries.relation

    monkeypatch.setattr(KnownAnswers, "_key", without_time)
    assert failures(folder, 20).keys() == {RANKER, FILTER}


def test_ranks_stored_with_another_filter_fail(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Evaluated without the time in the filter, then audited by an honest evaluator."""
    shutil.copytree(run_folder("ted"), tmp_path / "run")

    def static(graph: TemporalGraph, *_: object) -> KnownAnswers:
        return KnownAnswers(torch.from_numpy(graph.all_facts), graph.sizes, "static")

    with monkeypatch.context() as patch:
        patch.setattr(KnownAnswers, "from_graph", static)
        tempograph.evaluate(tmp_path / "run", "test", device="cpu")
    assert failures(tmp_path / "run", 20).keys() == {RESULTS}


def test_winning_ties_fails(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder("ted")

    def generous(*arguments: Any) -> Ranks:
        ranks = filtered_ranks(*arguments)
        return ranks._replace(realistic=ranks.optimistic.double())

    monkeypatch.setattr(evaluator, "filtered_ranks", generous)
    assert RANKER in failures(folder, 20)


def test_a_fact_that_sees_itself_fails(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder("pointer")

    def remove_nothing(
        self: Pointer, query: Queries, left_out: Tensor, candidates: Tensor
    ) -> Tensor:
        return self.scores(query)[:, candidates].repeat(1 + len(left_out), 1)

    monkeypatch.setattr(Pointer, "counterfactual_scores", remove_nothing)
    assert failures(folder).keys() == {ASKED}
    # Nor does it help to keep the facts when other facts are asked for.
    monkeypatch.setattr(Pointer, "with_timeline", lambda self, *_: self)
    assert failures(folder).keys() == {ASKED}


def test_facts_of_the_same_day_fail_in_ted(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores that look at the asked fact, while those that leave it out change nothing."""
    folder, honest = run_folder("ted"), TED.scores

    def with_same_day(self: TED, queries: Queries) -> Tensor:
        scores = honest(self, queries)
        entity, relation, answer, time = self.facts.T
        for row, query in zip(scores, torch.stack(queries, 1), strict=True):
            seen = (torch.stack([entity, relation, time], 1) == query).all(1)
            row[answer[seen]] = 4.0
        return scores

    monkeypatch.setattr(TED, "scores", with_same_day)
    assert ASKED in failures(folder)


def test_test_facts_in_train_fail(tmp_path: Path) -> None:
    graph = stored_graph()
    shared = replace(graph, train=np.concatenate([graph.train, graph.test[:1]]))
    tempograph.train(shared, "ted", out=tmp_path / "run", device="cpu")
    expected = f"1 of {len(graph.test)} test facts are in train as well"
    assert failures(tmp_path / "run") == {ASKED: expected}


@pytest.mark.parametrize("model", ["ted", "tntcomplex"])
def test_a_model_that_sees_the_batch_fails(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """The entities of the other queries at the same time gain a little."""
    folder = run_folder(model)
    kind = type(tempograph.Run.load(folder).model)
    honest = kind.scores

    def sees_batch(self: Model, queries: Queries) -> Tensor:
        scores = honest(self, queries).clone()
        row, other = (queries.time[:, None] == queries.time).nonzero().unbind(1)
        scores[row, queries.entity[other]] += 1e-3
        return scores

    monkeypatch.setattr(kind, "scores", sees_batch)
    assert ALONE in failures(folder, 20)


def test_a_graph_that_is_not_in_the_files_fails(
    run_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder("ted")
    graph = replace(stored_graph(), valid=stored_graph().valid[::-1].copy())
    monkeypatch.setattr(runs, "read_graph", lambda *_: graph)
    assert failures(folder) == {FILES: "the facts of valid differ from those in the files"}


def test_changed_figures_fail(run_folder: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(run_folder("ted"), tmp_path / "run")
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    results["test"]["metrics"]["mrr"] += 0.001
    (tmp_path / "run" / "results.json").write_text(json.dumps(results))
    expected = "results.json differs from the stored ranks by 1.0e-03"
    assert failures(tmp_path / "run") == {RESULTS: expected}
    # Without stored ranks, everything is ranked again.
    (tmp_path / "run" / "ranks.parquet").unlink()
    assert failures(tmp_path / "run").keys() == {RESULTS}


def test_ranks_of_some_facts_only_fail(run_folder: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(run_folder("ted"), tmp_path / "run")
    graph = stored_graph()
    shutil.rmtree(tmp_path / "run" / "dataset")
    write_folder(replace(graph, test=graph.test[1:]), tmp_path / "run" / "dataset")
    expected = "the stored ranks are not those of all test facts"
    assert failures(tmp_path / "run") == {RESULTS: expected}


def test_a_run_without_figures_is_evaluated_first(tmp_path: Path) -> None:
    graph = stored_graph()
    no_valid = replace(graph, valid=graph.valid[:0])
    tempograph.train(no_valid, "ted", out=tmp_path / "run", overrides=["model.sigma=0.1"])
    assert list(details(tmp_path / "run")) == [
        name for name in NAMES if name not in (VALID, "Results agree on valid")
    ]


def test_a_run_without_test_facts_is_refused(tmp_path: Path) -> None:
    graph = stored_graph()
    no_test = replace(graph, test=graph.test[:0])
    tempograph.train(no_test, "ted", out=tmp_path / "run", overrides=["model.sigma=0.1"])
    with raises(DataError, "run_audit.no_test_facts", path=tmp_path / "run"):
        audit(tmp_path / "run")


def test_differences_are_relative_to_the_largest_score() -> None:
    one = torch.tensor([[1.0, -4.0, -torch.inf], [0.5, 0.25, 0.0]])
    assert largest_difference(one, one.clone()) == 0
    other = one.clone()
    other[0, 0] += 2.0
    assert largest_difference(one, other) == 0.5
    other[1, 2] = -torch.inf
    assert largest_difference(one, other) == float("inf")
    assert largest_difference(-one, one) == float("inf"), "+inf is not -inf"
    other = torch.full_like(one, torch.nan)
    assert largest_difference(other, other.clone()) == float("inf")


def test_a_run_of_one_train_fact_is_audited(tmp_path: Path) -> None:
    facts = np.array([[0, 0, 1, 0], [0, 0, 1, 1], [0, 0, 1, 2]])
    names = ("a", "b"), ("r",), ("1990", "1991", "1992")
    graph = TemporalGraph("one", *names, facts[:1], facts[1:2], facts[2:])
    overrides = ["model.sigma=1"]
    tempograph.train(graph, "ted", out=tmp_path / "run", overrides=overrides, device="cpu")
    checks = {each["name"]: each for each in audit(tmp_path / "run", device="cpu")["checks"]}
    assert all(check["holds"] for check in checks.values())
    assert "without its only fact" in checks[ASKED]["detail"]
