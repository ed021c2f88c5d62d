"""Relations of facts that hold for a while: against loops, and against events."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_heads import randomized, slow_bin, slow_class, some_facts
from torch.testing import assert_close

from intervals import random_intervals
from spanned import as_interval_graph, interval_graph
from tempograph import TemporalGraph
from tempograph.data.known_parts import KnownParts
from tempograph.data.spans import Bounds
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Timeline
from tempograph.evaluation.question_evaluator import rank_questions, rank_questions_at_steps
from tempograph.evaluation.ranking import metrics
from tempograph.models.heads import relation_head
from tempograph.models.heads.baseline_heads import RelationCounts
from tempograph.models.heads.relation_head import RelationHead
from tempograph.nn.relation_votes import RelationVotes
from tempograph.training.head_fit import fit_head
from tempograph.training.run_heads import build_heads, fit_heads

EXACT = {"rtol": 1e-4, "atol": 1e-5}
Row = tuple[int, ...]


def slow_gap(start: int, end: int, time: int) -> int:
    if start <= time <= end:
        return 0
    return start - time if time < start else end - time


def slow_phase(start: int, end: int, bounds: int, time: int) -> int:
    unknown = bool(bounds & (Bounds.UNKNOWN_START | Bounds.UNKNOWN_END))
    if unknown and end < time:
        return 4
    if unknown and time < start:
        return 5
    if start == end or not start <= time <= end:
        return 0
    return 1 if time == start else 2 if time == end else 3


def slow_votes(votes: RelationVotes, rows: list[Row], time: int, steps: int) -> list[float]:
    assert votes.by_phase is not None
    total = []
    for relation in range(votes.num_relations):
        value = 0.0
        for other, _, start, end, bounds in rows:
            kind = 1 if other == relation else 2 if other == relation + votes.num_relations else 0
            gap, phase = slow_gap(start, end, time), slow_phase(start, end, bounds, time)
            exponent = float(votes.own[other * 9 + slow_class(gap), relation])
            exponent += float(votes.shared[kind, slow_class(gap)])
            exponent += float(votes.by_gap[slow_bin(gap, steps)])
            if phase:
                exponent += float(votes.by_phase[other, phase])
            value += math.exp(exponent)
        u, log_c = votes.gain[relation].tolist()
        total.append(u * math.log1p(math.exp(log_c) * value))
    return total


def slow_scores(head: RelationHead, facts: list[Row], asked: list[int]) -> list[float]:
    subject, _, object_, time = asked
    relations, steps = head.timeline.num_relations, head.timeline.num_steps

    def rows_of(entity: int) -> list[Row]:
        forward = [(r, o, *when) for s, r, o, *when in facts if s == entity]
        return forward + [(r + relations, s, *when) for s, r, o, *when in facts if o == entity]

    of_subject = rows_of(subject)
    sources = (
        (head.pair_votes, [row for row in of_subject if row[1] == object_]),
        (head.subject_votes, of_subject),
        (head.object_votes, rows_of(object_)),
    )
    scores: list[float] = head.bias.tolist()
    for votes, rows in sources:
        assert len(rows) <= relation_head._MAX_ENTITY_FACTS, "all of them vote"
        for relation, value in enumerate(slow_votes(votes, rows, time, steps)):
            scores[relation] += value
    first, second = head.count_weights.tolist()
    for relation in range(relations):
        as_subject = sum((s, r) == (subject, relation) for s, r, *_ in facts)
        as_object = sum((r, o) == (relation, object_) for _, r, o, *_ in facts)
        scores[relation] += first * math.log1p(as_subject) + second * math.log1p(as_object)
    return scores


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_scores_equal_a_loop_over_facts(seed: int) -> None:
    graph = interval_graph(seed, facts=25, sizes=(5, 3, 12))
    timeline = Timeline(graph)
    head = randomized(RelationHead(timeline), seed)
    assert isinstance(head, RelationHead)
    facts, every = some_facts(graph, seed), [tuple(row) for row in timeline.rows.tolist()]
    expected = [slow_scores(head, every, fact) for fact in facts.tolist()]
    assert_close(head.scores(facts), torch.tensor(expected), **EXACT)
    positions = torch.randint(len(every), (12,), generator=torch.Generator().manual_seed(seed))
    asked = timeline.facts[positions]
    without = [
        slow_scores(head, every[:position] + every[position + 1 :], fact)
        for position, fact in zip(positions.tolist(), asked.tolist(), strict=True)
    ]
    assert_close(head.scores(asked, positions), torch.tensor(without), **EXACT)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30))
def test_known_relations_are_those_of_facts_that_hold(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    facts = random_intervals(rng, count, 3, 3, 6)
    asked = rng.integers(0, [3, 3, 3, 6], (20, 4))
    known = KnownParts(torch.from_numpy(facts), (3, 3, 3, 6), 1)
    found = list(zip(*(each.tolist() for each in known(torch.from_numpy(asked))), strict=True))
    wanted = {
        (row, fact[1])
        for row, question in enumerate(asked.tolist())
        for fact in facts.tolist()
        if (fact[0], fact[2]) == (question[0], question[2])
        if fact[3] <= question[3] <= fact[4]
    }
    assert len(found) == len(set(found)) and set(found) == wanted


def test_ranks_are_means_over_steps() -> None:
    graph = interval_graph(2, facts=40, sizes=(5, 3, 12), held_out=8)
    head = randomized(RelationHead(Timeline(graph)), 1)
    facts = torch.from_numpy(graph.test)
    found, _ = rank_questions_at_steps(head, graph, facts)
    assert len(facts) == 8 and int(found.steps.max()) > 3
    for number, (s, r, o, start, end, _) in enumerate(facts.tolist()):
        ranks = []
        for step in range(start, end + 1):
            scores = head.scores(torch.tensor([[s, 0, o, step]]))[0].tolist()
            known = {
                row[1]
                for row in graph.all_facts.tolist()
                if (row[0], row[2]) == (s, o) and row[3] <= step <= row[4]
            }
            others = [scores[each] for each in range(3) if each == r or each not in known]
            ranks.append(1 + sum(score > scores[r] for score in others))
        assert int(found.steps[number]) == len(ranks)
        assert float(found.realistic.rank[number]) == pytest.approx(np.mean(ranks))
        assert float(found.realistic.reciprocal[number]) == pytest.approx(
            np.mean([1 / rank for rank in ranks])
        )
        hits = np.mean([rank <= 1 for rank in ranks])
        assert float(found.realistic.hits[number, 0]) == pytest.approx(hits)


def world_of(seed: int) -> TemporalGraph:
    return make_world(entities=12, relations=4, steps=20, facts=250, seed=seed).graph


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_events_of_one_step_have_the_scores_of_events(seed: int) -> None:
    graph = world_of(seed)
    held = as_interval_graph(graph)
    head, other = RelationHead(Timeline(graph)), RelationHead(Timeline(held))
    weights = randomized(head, seed).state_dict()
    phases = {
        name: torch.randn(value.shape)
        for name, value in other.state_dict().items()
        if "by_phase" in name
    }
    assert len(phases) == 3
    other.load_state_dict(weights | phases)
    facts = some_facts(graph, seed, 50)
    assert_close(other.scores(facts), head.scores(facts), **EXACT)
    positions = torch.arange(50)
    asked = head.timeline.facts[positions]
    assert_close(other.scores(asked, positions), head.scores(asked, positions), **EXACT)


def test_heads_of_events_of_one_step_are_fitted_like_those_of_events() -> None:
    graph = world_of(1)
    held = as_interval_graph(graph)
    heads, others = (fit_heads(Timeline(each), each, 0) for each in (graph, held))
    assert others.time is None and heads.time is not None
    facts = torch.from_numpy(graph.test)
    wanted, _ = rank_questions(heads.relation, graph, facts)
    found, _ = rank_questions_at_steps(others.relation, held, torch.from_numpy(held.test))
    scores = heads.relation.scores(facts)
    assert_close(others.relation.scores(facts), scores, rtol=1e-3, atol=1e-3)
    # Sums in another order may exchange two relations with nearly the same score.
    same = (found.realistic.rank == wanted.realistic).double().mean()
    assert float(same) > 0.95


def alternating(seed: int) -> TemporalGraph:
    """Pairs whose relation is 0, then 1, then 2, each held for a while without a gap."""
    rng = np.random.default_rng(seed)
    rows = []
    for subject in range(30):
        for object_ in rng.choice(30, 3, replace=False) + 30:
            first, second = np.sort(rng.choice(np.arange(2, 22), 2, replace=False))
            spans = [(0, first), (first + 1, second + 1), (second + 2, 24)]
            rows += [(subject, r, object_, *span, 0) for r, span in enumerate(spans)]
    facts = rng.permutation(np.array(rows))
    graph = interval_graph(0, sizes=(60, 3, 25))
    return replace(graph, train=facts[:200], valid=facts[200:235], test=facts[235:])


def test_a_fitted_head_knows_what_holds_between_what_was_before_and_after() -> None:
    graph = alternating(3)
    timeline, facts = Timeline(graph), torch.from_numpy(graph.test)
    head = build_heads(timeline, 0).relation.heads[0]
    fit_head(head, graph, 0)
    found, counted = (
        metrics(rank_questions_at_steps(each, graph, facts)[0].realistic)["mrr"]
        for each in (head, RelationCounts(timeline))
    )
    assert found > 0.8 and found > counted + 0.2


def test_new_relations_grow_the_weights_of_phases() -> None:
    graph = interval_graph(2, facts=40, sizes=(5, 3, 12))
    heads = build_heads(Timeline(graph), 0)
    larger = replace(graph, relations=(*graph.relations, "new"))
    grown = heads.with_timeline(Timeline(larger))
    question = torch.tensor([[0, 0, 1, 4]])
    assert grown.relation.scores(question).shape == (1, 4)
