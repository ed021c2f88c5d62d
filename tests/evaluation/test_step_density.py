"""When facts of a relation hold, steps that are not scored, and what both do to intervals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from hash_model import Hash
from spanned import interval_graph
from tempograph.data.timeline import Timeline
from tempograph.evaluation import step_plausibility as plausibility_module
from tempograph.evaluation.interval_choice import IntervalChooser, fit_chooser, fit_lengths
from tempograph.evaluation.interval_overlap import Intervals
from tempograph.evaluation.probabilities import Calibrator
from tempograph.evaluation.step_density import fit_density
from tempograph.evaluation.step_plausibility import scored_steps, step_plausibility

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=15)
@given(SEEDS)
def test_density_equals_a_loop_over_facts(seed: int) -> None:
    graph = interval_graph(seed, facts=15)
    steps, relations = len(graph.times), len(graph.relations)
    kernel = {gap: math.exp(-abs(gap) / 3) for gap in range(-30, 31)}
    smooth = np.zeros((relations, steps))
    for _, relation, _, start, end, _ in graph.train.tolist():
        for step in range(steps):
            for held in range(start, end + 1):
                share = kernel.get(step - held, 0.0) / sum(kernel.values())
                smooth[relation, step] += share / (end - start + 1)
    total = smooth.sum(0) + 0.1 / steps
    expected = smooth + 10 * total / total.sum()
    expected /= expected.sum(1, keepdims=True)
    assert_close(fit_density(Timeline(graph)).exp().numpy(), expected)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_steps_between_changes_are_interpolated(seed: int) -> None:
    graph = interval_graph(seed, facts=3, longest=2, sizes=(6, 2, 40))
    model, calibrator = Hash(len(graph.entities)), Calibrator(2.0, 0.1)
    model.timeline = Timeline(graph)
    triples = torch.from_numpy(graph.train[:, :3])
    every = step_plausibility(model, triples, calibrator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plausibility_module, "MAX_SCORED", 18)
        scored = scored_steps(model.timeline, range(3, 37)).tolist()
        some = step_plausibility(model, triples, calibrator, range(3, 37))
    changes = {start + shift for start in graph.train[:, 3].tolist() for shift in (-1, 0)}
    changes |= {end + shift for end in graph.train[:, 4].tolist() for shift in (0, 1)}
    assert scored == sorted({3, 36} | {step for step in changes if 3 <= step < 37})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plausibility_module, "MAX_SCORED", 5)
        few = scored_steps(model.timeline, range(3, 37)).tolist()
    assert {3, 36} <= set(few) <= set(scored) and len(few) <= 5
    for row in range(len(triples)):
        known = every[row, scored].tolist()
        expected = np.interp(range(3, 37), scored, known)
        assert some[row].tolist() == pytest.approx(expected.tolist())


def test_the_steps_of_the_relation_decide_where_plausibility_does_not() -> None:
    starts = [(r, 4 + 8 * r + n % 2) for r in (0, 1) for n in range(30)]
    facts = np.array([[0, r, 1, start, start + 1, 0] for r, start in starts])
    timeline = Timeline(
        replace(interval_graph(0, sizes=(6, 2, 20)), train=np.unique(facts, axis=0))
    )
    lengths, density = fit_lengths(timeline), fit_density(timeline)
    plausibility = torch.zeros(2, 20, dtype=torch.float64)
    relation, true = torch.tensor([0, 1]), Intervals(torch.tensor([4, 12]), torch.tensor([5, 13]))
    chooser = fit_chooser(lengths, plausibility, relation, true, density=density)
    assert chooser.density_weight > 0
    start = chooser.best(plausibility, relation).intervals.start[:, 0]
    assert ((start - true.start).abs() <= 1).all()
    sharp = IntervalChooser(lengths, 3.0, 0.1, density, 1.0)
    whole = sharp.best(plausibility, relation).intervals.start[:, 0]
    later = sharp.best(plausibility[:, 3:], relation, first_step=3).intervals.start[:, 0]
    assert torch.equal(later + 3, whole)
    blind = fit_chooser(lengths, plausibility, relation, true)
    assert blind.density_weight == 0 and blind.density is None
    guess = IntervalChooser(lengths).best(plausibility, relation).intervals.start[:, 0]
    assert guess[0] == guess[1], "without the density both relations look the same"
