"""TED on facts that hold for a while, against a loop over facts, and on events written as such."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import oracle
from graphs import graphs
from spanned import as_interval_graph, interval_graph
from tempograph import TemporalGraph
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.ted import PAPER_SIGMAS, SAME, TED

SEEDS = st.integers(0, 2**32 - 1)
SIGMAS = st.sampled_from([0.0, *PAPER_SIGMAS, 30.0])


def every_question(graph: TemporalGraph) -> list[oracle.Question]:
    sizes = len(graph.entities), 2 * len(graph.relations), len(graph.times)
    return list(itertools.product(*(range(size) for size in sizes)))


@settings(max_examples=20)
@given(SEEDS, SIGMAS)
def test_order_and_ties_equal_a_loop_over_facts(seed: int, sigma: float) -> None:
    graph = interval_graph(seed, sizes=(4, 2, 7))
    asked = every_question(graph)
    scores = TED(Timeline(graph), sigma).scores(Queries(*torch.tensor(asked).unbind(1)))
    for question, row in zip(asked, scores, strict=True):
        values = oracle.interval_ted(graph, question, sigma)
        expected = [[one > other for other in values] for one in values]
        assert expected == (row[:, None] > row[None, :]).tolist()


@settings(max_examples=25)
@given(graphs(), SIGMAS)
def test_events_as_intervals_have_the_same_scores(graph: TemporalGraph, sigma: float) -> None:
    queries = Queries(*torch.tensor(every_question(graph)).unbind(1))
    models = (TED(Timeline(each), sigma) for each in (graph, as_interval_graph(graph)))
    events, intervals = (model.scores(queries) for model in models)
    assert torch.equal(events, intervals)


@settings(max_examples=6)
@given(SEEDS, st.sampled_from([0.0, 0.1, 1.0]))
def test_scores_without_a_fact_are_those_of_data_without_it(seed: int, sigma: float) -> None:
    graph = interval_graph(seed, facts=12)
    timeline = Timeline(graph)
    model, every = TED(timeline, sigma), torch.arange(len(graph.entities))
    query = Queries(*torch.tensor([[seed % 6], [seed % 4], [seed % 12]]))
    removed = torch.arange(len(timeline.facts))
    scores = model.counterfactual_scores(query, removed, every)
    assert_close(scores[0], model.scores(query)[0])
    rows = timeline.rows.numpy()
    for number in range(len(rows)):
        less = TemporalGraph(**{**vars_of(graph), "train": rows[removed != number]})
        twin = TED(Timeline(less), sigma, model.capacity)
        assert_close(scores[1 + number], twin.scores(query)[0])


def vars_of(graph: TemporalGraph) -> dict[str, object]:
    names = ("name", "entities", "relations", "times", "valid", "test")
    return {name: getattr(graph, name) for name in names}


def test_evidence_begins_with_what_holds() -> None:
    rows = [(0, 0, 1, 2, 4, 0), (0, 0, 1, 6, 9, 0), (0, 0, 1, 5, 5, 0), (0, 1, 1, 0, 9, 0)]
    graph = interval_graph(0, sizes=(3, 2, 10))
    graph = TemporalGraph(**{**vars_of(graph), "train": torch.tensor(rows).numpy()})
    model = TED(Timeline(graph), 0.5)
    evidence = model.evidence(Queries(*torch.tensor([[0], [0], [7]])), 1)
    assert evidence.reason == SAME[0] and evidence.facts[:, 3].tolist() == [6, 5, 2]
    assert evidence.shares is not None
    assert_close(evidence.shares, torch.softmax(-0.5 * torch.tensor([0.0, 2, 3]).double(), 0))
    at_five = model.evidence(Queries(*torch.tensor([[0], [0], [5]])), 1)
    assert at_five.facts[:, 3].tolist() == [2, 6]
