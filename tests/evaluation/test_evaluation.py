"""The evaluator with a model that records its queries."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from graphs import graphs, make_graph
from hash_model import Hash
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Queries
from tempograph.errors import ConfigError, DataError
from tempograph.evaluation.evaluator import evaluate_model, rank_facts
from tempograph.evaluation.ranking import Ranks
from tempograph.typing import FILTERS, Filter


@settings(max_examples=30)
@given(graphs(), st.sampled_from(FILTERS))
def test_an_evaluation_keeps_the_ranks_of_its_filter(graph: TemporalGraph, filter: Filter) -> None:
    model = Hash(len(graph.entities))
    evaluation = evaluate_model(model, graph, "train", "strict", filter)
    ranks = rank_facts(model, torch.from_numpy(graph.train), KnownAnswers.from_graph(graph, filter))
    table, summary = evaluation.table(), evaluation.summary()
    for name, values in zip(("rank", "optimistic", "pessimistic"), ranks, strict=True):
        assert table[name].to_pylist() == values.tolist()
        mean = float((1 / values.double()).mean())
        assert summary["metrics" if name == "rank" else name]["mrr"] == pytest.approx(mean)


@settings(max_examples=30)
@given(graphs(), st.sampled_from(FILTERS))
def test_known_answers_equal_a_loop(graph: TemporalGraph, filter: Filter) -> None:
    directed = oracle.directed(oracle.facts_of(graph.all_facts), len(graph.relations))
    questions = [(s, r, t) for s, r, _, t in directed]
    queries, own = (
        Queries(*torch.tensor(questions).unbind(1)),
        torch.tensor([o for _, _, o, _ in directed]),
    )
    known = KnownAnswers.from_graph(graph, filter)
    (row, answer), padded = known(queries), known.padded_answers(queries, own)
    for index, question in enumerate(questions):
        wanted = oracle.known_answers(graph, question, filter)
        assert sorted(answer[row == index].tolist()) == sorted(wanted)
        found = padded[1][padded[0] == index].tolist()
        assert len(found) == known.max_answers and set(found) - {int(own[index])} == set(wanted) - {
            int(own[index])
        }
    assert known.max_answers == max(
        len(oracle.known_answers(graph, question, filter)) for question in questions
    )


@settings(max_examples=30)
@given(graphs(), st.sampled_from(FILTERS), st.integers(1, 400))
def test_ranks_equal_a_loop_whatever_the_budget(
    graph: TemporalGraph, filter: Filter, budget: int
) -> None:
    model = Hash(len(graph.entities))
    ranks = rank_facts(
        model, torch.from_numpy(graph.all_facts), KnownAnswers.from_graph(graph, filter), budget
    )
    for index, (s, r, o, t) in enumerate(
        oracle.directed(oracle.facts_of(graph.all_facts), len(graph.relations))
    ):
        (scores,) = model.scores(Queries(*(torch.tensor([value]) for value in (s, r, t)))).tolist()
        expected = oracle.ranks(scores, o, oracle.known_answers(graph, (s, r, t), filter))
        assert tuple(float(kind[index]) for kind in ranks) == expected


def test_the_budget_bounds_the_batch_size() -> None:
    rng = np.random.default_rng(0)
    graph = make_graph(
        np.unique(rng.integers(0, 50, (300, 4)), axis=0), entities=50, relations=50, steps=50
    )
    model = Hash(50)
    reported: list[tuple[int, int]] = []
    rank_facts(
        model,
        torch.from_numpy(graph.train),
        KnownAnswers.from_graph(graph),
        50 * 8 * 7 + 399,
        lambda *at: reported.append(at),
    )
    sizes = [len(batch.time) for batch in model.batches]
    assert max(sizes) == 7 and sum(sizes) == 2 * len(graph.train)
    assert reported[-1] == (2 * len(graph.train),) * 2 and len(reported) == len(sizes)
    times = torch.cat([batch.time for batch in model.batches])
    assert (times.diff() >= 0).all(), "questions come in order of time"


def test_subject_ranks_are_object_ranks_of_the_inverted_graph() -> None:
    rng = np.random.default_rng(1)
    facts = np.unique(rng.integers(0, [8, 3, 8, 6], (60, 4)), axis=0)
    graph = make_graph(facts[:40], test=facts[40:], entities=8, relations=3, steps=6)
    flipped = graph.train[:, [2, 1, 0, 3]], graph.test[:, [2, 1, 0, 3]]
    inverted = make_graph(flipped[0], test=flipped[1], entities=8, relations=3, steps=6)
    from tempograph.data.timeline import Timeline
    from tempograph.models.ted import TED

    one, other = (
        evaluate_model(TED(Timeline(g), 0.1), g, "test", "strict").ranks.realistic
        for g in (graph, inverted)
    )
    assert torch.equal(one, torch.cat(other.chunk(2)[::-1]))


def evaluation_of(graph: TemporalGraph) -> dict[str, object]:
    return evaluate_model(Hash(len(graph.entities)), graph, "test", "strict").summary(hits=(1, 5))


def test_summary_and_table_hold_every_query() -> None:
    graph = make_graph([(0, 0, 1, 0)], test=[(1, 0, 2, 1), (3, 1, 0, 4)])
    evaluation = evaluate_model(Hash(4), graph, "test", "paper", "raw")
    summary = evaluation.summary(hits=(1, 5))
    assert json.loads(json.dumps(summary)) == summary
    assert [summary[key] for key in ("dataset", "model", "split", "protocol", "filter")] == [
        "small",
        "hash",
        "test",
        "paper",
        "raw",
    ]
    assert set(summary["metrics"]) == {"mrr", "mr", "hits@1", "hits@5"}
    assert summary["metrics"]["mr"] == (summary["subject"]["mr"] + summary["object"]["mr"]) / 2
    assert summary["optimistic"]["mr"] <= summary["metrics"]["mr"] <= summary["pessimistic"]["mr"]
    rows = evaluation.table().to_pylist()
    assert [(row["s"], row["side"]) for row in rows] == [
        (1, "object"),
        (3, "object"),
        (1, "subject"),
        (3, "subject"),
    ]
    assert [row["rank"] for row in rows] == evaluation.ranks.realistic.tolist()
    assert {(row["split"], row["filter"]) for row in rows} == {("test", "raw")}


def test_an_empty_split_is_refused() -> None:
    with raises(DataError, "evaluator.no_facts", graph="small", split="test"):
        evaluation_of(make_graph([(0, 0, 1, 0)]))


def test_an_unknown_filter_is_named() -> None:
    typo = {"kind": "filter", "value": "tiem", "names": "'time'"}
    with raises(ConfigError, "suggestions.did_you_mean", **typo):
        KnownAnswers.from_graph(make_graph([(0, 0, 1, 0)]), "tiem")  # type: ignore[arg-type]


def test_one_fact_one_entity_one_step() -> None:
    graph = make_graph([(0, 0, 0, 0)], test=[(0, 0, 0, 0)], entities=1, relations=1, steps=1)
    assert isinstance(evaluate_model(Hash(1), graph, "test", "strict").ranks, Ranks)
    assert evaluation_of(graph)["metrics"] == {"mrr": 1.0, "mr": 1.0, "hits@1": 1.0, "hits@5": 1.0}
