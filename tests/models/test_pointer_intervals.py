"""The pointer on facts that hold for a while: a loop over facts, left-out facts, training."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from spanned import ENTITIES, RELATIONS, STEPS, interval_graph
from tempograph import TemporalGraph
from tempograph.data.spans import Bounds
from tempograph.data.timeline import Queries, Timeline
from tempograph.models.pointer.copying import Copying
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.nn.votes import VoteList
from tempograph.training.losses.pointer_loss import PointerLoss
from tempograph.training.settings import PointerTrainSettings

SEEDS = st.integers(0, 2**32 - 1)


def random_pointer(
    graph: TemporalGraph,
    seed: int,
    max_facts: int = 60,
    counts: Literal["all", "voting"] = "all",
    layout: Literal["dense", "sparse"] = "dense",
) -> Pointer:
    torch.manual_seed(seed)
    limits = (max_facts, max_facts, max_facts, 0, max_facts)
    settings = PointerSettings(*limits, counts=counts, layout=layout)
    model = Pointer(Timeline(graph), settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model.double()


def some_queries(timeline: Timeline, seed: int) -> tuple[Queries, Tensor]:
    """Both queries of some facts at steps of theirs, and the facts."""
    generator = torch.Generator().manual_seed(seed)
    fact = torch.randint(len(timeline.facts), (6,), generator=generator)
    s, r, o, start = timeline.facts[fact].unbind(1)
    time = torch.minimum(start + seed % 3, timeline.fact_end[fact])
    queries = Queries(torch.cat([s, o]), torch.cat([r, r + timeline.num_relations]), time.repeat(2))
    return queries, fact.repeat(2)


def slow_bin(difference: int, largest: int, per_octave: int) -> int:
    values = sorted({math.floor(per_octave * math.log2(1 + d)) for d in range(largest + 1)})
    number = values.index(math.floor(per_octave * math.log2(1 + abs(difference))))
    return len(values) - 1 + (number if difference >= 0 else -number)


def slow_phase(start: int, end: int, bounds: int, time: int) -> int:
    unknown = bounds & (Bounds.UNKNOWN_START | Bounds.UNKNOWN_END)
    if time > end or time < start:
        return (4 if time > end else 5) if unknown else 0
    if start == end:
        return 0
    return 1 if time == start else 2 if time == end else 3


def slow_contributions(
    source: Copying, rows: list[list[int]], query: tuple[int, int, int], left_out: int | None
) -> list[float]:
    """The contribution to every entity, if all facts of a key vote."""
    entity, relation, time = query
    wanted = {
        "entity": lambda x, r: x == entity,
        "relation": lambda x, r: r == relation,
        "both": lambda x, r: (x, r) == (entity, relation),
        "any": lambda x, r: True,
    }[source.fact_index.key]
    index, listed = source.fact_index, []
    for position in range(len(index.time)):
        number = int(index.fact_id[position])
        _, _, _, start, end, bounds = rows[number]
        x, other, candidate, _ = index.rows[position].tolist()
        if number != left_out and wanted(x, other):
            listed.append((position, other, candidate, start, end, bounds))
    held = sorted((f for f in listed if f[3] <= time <= f[4]), key=lambda f: (-f[3], f[0]))
    ended = sorted((f for f in listed if f[4] < time), key=lambda f: (-f[4], -f[3], -f[0]))
    later = sorted((f for f in listed if f[3] > time), key=lambda f: (f[3], f[0]))
    numbered = [*enumerate(held + later), *((-1 - n, fact) for n, fact in enumerate(ended))]
    sums, counts = [0.0] * ENTITIES, [0] * ENTITIES
    for count, (_, other, candidate, start, end, bounds) in numbered:
        gap = max(0, start - time) + min(0, end - time)
        distance = sum(abs(gap) >= edge for edge in (1, 2, 4, 9, 23, 61, 161))
        gap_class = 7 + (distance if gap > 0 else -distance)
        inverse = (relation + RELATIONS) % (2 * RELATIONS)
        kind = 1 if other == relation else 2 if other == inverse else 0
        exponent = source.pair.own[relation, other, gap_class] + source.pair.shared[kind, gap_class]
        near, pace = slow_bin(gap, STEPS, 3), slow_bin(count, source.max_facts, 2)
        exponent = exponent + source.by_time[relation, near] + source.shared_time[near]
        exponent = exponent + source.by_count[relation, pace] + source.shared_count[pace]
        if phase := slow_phase(start, end, bounds, time):
            assert source.phase is not None
            exponent = exponent + source.phase.own[relation, other, phase]
            exponent = exponent + source.phase.shared[kind, phase]
        sums[candidate] += math.exp(float(exponent))
        counts[candidate] += 1
    u, log_c, v = (source.shared_gain + source.gain[relation]).tolist()
    return [
        u * math.log1p(math.exp(log_c) * total) + v * math.log1p(count)
        for total, count in zip(sums, counts, strict=True)
    ]


@torch.no_grad()
def check_contributions(seed: int, leave_out: bool) -> None:
    graph = interval_graph(seed, facts=20)
    model = random_pointer(graph, seed)
    rows = model.timeline.rows.tolist()
    queries, fact = some_queries(model.timeline, seed)
    for source in model.vote_sources:
        assert isinstance(source, Copying)
        if source.prior is not None:
            source.prior.data.zero_()
        nothing = torch.zeros(len(fact), ENTITIES, dtype=torch.float64)
        lookup = source.look_up(queries, fact if leave_out else None)
        actual = source(nothing, queries.relation, lookup)
        for row, query in enumerate(zip(*(column.tolist() for column in queries), strict=True)):
            left_out = int(fact[row]) if leave_out else None
            expected = slow_contributions(source, rows, query, left_out)
            assert actual[row].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=8)
@given(SEEDS, st.booleans())
def test_contributions_equal_a_loop_over_facts(seed: int, leave_out: bool) -> None:
    check_contributions(seed, leave_out)


@settings(max_examples=8)
@given(SEEDS, st.booleans())
@torch.no_grad()
def test_facts_count_for_voting_candidates_alone_if_so_set(seed: int, leave_out: bool) -> None:
    graph = interval_graph(seed)
    all_count, few_count = (
        random_pointer(graph, seed, 3, counts).vote_sources for counts in ("all", "voting")
    )
    queries, fact = some_queries(Timeline(graph), seed)
    for source, other in zip(all_count, few_count, strict=True):
        assert isinstance(source, Copying) and isinstance(other, Copying)
        if source.prior is not None and other.prior is not None:
            source.prior.zero_()
            other.prior.zero_()
        lookup = source.look_up(queries, fact if leave_out else None)
        assert isinstance(lookup, VoteList)
        voted = torch.zeros(len(fact), ENTITIES, dtype=torch.bool)
        voted[lookup.facts.query, source.fact_index.answer[lookup.facts.row]] = True
        nothing = torch.zeros(len(fact), ENTITIES, dtype=torch.float64)
        expected = source(nothing.clone(), queries.relation, lookup)
        if source.fact_index.key != "relation":
            expected = expected * voted
        assert_close(other(nothing, queries.relation, lookup), expected)


def test_all_entities_are_scored_whatever_the_layout() -> None:
    graph, generator = interval_graph(7), torch.Generator().manual_seed(0)
    dense, model = (random_pointer(graph, 7, layout=layout) for layout in ("dense", "sparse"))
    queries, _ = some_queries(model.timeline, 7)
    assert model.layout is None and model.sparse_sizes(queries) is None
    assert torch.equal(model.scores(queries), dense.scores(queries))
    loss = PointerLoss(model, PointerTrainSettings())
    assert torch.isfinite(loss(loss.batches(generator)[0], generator))


@settings(max_examples=3)
@given(SEEDS, st.integers(1, 9))
def test_scores_without_a_fact_equal_those_of_a_graph_without_it(seed: int, most: int) -> None:
    graph = interval_graph(seed, facts=20)
    model = random_pointer(graph, seed, most)
    queries, fact = some_queries(model.timeline, seed)
    for source in model.vote_sources:
        if isinstance(source, Copying) and source.prior is not None:
            source.prior.data.zero_()
    with torch.no_grad():
        actual = model.score(queries.relation, model.look_up(queries, fact))
        for number in range(len(fact)):
            rows = np.delete(model.timeline.rows.numpy(), int(fact[number]), axis=0)
            less = TemporalGraph(
                graph.name, graph.entities, graph.relations, graph.times, rows, rows[:0], rows[:0]
            )
            other = model.with_timeline(Timeline(less))
            expected = other.scores(queries.take(torch.tensor([number])))[0]
            assert_close(actual[number], expected, rtol=1e-9, atol=1e-12)


def test_evidence_ascribes_the_whole_contribution() -> None:
    model = random_pointer(interval_graph(5), 5, max_facts=8)
    query = Queries(*torch.tensor([[0], [1], [6]]))
    for source in model.vote_sources:
        assert isinstance(source, Copying)
        if source.prior is not None:
            source.prior.data.zero_()
        with torch.no_grad():
            nothing = torch.zeros(1, ENTITIES, dtype=torch.float64)
            whole = source(nothing, query.relation, source.look_up(query))[0]
            for candidate in range(ENTITIES):
                facts, parts = source.fact_contributions(query, candidate)
                assert set(model.timeline.facts[facts][:, [0, 2]].flatten().tolist()) >= (
                    {candidate} if len(facts) else set()
                )
                assert float(parts.sum()) == pytest.approx(float(whole[candidate]), abs=1e-9)


def test_a_training_step_asks_each_fact_without_itself() -> None:
    """Without the asked fact, an answer that only this fact names gets no votes."""
    rows = np.array([(0, 0, 1, 2, 8, 0), (2, 0, 3, 0, 11, 0)])
    graph = interval_graph(0)
    graph = TemporalGraph(
        "two", graph.entities, graph.relations, graph.times, rows, rows[:0], rows[:0]
    )
    loss = PointerLoss(Pointer(Timeline(graph), PointerSettings()), PointerTrainSettings())
    generator = torch.Generator().manual_seed(0)
    steps = set()
    for _ in range(60):
        loss.batches(generator)
        queries, answer, fact = loss._asked(torch.tensor([0, 3]))
        timeline = loss.timeline
        assert (timeline.facts[fact, 3] <= queries.time).all()
        assert (queries.time <= timeline.fact_end[fact]).all()
        steps.add(int(queries.time[1]))
        lookup = loss.model.sources[0].look_up(queries, fact)  # type: ignore[operator]
        assert not len(lookup.facts.query)
    assert answer.tolist() == [3, 0] and steps == set(range(2, 9))
