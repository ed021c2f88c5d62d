"""Every embedding method against a slow twin of its published score, and properties of all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn
from torch.testing import assert_close

import oracle_layers
import oracle_methods as oracle
import tempograph.models
from graphs import graphs, make_graph
from memory import LargestTensor
from methods import METHODS, REGISTERED, build, dated, each_candidate, every_query, small_graph
from tempograph import TemporalGraph
from tempograph.data.timeline import Queries, Timeline
from tempograph.device import MEMORY_BUDGETS, Budget
from tempograph.models.embedding.embedding_model import Embedding
from tempograph.models.embedding.methods import METHODS as LISTED
from tempograph.training.losses.embedding_loss import EmbeddingLoss
from tempograph.training.settings import FactTrainSettings

EXACT = {"rtol": 1e-9, "atol": 1e-9}
EVERY = pytest.mark.parametrize("name", METHODS)


def test_every_method_of_the_registry_has_a_twin() -> None:
    assert list(oracle.TWINS) == list(REGISTERED) and len(REGISTERED) == 14


@pytest.mark.parametrize("method", LISTED, ids=lambda method: method.name)
def test_a_method_is_documented_by_its_parts(method: type[Embedding]) -> None:
    assert getattr(tempograph.models, method.__name__) is method
    model = method(Timeline(small_graph()), replace(method.settings, dim=4))
    assert model.name == method.name and model.settings.dim == 4 and method.settings.dim == 128
    parts = [type(part).__name__ for part in (model.entities, model.relations, model.decoder)]
    assert f"Parts: {', '.join(parts)}." in (method.__doc__ or "")


@EVERY
@settings(max_examples=8)
@given(graph=graphs(largest=10))
@torch.no_grad()
def test_every_fact_has_the_score_of_the_paper(name: str, graph: TemporalGraph) -> None:
    model = build(dated(graph), name)
    count, twin, weights = (
        model.timeline.num_relations,
        METHODS[name].twin,
        oracle.weights_of(model),
    )
    queries = every_query(model)
    expected = []
    for entity, relation, time in zip(*(part.tolist() for part in queries), strict=True):
        for candidate in range(model.timeline.num_entities):
            fact = (entity, relation, candidate, time)
            if relation >= count and not model.settings.reciprocal:
                fact = (candidate, relation - count, entity, time)
            expected.append(twin(weights, fact, model.timeline.labels))
    assert_close(
        model.scores(queries).flatten(), torch.tensor(expected, dtype=torch.float64), **EXACT
    )


def by_hand(name: str, weights: dict[str, Any], **settings: Any) -> Embedding:
    """Two entities, one relation, the first two days of May, and these weights."""
    graph = make_graph([(0, 0, 1, 0)], entities=2, relations=1, steps=2)
    model = build(
        TemporalGraph(**{**vars(graph), "times": ("2014-05-01", "2014-05-02")}), name, **settings
    )
    given = {key: torch.tensor(value, dtype=torch.float64) for key, value in weights.items()}
    assert not model.load_state_dict(given, strict=False).unexpected_keys
    return model


ENTITIES = "entities.entity", "relations.relation"
WAVES = {
    "entities.still": [[[2.0]], [[5.0]]],
    # Year: amplitude 0. Month: constant at its maximum. Day: changes.
    "entities.amplitude": [[[[0.0]], [[0.0]]], [[[2.0]], [[1.0]]], [[[1.0]], [[3.0]]]],
    "entities.frequency": [[[[9.0]], [[9.0]]], [[[0.0]], [[0.0]]], [[[math.pi / 2]], [[math.pi]]]],
    "entities.phase": [
        [[[0.0]], [[0.0]]],
        [[[math.pi / 2]], [[math.pi / 2]]],
        [[[0.0]], [[math.pi / 2]]],
    ],
}
HEIGHT = 0.5 * math.tanh(0.5 * (1 - 2**-8))


def spread_of(variance: float, low: float = 0.005, high: float = 0.3) -> float:
    """The weight that gives a variance between its bounds."""
    share = math.log(variance / low) / math.log(high / low)
    return math.log(share / (1 - share))


@pytest.mark.parametrize(
    ("name", "settings", "weights", "scores"),
    [
        # s + r - o is (1, 5), and (3, 4) once the second day has moved it by (2, -1).
        *(
            (
                name,
                {"dim": 2},
                {
                    "entities.entity": [[1.0, 2.0], [0.0, -2.0]],
                    "relations.relation": [[0.0, 1.0]],
                    "relations.time": [[0.0, 0.0], [2.0, -1.0]],
                },
                scores,
            )
            for name, scores in (("ttranse", (-math.sqrt(26), -5.0)), ("ttranse, l1", (-6.0, -7.0)))
        ),
        # Unit normals (0.6, 0.8) and (1, 0): s becomes (3.2, -2.4), then (0, 0);
        # r becomes (-2.4, 1.8), then (0, 5).
        (
            "hyte",
            {"dim": 2},
            {
                "entities.entity": [[5.0, 0.0], [0.0, 0.0]],
                "relations.relation": [[0.0, 5.0]],
                "entities.planes.normal": [[3.0, 4.0], [-7.0, 0.0]],
            },
            (-1.0, -5.0),
        ),
        # First day: (2, 2 + 1) and (5, 1 - 3); second day: (2, 2 + 0) and (5, 1 + 3); r = (1, 2).
        (
            "de-distmult",
            {"dim": 2, "wave_share": 0.5},
            {**WAVES, "relations.relation": [[1.0, 2.0]]},
            (-2.0, 26.0),
        ),
        # The same vectors, moved by (1, 2): differences (-2, 7) and (-2, 0).
        (
            "de-transe",
            {"dim": 2, "wave_share": 0.5},
            {**WAVES, "relations.relation": [[1.0, 2.0]]},
            (-(53**0.5), -2.0),
        ),
        # Gates are half open and the cell adds a half: after n tokens it is (1 - 2^-n) / 2.
        (
            "ta-distmult",
            {"dim": 1},
            {
                "entities.entity": [[3.0], [-2.0]],
                "relations.lstm.weight_ih_l0": [[0.0]] * 4,
                "relations.lstm.weight_hh_l0": [[0.0]] * 4,
                "relations.lstm.bias_ih_l0": [0.0, 0.0, math.atanh(0.5), 0.0],
                "relations.lstm.bias_hh_l0": [0.0] * 4,
            },
            (-6 * HEIGHT, -6 * HEIGHT),
        ),
        # (1 + i)(2)(conj(1 + 2i)) = 6 - 2i, and with tau = i, 2 + 6i;
        # TNTComplEx adds (1 + i)(1 - i)(1 - 2i) = 2 - 4i.
        *(
            (
                name,
                {"dim": 2},
                {
                    "entities.entity": [[1.0, 1.0], [1.0, 2.0]],
                    "relations.relation": [[2.0, 0.0], [0.0, 0.0]],
                    "relations.time": [[1.0, 0.0], [0.0, 1.0]],
                    **constant,
                },
                scores,
            )
            for name, constant, scores in (
                ("tcomplex", {}, (6.0, 2.0)),
                ("tntcomplex", {"relations.constant": [[1.0, -1.0], [0.0, 0.0]]}, (8.0, 4.0)),
            )
        ),
        # Both variances are 0.2; the means are equal on the first day. On the second, u = 1/2 and
        # o is ahead of s by slope 1 * trend -4 * u and by a season of 1: 1^2 / 0.2 / 2.
        (
            "atise-ee",
            {"dim": 1},
            {
                "entities.constant": [[0.0], [1.0]],
                "entities.spread": [[spread_of(0.1)], [spread_of(0.1)]],
                "entities.slope": [[0.0], [1.0]],
                "entities.trend": [[7.0], [-4.0]],
                "entities.season": [[0.0], [1.0]],
                "entities.frequency": [[1.0], [0.5]],
                "relations.series.constant": [[1.0]],
                "relations.series.spread": [[spread_of(0.2)]],
            },
            (0.0, -2.5),
        ),
        # The relation moves from 1 to 3; its variance is 0.3, the bound, that of o - s 0.1 + 0.2.
        # The entities stay, or s moves from 0 to -1 and o from 1 to 1.5.
        *(
            (
                name,
                {"dim": 1},
                {
                    "entities.constant": [[0.0], [1.0]],
                    "entities.spread": [[spread_of(0.1)], [spread_of(0.2)]],
                    "relations.series.constant": [[1.0]],
                    "relations.series.spread": [[50.0]],
                    "relations.series.slope": [[2.0]],
                    "relations.series.trend": [[1.0]],
                    "relations.series.season": [[1.0]],
                    "relations.series.frequency": [[0.5]],
                    **moves,
                },
                (0.0, score),
            )
            for name, moves, score in (
                ("atise, relations drift", {}, -20 / 3),
                (
                    "atise-er",
                    {
                        "entities.slope": [[1.0], [0.0]],
                        "entities.trend": [[-2.0], [7.0]],
                        "entities.season": [[0.0], [0.5]],
                        "entities.frequency": [[1.0], [0.5]],
                    },
                    -5 / 12,
                ),
            )
        ),
    ],
)
@torch.no_grad()
def test_two_days_by_hand(
    name: str, settings: dict[str, Any], weights: dict[str, Any], scores: tuple[float, float]
) -> None:
    model = by_hand(name, weights, **settings)
    some_queries = Queries(torch.tensor([0, 0]), torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert model.scores(some_queries)[:, 1].tolist() == pytest.approx(scores, rel=1e-12, abs=1e-12)
    if not model.settings.reciprocal:
        turned = Queries(torch.tensor([1, 1]), torch.tensor([1, 1]), torch.tensor([0, 1]))
        assert model.scores(turned)[:, 0].tolist() == pytest.approx(scores, rel=1e-12, abs=1e-12)


@EVERY
@torch.no_grad()
def test_one_candidate_a_sample_and_all_have_the_same_scores(name: str) -> None:
    model = build(small_graph(), name)
    queries = every_query(model)
    scores = model.scores(queries)
    repeated, candidate = each_candidate(model, queries)
    own = model.score_pairs(model.encode_queries(repeated), repeated.time, candidate)
    assert_close(own.view_as(scores), scores, **EXACT)
    order = torch.randperm(len(scores))
    some_queries = queries.take(order)
    loss = EmbeddingLoss(model, FactTrainSettings(negatives=20))
    generator = torch.Generator().manual_seed(1)
    negatives, times, group = loss.draw_negatives(some_queries.time, 20, generator)
    query = model.encode_queries(some_queries)
    drawn = negatives[group]
    assert_close(
        model.score_candidates(query, group, negatives, times),
        scores[order].gather(1, drawn),
        **EXACT,
    )
    # One sample for each time where entities change with it, or one for all.
    samples = {
        (time, tuple(row))
        for time, row in zip(some_queries.time.tolist(), drawn.tolist(), strict=True)
    }
    assert len(samples) == 5 and len({row for _, row in samples}) == (
        5 if model.entities.time_dependent else 1
    )
    assert set(drawn.flatten().tolist()) == set(range(4)), "every entity is drawn"


@EVERY
@pytest.mark.parametrize("budget", [1, 4 * 4 * 12 * 2, 2**27])
def test_scores_depend_neither_on_order_nor_on_the_memory_budget(
    name: str, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(small_graph(), name)
    queries = every_query(model)
    weights = dict(model.named_parameters())
    pull = torch.randn(len(queries.time), 4, dtype=torch.float64)
    expected = model.scores(queries)
    grads = torch.autograd.grad((expected * pull).sum(), weights.values())
    monkeypatch.setitem(MEMORY_BUDGETS, "embedding_tables", Budget(budget, 0))
    table_sizes: list[int] = []
    tables = model.entities.tables
    monkeypatch.setattr(
        model.entities, "tables", lambda times: table_sizes.append(len(times)) or tables(times)
    )
    # Some queries twice, some not at all.
    order = torch.cat([torch.randperm(len(pull))[:50], torch.arange(30)])
    with torch.no_grad():
        assert_close(model.scores(queries.take(order)), expected[order], **EXACT)
    order = torch.randperm(len(pull))
    again = torch.autograd.grad(
        (model.scores(queries.take(order)) * pull[order]).sum(), weights.values()
    )
    for weight, one, other in zip(weights, grads, again, strict=True):
        assert_close(one, other, **EXACT, msg=lambda text, weight=weight: f"{weight}: {text}")
    if model.entities.time_dependent:
        chunk = max(1, budget // (4 * 4 * model.encode_queries(queries.take(order[:1])).shape[1]))
        assert max(table_sizes) == min(5, chunk) and len(table_sizes) == 2 * -(-5 // chunk)


@pytest.mark.parametrize(
    "name", [name for name, kind in REGISTERED.items() if "entities" in kind.time_dependent]
)
@torch.no_grad()
def test_many_queries_at_one_time_need_no_memory_at_other_times(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(small_graph(entities=60, steps=30, facts=40), name).float()
    time = torch.arange(30).index_fill(0, torch.tensor([7]), 8).repeat_interleave(2)
    time = torch.cat([time, torch.full((300,), 7)])[torch.randperm(360)]
    generator = torch.Generator().manual_seed(0)
    queries = Queries(*(torch.randint(high, (360,), generator=generator) for high in (60, 2)), time)
    expected = model.scores(queries)
    monkeypatch.setitem(MEMORY_BUDGETS, "embedding_tables", Budget(30 * 4 * 60 * 12, 0))
    # Differences are not what is looked at here.
    monkeypatch.setitem(MEMORY_BUDGETS, "differences", Budget(1, 0))
    with LargestTensor() as largest:
        assert_close(model.scores(queries), expected, rtol=1e-5, atol=1e-4)
    assert largest.bytes <= 2 * expected.nbytes


@pytest.mark.parametrize("name", ["atise-ee", "atise-er"])
def test_gaussian_scores_stay_within_both_budgets(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(small_graph(entities=60, relations=1, facts=40), name, dim=16).float()
    generator = torch.Generator().manual_seed(0)
    queries = Queries(*(torch.randint(high, (100,), generator=generator) for high in (60, 2, 5)))
    pull = torch.randn(100, 60, generator=generator)

    def measured() -> tuple[Tensor, tuple[Tensor, ...], int]:
        with LargestTensor() as largest:
            scores = model.scores(queries)
            grads = torch.autograd.grad((scores * pull).sum(), list(model.parameters()))
        return scores, grads, largest.bytes

    expected, grads, whole = measured()
    assert whole >= 4 * 100 * 60 * 16
    # Tables of two times, and the differences of four queries with everyone.
    monkeypatch.setitem(MEMORY_BUDGETS, "embedding_tables", Budget(2 * 4 * 3 * 16 * 60, 0))
    monkeypatch.setitem(MEMORY_BUDGETS, "differences", Budget(4 * 4 * 16 * 60, 0))
    scores, again, peak = measured()
    assert peak == expected.nbytes, "nothing is larger than the scores themselves"
    assert_close(scores, expected, rtol=1e-4, atol=1e-4)
    for one, other in zip(grads, again, strict=True):
        assert_close(one, other, rtol=1e-3, atol=1e-3)


class Scores(nn.Module):
    """The scores of every query as a function of all weights."""

    def __init__(self, model: Embedding) -> None:
        super().__init__()
        self.model = model

    def forward(self, queries: Queries) -> Tensor:
        return self.model.scores(queries)


@EVERY
def test_gradients_of_scores_equal_finite_differences(name: str) -> None:
    graph = small_graph(entities=3, relations=1, steps=2, facts=5)
    model = build(graph, name, dim=2, wave_share=0.5)
    if "relations.token" in dict(model.named_parameters()):
        # Slopes are also those of words that no label has; few words suffice.
        model.relations.tokens = model.relations.tokens % 5
        model.relations.token = nn.Parameter(model.relations.token[:5].detach().clone())
    everything = every_query(model)
    assert oracle_layers.gradients_hold(Scores(model), lambda: (everything,), [])


@pytest.mark.parametrize("name", REGISTERED)
@torch.no_grad()
def test_scores_change_with_time_if_the_registry_says_so(name: str) -> None:
    kind, model = REGISTERED[name], build(small_graph(), name)
    assert kind.time_dependent in ("nothing", "entities", "relations", "entities, relations")
    everyone, relation, first = torch.arange(4), torch.arange(4), torch.zeros(4, dtype=torch.int64)
    # Where entities drift, an entity's difference from itself does not.
    others = ~torch.eye(4, dtype=torch.bool)
    assert model.entities.time_dependent == ("entities" in kind.time_dependent)
    for t in range(1, 5):
        later = torch.full_like(first, t)
        moved = model.entities(everyone, first) != model.entities(everyone, later)
        assert bool(moved.any(1).all()) == bool(moved.any()) == ("entities" in kind.time_dependent)
        vectors = [model.relations(Queries(first, relation, time)) for time in (first, later)]
        turned = vectors[0] != vectors[1]
        assert (
            bool(turned.any(1).all()) == bool(turned.any()) == ("relations" in kind.time_dependent)
        )
        scores = [model.scores(Queries(everyone, relation, time)) for time in (first, later)]
        changed = scores[0] != scores[1]
        assert changed[others].all() if kind.time_dependent != "nothing" else not changed.any()


@EVERY
@torch.no_grad()
def test_single_precision_is_near_double(name: str) -> None:
    model = build(small_graph(), name)
    queries = every_query(model)
    expected = model.scores(queries)
    assert_close(model.float().scores(queries).double(), expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_waves_of_hours_are_those_of_their_day() -> None:
    graph = small_graph(steps=4)
    hours = ("2014-05-01T00", "2014-05-01T23", "2014-05-02T00", "2014-06-02T00")
    model = build(TemporalGraph(**{**vars(graph), "times": hours}), "de-simple")
    tables = model.entities.tables(torch.arange(4))
    assert torch.equal(tables[0], tables[1]) and not torch.equal(tables[1], tables[2])
    assert not torch.equal(tables[2], tables[3])


@pytest.mark.parametrize(
    ("name", "parts"), [("de-transe", 1), ("de-distmult", 1), ("de-simple", 2), ("de-complex", 2)]
)
@pytest.mark.parametrize(("share", "moving"), [(0.0, 0), (0.25, 2), (0.64, 5), (1.0, 8)])
@torch.no_grad()
def test_only_the_share_of_waves_changes_with_time(
    name: str, parts: int, share: float, moving: int
) -> None:
    model = build(small_graph(), name, dim=8 * parts, wave_share=share)
    tables = model.entities.tables(torch.arange(5)).view(5, 4, parts, 8)
    changes = (tables != tables[:1])[1:]
    assert changes[..., 8 - moving :].all() and not changes[..., : 8 - moving].any()
    scores = model.scores(Queries(*torch.tensor([[0, 0, 0], [0, 0, 4]]).unbind(1)))
    assert bool((scores[0] != scores[1]).all()) == (moving > 0)
