"""TeMP against a slow twin that encodes one entity at one time; properties of every variant."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from graphs import graphs, make_graph
from memory import LargestTensor
from messages import raises
from tempograph import TemporalGraph
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.timeline import Queries, Timeline
from tempograph.device import MEMORY_BUDGETS, Budget
from tempograph.errors import ConfigError
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.models.temp.encoder import DropoutSample, Encoded
from tempograph.models.temp.gated_decoder import QueryVectors
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.nn.decoders import DECODERS
from tempograph.nn.structure import RGCN, Edges, add_inverse_edges, edge_weights
from tempograph.nn.temporal import Context, Windows
from tempograph.training.loop import LoopHooks, train_model
from tempograph.training.losses.temp_loss import TeMPLoss, sample_per_group
from tempograph.training.settings import SnapshotTrainSettings
from tempograph.typing import COMPLETION_PROTOCOLS, Protocol

SMALL = {"dim": 4, "heads": 2, "window": 2, "feature_dropout": 0.0, "initial_scale": 1.0}
NO_TIME = {"temporal": "none", "gate": False, "imputation": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "gru": {},
    "gru, past only": {"bidirectional": False},
    "gru, plain": {"gate": False, "imputation": False},
    "gru, raw embeddings when inactive": {"inactive": "embedding"},
    "gru, residual when inactive": {"inactive": "residual", "last_activation": "relu"},
    "attention": {"temporal": "attention"},
    "attention, not imputed": {"temporal": "attention", "imputation": False, "bias": True},
    "attention, past only": {"temporal": "attention", "bidirectional": False, "gate": False},
    "structure alone": NO_TIME,
    "no structure": {"structure": "none"},
    "compgcn": {"structure": "compgcn", "composition": "correlate", "norm": "degree"},
    "rgat": {"structure": "rgat", **NO_TIME},
    "blocks": {
        "blocks": 2,
        "inverse_edges": False,
        "inner_activation": "relu",
        "last_activation": "tanh",
    },
    "structure of the authors": {
        **NO_TIME,
        "inactive": "residual",
        "norm": "degree_squared",
        "bias": True,
        "initialization": "xavier",
    },
    "transe": {"decoder": "transe"},
    "simple, time embedding": {"decoder": "simple", "time_embedding": True},
    "distmult": {"decoder": "distmult", "gate": False},
    "names": {"names": True},
    "names, raw embeddings when inactive": {"names": True, "inactive": "embedding"},
}


def build(graph: TemporalGraph, protocol: Protocol = "strict", **settings: Any) -> TeMP:
    torch.manual_seed(0)
    if settings.get("names"):
        words = tuple(f"e{number} of group {number % 2}" for number in range(len(graph.entities)))
        graph = dataclasses.replace(graph, entities=words)
    model = TeMP(Timeline(graph, protocol), TeMPSettings(**{**SMALL, **settings})).double()
    for parameter in model.parameters():
        if parameter.ndim == 0:
            torch.nn.init.uniform_(parameter, 0.05, 0.5)
    for layer in model.structure:
        if getattr(layer, "bias", None) is not None:
            torch.nn.init.normal_(layer.bias)
    return model.eval()


def embeddings(model: TeMP) -> torch.Tensor:
    """The embedding of each entity and of the tokens of its name, [entities, dim]."""
    if model.names is None:
        return model.entity
    start, tokens, _ = model.timeline.name_tokens
    rows = []
    for entity, own in enumerate(model.entity):
        mine = tokens[start[entity] : start[entity + 1]].tolist()
        named = sum((model.names.token[token] for token in mine), torch.zeros_like(own))
        rows.append(own + named / max(1, len(mine)) ** 0.5)
    return torch.stack(rows)


def snapshot(model: TeMP, step: int) -> tuple[torch.Tensor, set[int]]:
    """Every entity in one snapshot by itself, [entities, dim], and who is active there."""
    t, s = model.timeline, model.settings
    facts = t.facts[t.facts[:, 3] == step]
    edges = Edges(facts[:, 0], facts[:, 1], facts[:, 2])
    if s.inverse_edges:
        edges = add_inverse_edges(edges, t.num_relations)
    x = alone = embeddings(model)
    no_edges = Edges(*(column[:0] for column in edges))
    named = {"none": lambda x: x, "relu": torch.relu, "tanh": torch.tanh}
    for index, layer in enumerate(model.structure):
        act = named[s.last_activation if index == len(model.structure) - 1 else s.inner_activation]
        x = act(layer(x, edges, edge_weights(edges, model.edge_types, s.norm).double()))
        alone = act(alone + layer(alone, no_edges, torch.empty(0).double()))
    here = set(t.pair_entity[t.pair_time == step].tolist())
    inactive = {"isolated": x, "residual": alone, "embedding": embeddings(model)}[s.inactive]
    return torch.stack([x[e] if e in here else inactive[e] for e in range(t.num_entities)]), here


def slow_rows(model: TeMP, time: int) -> torch.Tensor:
    """`encode` of every entity at one time, one entity after the other, [entities, width]."""
    t, s = model.timeline, model.settings
    shots = [snapshot(model, step) for step in range(t.num_steps)]
    rows = []
    for entity in range(t.num_entities):
        x, active = shots[time]
        own = x[entity]
        if model.temporal is None:
            rows.append(own)
            continue
        past = [step for step in range(max(0, time - s.window), time) if entity in shots[step][1]]
        future = [
            step
            for step in range(time + 1, min(t.num_steps, time + s.window + 1))
            if entity in shots[step][1]
        ]
        future = future if s.bidirectional else []
        steps = torch.tensor(past + future, dtype=torch.int64)
        context = Context(
            torch.stack([shots[step][0][entity] for step in past + future] or [own])[: len(steps)],
            steps,
        )
        windows = Windows(
            torch.tensor([time]),
            Ranges(torch.tensor([0]), torch.tensor([len(past)])),
            Ranges(torch.tensor([len(past)]), torch.tensor([len(steps)]))
            if s.bidirectional
            else None,
        )
        own = own[None]
        if entity not in active and model.imputation is not None:
            own = model.imputation(own, windows, context)
        z = model.temporal(own, windows, context)
        rows.append((torch.cat([own, z], dim=1) if model.gate is not None else z)[0])
    return torch.stack(rows)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@settings(max_examples=8)
@given(graph=graphs(), protocol=st.sampled_from(COMPLETION_PROTOCOLS))
def test_encoding_many_times_at_once_equals_one_entity_at_a_time(
    graph: TemporalGraph, protocol: Protocol, variant: dict[str, Any]
) -> None:
    model = build(graph, protocol, **variant)
    times = torch.randperm(len(graph.times))[:3]
    encoded = model.encode(times)
    tables = encoded.tables(len(times))
    for time_index, time in enumerate(times.tolist()):
        expected = slow_rows(model, time)
        torch.testing.assert_close(tables[time_index], expected)
        everyone = torch.arange(len(graph.entities))
        torch.testing.assert_close(
            encoded.take(torch.full_like(everyone, time_index), everyone), expected
        )


@pytest.mark.parametrize(("alpha", "half"), [(1.0, 0), (0.0, 1)])
@torch.no_grad()
def test_an_open_gate_takes_the_structural_vector_and_a_closed_one_the_temporal(
    alpha: float, half: int
) -> None:
    model = build(make_graph([(0, 0, 1, 0), (2, 1, 3, 1)]), decoder="distmult")
    assert model.gate is not None
    model.gate.second.zero_()
    model.gate.second_bias.fill_(800 if alpha else -800)
    queries = Queries(*torch.tensor([[0, 2, 1], [0, 1, 2], [1, 0, 2]]))
    given = torch.randn(3, 2 * model.settings.dim, dtype=torch.float64)
    vectors = model.query_vectors(queries, given)
    assert vectors.alpha is not None and vectors.alpha.tolist() == [alpha] * 3
    torch.testing.assert_close(
        vectors.vector, model.decoder.compose(given.chunk(2, 1)[half], model.relations(queries))
    )


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@torch.no_grad()
def test_scores_of_all_candidates_equal_one_score_at_a_time(variant: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    graph = make_graph(
        np.unique(rng.integers(0, [5, 2, 5, 6], (25, 4)), axis=0), entities=5, relations=2, steps=6
    )
    model = build(graph, **variant)
    # Every seventh has each entity, each relation and each time.
    questions = torch.tensor(list(itertools.product(range(5), range(4), range(6)))[::7])
    scores = model.scores(Queries(*questions.unbind(1)))
    for question, row in zip(questions, scores, strict=True):
        query = Queries(*(value[None] for value in question))
        encoded, time_index = model.encode(query.time), torch.zeros(1, dtype=torch.int64)
        vector, alpha = model.query_vectors(query, encoded.take(time_index, query.entity))
        for candidate in range(5):
            answer = encoded.take(time_index, torch.tensor([candidate]))
            if alpha is not None:
                x, z = answer.chunk(2, 1)
                answer = alpha[:, None] * x + (1 - alpha[:, None]) * z
            expected = (
                -(vector - answer).norm()
                if variant.get("decoder") == "transe"
                else (vector * answer).sum()
            )
            assert float(row[candidate]) == pytest.approx(float(expected), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@settings(max_examples=10)
@given(graph=graphs(), data=st.data())
def test_strict_hides_valid_and_test_facts(
    variant: dict[str, Any], graph: TemporalGraph, data: st.DataObject
) -> None:
    sizes = graph.sizes
    fact = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    valid, test = (data.draw(st.lists(fact, max_size=6)) for _ in range(2))
    changed = make_graph(graph.train, valid, test, sizes[0], sizes[1], sizes[3])
    times = torch.arange(len(graph.times))
    one, other = (build(each, **variant) for each in (graph, changed))
    assert torch.equal(one.encode(times).tables(len(times)), other.encode(times).tables(len(times)))
    losses = []
    for model in (one, other):
        loss = TeMPLoss(model, SnapshotTrainSettings())(times, torch.Generator().manual_seed(1))
        losses.append(loss)
    assert torch.equal(*losses)


def test_paper_shows_who_is_active_in_test() -> None:
    without = make_graph([(0, 0, 1, 0), (0, 0, 1, 3)])
    leaking = make_graph([(0, 0, 1, 0), (0, 0, 1, 3)], test=[(2, 0, 3, 0)])
    for variant in (
        {"inactive": "embedding", **NO_TIME},
        {"inactive": "embedding"},
        {"temporal": "attention"},
    ):
        times = torch.arange(5)
        tables = [build(g, "paper", **variant).encode(times).tables(5) for g in (without, leaking)]
        assert not torch.equal(*tables)
        torch.testing.assert_close(tables[0][:, :2], tables[1][:, :2])


@pytest.mark.parametrize(
    "variant", [{}, NO_TIME, {"temporal": "attention"}], ids=["gru", "structure alone", "attention"]
)
def test_subject_ranks_are_object_ranks_of_the_inverted_graph(variant: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    facts = np.unique(rng.integers(0, [8, 3, 8, 6], (60, 4)), axis=0)
    graph = make_graph(facts[:40], test=facts[40:], entities=8, relations=3, steps=6)
    flip = [2, 1, 0, 3]
    inverted = make_graph(
        graph.train[:, flip], test=graph.test[:, flip], entities=8, relations=3, steps=6
    )
    one, other = build(graph, **variant), build(inverted, **variant)
    with torch.no_grad():
        for mine, theirs in zip(one.structure, other.structure, strict=True):
            theirs.weight.copy_(mine.weight.roll(3, 0))
        other.relations.relation.copy_(one.decoder.inverse(one.relations.relation))
        if one.gate is not None and other.gate is not None:
            for mine, theirs in zip(one.gate.parameters(), other.gate.parameters(), strict=True):
                theirs.copy_(mine.flip(0))
    ranks = [
        evaluate_model(model, g, "test", "strict").ranks.realistic
        for model, g in ((one, graph), (other, inverted))
    ]
    assert torch.equal(ranks[0], torch.cat(ranks[1].chunk(2)[::-1]))


def train(
    model: TeMP, settings: SnapshotTrainSettings, graph: TemporalGraph, split: str = "train"
) -> float:
    hooks = LoopHooks(
        validate=lambda m: evaluate_model(m, graph, split, "strict").summary()["metrics"],  # type: ignore[arg-type]
        on_epoch=lambda line, progress: None,
        save_weights=lambda: None,
    )
    return train_model(model, TeMPLoss(model, settings), settings, 0, hooks).best_mrr


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_twenty_facts_are_memorized(variant: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    facts = rng.permutation(np.unique(rng.integers(0, [9, 2, 9, 6], (60, 4)), axis=0))[:20]
    graph = make_graph(facts, entities=9, relations=2, steps=6)
    torch.manual_seed(0)
    chosen = {
        **SMALL,
        "dim": 32,
        "edge_dropout": 0.0,
        "context_dropout": 0.0,
        "initial_scale": 0.5,
        **variant,
    }
    model = TeMP(Timeline(graph), TeMPSettings(**chosen))
    settings = SnapshotTrainSettings(
        epochs=50, times_per_step=3, learning_rate=0.02, patience=20, validate_every=10
    )
    # DistMult is symmetric, so it may rank an answer behind the entity of the query.
    assert train(model, settings, graph) >= (0.9 if variant.get("decoder") == "distmult" else 1.0)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_every_variant_trains_in_half_precision_without_output(
    variant: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    graph = make_graph(
        [(0, 0, 1, 0), (1, 1, 2, 1), (2, 0, 3, 1), (0, 1, 3, 2)], entities=4, relations=2, steps=3
    )
    model = TeMP(Timeline(graph), TeMPSettings(**{**SMALL, **variant}))
    settings = SnapshotTrainSettings(epochs=1, precision="bf16-mixed")
    assert train(model, settings, graph) > 0
    assert capfd.readouterr() == ("", "")


def test_every_kind_of_training_lowers_the_loss() -> None:
    rng = np.random.default_rng(3)
    graph = make_graph(
        np.unique(rng.integers(0, [9, 2, 9, 6], (80, 4)), axis=0), entities=9, relations=2, steps=6
    )
    ways = [
        {"negatives": 4},
        {"targets": "dropped"},
        {"max_facts": 3},
        {"average": 0.9},
        {"weight_decay": 1e-4},
    ]
    for way in ways:
        torch.manual_seed(0)
        model = TeMP(
            Timeline(graph),
            TeMPSettings(**{**SMALL, "dim": 16, "dropout_by_frequency": "average" in way}),
        )
        settings = SnapshotTrainSettings(
            epochs=30, times_per_step=2, learning_rate=0.02, patience=30, **way
        )
        hooks = LoopHooks(
            validate=lambda m: {"mrr": 0.0},
            on_epoch=lambda line, p: None,
            save_weights=lambda: None,
        )
        history = train_model(model, TeMPLoss(model, settings), settings, 0, hooks).history
        losses = [line["loss"] for line in history]
        assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5]), way


@given(graphs(), st.data())
@settings(max_examples=16)
def test_a_training_step_does_not_read_dropped_facts(
    graph: TemporalGraph, data: st.DataObject
) -> None:
    """At its own time facts are dropped for themselves, around it as context."""
    model = build(graph)
    facts, chance = model.timeline.facts, np.random.default_rng(data.draw(st.integers(0, 99)))
    keep, context_keep = (torch.from_numpy(chance.random(len(facts)) < 0.5) for _ in range(2))
    time = torch.tensor([data.draw(st.integers(0, len(graph.times) - 1))])
    visible = facts[torch.where(facts[:, 3] == time, keep, context_keep)].numpy()
    assume(len(visible))
    actual = model.encode(time, DropoutSample(keep, context_keep, torch.Generator())).tables(1)
    assert_close(actual, build(replace(graph, train=visible)).encode(time).tables(1))


def test_facts_are_dropped_at_their_rates() -> None:
    graph = make_graph(
        [(s, 0, o, t) for s in range(20) for o in range(20) for t in range(10)],
        entities=20,
        steps=10,
    )
    model = build(graph, edge_dropout=0.6, context_dropout=0.1)
    sample = TeMPLoss(model, SnapshotTrainSettings()).sample_dropout(
        torch.Generator().manual_seed(0)
    )
    assert float(sample.keep.double().mean()) == pytest.approx(0.4, abs=0.02)
    assert float(sample.context_keep.double().mean()) == pytest.approx(0.9, abs=0.02)


def test_context_facts_of_busy_pairs_are_dropped_more_often() -> None:
    """0 and 1 have three facts in a window of 2 and one beyond it; 2 has as many, with others."""
    facts_met = [
        (0, 0, 1, 0),
        (0, 1, 1, 1),
        (0, 0, 1, 2),
        (0, 0, 1, 6),
        (2, 0, 3, 1),
        (2, 0, 4, 1),
        (2, 0, 5, 2),
        (2, 1, 5, 3),
    ]
    model = build(
        make_graph(facts_met, entities=6, relations=2, steps=7), dropout_by_frequency=True
    )
    twice = 0.2 + 0.6 * np.log(2) / np.log(3)
    loss = TeMPLoss(model, SnapshotTrainSettings())
    facts, dropout = map(tuple, model.timeline.facts.tolist()), loss._frequency_rates
    rates = dict(zip(facts, dropout.tolist(), strict=True))
    assert [rates[fact] for fact in facts_met] == pytest.approx(
        [0.8, 0.8, 0.8, 0.2, 0.2, 0.2, twice, twice]
    )
    samples = [loss.sample_dropout(torch.Generator().manual_seed(seed)) for seed in range(2000)]
    kept = torch.stack([sample.keep.double() for sample in samples]).mean(0)
    context = torch.stack([sample.context_keep.double() for sample in samples]).mean(0)
    assert_close(kept, torch.full_like(kept, 1 - model.settings.edge_dropout), rtol=0, atol=0.05)
    assert_close(context, 1 - dropout.double(), rtol=0, atol=0.05)
    once = build(
        make_graph([(0, 0, 1, 0), (0, 0, 1, 1), (2, 0, 3, 0)], steps=7), dropout_by_frequency=True
    )
    assert TeMPLoss(once, SnapshotTrainSettings())._frequency_rates.tolist() == pytest.approx(
        [0.8, 0.2, 0.8]
    )


@pytest.mark.parametrize("negatives", ["all", 5])
def test_a_summed_loss_adds_the_means_of_times_and_directions(negatives: Any) -> None:
    """Three facts at time 0, one at time 2: a mean over queries would count time 0 thrice."""
    graph = make_graph(
        [(0, 0, 1, 0), (1, 1, 2, 0), (2, 0, 3, 0), (3, 1, 0, 2)], entities=5, relations=2, steps=3
    )
    model = build(graph, edge_dropout=0.0, context_dropout=0.0)
    model.train()

    def loss(reduction: Any, *times: int) -> Tensor:
        given = SnapshotTrainSettings(negatives=negatives, reduction=reduction)
        return TeMPLoss(model, given)(torch.tensor(times), torch.Generator().manual_seed(0))

    for time in (0, 2):
        assert_close(loss("sum", time), 2 * loss("mean", time))
    if negatives == "all":
        assert_close(loss("sum", 0, 2), loss("sum", 0) + loss("sum", 2))
        assert_close(loss("mean", 0, 2), (3 * loss("mean", 0) + loss("mean", 2)) / 4)


def test_dropout_of_self_loops_is_set_by_dropout_on() -> None:
    graph = make_graph([(0, 0, 1, 0)], entities=3, steps=1)
    model = build(graph, feature_dropout=0.999, dropout_on="self_loop", layers=1, **NO_TIME)
    keep = torch.ones(1, dtype=torch.bool)
    sample = DropoutSample(keep, keep, torch.Generator().manual_seed(0))
    encoded = model.encode(torch.tensor([0]), sample).tables(1)[0]
    (layer,) = model.structure
    assert isinstance(layer, RGCN)
    # Entities 0 and 1 receive one message each, forward and inverse; 2 receives none.
    weight = layer.weight[:, :, 0, 0]
    messages = [weight[model.timeline.num_relations] * model.entity[1], weight[0] * model.entity[0]]
    assert_close(encoded[:2], torch.stack(messages))
    assert not encoded[2].any()


def test_a_time_embedding_is_added_to_every_entity() -> None:
    """Written out: scores of (s + t, r, o + t), up to a constant per query for products."""
    graph = make_graph([(0, 0, 1, 0), (1, 0, 2, 1)], entities=4, steps=2)
    for decoder in DECODERS:
        model = build(graph, decoder=decoder, time_embedding=True, gate=False)
        assert model.time is not None
        torch.nn.init.normal_(model.time)
        queries = Queries(*(torch.tensor(column) for column in ([0, 1], [0, 1], [0, 1])))
        rows = model.encode(torch.arange(2)).tables(2) + model.time[:, None]
        for number, scores in enumerate(model.scores(queries)):
            relation = model.relations(queries)[number]
            query = model.decoder.compose(rows[number, queries.entity[number]], relation)
            expected = model.decoder.score(query[None], rows[number])[0]
            assert_close(
                (scores - scores[0]).double(), expected - expected[0], rtol=1e-4, atol=1e-5
            )


def test_only_dropped_facts_are_targets_if_so_set(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make_graph(
        [(s, 0, o, t) for s in range(4) for o in range(4) for t in range(3)], entities=4, steps=3
    )
    loss = TeMPLoss(build(graph, edge_dropout=0.5), SnapshotTrainSettings(targets="dropped"))
    facts = loss.timeline.facts
    keep = torch.rand(len(facts), generator=torch.Generator().manual_seed(0)) < 0.5
    vectors: list[Tensor] = []

    def recording(queries: Queries, answer: Tensor) -> tuple[Tensor, Tensor]:
        vectors.append(torch.stack([queries.entity, queries.relation, answer, queries.time], 1))
        return answer[:0], answer[:0]

    monkeypatch.setattr(
        loss, "sample_dropout", lambda generator: DropoutSample(keep, keep, generator)
    )
    monkeypatch.setattr(loss, "true_answers", recording)
    loss(torch.tensor([0, 2]), torch.Generator())
    expected = facts[~keep & (facts[:, 3] != 1)]
    assert sorted(vectors[0][: len(expected)].tolist()) == sorted(expected.tolist())
    assert len(vectors[0]) == 2 * len(expected)


def test_sample_per_group_keeps_at_most_max_members() -> None:
    time_index, position = torch.tensor([0, 0, 0, 0, 1, 2, 2, 2]), torch.arange(8)
    generator = torch.Generator().manual_seed(0)
    visible = set()
    for _ in range(200):
        kept_group, kept = sample_per_group(time_index, position, 2, generator)
        assert torch.bincount(kept_group).tolist() == [2, 1, 2]
        assert (time_index[kept] == kept_group).all() and len(set(kept.tolist())) == 5
        visible |= set(kept.tolist())
    assert visible == set(range(8)), "every fact has its chance"
    assert torch.equal(sample_per_group(time_index, position, 4, generator)[1], position)


def test_negatives_are_never_true() -> None:
    graph = make_graph([(0, 0, o, 1) for o in range(3)] + [(3, 1, 0, 1)], entities=4)
    loss = TeMPLoss(build(graph), SnapshotTrainSettings(negatives=2))
    queries = Queries(torch.tensor([0, 0, 3]), torch.tensor([0, 1, 1]), torch.tensor([1, 1, 1]))
    everyone = torch.arange(4).expand(3, 4)
    assert loss.known.contains(queries, everyone).tolist() == [
        [True, True, True, False],
        [False, False, False, False],
        [True, False, False, False],
    ]


@pytest.mark.parametrize(
    ("wrong", "name", "values"),
    [
        ({"dim": 0}, "typing.bounds", {"setting": "dim", "bounds": "at least 1", "value": 0}),
        ({"dim": 5}, "temp_settings.even_dim", {"decoder": "complex"}),
        ({"blocks": 3}, "temp_settings.divides", {"setting": "blocks", "value": 3}),
        ({"temporal": "none"}, "temp_settings.no_temporal", {}),
        (
            {"structure": "rgat", "bias": True},
            "temp_settings.rgcn_only",
            {"setting": "bias=true", "structure": "rgat"},
        ),
        (
            {"structure": "none", "initialization": "xavier"},
            "temp_settings.rgcn_only",
            {"setting": "initialization=xavier", "structure": "none"},
        ),
        (
            {"structure": "compgcn", "dropout_on": "self_loop"},
            "temp_settings.rgcn_only",
            {"setting": "dropout_on=self_loop", "structure": "compgcn"},
        ),
        (
            {"temporal": "attention", "heads": 3},
            "temp_settings.divides",
            {"setting": "heads", "value": 3},
        ),
        (
            {"edge_dropout": 1.0},
            "typing.bounds",
            {"setting": "edge_dropout", "bounds": "at least 0 and below 1", "value": 1.0},
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    wrong: dict[str, Any], name: str, values: dict[str, object]
) -> None:
    with raises(ConfigError, name, **{"dim": 4} | wrong | values):
        replace(TeMPSettings(**SMALL), **wrong)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from([0.0, 0.1, 0.4, 0.9]),
    st.booleans(),
    st.sampled_from(["complex", "transe"]),
)
def test_scores_of_all_entities_are_those_of_the_tables(
    seed: int, share: float, gate: bool, decoder: str
) -> None:
    """Few or most entities differ from the base: scores and gradients equal those of tables."""
    times, generator = 3, torch.Generator().manual_seed(seed)
    model = build(make_graph([(0, 0, 1, 0)], entities=6), gate=gate, decoder=decoder)
    entities, dim = model.entity.shape
    width = dim * (1 + gate)

    def chance(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    keys = (torch.rand(times * entities, generator=generator) < share).nonzero()[:, 0]
    encoded = Encoded(chance(entities, width), keys, chance(len(keys), width))
    time_index = torch.randint(times, (7,), generator=generator)
    questions = QueryVectors(
        chance(7, dim), torch.rand(7, generator=generator, dtype=torch.float64) if gate else None
    )
    leaves, weights = [encoded.base, encoded.rows, questions.vector], chance(7, entities).detach()
    tables = encoded.tables(times)
    wanted = torch.cat(
        [
            model.score(questions.take(torch.tensor([n])), tables[at])
            for n, at in enumerate(time_index)
        ]
    )
    scores, row = model.score_all(questions, time_index, encoded, times)
    actual = scores[row]
    assert_close(actual, wanted)
    for one, other in zip(
        grads(actual, weights, leaves), grads(wanted, weights, leaves), strict=True
    ):
        assert_close(one, other)


def grads(scores: Tensor, weights: Tensor, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(
        (scores * weights).sum(), leaves, retain_graph=True, materialize_grads=True
    )


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("variant", ["gru", "gru, plain", "attention", "structure alone"])
@torch.no_grad()
def test_many_queries_at_one_time_take_no_memory_at_others(
    variant: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    graph = make_graph(rng.integers(0, [60, 2, 60, 30], (300, 4)), entities=60, steps=30)
    model = build(graph, **{**VARIANTS[variant], "window": window}).float()
    facts = rng.integers(0, [60, 4, 60, 30], (360, 4))
    facts[60:, 3] = 7
    queries = Queries(*torch.from_numpy(rng.permutation(facts)[:, [0, 1, 3]]).unbind(1))
    expected = model.scores(queries)
    monkeypatch.setitem(MEMORY_BUDGETS, "temp_tables", Budget(30 * 4 * 60 * 8, 0))
    with LargestTensor() as largest:
        assert_close(model.scores(queries), expected)
    # Cells of the scores are counted in numbers of twice their size.
    assert largest.bytes <= 2 * 2 * expected.nbytes
