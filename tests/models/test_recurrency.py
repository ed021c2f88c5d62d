"""Recurrency, EdgeBank and the frequency of past facts against loops over facts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from forecasting import slow_recurrency
from graphs import graphs, make_graph
from memory import LargestTensor
from messages import raises
from oracle import facts_of
from tempograph import TemporalGraph
from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import ConfigError
from tempograph.evaluation.evaluator import rank_facts
from tempograph.models.recurrency import DECAYS, SHARE_WEIGHTS, Recurrency, RecurrencySettings
from tempograph.models.registry import MODELS
from tempograph.training.config import make_config

SEEDS = st.integers(0, 2**32 - 1)
SETTINGS: list[dict[str, Any]] = [
    {"repeats": repeats, "window": window}
    for repeats in ("sum", "latest", "any")
    for window in (0, 1, 3)
]


def random_model(graph: TemporalGraph, seed: int, chosen: RecurrencySettings) -> Recurrency:
    """A model with random values of those that can be chosen, for each directed relation."""
    model, generator = Recurrency(Timeline(graph), chosen), torch.Generator().manual_seed(seed)
    for weights, values in ((model.decay, DECAYS), (model.share_weight, SHARE_WEIGHTS)):
        drawn = torch.randint(len(values), (len(weights),), generator=generator)
        weights.copy_(torch.tensor(values, dtype=torch.float64)[drawn])
    return model


def every_query(graph: TemporalGraph) -> Queries:
    entities, relations, _, steps = graph.sizes
    asked = torch.cartesian_prod(
        torch.arange(entities), torch.arange(2 * relations), torch.arange(steps)
    )
    return Queries(*asked.T.contiguous())


@pytest.mark.parametrize("chosen", SETTINGS, ids=str)
@settings(max_examples=10)
@given(graph=graphs(), seed=SEEDS)
def test_scores_equal_a_loop_over_facts(
    chosen: dict[str, Any], graph: TemporalGraph, seed: int
) -> None:
    model = random_model(graph, seed, RecurrencySettings(**chosen))
    queries, facts = every_query(graph), facts_of(graph.train)
    expected = [
        slow_recurrency(
            facts,
            graph.sizes,
            query,
            float(model.decay[query[1]]),
            float(model.share_weight[query[1]]),
            **chosen,
        )
        for query in torch.stack(queries, 1).tolist()
    ]
    assert_close(model.scores(queries), torch.tensor(expected, dtype=torch.float64))


@settings(max_examples=20)
@given(graph=graphs())
def test_edgebank_says_whether_and_history_frequency_how_often(graph: TemporalGraph) -> None:
    queries, facts = every_query(graph), facts_of(graph.train)
    for name, counted in (("edgebank", bool), ("history-frequency", int)):
        config = make_config(name, graph.name)
        model = MODELS[name].build(config.model, Timeline(graph))
        assert model.name == name
        expected = [
            [
                counted(sum(past == (*fact[:3], step) for past in facts for step in range(fact[3])))
                for fact in (
                    (s, r, o, t)
                    if r < len(graph.relations)
                    else (o, r % len(graph.relations), s, t)
                    for o in range(len(graph.entities))
                )
            ]
            for s, r, t in torch.stack(queries, 1).tolist()
        ]
        assert torch.equal(model.scores(queries), torch.tensor(expected, dtype=torch.float64))


def test_scores_by_hand() -> None:
    """Twice long ago against once yesterday; facts of today or another relation do not count."""
    graph = make_graph(
        [(0, 0, 1, 0), (0, 0, 1, 1), (0, 0, 2, 3), (0, 1, 3, 3), (0, 0, 3, 4), (3, 0, 3, 2)]
    )
    query = Queries(*torch.tensor([[0], [0], [4]]))
    model = Recurrency(Timeline(graph))
    assert model.scores(query).tolist() == [[0, 2, 1, 0]]
    model.decay[0] = 1.0
    assert model.scores(query).tolist() == [[0, 2**-4 + 2**-3, 2**-1, 0]]
    model.share_weight[0] = 0.5
    # Four facts of the relation are before step 4.
    expected = [0, 2**-4 + 2**-3 + 0.5 * 2 / 4, 2**-1 + 0.5 / 4, 0.5 / 4]
    assert model.scores(query).tolist() == [expected]
    evidence = model.evidence(query, 1)
    assert evidence.facts.tolist() == [[0, 0, 1, 1], [0, 0, 1, 0]]
    assert evidence.shares is not None
    assert evidence.shares.tolist() == pytest.approx([2 / 3, 1 / 3])
    inverse = Queries(*torch.tensor([[1], [2], [4]]))
    assert model.scores(inverse).tolist() == [[2, 0, 0, 0]]
    assert model.evidence(inverse, 0).facts.tolist() == evidence.facts.tolist()
    assert model.evidence(query, 0).reason == "two of three parts in common"


def test_before_the_first_fact_nothing_is_known() -> None:
    graph = make_graph([(0, 0, 1, 2)])
    model = Recurrency(Timeline(graph))
    model.share_weight.fill_(1.0)
    queries = every_query(graph)
    assert not model.scores(queries.take((queries.time <= 2).nonzero()[:, 0])).any()


def test_a_window_below_0_is_refused() -> None:
    with raises(ConfigError, "typing.bounds", setting="window", bounds="at least 0", value=-1):
        RecurrencySettings(window=-1)


def test_a_batch_of_queries_that_repeat_many_facts_stays_within_the_budget() -> None:
    steps, budget = 1000, 2**20
    graph = make_graph(
        [(0, 0, 1 + step % 2, step) for step in range(steps)], entities=10, steps=steps
    )
    facts = torch.from_numpy(graph.train)
    known = KnownAnswers(facts, graph.sizes)
    with LargestTensor() as largest:
        rank_facts(Recurrency(Timeline(graph)), facts, known, budget)
    assert largest.bytes <= budget
