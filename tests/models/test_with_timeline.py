"""Trained weights over other facts, and scores without single facts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from graphs import graphs, make_graph
from methods import REGISTERED
from tempograph import TemporalGraph
from tempograph.cache import TensorCache
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Model
from tempograph.models.ensemble.ensemble_model import Ensemble
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.registry import model_kind
from tempograph.models.ted import TED
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.training.config import make_config
from tempograph.typing import PROTOCOLS, Protocol

SMALL = {"dim": 4, "heads": 2, "window": 2, "initial_scale": 1.0}
TEMP = {
    "gru": {},
    "gru, past only": {"bidirectional": False, "gate": False},
    "attention": {"temporal": "attention"},
    "raw embeddings when inactive": {"inactive": "embedding"},
    "structure alone": {"temporal": "none", "gate": False, "imputation": False},
    "no structure": {"structure": "none", "time_embedding": True},
    "rgat": {"structure": "rgat"},
}
KINDS = [*TEMP, "pointer", "ted", "ensemble"]


def build(kind: str, graph: TemporalGraph, protocol: Protocol = "strict") -> Model:
    torch.manual_seed(0)
    timeline = Timeline(graph, protocol)
    if kind == "ted":
        return TED(timeline, 0.5)
    if kind == "pointer":
        model: Model = Pointer(timeline, PointerSettings(4, 5, 3, 4, 6))
    elif kind == "ensemble":
        parts = [build(part, graph, protocol) for part in ("pointer", "gru", "complex")]
        model = Ensemble(
            timeline,
            EnsembleSettings(parts=("pointer", "temp-gru", "complex"), window=2),
            "ensemble",
            *parts,
        )
    elif kind in TEMP:
        model = TeMP(timeline, TeMPSettings(**{**SMALL, **TEMP[kind]}))  # type: ignore[arg-type]
    else:
        settings = make_config(kind, graph.name, overrides=["model.dim=8"]).model
        model = model_kind(kind).build(settings, timeline)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval() if kind == "ensemble" else model.double().eval()


def all_queries(graph: TemporalGraph) -> Queries:
    entities, relations, _, steps = graph.sizes
    grid = torch.cartesian_prod(
        torch.arange(entities), torch.arange(2 * relations), torch.arange(steps)
    )
    return Queries(*(column.contiguous() for column in grid.T))


def dropped(graph: TemporalGraph, row: int) -> TemporalGraph:
    return replace(graph, train=np.delete(graph.train, row, axis=0))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(
    graph=graphs(),
    protocol=st.sampled_from(PROTOCOLS),
    cache_bytes=st.sampled_from([0, 600, 2**30]),
    data=st.data(),
)
@torch.inference_mode()
def test_counterfactual_scores_equal_those_of_a_timeline_without_the_fact(
    kind: str, graph: TemporalGraph, protocol: Protocol, cache_bytes: int, data: st.DataObject
) -> None:
    if len(graph.train) < 2:
        return
    model = build(kind, graph, protocol)
    predicting = model.with_timeline(model.timeline, cache_bytes)  # type: ignore[arg-type]
    queries = all_queries(graph)
    query = queries.take(torch.tensor([data.draw(st.integers(0, len(queries.time) - 1))]))
    count = min(5, len(graph.train))
    some = st.lists(st.integers(0, len(graph.train) - 1), min_size=1, max_size=count, unique=True)
    left_out = torch.tensor(data.draw(some))
    candidates = torch.arange(len(graph.entities)).flip(0)
    actual = predicting.counterfactual_scores(query, left_out, candidates)
    assert actual is not None and actual.shape == (1 + len(left_out), len(candidates))
    assert_close(actual[:1], model.scores(query)[:, candidates].to(actual), check_dtype=False)
    by_time = graph.train[np.lexsort(graph.train.T[[2, 1, 0, 3]])]
    for row, position in zip(actual[1:], left_out.tolist(), strict=True):
        without = replace(graph, train=np.delete(by_time, position, axis=0))
        repeated = model.with_timeline(Timeline(without, protocol)).scores(query)[0, candidates]
        assert_close(row, repeated.to(row), check_dtype=False)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(
    graph=graphs(),
    protocol=st.sampled_from(PROTOCOLS),
    cache_bytes=st.sampled_from([0, 600, 2**30]),
)
@torch.inference_mode()
def test_with_timeline_keeps_scores(
    kind: str, graph: TemporalGraph, protocol: Protocol, cache_bytes: int
) -> None:
    model, queries = build(kind, graph, protocol), all_queries(graph)
    predicting = model.with_timeline(Timeline(graph, protocol), cache_bytes)
    assert_close(predicting.scores(queries), model.scores(queries), check_dtype=False)
    repeated = predicting.scores(queries)
    assert torch.equal(repeated, predicting.scores(queries))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("ted", "ensemble")])
@torch.inference_mode()
def test_scores_over_other_facts_equal_those_of_a_model_built_on_them(kind: str) -> None:
    """A model built on the other facts, with the same weights where they fit."""
    rng = np.random.default_rng(3)
    facts = np.unique(rng.integers(0, [5, 2, 5, 6], (40, 4)), axis=0)
    graph = make_graph(facts, entities=5, relations=2, steps=6)
    more = make_graph(
        np.concatenate([facts[3:], facts[:3][:, [2, 1, 0, 3]]]), entities=5, relations=2, steps=6
    )
    model, other = build(kind, graph), build(kind, more)
    weights = {name: value for name, value in model.state_dict().items() if "prior" not in name}
    for state in (model, other):
        for name, value in state.state_dict().items():
            if "prior" in name:
                value.zero_()
    other.load_state_dict(weights, strict=False)
    queries = all_queries(graph)
    assert_close(
        model.with_timeline(Timeline(more)).scores(queries),
        other.with_timeline(Timeline(more)).scores(queries),
    )
    assert_close(
        model.with_timeline(Timeline(more)).scores(queries),
        other.scores(queries),
        check_dtype=False,
    )


@torch.inference_mode()
def test_the_pointer_keeps_the_prior_of_a_relation_and_a_candidate() -> None:
    graph = make_graph([(0, 0, 1, 0), (0, 0, 1, 1), (2, 1, 3, 1)], relations=2)
    model = build("pointer", graph)
    queries = all_queries(graph)
    without = model.with_timeline(Timeline(dropped(graph, 2)))
    # Relation 1 has no fact any more, but what was learned of it and its candidates stays.
    predicting = Queries(*(torch.tensor([value]) for value in (0, 1, 4)))
    prior = model.sources[1].prior  # type: ignore[union-attr]
    assert prior is not None and bool((prior != 0).all())
    assert without.scores(predicting)[0, 3] - model.entity[3] == pytest.approx(
        float(prior[_candidate_position(model, 1, 3)])
    )
    repeated = without.with_timeline(Timeline(graph)).scores(queries)
    assert_close(repeated, model.scores(queries))


def _candidate_position(model: Pointer, relation: int, candidate: int) -> int:
    view = model.sources[1].fact_index  # type: ignore[union-attr]
    start, stop = (int(view.candidate_start[relation + offset]) for offset in (0, 1))
    return start + view.candidates[start:stop].tolist().index(candidate)


@pytest.mark.parametrize("kind", [*KINDS, *REGISTERED])
@torch.inference_mode()
def test_queries_after_the_last_training_step_have_scores(kind: str) -> None:
    rng = np.random.default_rng(1)
    facts = np.unique(rng.integers(0, [5, 2, 5, 6], (40, 4)), axis=0)
    graph = make_graph(facts, entities=5, relations=2, steps=6)
    model = build(kind, graph)
    longer = make_graph([*facts, (0, 0, 1, 9)], entities=5, relations=2, steps=300)
    longer_model = model.with_timeline(Timeline(longer))
    far = Queries(torch.tensor([0, 2]), torch.tensor([0, 3]), torch.tensor([299, 9]))
    scores = longer_model.scores(far)
    assert not torch.isnan(scores).any()
    if not longer_model.uses_train_facts:
        last = far._replace(time=torch.full_like(far.time, 5))
        assert torch.equal(scores, model.scores(last))


def test_a_cache_stays_within_its_budget() -> None:
    made: list[int] = []

    def make(number: int) -> tuple[torch.Tensor]:
        made.append(number)
        return (torch.zeros(10, dtype=torch.uint8),)

    cache_bytes = TensorCache(25)
    for number in (1, 2, 1, 3, 2, 1):
        cache_bytes(number, lambda number=number: make(number))
        assert cache_bytes.size <= 25
    # 3 drove out 2, which was used least lately; then 2 drove out 1, and 1 drove out 3.
    assert made == [1, 2, 3, 2, 1]
    assert TensorCache(5)("large", lambda: make(4))[0].numel() == 10


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(graph=graphs(), protocol=st.sampled_from(PROTOCOLS), seed=st.integers(0, 99))
def test_answer_scores_equal_those_among_all_entities(
    kind: str, graph: TemporalGraph, protocol: Protocol, seed: int
) -> None:
    model = build(kind, graph, protocol)
    predicting = model.with_timeline(model.timeline)
    questions = all_queries(graph)
    answer = torch.from_numpy(
        np.random.default_rng(seed).integers(0, len(graph.entities), len(questions.time))
    )
    expected = predicting.scores(questions).gather(1, answer[:, None])[:, 0]
    with torch.inference_mode():
        assert_close(predicting.answer_scores(questions, answer).to(expected.dtype), expected)
