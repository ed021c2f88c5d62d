"""Heads against loops over facts, without the asked fact, over other facts, and what they learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from graphs import make_graph
from tempograph import TemporalGraph
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Timeline
from tempograph.evaluation.question_evaluator import rank_questions
from tempograph.models.heads import relation_head
from tempograph.models.heads.baseline_heads import PairActivity, RelationCounts
from tempograph.models.heads.question_head import QuestionHead
from tempograph.models.heads.relation_head import RelationHead
from tempograph.models.heads.time_head import TimeHead
from tempograph.nn import relation_votes, time_votes
from tempograph.nn.relation_votes import RelationVotes
from tempograph.nn.time_votes import TimeVotes
from tempograph.training.head_fit import fit_head
from tempograph.training.run_heads import build_heads, fit_heads, load_heads, save_heads

EXACT = {"rtol": 1e-4, "atol": 1e-5}
GRAPH = make_world(entities=12, relations=4, steps=20, facts=300).graph
HEADS = (RelationHead, TimeHead, RelationCounts, PairActivity)


def random_graph(seed: int, facts: int = 35) -> TemporalGraph:
    """Loops, repeated pairs, several facts of a pair at a step, and empty steps."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, facts) for size in (5, 3, 5, 9)]
    return make_graph(np.unique(np.stack(columns, 1), axis=0), entities=5, relations=3, steps=12)


def randomized(head: QuestionHead, seed: int) -> QuestionHead:
    generator = torch.Generator().manual_seed(seed)
    for parameter in head.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.5
    return head.requires_grad_(False)


def some_facts(graph: TemporalGraph, seed: int, count: int = 12) -> Tensor:
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, size, count) for size in graph.sizes], 1)
    return torch.from_numpy(rows)


def directed_facts(facts: list[list[int]], entity: int, relations: int) -> list[tuple[int, ...]]:
    """(relation, other entity, time) of each fact of an entity, in both directions."""
    forward = [(r, o, t) for s, r, o, t in facts if s == entity]
    return forward + [(r + relations, s, t) for s, r, o, t in facts if o == entity]


def nearest(rows: list[tuple[int, ...]], time: int, limit: int) -> list[tuple[int, ...]]:
    return sorted(rows, key=lambda row: abs(row[2] - time))[:limit]


def slow_class(gap: int) -> int:
    distance = sum(abs(gap) >= edge for edge in (1, 2, 8, 31))
    return 4 + (distance if gap > 0 else -distance)


def slow_bin(gap: int, steps: int) -> int:
    edges = sorted({round(2 ** (half / 2)) for half in range(40)})
    largest = sum(edge < steps for edge in edges)
    number = min(largest, sum(abs(gap) >= edge for edge in edges))
    return largest + (number if gap > 0 else -number)


def slow_relation_votes(
    votes: RelationVotes, rows: list[tuple[int, ...]], time: int, steps: int
) -> list[float]:
    relations, total = votes.num_relations, []
    for relation in range(relations):
        value = 0.0
        for other, _, when in rows:
            kind = 1 if other == relation else 2 if other == relation + relations else 0
            gap = slow_class(when - time)
            cell = other * 9 + gap
            own = (
                float(votes.left[cell] @ votes.right[:, relation])
                if votes.low_rank
                else float(votes.own[cell, relation])
            )
            exponent = own + float(votes.shared[kind, gap])
            value += math.exp(exponent + float(votes.by_gap[slow_bin(when - time, steps)]))
        u, log_c = votes.gain[relation].tolist()
        total.append(u * math.log1p(math.exp(log_c) * value))
    return total


def slow_relation_scores(
    head: RelationHead, facts: list[list[int]], asked: list[int]
) -> list[float]:
    subject, _, object_, time = asked
    relations, steps = head.timeline.num_relations, head.timeline.num_steps
    of_subject = directed_facts(facts, subject, relations)
    pair = [row for row in of_subject if row[1] == object_]
    sources = (
        (head.pair_votes, nearest(pair, time, relation_head._MAX_PAIR_FACTS)),
        (head.subject_votes, nearest(of_subject, time, relation_head._MAX_ENTITY_FACTS)),
        (
            head.object_votes,
            nearest(
                directed_facts(facts, object_, relations), time, relation_head._MAX_ENTITY_FACTS
            ),
        ),
    )
    scores = head.bias.tolist()
    for votes, rows in sources:
        for relation, value in enumerate(slow_relation_votes(votes, rows, time, steps)):
            scores[relation] += value
    for relation in range(relations):
        as_subject = sum(s == subject and r == relation for s, r, _, _ in facts)
        as_object = sum(o == object_ and r == relation for _, r, o, _ in facts)
        first, second = head.count_weights.tolist()
        scores[relation] += first * math.log1p(as_subject) + second * math.log1p(as_object)
    return scores


