"""Scores, probabilities and ranks of many facts, against loops over candidates."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tempograph
from live_service import Answerer
from predicting import GRAPH, slow_side
from tempograph import Predictor
from tempograph.typing import SPLITS

pytest_plugins = ("predictor_fixtures",)


def test_scores_and_ranks_equal_a_loop(predictor: Predictor, answerer: Answerer) -> None:
    facts = np.concatenate([GRAPH.test[:10], GRAPH.train[:5], [[0, 1, 2, 3], [3, 0, 3, 19]]])
    options = {"budget": 4000} if isinstance(answerer, Predictor) else {}
    table = answerer.score(facts, **options)
    splits = {
        tuple(fact): split for split in reversed(SPLITS) for fact in GRAPH.facts(split).tolist()
    }
    for row, fact in zip(table.to_pylist(), facts.tolist(), strict=True):
        assert {name: row[name] for name in GRAPH.describe(GRAPH.test[0])} == GRAPH.describe(
            np.array(fact)
        )
        assert row["known"] == splits.get(tuple(fact))
        for side in ("object", "subject"):
            score, probability, rank = slow_side(predictor, tuple(fact), side)
            assert row[f"{side}_score"] == pytest.approx(score, rel=1e-4, abs=1e-4)
            assert row[f"{side}_probability"] == pytest.approx(probability, rel=1e-3)
            assert row[f"{side}_rank"] == pytest.approx(rank, abs=0.5)


def test_scores_without_ranks_are_the_same(answerer: Answerer) -> None:
    facts = np.concatenate([GRAPH.test[:10], GRAPH.train[:5], [[0, 1, 2, 3], [3, 0, 3, 19]]])
    alone, ranked = answerer.score(facts, ranks=False), answerer.score(facts)
    assert alone.column_names == [
        *(*ranked.column_names[:5], "object_score", "subject_score", "error")
    ]
    for side in ("object", "subject"):
        scores, expected = (table[f"{side}_score"].to_pylist() for table in (alone, ranked))
        assert scores == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert len(answerer.score(facts[:0], ranks=False)) == 0


def test_a_model_with_tables_for_each_time_scores_no_facts() -> None:
    run = tempograph.train(
        GRAPH, "de-simple", device="cpu", overrides=["model.dim=8", "train.epochs=1"]
    )
    assert len(Predictor(run).score([])) == 0


def test_surprising_facts_are_the_least_plausible(predictor: Predictor, answerer: Answerer) -> None:
    table = answerer.surprising(("test",), top=7)
    sides = [
        [slow_side(predictor, fact, side) for side in ("object", "subject")]
        for fact in GRAPH.test.tolist()
    ]
    surprise = [sum(-math.log(probability) for _, probability, _ in both) / 2 for both in sides]
    assert table["surprise"].to_pylist() == pytest.approx(
        sorted(surprise, reverse=True)[:7], rel=1e-2
    )
