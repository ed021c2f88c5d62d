"""A gate that is fitted on train: which facts are held out, and what it depends on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import tempograph
from forecasting import forecast_graphs
from graphs import graphs
from messages import raises
from tempograph import Run, TemporalGraph
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Timeline
from tempograph.errors import DataError
from tempograph.evaluation.history import require_chronological
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.training.callbacks import Callbacks
from tempograph.training.ensemble_fit import fit_ensemble, hold_out
from tempograph.training.holdout import train_copies
from tempograph.typing import PROTOCOLS

GRAPH = make_world(seed=2, entities=12, relations=4, steps=10, facts=200).graph
SILENT = Callbacks(None, None)


def rows(facts: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(fact) for fact in facts.tolist()}


@given(graphs(), st.floats(0.01, 0.9), st.integers(1, 20), st.integers(0, 99))
def test_random_train_facts_are_held_out(
    graph: TemporalGraph, share: float, most: int, seed: int
) -> None:
    twice = dataclasses.replace(graph, train=np.concatenate([graph.train, graph.train[::2]]))
    settings = EnsembleSettings(parts=("a",), holdout=share, max_facts=most)
    held_out = hold_out(settings, twice, seed, "strict")
    assert held_out is not None
    expected = min(max(1, round(share * len(graph.train))), most, len(graph.train) - 1)
    assert len(held_out.valid) == expected
    assert rows(held_out.train) | rows(held_out.valid) == rows(graph.train)
    assert not rows(held_out.train) & rows(held_out.valid), "a fact given twice is held out twice"
    assert sorted(held_out.test.tolist()) == sorted([*graph.valid.tolist(), *graph.test.tolist()])
    pairs = [Timeline(each, "paper").pair_keys for each in (graph, held_out)]
    assert torch.equal(*pairs), "held-out facts are to copies what test facts are to the parts"
    again = hold_out(settings, graph, seed, "strict")
    assert again is not None and np.array_equal(again.valid, held_out.valid)
    on_valid = dataclasses.replace(settings, fit_on="valid")
    assert all(hold_out(on_valid, graph, seed, protocol) is None for protocol in PROTOCOLS)


@given(forecast_graphs(), st.floats(0.01, 0.9), st.integers(1, 20), st.sampled_from((0, 99)))
def test_a_forecaster_holds_out_the_last_steps(
    graph: TemporalGraph, share: float, most: int, seed: int
) -> None:
    settings = EnsembleSettings(parts=("a",), holdout=share, max_facts=most)
    steps = sorted({fact[3] for fact in rows(graph.train)})
    if len(steps) == 1:
        with raises(
            DataError, "ensemble_fit.one_step", dataset="small", step=graph.times[steps[0]]
        ):
            hold_out(settings, graph, seed, "forecast-single")
        return
    held_out = hold_out(settings, graph, seed, "forecast-single")
    assert held_out is not None
    require_chronological(held_out)
    assert rows(held_out.train) | rows(held_out.valid) == rows(graph.train)
    wanted = min(max(1, round(share * len(graph.train))), most, len(graph.train) - 1)
    # Whole steps from the end until there are enough, but never the first.
    expected: list[int] = []
    while sum(step in expected for *_, step in rows(graph.train)) < wanted and steps[1:]:
        expected.append(steps.pop())
    assert {step for *_, step in rows(held_out.valid)} == set(expected)
    assert {step for *_, step in rows(held_out.train)} == set(steps)
    assert sorted(held_out.test.tolist()) == sorted([*graph.valid.tolist(), *graph.test.tolist()])


def test_another_seed_holds_out_other_facts() -> None:
    settings = EnsembleSettings(parts=("a",))
    first, second = (hold_out(settings, GRAPH, seed, "strict") for seed in (0, 1))
    assert first is not None and second is not None
    assert rows(first.valid) != rows(second.valid)


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    """Parts whose best epoch is the first, whatever the valid facts are."""
    settings = {
        "complex": "[model]\ndim = 4\n[train]\nepochs = 1\naverage = 0.5\nfacts_per_step = 50\n",
        "temp-gru": "[model]\ndim = 4\nwindow = 2\n[train]\nepochs = 1\ntimes_per_step = 5\n",
    }
    for name, text in settings.items():
        (tmp_path / f"{name}.toml").write_text(text)
    return [f"{name}:{tmp_path / name}.toml" for name in settings]


def train(graph: TemporalGraph, parts: list[str], *overrides: str) -> Run:
    asked = [f"model.parts={json.dumps(parts)}", "model.steps=60", "model.candidates=5"]
    return tempograph.train(graph, "ensemble", overrides=[*asked, *overrides], device="cpu")


def same(one: Run, other: Run) -> bool:
    states = one.model.state_dict(), other.model.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_neither_valid_nor_test_facts_change_the_gate(parts: list[str]) -> None:
    valid, test = GRAPH.valid.copy(), GRAPH.test[::2].copy()
    valid[:, 2] = (valid[:, 2] + 1) % len(GRAPH.entities)
    test[:, 0] = (test[:, 0] + 5) % len(GRAPH.entities)
    other = dataclasses.replace(GRAPH, valid=valid, test=test)
    assert same(train(GRAPH, parts), train(other, parts))
    on_valid = "model.fit_on=valid"
    assert not same(train(GRAPH, parts, on_valid), train(other, parts, on_valid))


def test_copies_are_parts_trained_without_the_holdout(parts: list[str]) -> None:
    run = train(GRAPH, parts)
    held_out = hold_out(run.config.model, GRAPH, run.config.seed, "strict")
    assert held_out is not None
    copies = train_copies(run, held_out, SILENT)
    assert copies is not None
    for copied, (name, part) in zip(copies.model.parts, run.parts.items(), strict=True):
        assert rows(copied.timeline.facts.numpy()) == rows(held_out.train)
        preset = part.config.preset
        rest = tempograph.train(held_out, name, preset=preset, device="cpu")
        assert_close(copied.state_dict(), rest.model.state_dict(), rtol=0, atol=0)
        assert not torch.equal(*(next(model.parameters()) for model in (copied, part.model)))
    fit_ensemble(copies.model, held_out, run.config.seed, lambda _: None)
    assert_close(copies.model.state_dict(), run.model.state_dict(), rtol=0, atol=0)
    assert [part.model for part in run.parts.values()] == list(run.model.parts)


def test_a_copy_is_trained_as_long_as_its_part_was_at_its_best(parts: list[str]) -> None:
    run = train(GRAPH, parts)
    lines: list[str] = []
    callbacks = Callbacks(lambda line: lines.append(line["part"]), None)
    run.parts["complex"].results.best_epoch = 4
    assert train_copies(run, GRAPH, callbacks) is not None
    assert [lines.count(f"{name} without the holdout") for name in run.parts] == [4, 1]
    hurried = Callbacks(None, None, deadline=0)
    assert train_copies(run, GRAPH, hurried) is None
