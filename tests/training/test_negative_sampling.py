"""Corrected negatives and sparse gradients, against loops, averages and dense training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from graphs import make_graph
from memory import LargestTensor
from messages import raises
from methods import build, small_graph
from tempograph import TemporalGraph
from tempograph.data.timeline import fact_queries
from tempograph.errors import ConfigError
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.models.embedding.embedding_model import Embedding
from tempograph.training.loop import LoopHooks, train_model
from tempograph.training.losses.embedding_loss import EmbeddingLoss
from tempograph.training.losses.negative_sampling import NegativeSampler, columns_of
from tempograph.training.settings import FactTrainSettings, Sampling
from tempograph.training.train_state import TrainState

KINDS = pytest.mark.parametrize("sampling", get_args(Sampling))
FIXED = pytest.mark.parametrize("name", ["transe", "distmult", "ta-distmult", "tntcomplex"])
SPARSE: dict[str, Any] = {"optimizer": "adagrad", "clip": 0.0, "sparse_gradients": True}


def graph_of(entities: int = 30, facts: int = 60) -> TemporalGraph:
    return small_graph(entities=entities, relations=2, steps=3, facts=facts)


def settings(**values: Any) -> FactTrainSettings:
    return FactTrainSettings(**{"negatives": 12, "negative_sampling": "mixed", **values})


def loss_of(model: Embedding, facts: Tensor, **values: Any) -> Tensor:
    return EmbeddingLoss(model, settings(**values))(facts, torch.Generator().manual_seed(1))


@KINDS
@FIXED
def test_with_all_entities_as_negatives_the_loss_is_the_full_softmax(
    name: str, sampling: Sampling
) -> None:
    model, facts = build(graph_of(5), name), torch.tensor([0, 7, 8, 20, 44])
    penalties = {"n3": 0.02} | ({"smoothness": 0.1} if name == "tntcomplex" else {})
    full = loss_of(model, facts, negatives="all", negative_sampling="uncorrected", **penalties)
    for count in (5, 500):
        actual = loss_of(model, facts, negatives=count, negative_sampling=sampling, **penalties)
        # Scores against all entities are rounded to single precision.
        assert actual.item() == pytest.approx(full.item(), rel=1e-5)


@pytest.mark.parametrize("name", ["hyte", "de-simple", "atise-er"])
@pytest.mark.parametrize("sampling", ["uniform", "frequency"])
def test_each_time_has_its_own_negatives_if_entities_change(name: str, sampling: Sampling) -> None:
    model = build(graph_of(5), name, smallest_variance=0.2, largest_variance=2.0)
    facts = torch.tensor([0, 7, 8, 20, 44])
    full = loss_of(
        model, facts, negatives="all", negative_sampling="uncorrected", batch="times"
    ).item()
    actual = loss_of(model, facts, negatives=5, negative_sampling=sampling)
    assert actual.item() == pytest.approx(full, rel=1e-5)
    with raises(ConfigError, "embedding_loss.one_sample", model=name):
        EmbeddingLoss(model, settings(negative_sampling="mixed"))


@KINDS
@pytest.mark.parametrize("count", [1, 4, 9])
def test_entities_are_drawn_as_often_as_expected(sampling: Sampling, count: int) -> None:
    """Facts around a query's own one are drawn at random, and only the others count."""
    torch.manual_seed(0)
    facts = torch.randint(0, 10, (24, 4))
    sampler = NegativeSampler(facts, 11, count, sampling)
    rounds, size, generator = 2000, 5, torch.Generator().manual_seed(3)
    times, expected = [0] * 11, [math.nan] * 11
    for _ in range(rounds):
        others = 1 + torch.randperm(len(facts) - 1)[: size - 1]
        place = int(torch.randint(size, ()))
        chosen = torch.cat([others[:place], torch.tensor([0]), others[place:]])
        entity, log_expected, (query, column) = sampler.draw(facts[chosen], 1, generator)
        own = set(column[query == place].tolist())
        assert own == set(column[query == place + size].tolist())
        values = log_expected[0].exp().tolist()
        for number, drawn in enumerate(entity[0].tolist()):
            expected[drawn] = values[number]
            times[drawn] += number not in own
    # Without its own fact, the entities of a query are in fewer facts: they count less.
    left_out = set(facts[0, [0, 2]].tolist()) if sampling in ("batch", "mixed") else set()
    # What no fact mentions is never drawn from a step.
    some = [e for e in range(11) if e not in left_out and not math.isnan(expected[e])]
    assert len(some) >= 7
    for each in some:
        mean = rounds * expected[each]
        assert times[each] == pytest.approx(mean, abs=5 * math.sqrt(mean))


