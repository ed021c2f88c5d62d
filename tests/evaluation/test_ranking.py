"""Ranks and metrics against loops and by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from messages import raises
from tempograph.errors import ConfigError
from tempograph.evaluation.ranking import filtered_ranks, metrics

# Few distinct values, so that ties are the rule; -inf is what TED gives to entities without a fact.
SCORES = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0])


@settings(max_examples=30)
@given(st.data())
def test_ranks_equal_a_loop(data: st.DataObject) -> None:
    queries, candidates = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 7))
    scores = data.draw(
        st.lists(
            st.lists(SCORES, min_size=candidates, max_size=candidates),
            min_size=queries,
            max_size=queries,
        )
    )
    target = data.draw(st.lists(st.integers(0, candidates - 1), min_size=queries, max_size=queries))
    pair = st.tuples(st.integers(0, queries - 1), st.integers(0, candidates - 1))
    known = data.draw(st.lists(pair, unique=True))
    row, candidate = torch.tensor(known, dtype=torch.int64).reshape(-1, 2).unbind(1)
    ranks = filtered_ranks(
        torch.tensor(scores, dtype=torch.float64), torch.tensor(target), (row, candidate)
    )
    for query in range(queries):
        expected = oracle.ranks(scores[query], target[query], {c for q, c in known if q == query})
        assert tuple(float(kind[query]) for kind in ranks) == expected


def test_ranks_by_hand() -> None:
    scores = torch.tensor([[3.0, 1.0, 3.0, 2.0, 3.0]])
    none = torch.empty(0, dtype=torch.int64)
    assert [kind.item() for kind in filtered_ranks(scores, torch.tensor([0]), (none, none))] == [
        2.0,
        1,
        3,
    ]
    known = torch.tensor([0, 0]), torch.tensor([0, 4])
    assert [kind.item() for kind in filtered_ranks(scores, torch.tensor([0]), known)] == [1.5, 1, 2]
    assert [kind.item() for kind in filtered_ranks(scores, torch.tensor([1]), known)] == [3.0, 3, 3]


def test_a_nan_score_is_refused() -> None:
    none = torch.empty(0, dtype=torch.int64)
    with raises(FloatingPointError, "ranking.nan"):
        filtered_ranks(torch.tensor([[0.0, math.nan]]), torch.tensor([0]), (none, none))


def test_metrics_by_hand() -> None:
    found = metrics(torch.tensor([1.0, 2.0, 4.0, 1.5]), hits=(1, 2, 50))
    assert found == pytest.approx(
        {
            "mrr": (1 + 0.5 + 0.25 + 1 / 1.5) / 4,
            "mr": 8.5 / 4,
            "hits@1": 0.25,
            "hits@2": 0.75,
            "hits@50": 1.0,
        }
    )
    with raises(ConfigError, "ranking.cutoff", value=0):
        metrics(torch.tensor([1.0]), hits=(0,))
