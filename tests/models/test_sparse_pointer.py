"""The pointer with few candidates laid out against all of them: losses, gradients, ranks, top."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from graphs import graphs, make_graph
from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline, fact_queries
from tempograph.evaluation.evaluator import rank_with_confidence
from tempograph.evaluation.probabilities import Calibrator
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.pointer.sparse_layout import SparseLayout
from tempograph.training.losses.pointer_loss import PointerLoss
from tempograph.training.settings import PointerTrainSettings
from tempograph.typing import Protocol

SEEDS = st.integers(0, 2**32 - 1)
PROTOCOLS: tuple[Protocol, ...] = ("strict", "forecast-single")
Counts = Literal["all", "voting"]
KINDS = [(protocol, counts) for protocol in PROTOCOLS for counts in ("all", "voting")][:3]


def pointers(
    graph: TemporalGraph, protocol: Protocol, counts: Counts, seed: int, extra: int = 0
) -> tuple[Pointer, Pointer]:
    """The same random weights with all candidates laid out and with few; `extra` entities more."""
    entities = (*graph.entities, *(f"more {number}" for number in range(extra)))
    timeline = Timeline(dataclasses.replace(graph, entities=entities), protocol)
    models = []
    for layout in ("dense", "sparse"):
        torch.manual_seed(seed)
        few = PointerSettings(3, 2, 2, 3, 4, max_facts_per_hop=2, counts=counts, layout=layout)
        model = Pointer(timeline, few)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.5 * torch.randn_like(parameter))
            # Entities without a fact tie, and there are ties among the others.
            model.entity.copy_(model.entity.mul(2).round())
        models.append(model.double())
    dense, sparse = models
    assert dense.layout is None
    assert sparse.layout is not None
    return dense, sparse


@pytest.mark.parametrize(("protocol", "counts"), KINDS)
@settings(max_examples=10)
@given(graph=graphs(), seed=SEEDS)
def test_scores_are_those_of_all_entities(
    protocol: Protocol, counts: Counts, graph: TemporalGraph, seed: int
) -> None:
    dense, sparse = pointers(graph, protocol, counts, seed, extra=3)
    queries, answer = fact_queries(torch.from_numpy(graph.all_facts), len(graph.relations))
    with torch.inference_mode():
        scores, expected = sparse.sparse_scores(queries), dense.scores(queries)
    assert_close(scores.dense(), expected)
    sizes = sparse.sparse_sizes(queries)
    assert sizes is not None
    assert (torch.bincount(scores.row, minlength=len(answer)) <= sizes).all()
    assert_close(sparse.answer_scores(queries, answer), dense.answer_scores(queries, answer))


@pytest.mark.parametrize("fact_dropout", [0.0, 0.3])
@pytest.mark.parametrize(("protocol", "counts"), KINDS)
@settings(max_examples=8)
@given(graph=graphs(), seed=SEEDS)
def test_losses_and_gradients_are_those_of_all_entities(
    protocol: Protocol, counts: Counts, fact_dropout: float, graph: TemporalGraph, seed: int
) -> None:
    results = []
    for model in pointers(graph, protocol, counts, seed, extra=5):
        loss_function = PointerLoss(model, PointerTrainSettings(fact_dropout=fact_dropout))
        batch = torch.arange(len(graph.train))
        loss = loss_function(batch, torch.Generator().manual_seed(seed))
        loss.backward()
        results.append((loss.detach(), [parameter.grad for parameter in model.parameters()]))
    (loss, grads), (sparse_loss, sparse_grads) = results
    assert_close(sparse_loss, loss, rtol=1e-6, atol=1e-6)
    for grad, expected in zip(sparse_grads, grads, strict=True):
        assert_close(grad, expected, rtol=1e-5, atol=1e-6)


def test_known_answers_are_not_padded_to_be_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU; an entity with 1,000 answers would add as many to all other queries."""
    monkeypatch.setattr(
        PointerLoss, "true_answers", lambda self, *both: self.known.padded_answers(*both)
    )
    facts = [(0, 0, answer, 0) for answer in range(1, 30)] + [(30, 0, 31, 0), (32, 0, 33, 1)]
    graph = make_graph(facts, entities=40, relations=1, steps=2)
    _, sparse = pointers(graph, "strict", "voting", seed=0)
    pairs = []
    losses = SparseLayout.losses

    def recorded(layout: SparseLayout, *given: Any) -> Any:
        pairs.append(torch.stack(given[3]))
        return losses(layout, *given)

    monkeypatch.setattr(SparseLayout, "losses", recorded)
    loss = PointerLoss(sparse, PointerTrainSettings())
    loss(torch.tensor([29, 30]), torch.Generator().manual_seed(0))
    assert pairs[0].shape == (2, 4)


@pytest.mark.parametrize(("protocol", "counts"), KINDS)
@settings(max_examples=8)
@given(graph=graphs(), seed=SEEDS)
@torch.inference_mode()
def test_ranks_are_those_of_all_entities(
    protocol: Protocol, counts: Counts, graph: TemporalGraph, seed: int
) -> None:
    dense, sparse = pointers(graph, protocol, counts, seed, extra=4)
    facts = torch.from_numpy(graph.all_facts)
    known = KnownAnswers(facts, sparse.timeline.sizes)
    calibrator = Calibrator(1.7, 0.1)
    expected, sure = rank_with_confidence(dense, facts, known, None, None, None, calibrator)
    # The budget is enough for one query at a time, then for all.
    for budget in (1, None):
        ranks, confidence = rank_with_confidence(
            sparse, facts, known, budget, None, None, calibrator
        )
        for column, other in zip(ranks, expected, strict=True):
            assert torch.equal(column, other)
        assert confidence is not None and sure is not None
        assert_close(confidence.best, sure.best)
        assert_close(confidence.log_prob, sure.log_prob)
        assert torch.equal(confidence.among_ten, sure.among_ten)


@pytest.mark.parametrize("count", [1, 3, 100])
@settings(max_examples=8)
@given(graph=graphs(), seed=SEEDS)
@torch.inference_mode()
def test_best_answers_are_those_of_all_entities(
    count: int, graph: TemporalGraph, seed: int
) -> None:
    dense, sparse = pointers(graph, "strict", "voting", seed, extra=4)
    facts = torch.from_numpy(graph.all_facts)
    queries, _ = fact_queries(facts, len(graph.relations))
    row, candidate = KnownAnswers(facts, sparse.timeline.sizes)(queries)
    scores = dense.scores(queries)
    scores[row, candidate] = -torch.inf
    expected = scores.topk(min(count, scores.shape[1])).values
    best, entity = sparse.sparse_scores(queries).top(count, (row, candidate))
    assert_close(best, expected)
    possible = best > -torch.inf
    assert_close(scores.gather(1, entity)[possible], best[possible])
    for named, shown in zip(entity, possible, strict=True):
        assert len(set(named[shown].tolist())) == int(shown.sum())
