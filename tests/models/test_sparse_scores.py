"""Scores of the candidates that differ from the rest against a matrix of all of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from graphs import graphs
from messages import raises
from spanned import interval_graph
from tempograph import TemporalGraph
from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Timeline, fact_queries
from tempograph.evaluation.evaluator import rank_facts
from tempograph.evaluation.ranking import filtered_ranks, sparse_ranks
from tempograph.models import recurrency, ted
from tempograph.models.base import Model
from tempograph.models.recurrency import DECAYS, SHARE_WEIGHTS, Recurrency, RecurrencySettings
from tempograph.models.sparse_scores import ConstantRest, SparseScores, split_by_size
from tempograph.models.ted import TED

SEEDS = st.integers(0, 2**32 - 1)
# Few distinct values, so that ties are the rule.
SCORES = torch.tensor([-math.inf, -1.0, 0.0, 0.5, 2.0], dtype=torch.float64)


def random_scores(seed: int, rest: float) -> tuple[SparseScores, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    rows, entities, cells = torch.randint(1, 8, (3,), generator=generator).tolist()
    keys = torch.randint(rows * entities, (2 * cells,), generator=generator).unique()
    score = SCORES[torch.randint(len(SCORES), keys.shape, generator=generator)]
    shared = ConstantRest(rest, rows, entities, score)
    return SparseScores(keys // entities, keys % entities, score, shared, rows, entities), generator


@pytest.mark.parametrize("rest", [-math.inf, 0.0])
@settings(max_examples=100)
@given(seed=SEEDS)
def test_ranks_best_and_sums_are_those_of_the_matrix(rest: float, seed: int) -> None:
    sparse, generator = random_scores(seed, rest)
    dense = sparse.dense()
    assert (dense == rest).sum() >= dense.numel() - len(sparse.score)
    answer = torch.randint(sparse.num_candidates, (sparse.rows,), generator=generator)
    known = (torch.rand(dense.shape, generator=generator) < 0.4).nonzero().unbind(1)
    for column, expected in zip(
        sparse_ranks(sparse, answer, known), filtered_ranks(dense, answer, known), strict=True
    ):
        assert torch.equal(column, expected)
    dense[known] = -math.inf
    for count in (1, 3, 9):
        best, candidate = sparse.top(count, known)
        assert torch.equal(best, dense.topk(min(count, sparse.num_candidates)).values)
        possible = best > -math.inf
        assert torch.equal(dense.gather(1, candidate)[possible], best[possible])
    assert_close(sparse.log_sums(0.5, known), torch.logsumexp(dense / 0.5, 1))


def test_a_nan_score_is_refused() -> None:
    sparse, _ = random_scores(0, 0.0)
    sparse.score[0] = math.nan
    none = torch.empty(0, dtype=torch.int64)
    with raises(FloatingPointError, "ranking.nan"):
        sparse_ranks(sparse, torch.zeros(sparse.rows, dtype=torch.int64), (none, none))


def test_ids_are_split_by_their_sizes() -> None:
    ids, sizes = torch.arange(6), torch.tensor([1, 2, 1, 30, 1, 1])
    assert [part.tolist() for part in split_by_size(ids, sizes, 4)] == [[0, 1, 2], [3, 4, 5]]
    assert [len(part) for part in split_by_size(ids, sizes, 1)] == [1] * 6


@pytest.mark.parametrize("past_only", [False, True])
@settings(max_examples=25)
@given(graph=graphs(), sigma=st.sampled_from([0.0, 0.1, 1e5]))
def test_ted_lays_out_the_answers_of_its_sets(
    past_only: bool, graph: TemporalGraph, sigma: float
) -> None:
    protocol = "forecast-single" if past_only else "strict"
    check_model(TED(Timeline(graph, protocol), sigma), graph, ted)


@settings(max_examples=15)
@given(seed=SEEDS, sigma=st.sampled_from([0.0, 0.1, 1e5]))
def test_ted_lays_out_answers_of_facts_that_hold_for_a_while(seed: int, sigma: float) -> None:
    graph = interval_graph(seed)
    check_model(TED(Timeline(graph), sigma), graph, ted)


@pytest.mark.parametrize("repeats", ["sum", "latest", "any"])
@settings(max_examples=15)
@given(graph=graphs(), seed=SEEDS, window=st.sampled_from([0, 2]), shares=st.booleans())
def test_recurrency_lays_out_repeated_and_frequent_answers(
    repeats: Any, graph: TemporalGraph, seed: int, window: int, shares: bool
) -> None:
    model = Recurrency(Timeline(graph), RecurrencySettings(repeats=repeats, window=window))
    generator = torch.Generator().manual_seed(seed)
    for weights, values in ((model.decay, DECAYS), (model.share_weight, SHARE_WEIGHTS)):
        drawn = torch.randint(len(values), (len(weights),), generator=generator)
        weights.copy_(torch.tensor(values, dtype=torch.float64)[drawn])
    if not shares:
        model.share_weight.zero_()
    check_model(model, graph, recurrency)


def check_model(model: Model, graph: TemporalGraph, module: Any) -> None:
    """Scores and ranks, the latter through the evaluator, are those of all entities."""
    facts = torch.from_numpy(graph.all_facts)
    queries, answer = fact_queries(facts, len(graph.relations))
    known = KnownAnswers(facts, graph.sizes)
    sparse, scores = model.sparse_scores(queries), model.scores(queries)
    assert torch.equal(sparse.dense(), scores)
    assert model.sparse_sizes(queries) is None
    expected = rank_facts(model, facts, known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY_ENTITIES", 0)
        sizes = model.sparse_sizes(queries)
        assert sizes is not None
        assert (torch.bincount(sparse.row, minlength=len(answer)) <= sizes).all()
        patch.setattr(model, "scores", None)
        ranks = rank_facts(model, facts, known, budget=2000)
    for column, other in zip(ranks, expected, strict=True):
        assert torch.equal(column, other)