@KINDS
def test_the_corrected_loss_is_that_of_a_loop(sampling: Sampling) -> None:
    model = build(graph_of(facts=500), "tntcomplex")
    batch = torch.arange(0, 60, 3)
    loss = EmbeddingLoss(model, settings(negative_sampling=sampling))
    assert loss.sampler is not None
    rows = model.timeline.facts[batch]
    queries, answer = fact_queries(rows, model.timeline.num_relations)
    scores = model.scores(queries)
    drawn = loss.sampler.draw(rows, 1, torch.Generator().manual_seed(1))
    own = set(zip(*(part.tolist() for part in drawn.own), strict=True))
    known = loss.known.contains(queries, drawn.entity.expand(len(answer), -1))
    losses, left_out = [], 0
    for query in range(len(answer)):
        right = scores[query, answer[query]].item()
        total = math.exp(right)
        for column, entity in enumerate(drawn.entity[0].tolist()):
            if known[query, column] or (query, column) in own:
                left_out += 1
                continue
            weight = math.exp(-drawn.log_expected[0, column].item())
            total += math.exp(scores[query, entity].item()) * weight
        losses.append(math.log(total) - right)
    assert left_out > 20
    actual = loss_of(model, batch, negative_sampling=sampling)
    assert actual.item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_columns_of_known_answers_are_those_of_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    negatives = torch.randint(0, 9, (3, 7), generator=generator)
    group = torch.tensor([2, 0, 1, 1, 2])
    row = torch.tensor([0, 0, 1, 3, 4, 4, 4])
    entity = torch.tensor([1, 4, 8, 3, 0, 2, 5])
    expected = {
        (r, column)
        for r, e in zip(row.tolist(), entity.tolist(), strict=True)
        for column, drawn in enumerate(negatives[group[r]].tolist())
        if drawn == e
    }
    actual = columns_of(row, entity, group, negatives, 9)
    assert set(zip(*(part.tolist() for part in actual), strict=True)) == expected
    assert len(expected) > 3


def trained(name: str, graph: TemporalGraph, train: FactTrainSettings, **more: Any) -> Embedding:
    model = build(graph, name)
    hooks = LoopHooks(None, lambda *_: None, lambda: None, **more)
    train_model(model, EmbeddingLoss(model, train), train, 0, hooks)
    return model


def sparse_settings(**values: Any) -> FactTrainSettings:
    shared = {**SPARSE, "epochs": 3, "facts_per_step": 16, "learning_rate": 0.1, "dropout": 0.1}
    return settings(**{**shared, **values})


@pytest.mark.parametrize("name", ["transe", "hyte", "tntcomplex"])
def test_sparse_training_equals_dense_training(name: str) -> None:
    penalties = {"n3": 0.05, "smoothness": 0.1} if name == "tntcomplex" else {"n3": 0.05}
    sampling = {"negative_sampling": "uniform"} if name == "hyte" else {}
    sparse, dense = (
        trained(name, graph_of(), sparse_settings(sparse_gradients=kind, **penalties, **sampling))
        for kind in (True, False)
    )
    start = build(graph_of(), name)
    for weight, twin, first in zip(
        sparse.parameters(), dense.parameters(), start.parameters(), strict=True
    ):
        torch.testing.assert_close(weight, twin, rtol=0, atol=1e-6)
        assert not torch.equal(weight, first)


