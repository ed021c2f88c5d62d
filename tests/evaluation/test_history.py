"""Forecasts are ranked from the history that the protocol allows: against day by day."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from forecasters import KINDS, TEMP, build
from forecasting import forecast_graphs, split_by_time
from graphs import graphs, make_graph
from messages import raises
from oracle import directed, facts_of, known_answers
from tempograph import TemporalGraph
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import DataError
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.evaluation.history import history_facts, require_chronological, with_history
from tempograph.models.base import Model
from tempograph.typing import FORECAST_PROTOCOLS, SPLITS, ForecastProtocol, Split

ASKED: tuple[Split, ...] = ("valid", "test")


@settings(max_examples=30)
@given(graph=graphs())
def test_history_is_that_of_earlier_splits_or_up_to_the_split(graph: TemporalGraph) -> None:
    for index, split in enumerate(SPLITS):
        before = [fact for name in SPLITS[:index] for fact in facts_of(graph.facts(name))]
        own = facts_of(graph.facts(split))
        assert facts_of(history_facts(graph, split, "forecast-single")) == before + own
        # Before train there is nothing, so a question about it is answered from train as well.
        assert facts_of(history_facts(graph, split, "forecast-multi")) == before or own


@settings(max_examples=100)
@given(graph=graphs(12))
def test_splits_are_by_time_if_no_fact_is_late(graph: TemporalGraph) -> None:
    late = any(
        earlier[3] >= later[3]
        for one, other in (("train", "valid"), ("train", "test"), ("valid", "test"))
        for earlier in facts_of(graph.facts(one))  # type: ignore[arg-type]
        for later in facts_of(graph.facts(other))  # type: ignore[arg-type]
    )
    if late:
        with pytest.raises(DataError, match="a forecast needs splits by time"):
            require_chronological(graph)
    else:
        require_chronological(graph)


def test_the_splits_that_overlap_are_named() -> None:
    facts = [(0, 0, 1, step) for step in range(5)]
    require_chronological(make_graph(facts[:2], test=facts[2:]))
    values = {"dataset": "small", "split": "valid", "start": "day 1", "end": "day 1"}
    with raises(DataError, "history.not_by_time", **values):
        require_chronological(make_graph(facts[:2], valid=facts[1:2], test=facts[2:]))


@settings(max_examples=15)
@given(graph=forecast_graphs())
def test_a_model_that_completes_keeps_its_facts(graph: TemporalGraph) -> None:
    model = build("ted", graph)
    for split in ASKED:
        assert with_history(model, graph, split, "strict") is model


def slow_ranks(
    kind: str, model: Model, graph: TemporalGraph, split: Split, protocol: ForecastProtocol
) -> list[tuple[float, float]]:
    """The lowest and the highest rank of each answer, objects first, that rounding allows.

    Every query is asked by itself, of a model over the facts of earlier days alone.
    """
    known = graph.all_facts
    if protocol == "forecast-multi":
        known = graph.train if split == "valid" else np.concatenate([graph.train, graph.valid])
    ranks = []
    for entity, relation, answer, day in directed(
        facts_of(graph.facts(split)), len(graph.relations)
    ):
        before = known[known[:, 3] < day]
        end, asked_at = None, day
        if protocol == "forecast-multi":
            # TeMP looks back from the day after its history; only it knows where that ends.
            end = int(before[:, 3].max())
            asked_at = min(day, end + 1) if kind in TEMP else day
            end = None if kind in TEMP else end
        over_past = model.with_timeline(
            Timeline(replace(graph, train=before), protocol, history_end=end)
        )
        scores = over_past.scores(Queries(*torch.tensor([[entity], [relation], [asked_at]])))[0]
        others = known_answers(graph, (entity, relation, day), "time") - {answer}
        rivals = torch.tensor([e not in others | {answer} for e in range(len(scores))])
        ranks.append(rank_bounds(scores[rivals], scores[answer]))
    return ranks


def rank_bounds(rivals: Tensor, answer: Tensor) -> tuple[float, float]:
    """The rank of a score among others; if some nearly tie with it, between two."""
    margin = 1e-5 * max(1.0, float(answer.abs()))
    ties = int((rivals == answer).sum())
    near = int(((rivals - answer).abs() <= margin).sum()) - ties if answer.isfinite() else 0
    better = int((rivals > answer + (margin if near else 0)).sum())
    if near:
        return better + 1, better + 1 + near + ties
    return better + 1 + ties / 2, better + 1 + ties / 2


@pytest.mark.parametrize("protocol", FORECAST_PROTOCOLS)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(graph=forecast_graphs(40), split=st.sampled_from(ASKED))
@torch.no_grad()
def test_ranks_equal_those_of_asking_day_by_day(
    kind: str, protocol: ForecastProtocol, graph: TemporalGraph, split: Split
) -> None:
    model = build(kind, graph)
    found = evaluate_model(model, graph, split, protocol)
    assert found.protocol == protocol
    expected = slow_ranks(kind, model, graph, split, protocol)
    for rank, (low, high) in zip(found.ranks.realistic.tolist(), expected, strict=True):
        assert low <= rank <= high


@pytest.mark.parametrize("kind", TEMP)
@settings(max_examples=10)
@given(graph=forecast_graphs())
@torch.no_grad()
def test_temp_forecasts_far_ahead_as_for_the_day_after_its_history(
    kind: str, graph: TemporalGraph
) -> None:
    model = with_history(build(kind, graph), graph, "test", "forecast-multi")
    end = int(graph.valid[:, 3].max())
    assert model.timeline.history_end == end
    entities, relations, _, steps = graph.sizes
    asked = torch.cartesian_prod(torch.arange(entities), torch.arange(2 * relations))
    entity, relation = asked.T.contiguous()
    next_day = model.scores(Queries(entity, relation, torch.full_like(entity, end + 1)))
    for step in range(end + 1, steps):
        queries = Queries(entity, relation, torch.full_like(entity, step))
        assert torch.equal(model.scores(queries), next_day)
        own = next_day.gather(1, entity[:, None])[:, 0]
        assert_close(model.answer_scores(queries, entity), own, check_dtype=False)


def test_a_forecast_long_after_the_last_fact_still_ranks() -> None:
    """Multi-step: valid is one day, test is a week later."""
    facts = [(0, 0, 1, 0), (0, 0, 1, 1), (1, 1, 2, 2), (0, 0, 1, 9), (2, 1, 3, 9)]
    graph = split_by_time(make_graph(facts, steps=10), 2, 9)
    for kind in KINDS:
        found = evaluate_model(build(kind, graph), graph, "test", "forecast-multi")
        assert found.ranks.realistic.isfinite().all() and len(found.ranks.realistic) == 4
