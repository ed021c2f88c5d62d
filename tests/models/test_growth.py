"""Weights for more names and steps: known ones stay, new ones are estimated as in plain loops."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

import methods
from graphs import graphs, make_graph
from memory import LargestTensor
from messages import raises
from methods import METHODS
from tempograph import TemporalGraph
from tempograph.data.additions import Additions
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import QueryError
from tempograph.models.base import Model
from tempograph.models.embedding.embedding_model import Embedding
from tempograph.models.entity_estimates import EntityEstimates
from tempograph.models.growth import Growth, grow_weights
from tempograph.models.pointer.copying import Copying
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.ted import TED
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.models.weight_axes import weight_axes
from tempograph.training.run_heads import build_heads
from updating import pairs_of

SMALL = {"dim": 4, "heads": 2, "window": 2, "initial_scale": 1.0}
TEMP = {
    "temp-gru": {},
    "temp-sa": {"temporal": "attention", "time_embedding": True, "names": True},
    "rgat": {"structure": "rgat", "gate": False},
    "compgcn": {"structure": "compgcn", "inverse_edges": False},
    "full matrices": {"blocks": 1, "bias": True},
}
POINTERS = {
    "pointer": PointerSettings(4, 5, 3, 4, 6, paths=True),
    "pointer, names": PointerSettings(4, 5, 3, 4, 6, names=True),
}
KINDS = [*TEMP, *POINTERS, "ted", *METHODS]
NAMES = ("Ann Lee", "Bob Lee", "Ann Ray", "Bob Ray", "Kim")
rng = np.random.default_rng(3)
FACTS = np.unique(rng.integers(0, [5, 2, 5, 6], (40, 4)), axis=0)
GRAPH = replace(methods.dated(make_graph(FACTS, entities=5, steps=6)), entities=NAMES)
NEW_STEPS = methods.dated(make_graph(FACTS, entities=5, steps=13)).times[6:]
LATER = Additions((), (), NEW_STEPS, np.array([(0, 1, 2, 9), (3, 0, 4, 12)]))
NEW = Additions(
    ("Zoe Lee", "Lou"), ("r2",), NEW_STEPS, np.array([(5, 1, 2, 9), (3, 2, 6, 11), (5, 0, 6, 3)])
)


def build(kind: str, graph: TemporalGraph, drawn: bool = True) -> Model:
    """A model in doubles, with other weights than it starts with if they are to be drawn."""
    torch.manual_seed(0)
    timeline = Timeline(graph)
    model: Model
    if kind == "ted":
        model = TED(timeline, 0.5)
    elif kind in POINTERS:
        model = Pointer(timeline, POINTERS[kind])
    elif kind in TEMP:
        model = TeMP(timeline, TeMPSettings(**{**SMALL, **TEMP[kind]}))  # type: ignore[arg-type]
    else:
        return methods.build(graph, kind)
    with torch.no_grad():
        for parameter in model.parameters() if drawn else ():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double().eval()


def grow(model: Model, kind: str, additions: Additions) -> Model:
    grown = build(kind, additions.onto(GRAPH), drawn=False)
    grow_weights(model, grown, model.timeline, grown.timeline)
    return grown


def all_queries(entities: int, relations: list[int], steps: int) -> Queries:
    grid = torch.cartesian_prod(
        torch.arange(entities), torch.tensor(relations), torch.arange(steps)
    )
    return Queries(*(column.contiguous() for column in grid.T))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_without_new_names_a_grown_model_scores_as_a_moved_one(kind: str) -> None:
    model = build(kind, GRAPH)
    grown, queries = grow(model, kind, LATER), all_queries(5, [0, 1, 2, 3], 13)
    moved = model.with_timeline(grown.timeline)
    assert_close(grown.scores(queries), moved.scores(queries), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ted"])
@torch.no_grad()
def test_known_names_keep_their_weights(kind: str) -> None:
    model = build(kind, GRAPH)
    grown = grow(model, kind, NEW)
    before, after = model.state_dict(), grown.state_dict()
    assert before.keys() == after.keys()
    growth, axes = Growth(model.timeline, grown.timeline), weight_axes(model)
    for name, value in before.items():
        if value.shape == after[name].shape or name.endswith("prior"):
            continue
        # Known entities come first, as do known relations in each direction.
        kept = after[name]
        if name in axes:
            shrunk = shrink(after[name], axes[name], value.shape, growth)
            ratio = 13 / 6 if name.endswith(("slope", "frequency")) and "ati" in kind else 1
            assert_close(shrunk, value * ratio, rtol=0, atol=0)
        else:
            assert torch.equal(kept[: len(value)], value)
    if isinstance(model, Embedding):
        # What a method says of known names does not depend on the new ones.
        queries = all_queries(5, [0, 1], 6)
        known = grown.scores(queries)[:, :5]
        assert_close(known, model.scores(queries), rtol=1e-9, atol=1e-9)


def shrink(value: Tensor, axes: str, shape: torch.Size, growth: Growth) -> Tensor:
    """The part of a grown weight that belongs to known names and steps, axis by axis."""
    for axis, (letters, size) in enumerate(
        zip(axes.replace("(", "").replace(")", "").split(), shape, strict=False)
    ):
        rows = value.movedim(axis, 0)
        old, new = growth.before.num_relations, growth.after.num_relations
        if letters in "dq" and len(rows) == 2 * new and size == 2 * old:
            rows = torch.cat([rows[:old], rows[new : new + old]])
        elif letters == "b":
            rows = rows[(len(rows) - size) // 2 :][:size]
        else:
            rows = rows[:size]
        value = rows.movedim(0, axis)
    return value


def slow_estimate(graph: TemporalGraph, known: int, rows: Tensor, entity: int) -> Tensor:
    """The mean over the facts of an entity of the mean of known entities with the same context.

    It is stretched towards the mean of their lengths.
    """
    relations = len(graph.relations)
    both = [
        each
        for s, r, o, _ in {tuple(fact) for fact in graph.train.tolist()}
        for each in ((s, r, o), (o, r + relations, s))
    ]
    means, lengths = [], []
    for _, relation, partner in [each for each in both if each[0] == entity]:
        same = {e for e, r, p in both if (r, p) == (relation, partner) and e < known}
        role = {e for e, r, _ in both if r == relation and e < known}
        similar = same or role or set(range(known))
        means.append(sum(rows[each] for each in similar) / len(similar))
        lengths.append(sum(float(rows[each].norm()) for each in similar) / len(similar))
    if not means:
        return torch.zeros_like(rows[0])
    mean: Tensor = sum(means) / len(means)  # type: ignore[assignment]
    return mean * (sum(lengths) / len(lengths) / float(mean.norm())) ** 0.75


@settings(max_examples=25)
@given(graphs(), st.data())
def test_estimates_are_means_over_entities_with_the_same_context(
    graph: TemporalGraph, data: st.DataObject
) -> None:
    known = data.draw(st.integers(1, len(graph.entities)))
    rows = torch.randn(known, 2, 3, dtype=torch.float64)
    estimates = EntityEstimates(Timeline(graph), known)(rows)
    assert estimates.shape == (len(graph.entities) - known, 2, 3)
    for number, estimate in enumerate(estimates):
        assert_close(estimate, slow_estimate(graph, known, rows, known + number))


def test_estimates_take_memory_for_facts_not_for_pairs_of_entities() -> None:
    """Everyone, known or new, has the same relation to the same partner."""
    facts = [(entity, 0, 0, 0) for entity in range(1, 600)]
    timeline = Timeline(make_graph(facts, entities=600, relations=1, steps=1))
    with LargestTensor() as largest:
        EntityEstimates(timeline, 300)(torch.randn(300, 4))
    assert largest.bytes < 300 * 300


@torch.no_grad()
def test_new_entities_of_an_embedding_method_are_estimated() -> None:
    model = build("complex", GRAPH)
    grown, graph = grow(model, "complex", NEW), NEW.onto(GRAPH)
    before, after = (each.entity_vectors(torch.tensor([0]))[0] for each in (model, grown))
    assert torch.equal(after[:5], before)
    for entity in (5, 6):
        assert_close(after[entity], slow_estimate(graph, 5, before, entity))


@torch.no_grad()
def test_a_new_relation_has_the_mean_weights_of_the_others() -> None:
    model = build("pointer", GRAPH)
    grown = grow(model, "pointer", NEW)
    (old,), (new,) = (
        [each for each in found.sources if isinstance(each, Copying)][:1]
        for found in (model, grown)
    )
    for direction in (0, 1):
        first, rows = 2 * direction, [2 * direction, 2 * direction + 1]
        assert_close(new.gain[3 * direction + 2], old.gain[rows].mean(0))
        bins = new.by_time.shape[1]
        padding = (bins - old.by_time.shape[1]) // 2
        assert_close(
            new.by_time[3 * direction + 2, padding : bins - padding], old.by_time[rows].mean(0)
        )
        # Of pairs, the mean of pairs of two relations, or of a relation with itself.
        for other in (0, 1):
            same = [old.pair.own[first + each, 2 * other + each] for each in (0, 1)]
            two = [old.pair.own[first + each, 2 * other + 1 - each] for each in (0, 1)]
            table, mine, its = new.pair.own, 3 * direction + 2, 3 * other
            assert_close(table[mine, its + 2], torch.stack(same).mean(0))
            assert_close(table[mine, its], two[1])
            assert_close(table[mine, its + 1], two[0])
            assert_close(table[3 * direction, its + 2], two[0])


@torch.no_grad()
def test_the_pointer_and_ted_score_new_entities_as_if_built_with_them() -> None:
    """A model that is built on all facts, with the known weights wherever they belong."""
    additions = replace(NEW, relations=(), facts=np.array([(5, 1, 2, 9), (3, 0, 6, 6)]))
    additions = replace(additions, times=NEW_STEPS[:4])
    graph, queries = additions.onto(GRAPH), all_queries(7, [0, 1, 2, 3], 10)
    assert torch.equal(
        grow(build("ted", GRAPH), "ted", additions).scores(queries),
        build("ted", graph).scores(queries),
    )
    model, whole = build("pointer", GRAPH), build("pointer", graph, drawn=False)
    assert isinstance(model, Pointer) and isinstance(whole, Pointer)
    state = model.state_dict()
    for source, old in zip(whole.sources, model.sources, strict=True):
        if isinstance(old, Copying) and isinstance(source, Copying):
            # Six and ten steps differ in the outermost bins, which repeat the last known ones.
            more = (source.by_time.shape[1] - old.by_time.shape[1]) // 2
            source.by_time.copy_(nn.functional.pad(old.by_time[None], (more, more), "replicate")[0])
            source.shared_time.copy_(
                nn.functional.pad(old.shared_time[None, None], (more, more), "replicate")[0, 0]
            )
            if source.prior is not None and old.prior is not None:
                known = dict(zip(pairs_of(old), old.prior.tolist(), strict=True))
                values = [known.get(pair, 0.0) for pair in pairs_of(source)]
                source.prior.copy_(torch.tensor(values))
    count = [int((GRAPH.train[:, [0, 2]] == entity).sum()) for entity in range(5)]
    moved = [
        float(value) - 0.3 * math.log(facts + 0.5)
        for value, facts in zip(model.entity, count, strict=True)
    ]
    bias = 0.3 * math.log(1.5) + sum(moved) / 5
    whole.entity.copy_(torch.tensor([*model.entity.tolist(), bias, bias]))
    ours = whole.state_dict()
    fitting = {name: value for name, value in state.items() if value.shape == ours[name].shape}
    whole.load_state_dict(fitting, strict=False)
    grown = grow(model, "pointer", additions)
    assert_close(grown.scores(queries), whole.scores(queries), rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_heads_take_new_relations() -> None:
    timeline = Timeline(GRAPH)
    heads = build_heads(timeline, 0)
    for head in heads:
        for parameter in head.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    facts = torch.from_numpy(GRAPH.train[:5])
    larger = replace(NEW, facts=NEW.facts[:0]).onto(GRAPH)
    for asked, known in (("relation", 2), ("time", 6)):
        old = heads.head(asked)  # type: ignore[arg-type]
        new = heads.with_timeline(Timeline(larger)).head(asked)  # type: ignore[arg-type]
        same = heads.with_timeline(Timeline(replace(larger, relations=GRAPH.relations)))
        scores, expected = new.scores(facts), same.head(asked).scores(facts)  # type: ignore
        assert scores.shape[1] > known and torch.isfinite(scores).all()
        assert_close(scores[:, : expected.shape[1]], expected)
        assert old.scores(facts).shape[1] == known
    # A relation without a fact is less likely than the same with some.
    with_facts = heads.with_timeline(Timeline(NEW.onto(GRAPH)))
    empty, some = (
        each.relation.heads[0].bias[2]  # type: ignore[union-attr, index]
        for each in (heads.with_timeline(Timeline(larger)), with_facts)
    )
    assert some > empty


class Unlabeled(Model):
    """A model that does not say what its weights belong to."""

    name = "unlabeled"
    bytes_per_candidate = 4

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.table = nn.Parameter(torch.randn(timeline.num_entities, 2 * timeline.num_relations))

    def scores(self, queries: Queries) -> Tensor:
        return self.table.T[queries.relation]


class Labeled(Unlabeled):
    """One that does."""

    weight_axes: ClassVar = {"table": "e d"}


def test_a_model_of_another_package_says_what_its_axes_are() -> None:
    timelines = Timeline(GRAPH), Timeline(NEW.onto(GRAPH))
    with raises(QueryError, "growth.unknown_axes", weight="table"):
        grow_weights(Unlabeled(timelines[0]), Unlabeled(timelines[1]), *timelines)
    old, new = (Labeled(each) for each in timelines)
    grow_weights(old, new, *timelines)
    assert torch.equal(new.table[:5][:, [0, 1, 3, 4]], old.table)
    assert_close(new.table[:5, 2], old.table[:, :2].mean(1))


class Factored(Unlabeled):
    """A model with another table for many relations."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        if timeline.num_relations > 2:
            self.left, self.table = self.table, None  # type: ignore[assignment]


def test_other_tables_for_more_relations_are_refused() -> None:
    timelines = Timeline(GRAPH), Timeline(NEW.onto(GRAPH))
    with raises(QueryError, "growth.other_tables", before=2, after=3):
        grow_weights(Factored(timelines[0]), Factored(timelines[1]), *timelines)