def test_a_sparse_step_touches_only_its_own_entities() -> None:
    torch.manual_seed(0)
    rows = torch.randint(0, 3000, (60, 4)) % torch.tensor([3000, 2, 3000, 3])
    model = build(make_graph(rows.tolist(), entities=3000, relations=2, steps=3), "tntcomplex")
    train = sparse_settings(n3=0.05)
    loss = EmbeddingLoss(model, train)
    state = TrainState(model, loss, train, seed=0)
    batch = torch.arange(8)
    table = model.get_parameter("entities.entity")
    before = table.detach().clone()
    loss.known  # noqa: B018
    with LargestTensor() as largest:
        loss(batch, state.generator).backward()
    assert largest.bytes < table.nbytes / 8
    assert table.grad is not None and table.grad.is_sparse
    touched = table.grad.coalesce().indices()[0]
    state.optimizer.step()
    untouched = torch.ones(len(table), dtype=torch.bool).index_fill(0, touched, False)
    assert 0 < len(touched) <= 16 + 12
    assert torch.equal(table[untouched], before[untouched])
    assert (table[touched] != before[touched]).all()


def test_sparse_training_resumes_where_it_stopped(tmp_path: Path) -> None:
    train = sparse_settings(epochs=4)
    whole = trained("tntcomplex", graph_of(), train)
    file = tmp_path / "checkpoint"
    trained("tntcomplex", graph_of(), train, checkpoint=file, max_seconds=0.0)
    resumed = trained("tntcomplex", graph_of(), train, checkpoint=file)
    for weight, twin in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(weight, twin)


@KINDS
def test_training_against_corrected_negatives_memorises_facts(sampling: Sampling) -> None:
    graph = graph_of(entities=25, facts=40)
    train = sparse_settings(epochs=25, facts_per_step=40, negative_sampling=sampling, dropout=0.0)
    model = build(graph, "tntcomplex", dim=32)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.1)
    hooks = LoopHooks(None, lambda *_: None, lambda: None)
    train_model(model, EmbeddingLoss(model, train), train, 0, hooks)
    ranked = evaluate_model(model, graph, "train", "strict").summary()["metrics"]["mrr"]
    assert ranked > 0.8


@pytest.mark.parametrize(
    ("values", "name", "holes"),
    [
        (
            {"negatives": "all"},
            "settings.number_of_negatives",
            {"setting": "negative_sampling mixed"},
        ),
        (
            {"negatives": "all", "negative_sampling": "uncorrected", **SPARSE},
            "settings.number_of_negatives",
            {"setting": "sparse_gradients"},
        ),
        ({"loss": "margin"}, "settings.corrected_loss", {"loss": "margin"}),
        ({"batch": "times"}, "settings.from_the_step", {"sampling": "mixed"}),
        ({"sparse_gradients": True}, "settings.sparse_optimizer", {"optimizer": "adam"}),
        ({**SPARSE, "clip": 1.0}, "settings.sparse_with", {"setting": "clip"}),
        ({**SPARSE, "weight_decay": 0.1}, "settings.sparse_with", {"setting": "weight_decay"}),
        ({**SPARSE, "average": 0.9}, "settings.sparse_with", {"setting": "average"}),
    ],
)
def test_settings_that_do_not_fit_together_name_the_way_out(
    values: dict[str, Any], name: str, holes: dict[str, Any]
) -> None:
    with raises(ConfigError, name, **holes):
        settings(**values)


def test_entities_of_several_vectors_have_dense_gradients() -> None:
    model = build(graph_of(), "de-simple")
    with raises(ConfigError, "entities.sparse_gradients"):
        EmbeddingLoss(model, settings(**SPARSE, negative_sampling="uniform"))