def slow_time_votes(
    votes: TimeVotes, rows: list[tuple[int, ...]], asked: int, steps: int
) -> list[float]:
    total = []
    for step in range(steps):
        value = 0.0
        for other, _, when in rows:
            kind = 1 if other == asked else 2 if other == asked + votes.num_relations else 0
            if votes.low_rank:
                own = (votes.left[asked][:, None] * votes.right[other]).sum(0)
            else:
                own = votes.own[asked * 2 * votes.num_relations + other]
            same, near = (own + votes.shared[kind]).exp().tolist()
            weights = votes.by_window.exp().tolist()
            value += weights[0] * same * (when == step)
            for weight, width in zip(weights[1:], votes.half_widths, strict=True):
                value += weight * near * (abs(when - step) <= width)
        u, log_c = votes.gain[asked].tolist()
        total.append(u * math.log1p(math.exp(log_c) * value))
    return total


def slow_time_scores(head: TimeHead, facts: list[list[int]], asked: list[int]) -> list[float]:
    subject, relation, object_, _ = asked
    relations, steps = head.timeline.num_relations, head.timeline.num_steps
    of_subject = directed_facts(facts, subject, relations)
    of_object = [
        ((r + relations) % (2 * relations), other, when)
        for r, other, when in directed_facts(facts, object_, relations)
    ]
    sources = (
        (head.pair_votes, [row for row in of_subject if row[1] == object_]),
        (head.subject_votes, of_subject),
        (head.object_votes, of_object),
    )
    scores = [0.0] * steps
    for votes, rows in sources:
        for step, value in enumerate(slow_time_votes(votes, rows, relation, steps)):
            scores[step] += value
    first, second = head.count_weights.tolist()
    for step in range(steps):
        count = sum(t == step for *_, t in facts)
        same = sum(t == step and r == relation for _, r, _, t in facts)
        scores[step] += first * math.log1p(count) + second * math.log1p(same)
    return scores


SLOW = {RelationHead: slow_relation_scores, TimeHead: slow_time_scores}


