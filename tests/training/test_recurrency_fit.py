"""What recurrency chooses on valid against trying every value for each relation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from forecasting import forecast_graphs, slow_recurrency, tiny_world
from messages import raises
from oracle import directed, facts_of, ranks
from tempograph import DataError, TemporalGraph, evaluate, train
from tempograph.data.timeline import Timeline
from tempograph.models.recurrency import DECAYS, SHARE_WEIGHTS, Recurrency, RecurrencySettings
from tempograph.training.recurrency_fit import fit_recurrency
from tempograph.typing import ForecastProtocol

Sums = dict[int, list[float]]
"""The sum of reciprocal ranks for each value, by directed relation."""


def slow_sums(
    graph: TemporalGraph, protocol: ForecastProtocol, tried: list[list[tuple[float, float]]]
) -> Sums:
    """Rank the valid facts with every value that is tried.

    tried[value][relation] are the decay and the share weight of a directed relation.
    """
    known, relations = facts_of(np.concatenate([graph.train, graph.valid])), len(graph.relations)
    answers = directed(known, relations)
    facts = known if protocol == "forecast-single" else facts_of(graph.train)
    sums: Sums = {}
    for entity, relation, answer, time in directed(facts_of(graph.valid), relations):
        others = {o for s, r, o, t in answers if (s, r, t) == (entity, relation, time)}
        query = (entity, relation, time)
        own = sums.setdefault(relation, [0.0] * len(tried))
        for index, weights in enumerate(tried):
            scores = slow_recurrency(facts, graph.sizes, query, *weights[relation])
            rank, _, _ = ranks(scores, answer, others)
            own[index] += 1 / rank
    return sums


def check_best(chosen: list[float], sums: Sums, values: tuple[float, ...]) -> None:
    """Each relation has a value with the best sum; one without valid facts the best of all."""
    total = np.sum(list(sums.values()), axis=0)
    for relation, value in enumerate(chosen):
        own = np.array(sums.get(relation, total))
        assert own[values.index(value)] == pytest.approx(own.max(), abs=1e-9)


@pytest.mark.parametrize("protocol", ["forecast-single", "forecast-multi"])
@settings(max_examples=8)
@given(graph=forecast_graphs(30))
def test_the_best_values_on_valid_are_chosen(
    graph: TemporalGraph, protocol: ForecastProtocol
) -> None:
    model = Recurrency(Timeline(graph, protocol))
    fit_recurrency(model, graph, 0, lambda _: None)
    decay, share_weight = model.decay.tolist(), model.share_weight.tolist()
    relations = range(2 * len(graph.relations))
    # First the decay, with a little weight for frequent answers, then the weight.
    tried = [[(value, SHARE_WEIGHTS[1]) for _ in relations] for value in DECAYS]
    check_best(decay, slow_sums(graph, protocol, tried), DECAYS)
    tried = [[(decay[relation], value) for relation in relations] for value in SHARE_WEIGHTS]
    check_best(share_weight, slow_sums(graph, protocol, tried), SHARE_WEIGHTS)


def test_nothing_is_chosen_for_the_other_baselines() -> None:
    graph = tiny_world()
    model = Recurrency(Timeline(graph, "forecast-single"), RecurrencySettings(fit=False))
    fit_recurrency(model, graph, 0, lambda _: None)
    assert not model.decay.any() and not model.share_weight.any()


@pytest.mark.parametrize("model", ["edgebank", "history-frequency"])
def test_baselines_that_choose_nothing_need_no_valid_facts(model: str, tmp_path: Path) -> None:
    graph = tiny_world()
    both = replace(graph, valid=graph.valid[:0])
    run = train(both, model, task="forecast", out=tmp_path / "run", device="cpu", progress=False)
    assert run.results.finished and run.results.valid is None
    own = replace(run.graph, valid=graph.valid[:0], test=graph.valid)
    with_valid = train(own, model, task="forecast", device="cpu", progress=False)
    whole = train(graph, model, task="forecast", device="cpu", progress=False)
    assert whole.results.valid is not None
    found = evaluate(with_valid, "test", progress=False).summary()["metrics"]
    assert found["mrr"] == pytest.approx(whole.results.valid["metrics"]["mrr"])


def test_recurrency_says_what_it_needs_valid_facts_for(tmp_path: Path) -> None:
    graph = tiny_world()
    graph = replace(graph, valid=graph.valid[:0])
    use = "to choose a decay for each relation"
    with raises(DataError, "trainer.no_valid_facts", graph=graph.name, model="recurrency", use=use):
        train(graph, "recurrency", task="forecast", out=tmp_path / "run", device="cpu")
    assert list(tmp_path.iterdir()) == []
    settings = ["model.fit=false"]
    assert train(graph, "recurrency", task="forecast", overrides=settings).results.finished


def test_test_facts_are_not_looked_at() -> None:
    graph = tiny_world()
    other = np.random.default_rng(0).integers((0, 0, 0, 8), graph.sizes, graph.test.shape)
    runs = [
        train(each, "recurrency", task="forecast", device="cpu", progress=False)
        for each in (graph, replace(graph, test=other))
    ]
    for name in ("decay", "share_weight"):
        one, same = (getattr(run.model, name).tolist() for run in runs)
        assert one == same
    lines = [line for line in runs[0].history if "decay" in line]
    assert [line["decay"] for line in lines] == list(DECAYS)
