"""Candidate facts and similar entities of the pointer: loops over facts, and facts left out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from graphs import make_graph
from spanned import ENTITIES, RELATIONS, interval_graph
from tempograph import TemporalGraph
from tempograph.data.spans import Bounds
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import ConfigError
from tempograph.models.pointer.candidate_facts import CandidateFacts
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.pointer.similar_entities import SimilarEntities
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.nn.gap_bins import gap_bin, num_gap_bins
from tempograph.training.losses.pointer_loss import PointerLoss
from tempograph.training.settings import PointerTrainSettings

S = TypeVar("S")
SEEDS = st.integers(0, 2**32 - 1)
SETTINGS = PointerSettings(
    max_facts=60, max_similar=ENTITIES, candidate_facts=True, prior="counts", paths=True
)


def random_pointer(
    graph: TemporalGraph, seed: int, settings: PointerSettings = SETTINGS
) -> Pointer:
    torch.manual_seed(seed)
    model = Pointer(Timeline(graph), settings)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.5 * torch.randn_like(parameter))
    return model.double()


def source_of(model: Pointer, kind: type[S]) -> S:
    return next(each for each in model.vote_sources if isinstance(each, kind))


def some_queries(timeline: Timeline, seed: int) -> tuple[Queries, torch.Tensor]:
    """Both queries of some facts at steps of theirs, and the facts."""
    generator = torch.Generator().manual_seed(seed)
    fact = torch.randint(len(timeline.facts), (5,), generator=generator)
    s, r, o, start = timeline.facts[fact].unbind(1)
    time = torch.minimum(start + seed % 3, timeline.fact_end[fact])
    queries = Queries(torch.cat([s, o]), torch.cat([r, r + timeline.num_relations]), time.repeat(2))
    return queries, fact.repeat(2)


Fact = tuple[int, int, int, int, int, int]
"""Entity, directed relation, other entity, start, end, bounds."""


def directed(rows: list[list[int]], left_out: int | None) -> list[Fact]:
    found: list[Fact] = []
    for number, (s, r, o, *span) in enumerate(rows):
        if number != left_out:
            found += [(s, r, o, *span), (o, r + RELATIONS, s, *span)]
    return found


def slow_class(spans: list[tuple[int, int, int]], time: int) -> int:
    """The class of facts (start, end, bounds) at a time."""
    if held := [span for span in spans if span[0] <= time <= span[1]]:
        begins, ends = (any(span[k] == time for span in held) for k in range(2))
        return 96 + 2 * begins + ends
    unknown = Bounds.UNKNOWN_START | Bounds.UNKNOWN_END
    gap, is_later, is_known = min(
        (max(start - time, time - end), start > time, not bounds & unknown)
        for start, end, bounds in spans
    )
    return 24 * (2 * (not is_later) + (not is_known)) + int(2 * math.log2(gap))


@settings(max_examples=15)
@given(SEEDS, st.booleans())
@torch.no_grad()
def test_candidate_facts_equal_a_loop_over_facts(seed: int, leave_out: bool) -> None:
    model = random_pointer(interval_graph(seed, facts=25), seed)
    source, rows = source_of(model, CandidateFacts), model.timeline.rows.tolist()
    queries, fact = some_queries(model.timeline, seed)
    nothing = torch.zeros(len(fact), ENTITIES, dtype=torch.float64)
    lookup = source.look_up(queries, fact if leave_out else None)
    found = source(nothing, queries.relation, lookup)
    for row in range(len(fact)):
        relation, time = int(queries.relation[row]), int(queries.time[row])
        known = directed(rows, int(fact[row]) if leave_out else None)
        for candidate in range(ENTITIES):
            expected = 0.0
            for other in range(2 * RELATIONS):
                spans = [each[3:] for each in known if each[:2] == (candidate, other)]
                if spans:
                    expected += float(source.weight[relation, other, slow_class(spans, time)])
            assert float(found[row, candidate]) == pytest.approx(expected)


def slow_path_score(known: list[Fact], one: int, other: int) -> float:
    def shared(x: int, y: int) -> float:
        loops = x == y
        return 0.0 if loops else math.log1p(sum((s, o) == (x, y) for s, _, o, *_ in known))

    total = 0.0
    for middle in range(ENTITIES):
        degree = sum(shared(middle, x) > 0 for x in range(ENTITIES))
        total += shared(one, middle) * shared(middle, other) / (1 + degree)
    return total


@settings(max_examples=8)
@given(SEEDS, st.booleans())
@torch.no_grad()
def test_similar_entities_equal_a_loop_over_facts(seed: int, leave_out: bool) -> None:
    model = random_pointer(interval_graph(seed, facts=14), seed)
    source, rows = source_of(model, SimilarEntities), model.timeline.rows.tolist()
    queries, fact = some_queries(model.timeline, seed)
    lookup = source.look_up(queries, fact if leave_out else None)
    nothing = torch.zeros(len(fact), ENTITIES, dtype=torch.float64)
    found = source(nothing, queries.relation, lookup)
    steps, middle = source.num_steps, num_gap_bins(source.num_steps) // 2
    assert source.by_relation is not None
    for row, (entity, relation, time) in enumerate(
        zip(*(column.tolist() for column in queries), strict=True)
    ):
        known = directed(rows, int(fact[row]) if leave_out else None)
        u, log_c, power = (source.shared_gain + source.gain[relation]).tolist()
        sums = [0.0] * ENTITIES
        for other, voting, candidate, start, end, _ in known:
            similarity = slow_path_score(known, entity, other)
            if other == entity or candidate == entity or similarity == 0:
                continue
            gap = max(0, start - time) + min(0, end - time)
            near = int(gap_bin(torch.tensor(gap), steps))
            exponent = source.by_relation[relation, voting] + source.shared_relation[voting]
            exponent = exponent + source.by_time[relation, near] + source.shared_time[near]
            sums[candidate] += similarity**power * math.exp(float(exponent))
        assert middle == int(gap_bin(torch.tensor(0), steps))
        expected = [u * math.log1p(math.exp(log_c) * each) for each in sums]
        assert found[row].tolist() == pytest.approx(expected, rel=1e-6)


@settings(max_examples=5)
@given(SEEDS)
@torch.no_grad()
def test_scores_without_a_fact_equal_those_of_a_graph_without_it(seed: int) -> None:
    model = random_pointer(interval_graph(seed, facts=20), seed)
    queries, fact = some_queries(model.timeline, seed)
    found = model.score(queries.relation, model.look_up(queries, fact))
    for row in range(len(fact)):
        rows = np.delete(model.timeline.rows.numpy(), int(fact[row]), axis=0)
        other = model.with_timeline(Timeline(replace(interval_graph(seed), train=rows)))
        expected = other.scores(queries.take(torch.tensor([row])))[0]
        assert_close(found[row], expected, rtol=1e-6, atol=1e-9)


def test_only_the_most_similar_entities_vote() -> None:
    model = random_pointer(interval_graph(3), 3)
    one = random_pointer(interval_graph(3), 3, replace(SETTINGS, max_similar=1))
    queries, _ = some_queries(model.timeline, 3)
    source, nearest = (source_of(each, SimilarEntities) for each in (model, one))
    asked, dtype = source.look_up(queries), torch.float64
    every, some = (each._votes(asked, None, dtype) for each in (source, nearest))
    for query in range(len(queries.time)):
        own = every.log_similarity[every.query == query]
        few = some.log_similarity[some.query == query]
        assert len(few) <= len(own) and (few == own.max()).all()
    mask = torch.arange(len(model.timeline.facts)) % 2 == 0
    kept = source._votes(asked, mask, dtype)
    assert mask[source.index.fact_id[kept.row]].all() and 0 < len(kept.row) < len(every.row)
    sampled = source(torch.zeros(10, ENTITIES).double(), queries.relation, asked, VoteSample(mask))
    assert not torch.equal(
        sampled, source(torch.zeros(10, ENTITIES).double(), queries.relation, asked)
    )


@torch.no_grad()
def test_evidence_ascribes_what_similar_entities_add() -> None:
    model = random_pointer(interval_graph(5), 5)
    source = source_of(model, SimilarEntities)
    query = Queries(*torch.tensor([[0], [1], [6]]))
    nothing = torch.zeros(1, ENTITIES, dtype=torch.float64)
    scores = source(nothing, query.relation, source.look_up(query))[0]
    for candidate in range(ENTITIES):
        facts, shares = source.fact_contributions(query, candidate)
        assert float(shares.sum()) == pytest.approx(float(scores[candidate]))
        named = model.timeline.facts[facts]
        assert ((named[:, 0] == candidate) | (named[:, 2] == candidate)).all()


def test_counts_take_the_place_of_a_prior_for_each_entity() -> None:
    model = random_pointer(interval_graph(2), 2)
    assert not model.entity.requires_grad and not model.entity.any()
    assert all(getattr(each, "prior", None) is None for each in model.vote_sources)
    usual = Pointer(Timeline(interval_graph(2)), PointerSettings())
    assert usual.entity.requires_grad


def test_training_learns_from_candidate_facts() -> None:
    """Who was born ten steps before may join a team; who is born later may not."""
    born = np.where(np.arange(40) < 20, 5, 19) + np.arange(40) % 3
    facts = [[n, 0, 40, step, step, 0] for n, step in enumerate(born.tolist())]
    joined = [[41 + n % 3, 1, n, 15 + n % 3, 16 + n % 3, 0] for n in range(15)]
    graph = interval_graph(0, sizes=(44, 2, 24))
    none = graph.train[:0]
    graph = replace(graph, train=np.array(facts + joined), valid=none, test=none)
    torch.manual_seed(0)
    settings = PointerSettings(candidate_facts=True, prior="counts")
    model = Pointer(Timeline(graph), settings)
    loss = PointerLoss(model, PointerTrainSettings(fact_dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        for batch in loss.batches(generator):
            optimizer.zero_grad()
            loss(batch, generator).backward()
            optimizer.step()
    scores = model.scores(Queries(*torch.tensor([[41], [1], [16]])))[0]
    assert scores[15:20].min() > scores[20:40].max(), "nobody of either has joined a team"


def test_settings_that_do_not_fit_the_data_are_refused() -> None:
    events = make_graph([(0, 0, 1, 0), (1, 0, 2, 1)], entities=3, relations=1, steps=2)
    with pytest.raises(ConfigError, match=r"model\.candidate_facts=false"):
        Pointer(Timeline(events), PointerSettings(candidate_facts=True))
    past = Timeline(events, "forecast-single")
    with pytest.raises(ConfigError, match=r"model\.max_similar=0"):
        Pointer(past, PointerSettings(max_similar=3))
