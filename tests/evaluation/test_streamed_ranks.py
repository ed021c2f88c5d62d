"""Ranks of candidates in blocks are those of all candidates at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from memory import LargestTensor
from methods import METHODS, build, small_graph
from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import fact_queries
from tempograph.evaluation.evaluator import evaluate_model, rank_with_confidence
from tempograph.evaluation.probabilities import Calibrator
from tempograph.evaluation.streamed_ranks import needs_blocks, rank_in_blocks
from tempograph.models.embedding.embedding_model import Embedding
from tempograph.typing import FILTERS, Filter

ENTITIES = 23
GRAPH = small_graph(entities=ENTITIES, relations=2, steps=3, facts=300)
FIXED = ["transe", "distmult", "complex", "simple", "ttranse", "ta-distmult", "tntcomplex"]


def tied(name: str) -> Embedding:
    """With small whole numbers as weights, so that products are exact and many scores are equal."""
    model = build(GRAPH, name, **({"names": True} if name == "complex" else {}))
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randint(-1, 2, weight.shape))
    return model


def both_ways(model: Embedding, known: KnownAnswers, budget: int, **more: Any) -> tuple[Any, Any]:
    facts = model.timeline.facts[::15]
    queries, answer = fact_queries(facts, known.num_relations)
    calibrator = Calibrator(0.7, 0.1)
    with torch.inference_mode():
        streamed = rank_in_blocks(model, queries, answer, known, budget, None, calibrator)
        at_once = rank_with_confidence(model, facts, known, 2**30, None, None, calibrator)
    return streamed, at_once


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("cells", [1, 20, 30 * ENTITIES])
def test_ranks_with_many_ties_are_those_of_all_candidates_at_once(
    filter: Filter, cells: int
) -> None:
    model, known = tied("tntcomplex"), KnownAnswers.from_graph(GRAPH, filter)
    (ranks, confidence), (expected, sure) = both_ways(model, known, cells * 24)
    assert (expected.pessimistic > expected.optimistic).sum() > 8
    assert all(torch.equal(*pair) for pair in zip(ranks, expected, strict=True))
    assert torch.equal(confidence.among_ten, sure.among_ten)
    torch.testing.assert_close(confidence.best, sure.best)
    torch.testing.assert_close(confidence.log_prob, sure.log_prob)


@pytest.mark.parametrize("name", FIXED)
def test_every_method_with_constant_entities_ranks_in_blocks(name: str) -> None:
    model, known = build(GRAPH, name), KnownAnswers.from_graph(GRAPH)
    assert needs_blocks(model, known, 24 * 100 * ENTITIES)
    assert not needs_blocks(model, known, 24 * 200 * ENTITIES)
    (ranks, confidence), (expected, sure) = both_ways(model, known, 24 * 50)
    assert all(torch.equal(*pair) for pair in zip(ranks, expected, strict=True))
    for measured, right in zip(confidence, sure, strict=True):
        torch.testing.assert_close(measured, right)


@pytest.mark.parametrize("name", METHODS)
def test_scores_of_some_candidates_are_those_among_all(name: str) -> None:
    model = build(GRAPH, name, smallest_variance=0.2, largest_variance=2.0)
    queries, _ = fact_queries(model.timeline.facts[:20], 2)
    candidates = torch.tensor([4, 0, 22, 4])
    with torch.inference_mode():
        expected = model.scores(queries)[:, candidates]
        torch.testing.assert_close(model.candidate_scores(queries, candidates), expected)
    assert model.scores_blocks is not model.entities.time_dependent


def test_an_evaluation_with_a_small_budget_holds_no_scores_of_all_candidates() -> None:
    model = build(GRAPH, "tntcomplex")
    whole = evaluate_model(model, GRAPH, "train", "strict")
    model.scores = None  # type: ignore[assignment]
    with LargestTensor() as largest:
        streamed = evaluate_model(model, GRAPH, "train", "strict", budget=24 * 64)
    assert torch.equal(streamed.ranks.realistic, whole.ranks.realistic)
    # The largest tensor is a table of the facts in both directions.
    assert largest.bytes <= 600 * 4 * 8


def test_a_score_that_is_not_a_number_is_refused() -> None:
    model = build(GRAPH, "distmult")
    with torch.no_grad():
        model.get_parameter("entities.entity")[7, 0] = torch.nan
    with pytest.raises(FloatingPointError, match="NaN"):
        evaluate_model(model, GRAPH, "train", "strict", budget=24 * 64)