@pytest.mark.parametrize("low_rank", [False, True])
@pytest.mark.parametrize("kind", [RelationHead, TimeHead])
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_scores_equal_a_loop_over_facts(
    kind: type[RelationHead] | type[TimeHead], low_rank: bool, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if low_rank:
            patch.setattr(relation_votes, "_MAX_TABLE", 0)
            patch.setattr(time_votes, "_MAX_TABLE", 0)
        graph = random_graph(seed)
        timeline = Timeline(graph)
        head = randomized(kind(timeline), seed)
        facts, every = some_facts(graph, seed), timeline.facts.tolist()
        expected = [SLOW[kind](head, every, fact) for fact in facts.tolist()]
        assert_close(head.scores(facts), torch.tensor(expected), **EXACT)
        positions = torch.randint(len(every), (12,), generator=torch.Generator().manual_seed(seed))
        asked = timeline.facts[positions]
        without = [
            SLOW[kind](head, [row for row in every if row != fact], fact) for fact in asked.tolist()
        ]
        assert_close(head.scores(asked, positions), torch.tensor(without), **EXACT)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_only_the_nearest_facts_vote_for_a_relation(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One fact at a step, so that it is clear which are nearest but for those at equal distance."""
    monkeypatch.setattr(relation_head, "_MAX_PAIR_FACTS", limit)
    monkeypatch.setattr(relation_head, "_MAX_ENTITY_FACTS", limit)
    rows = np.array([[0, step % 3, 1, 2 * step] for step in range(6)])
    graph = make_graph(rows, entities=3, relations=3, steps=12)
    head = randomized(RelationHead(Timeline(graph)), 0)
    facts = torch.tensor([[0, 0, 1, 0], [0, 0, 1, 11], [1, 0, 0, 0]])
    expected = [slow_relation_scores(head, rows.tolist(), fact) for fact in facts.tolist()]
    assert_close(head.scores(facts), torch.tensor(expected), **EXACT)


@pytest.mark.parametrize("kind", HEADS)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_fact_that_is_left_out_might_as_well_not_exist(
    kind: type[QuestionHead], seed: int
) -> None:
    graph = random_graph(seed)
    timeline = Timeline(graph)
    head = randomized(kind(timeline), seed)  # type: ignore[call-arg]
    facts = some_facts(graph, seed, 3)
    for position in range(0, len(timeline.facts), 7):
        rest = np.delete(timeline.facts.numpy(), position, axis=0)
        smaller = Timeline(make_graph(rest, entities=5, relations=3, steps=12))
        expected = head.with_timeline(smaller).scores(facts)
        if kind is PairActivity:
            # The counts of all facts at a step break ties and are not adjusted.
            expected = expected - expected.frac() + head.scores(facts).frac()
        if kind is RelationCounts:
            expected = expected.floor() + head.scores(facts).frac()
        found = head.scores(facts, torch.full((3,), position))
        assert_close(found, expected.to(found.dtype), **EXACT)
        none = head.scores(facts, torch.full((3,), -1))
        assert_close(none, head.scores(facts), **EXACT)


def test_baselines_count() -> None:
    rows = [[0, 0, 1, 3], [0, 1, 1, 3], [0, 1, 1, 5], [1, 2, 0, 5], [2, 2, 3, 5], [2, 2, 3, 6]]
    timeline = Timeline(make_graph(np.array(rows), entities=4, relations=3, steps=8))
    question = torch.tensor([[0, 0, 1, 0]])
    assert RelationCounts(timeline).scores(question).floor().tolist() == [[1, 2, 0]]
    assert RelationCounts(timeline).scores(question).argsort(descending=True).tolist() == [
        [1, 0, 2]
    ]
    assert PairActivity(timeline).scores(question).floor().tolist() == [[0, 0, 0, 2, 0, 2, 0, 0]]
    best = PairActivity(timeline).scores(question).argsort(descending=True, stable=True)
    assert best[0, :3].tolist() == [5, 3, 6]


@pytest.mark.parametrize("kind", [RelationHead, TimeHead])
def test_training_beats_the_baseline(kind: type[RelationHead] | type[TimeHead]) -> None:
    world = make_world(entities=40, relations=8, steps=60, facts=3000).graph
    timeline = Timeline(world)
    torch.manual_seed(0)
    head = kind(timeline)
    facts = torch.from_numpy(world.valid)
    before = rank_questions(head, world, facts)[0]
    fit_head(head, world, seed=0)
    after = rank_questions(head, world, facts)[0]
    baseline = RelationCounts(timeline) if kind is RelationHead else PairActivity(timeline)
    counted = rank_questions(baseline, world, facts)[0]
    mrr = [float((1 / ranks.realistic).mean()) for ranks in (before, counted, after)]
    assert mrr[2] > max(mrr[:2]) + 0.05


def test_test_facts_do_not_change_a_head() -> None:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, size, 40) for size in GRAPH.sizes], 1)
    changed = TemporalGraph(
        GRAPH.name, GRAPH.entities, GRAPH.relations, GRAPH.times, GRAPH.train, GRAPH.valid, rows
    )
    one, other = (fit_heads(Timeline(graph), graph, seed=3) for graph in (GRAPH, changed))
    for first, second in zip(one, other, strict=True):
        for name, value in first.state_dict().items():
            assert torch.equal(value, second.state_dict()[name])


def test_heads_are_stored_and_moved_to_other_facts(tmp_path: object) -> None:
    timeline = Timeline(GRAPH)
    heads = build_heads(timeline, 0)
    for head in heads:
        randomized(head, 1)
    file = tmp_path / "heads.safetensors"  # type: ignore[operator]
    save_heads(heads, file)
    facts = some_facts(GRAPH, 0)
    loaded = load_heads(timeline, 5, file)
    for one, other in zip(heads, loaded, strict=True):
        assert torch.equal(one.scores(facts), other.scores(facts))
    longer = make_graph(
        np.concatenate([GRAPH.train, [[0, 0, 1, 24]]]), entities=12, relations=4, steps=25
    )
    moved = heads.with_timeline(Timeline(longer))
    assert moved.time.scores(facts).shape == (12, 25)
    assert torch.equal(heads.time.scores(facts), loaded.time.scores(facts))
    assert moved.relation.scores(torch.tensor([[0, 0, 1, 24]])).isfinite().all()
