"""Training on facts that hold for a while: when each is asked, and which answers are masked."""

from __future__ import annotations

import pytest
import torch

import tempograph
from spanned import ENTITIES, RELATIONS, STEPS, interval_graph
from tempograph.data.timeline import Queries, Timeline, both_directions
from tempograph.models.registry import MODELS
from tempograph.training.losses.embedding_loss import EmbeddingLoss
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.setup import build_model, configure

METHODS = ("transe", "simple", "ttranse", "hyte", "ta-distmult", "de-simple", "atise-ee")


def embedding_loss(method: str = "tntcomplex", seed: int = 1) -> EmbeddingLoss:
    graph, device = interval_graph(seed), torch.device("cpu")
    config = configure(graph, method, device, overrides=["model.dim=8", "train.facts_per_step=15"])
    gradient = config.recipe.gradient
    assert gradient is not None
    loss: EmbeddingLoss = gradient.loss(build_model(config, Timeline(graph), {}), config.train)
    return loss


def steps_of(loss: TrainingLoss, epochs: int) -> list[list[int]]:
    """The steps at which each fact was asked."""
    generator, steps = torch.Generator().manual_seed(3), []
    for _ in range(epochs):
        asked = torch.cat(list(loss.batches(generator)))
        assert sorted(asked.tolist()) == list(range(len(loss.timeline.facts)))
        steps.append(loss.fact_time.clone())
    return torch.stack(steps, 1).tolist()


def test_each_fact_is_asked_once_an_epoch_at_any_step_of_its_own() -> None:
    loss = embedding_loss()
    for fact, steps in zip(loss.timeline.rows.tolist(), steps_of(loss, 150), strict=True):
        assert set(steps) == set(range(fact[3], fact[4] + 1))
        largest = max(steps.count(step) for step in set(steps))
        assert largest < 4 * 150 / len(set(steps)) + 1


def test_batches_of_times_ask_the_same() -> None:
    loss, generator = embedding_loss("de-simple"), torch.Generator().manual_seed(0)
    object.__setattr__(loss.settings, "batch", "times")
    parts = list(loss.batches(generator))
    assert sorted(torch.cat(parts).tolist()) == list(range(len(loss.timeline.facts)))
    for part in parts:
        queries = loss.asked_facts(part)
        assert torch.equal(queries[:, 3], loss.fact_time[part])
    times = torch.unique(loss.fact_time)
    row, position = loss.facts_asked_at(times)
    assert torch.equal(times[row], loss.fact_time[position])


def test_an_epoch_after_a_checkpoint_asks_what_it_would_have_asked() -> None:
    first, second = embedding_loss(), embedding_loss()
    generator = torch.Generator().manual_seed(5)
    first.batches(generator)
    state = generator.get_state()
    expected = torch.cat(list(first.batches(generator)))
    resumed = torch.cat(list(second.batches(torch.Generator().set_state(state))))
    assert torch.equal(expected, resumed) and torch.equal(first.fact_time, second.fact_time)


def test_answers_are_masked_where_they_hold_at_the_asked_step() -> None:
    loss = embedding_loss()
    rows = both_directions(loss.timeline.rows, RELATIONS).tolist()
    pairs = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(2 * RELATIONS))
    for time in range(STEPS):
        queries = Queries(*pairs.T, torch.full((len(pairs),), time))
        expected = {
            (number, o)
            for number, (e, r) in enumerate(pairs.tolist())
            for s, other, o, start, end, _ in rows
            if (s, other) == (e, r) and start <= time <= end
        }
        found = loss.true_answers(queries, torch.zeros(len(pairs), dtype=torch.int64))
        assert set(zip(*(column.tolist() for column in found), strict=True)) == expected


@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_embedding_learns_from_intervals(method: str) -> None:
    assert method in MODELS
    loss, generator = embedding_loss(method), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(loss.parameters(), 0.02)
    values = []
    for _ in range(6):
        total = torch.zeros(())
        for batch in loss.batches(generator):
            value = loss(batch, generator)
            optimizer.zero_grad()
            torch.autograd.backward(value)
            optimizer.step()
            total += value.detach()
        values.append(float(total))
    assert values[-1] < values[0]


def test_an_ensemble_learns_from_intervals() -> None:
    """Its gate counts facts that hold, and its parts are trained on them."""
    graph = interval_graph(2, facts=70, held_out=8)
    run = tempograph.train(
        graph,
        "temp-pointer",
        overrides=['model.parts=["pointer", "complex"]', "model.steps=20"],
        device="cpu",
        progress=False,
    )
    assert run.results.finished
    scores = run.model.scores(Queries(*torch.tensor([[0], [1], [5]])))
    assert torch.isfinite(scores).all()
