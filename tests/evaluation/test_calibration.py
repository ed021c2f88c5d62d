"""Calibration and reliability against loops, and what a run keeps of them."""

from __future__ import annotations

import json
import math
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tempograph
from tempograph import Predictor, Run
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Queries
from tempograph.evaluation import calibration
from tempograph.evaluation.calibration import calibrate, score_valid
from tempograph.evaluation.probabilities import fit_calibrator
from tempograph.evaluation.reliability import BINS, calibration_error, reliability
from tempograph.models.base import CrossFitted, Evidence, Model
from tempograph.report.model_plots import reliability_figure

GRAPH = make_world(entities=20, relations=4, steps=20, facts=400).graph


class TableModel(Model):
    """Scores from a table by (entity, relation, time); cross-fitted ones from two tables."""

    name = "table"
    bytes_per_candidate = 8
    probabilistic = True
    device = torch.device("cpu")

    def __init__(self, tables: torch.Tensor, cross_fit: bool) -> None:
        super().__init__()
        self.tables, self.cross_fit = tables, cross_fit

    def from_table(self, number: int, queries: Queries) -> torch.Tensor:
        return self.tables[number][queries.entity, queries.relation, queries.time]

    def scores(self, queries: Queries) -> torch.Tensor:
        return self.from_table(0, queries)

    def cross_fitted(self, split: str, facts: int) -> CrossFitted | None:
        scorers = (partial(self.from_table, 0), partial(self.from_table, 1))
        return (
            CrossFitted(scorers, torch.arange(facts) // 3 % 2, "cross_fit")
            if self.cross_fit
            else None
        )

    def evidence(self, query: Queries, answer: int) -> Evidence:
        raise AssertionError("calibration asks for no evidence")


@pytest.mark.parametrize("cross_fit", [False, True])
def test_calibration_equals_a_loop(cross_fit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both queries of a fact are in one half, each measured with the calibrator of the other."""
    monkeypatch.setattr(calibration, "_MAX_FACTS", 29)
    entities, relations, _, steps = GRAPH.sizes
    generator = torch.Generator().manual_seed(3)
    model = TableModel(
        2 * torch.randn(2, entities, 2 * relations, steps, entities, generator=generator), cross_fit
    )
    found = calibrate(score_valid(model, GRAPH, "strict"))
    known = {tuple(fact) for split in (GRAPH.train, GRAPH.valid) for fact in split.tolist()}
    halves: list[list[tuple[torch.Tensor, int]]] = [[], []]
    for number in range(29):
        position = round(number * (len(GRAPH.valid) - 1) / 28)
        s, r, o, t = GRAPH.valid[position].tolist()
        table = model.tables[position // 3 % 2 if cross_fit else 0]
        for one, relation, own in ((s, r, o), (o, r + relations, s)):
            row = table[one, relation, t].clone()
            for other in range(entities):
                fact = (one, r, other, t) if relation == r else (other, r, one, t)
                if other != own and fact in known:
                    row[other] = -math.inf
            halves[number % 2].append((row, own))
    scored = [
        (
            torch.stack([row for row, _ in half]),
            torch.tensor([own for _, own in half]),
            torch.tensor([int((row > -math.inf).sum()) for row, _ in half]),
        )
        for half in halves
    ]
    every = fit_calibrator(*(torch.cat(columns) for columns in zip(*scored, strict=True)))
    assert found["facts"] == 29
    assert (found["temperature"], found["uniform"]) == pytest.approx(every, rel=1e-3, abs=1e-4)
    sure, right, among, losses = [], [], [], []
    for half, other in (scored, scored[::-1]):
        temperature, uniform = fit_calibrator(*other)
        for row, own, eligible in zip(*half, strict=True):
            shares = (1 - uniform) * torch.softmax(row.double() / temperature, 0)
            shares = torch.where(row > -math.inf, shares + uniform / eligible, 0)
            sure.append(float(shares.max()))
            right.append(bool(shares.argmax() == own))
            among.append(sum(bool(share > shares[own]) for share in shares) < 10)
            losses.append(-math.log(float(shares[own])))
    assert found["log_loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    expected = reliability(*(torch.tensor(column) for column in (sure, right, among)))
    for shown, wanted in zip(found["reliability"], expected, strict=True):
        assert shown == pytest.approx(wanted, rel=1e-4)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_reliability_equals_a_loop(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    confidence, right = rng.random(count).round(1), rng.random(count) < 0.5
    table = reliability(torch.from_numpy(confidence), torch.from_numpy(right))
    error, rows = 0.0, 0
    for number in range(BINS):
        inside = [i for i in range(count) if min(BINS - 1, int(confidence[i] * BINS)) == number]
        if inside:
            row = table[rows]
            rows += 1
            assert row["questions"] == len(inside) and row["from"] == number / BINS
            sure, share = confidence[inside].mean(), right[inside].mean()
            assert (row["confidence"], row["right"]) == (pytest.approx(sure), pytest.approx(share))
            error += len(inside) / count * abs(sure - share)
    assert rows == len(table) and calibration_error(table) == pytest.approx(error)


def test_a_run_keeps_its_calibration(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run = tempograph.train(
        GRAPH, "complex", out=path, device="cpu", overrides=["model.dim=8", "train.epochs=3"]
    )
    kept = json.loads((path / "results.json").read_text())["calibration"]
    assert kept == run.results.calibration == calibrate(score_valid(run.model, GRAPH, "strict"))
    assert (
        sum(row["questions"] for row in kept["reliability"])
        == 2 * len(GRAPH.valid)
        == 2 * kept["facts"]
    )
    assert kept["log_loss"] < kept["log_loss_before"] + 0.1
    assert "expected calibration error" in (path / "README.md").read_text()
    figure = reliability_figure(kept, run.config.about)
    assert len(figure.axes) == 2
    assert figure.get_supxlabel() == "complex on demo; protocol strict, seed 0, valid, filter time"


def test_a_run_without_a_calibration_is_calibrated_on_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    tempograph.train(
        GRAPH, "complex", out=path, device="cpu", overrides=["model.dim=8", "train.epochs=3"]
    )
    results = json.loads((path / "results.json").read_text())
    kept = results.pop("calibration")
    (path / "results.json").write_text(json.dumps(results))
    assert Run.load(path).questions.calibrator().temperature == kept["temperature"]
    assert json.loads((path / "results.json").read_text())["calibration"] == kept
    (path / "results.json").write_text(json.dumps(results))

    def refuse(_: Run) -> None:
        raise tempograph.errors.StorageError("nobody may write here")

    monkeypatch.setattr(Run, "write_results", refuse)
    assert Run.load(path).questions.calibrator().temperature == kept["temperature"]


@pytest.mark.parametrize("model", ["ted", "pointer", "complex"])
def test_probabilities_of_answers_fall_with_rank(model: str) -> None:
    overrides = {"ted": ["model.sigma=1"], "pointer": ["train.epochs=2"]}
    short = overrides.get(model, ["model.dim=8", "train.epochs=3"])
    predictor = Predictor(tempograph.train(GRAPH, model, overrides=short, device="cpu"))
    every = len(GRAPH.entities)
    for new in (False, True):
        for found in (
            predictor.objects(0, 0, 0, top=every, evidence=0, new=new),
            predictor.subjects(0, 0, 0, top=every, evidence=0, new=new),
            predictor.relations(0, 1, 3, evidence=0, new=new),
            predictor.times(0, 0, 1, top=20, evidence=0, new=new),
        ):
            shares = [answer.probability for answer in found.answers]
            assert all(one >= other for one, other in pairwise(shares))
            assert 0 < sum(shares) <= 1 + 1e-9
            assert not new or all(answer.known is None for answer in found.answers)
