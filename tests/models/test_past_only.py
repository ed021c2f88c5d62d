"""Forecasters answer from the facts before a query, and from nothing else."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from forecasters import KINDS, build
from graphs import graphs, make_graph
from tempograph import TemporalGraph
from tempograph.data.timeline import Queries, Timeline, both_directions
from tempograph.errors import ConfigError
from tempograph.models.pointer.partners import LatestPartners
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.pointer.recent_paths import RecentPaths
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.gap_bins import gap_bin

# Where a candidate's last fact is too old to vote, a forecaster does not count its facts.
EXACT = [kind for kind in KINDS if kind not in ("few votes", "names", "tntcomplex")]


def queries_at(graph: TemporalGraph, step: int) -> Queries:
    entities, relations, _, _ = graph.sizes
    entity, relation = torch.cartesian_prod(
        torch.arange(entities), torch.arange(2 * relations)
    ).T.contiguous()
    return Queries(entity, relation, torch.full_like(entity, step))


def with_other_future(graph: TemporalGraph, step: int, seed: int) -> TemporalGraph:
    """The facts before a step, and random ones instead of those from it on."""
    rng = np.random.default_rng(seed)
    past = graph.train[graph.train[:, 3] < step]
    future = rng.integers(0, graph.sizes, (len(graph.train) - len(past), 4))
    future[:, 3] = rng.integers(step, len(graph.times), len(future))
    return replace(graph, train=np.unique(np.concatenate([past, future]), axis=0))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(graph=graphs(), data=st.data())
@torch.no_grad()
def test_facts_at_or_after_a_query_change_nothing(
    kind: str, graph: TemporalGraph, data: st.DataObject
) -> None:
    step = data.draw(st.integers(0, len(graph.times) - 1))
    other = with_other_future(graph, step, data.draw(st.integers(0, 9)))
    model, queries = build(kind, graph), queries_at(graph, step)
    scores = model.with_timeline(model.timeline).scores(queries)
    moved = model.with_timeline(Timeline(other, "forecast-single")).scores(queries)
    assert torch.equal(moved, scores)


@pytest.mark.parametrize("kind", EXACT)
@settings(max_examples=10)
@given(graph=graphs(), data=st.data())
@torch.no_grad()
def test_a_forecast_is_a_completion_of_the_facts_before_it(
    kind: str, graph: TemporalGraph, data: st.DataObject
) -> None:
    step = data.draw(st.integers(0, len(graph.times) - 1))
    before = graph.train[graph.train[:, 3] < step]
    if not len(before):
        return
    model, queries = build(kind, graph), queries_at(graph, step)
    past = model.with_timeline(Timeline(replace(graph, train=before), "strict"))
    assert_close(model.scores(queries), past.scores(queries), check_dtype=False)


def test_paths_of_all_times_are_refused() -> None:
    graph = make_graph([(0, 0, 1, 0), (1, 1, 2, 3)])
    with pytest.raises(ConfigError, match="set model.paths=false"):
        Pointer(Timeline(graph, "forecast-single"), PointerSettings(paths=True))


@torch.no_grad()
def test_the_names_of_partners_before_a_query_count() -> None:
    graph = make_graph([(0, 0, 1, 0), (2, 1, 0, 1), (0, 0, 3, 2)])
    index = LatestPartners(Timeline(graph, "forecast-single"))
    table = torch.eye(4)
    queries = Queries(torch.tensor([0, 0, 0, 1]), torch.zeros(4).long(), torch.tensor([0, 2, 3, 2]))
    mean = index.mean(table, index.sums(table), index.look_up(queries, None))
    expected = [[0, 0, 0, 0], [0, 1 / 2, 1 / 2, 0], [0, 1 / 3, 1 / 3, 1 / 3], [1, 0, 0, 0]]
    assert_close(mean, torch.tensor(expected))
    left_out = index.look_up(queries, torch.tensor([0, 0, 0, 0]))
    without = index.mean(table, index.sums(table), left_out)
    expected = [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1 / 2, 1 / 2], [0, 0, 0, 0]]
    assert_close(without, torch.tensor(expected))


@settings(max_examples=15)
@given(graph=graphs(), max_facts=st.integers(1, 3), data=st.data())
def test_first_facts_of_paths_are_the_latest_that_count(
    graph: TemporalGraph, max_facts: int, data: st.DataObject
) -> None:
    timeline = Timeline(graph, "forecast-single")
    source = RecentPaths(timeline, max_facts, 0.5)
    step = data.draw(st.integers(0, len(graph.times) - 1))
    queries = queries_at(graph, step)
    number = len(queries.entity)
    left_out = torch.tensor([data.draw(st.integers(-1, len(graph.train) - 1))] * number)
    votes = source.votes(source.look_up(queries, left_out), VoteSample())
    index = source.facts.index
    for row, entity in enumerate(queries.entity.tolist()):
        earlier = [
            position
            for position, (start, _, _, time) in enumerate(index.rows.tolist())
            if start == entity and time < step and int(index.fact_id[position]) != left_out[row]
        ]
        found = votes.step_fact[votes.step_query == row]
        assert sorted(found.tolist()) == earlier[-max_facts:]


@settings(max_examples=15)
@given(graph=graphs(), data=st.data())
@torch.no_grad()
def test_recent_paths_equal_a_loop_over_pairs_of_facts(
    graph: TemporalGraph, data: st.DataObject
) -> None:
    timeline = Timeline(graph, "forecast-single")
    torch.manual_seed(0)
    source = RecentPaths(timeline, max_facts=100, initial_gain=0.5).double()
    for parameter in source.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    step = data.draw(st.integers(0, len(graph.times) - 1))
    queries = queries_at(graph, step)
    entities, relations = len(graph.entities), timeline.num_relations
    facts = both_directions(timeline.facts, relations)
    earlier = [tuple(fact) for fact in facts.tolist() if fact[3] < step]
    sums = torch.zeros(len(queries.entity), entities, dtype=torch.float64)
    tables = [
        (
            source.shared_relation[hop] + source.by_relation[hop],  # type: ignore[index]
            source.shared_time[hop] + source.by_time[hop],
        )
        for hop in (0, 1)
    ]
    for row, (entity, asked, _) in enumerate(zip(*map(Tensor.tolist, queries), strict=True)):
        for subject, r1, middle, t1 in earlier:
            for start, r2, answer, t2 in earlier:
                if subject != entity or start != middle or answer == entity:
                    continue
                exponent = 0.0
                for (by_relation, by_time), relation, time in zip(
                    tables, (r1, r2), (t1, t2), strict=True
                ):
                    gap = gap_bin(torch.tensor(time - step), timeline.num_steps)
                    exponent += float(by_relation[asked, relation] + by_time[asked, gap])
                sums[row, answer] += math.exp(exponent)
    u, log_c = (source.shared_gain + source.gain)[queries.relation][:, :, None].unbind(1)
    expected = u * torch.log1p(log_c.exp() * sums)
    scores = source(torch.zeros_like(sums), queries.relation, source.look_up(queries))
    assert_close(scores, expected)
    for row in range(min(3, len(sums))):
        query = queries.take(torch.tensor([row]))
        answer = int(scores[row].argmax())
        _, contributions = source.fact_contributions(query, answer)
        assert_close(contributions.sum(), scores[row, answer])
