"""The pointer against a loop over facts: scores, left-out facts, training and evidence."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import tempograph
from graphs import make_graph
from memory import PeakMemory
from messages import raises
from tempograph.data.fact_index import FactIndex, Key
from tempograph.data.graph import TemporalGraph
from tempograph.data.sorted_facts import hash_facts
from tempograph.data.timeline import Queries, Timeline, both_directions
from tempograph.device import MEMORY_BUDGETS, Budget
from tempograph.errors import ConfigError
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.models.pointer import copying
from tempograph.models.pointer.copying import Copying, signed_bins
from tempograph.models.pointer.entity_counts import EntityCounts
from tempograph.models.pointer.names import Names
from tempograph.models.pointer.paths import Paths
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.pointer.vote_sample import VoteSample
from tempograph.training.losses.pointer_loss import PointerLoss
from tempograph.training.lr_schedule import learning_rate
from tempograph.training.settings import PointerTrainSettings
from tempograph.typing import Protocol

KEYS: tuple[Key, ...] = ("entity", "relation", "both", "time", "any")
SEEDS = st.integers(0, 2**32 - 1)
ENTITIES, RELATIONS, STEPS = 6, 2, 12
NAMES = ("India", "Police (India)", "Police (Spain)", "Spain", "Zebra", "Citizen (Spain)")


def random_graph(seed: int, facts: int = 40) -> TemporalGraph:
    """Few entities and steps, so that facts recur on other days, share days, and loop."""
    rng = np.random.default_rng(seed)
    drawn = np.unique(rng.integers(0, [ENTITIES, RELATIONS, ENTITIES, STEPS], (facts, 4)), axis=0)
    graph = make_graph(rng.permutation(drawn), entities=ENTITIES, relations=RELATIONS, steps=STEPS)
    return dataclasses.replace(graph, entities=NAMES)


def random_pointer(
    graph: TemporalGraph,
    seed: int,
    max_facts: int = 7,
    names: bool = False,
    counts: Literal["all", "voting"] = "all",
) -> Pointer:
    torch.manual_seed(seed)
    limits = (max_facts + offset for offset in (0, 2, -2, 1, 3))
    settings = PointerSettings(*limits, paths=True, names=names, counts=counts)
    model = Pointer(Timeline(graph), settings)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.5 * torch.randn_like(parameter))
    return model.double()


def queries_of(facts: Tensor) -> tuple[Queries, Tensor]:
    """Both queries of each fact, and the position of the fact."""
    s, r, o, t = facts.unbind(1)
    queries = Queries(torch.cat([s, o]), torch.cat([r, r + RELATIONS]), torch.cat([t, t]))
    return queries, torch.arange(len(facts)).repeat(2)


def slow_contributions(
    source: Copying, facts: list[list[int]], query: tuple[int, int, int], left_out: int | None
) -> list[float]:
    """The contribution to every entity, by a loop over all facts but the one left out."""
    entity, relation, time = query
    wanted = {
        "entity": lambda x, r, o, t: x == entity,
        "relation": lambda x, r, o, t: r == relation,
        "both": lambda x, r, o, t: (x, r) == (entity, relation),
        "time": lambda x, r, o, t: t == time,
        "any": lambda x, r, o, t: True,
    }[source.fact_index.key]
    listed = []
    for number, (s, r, o, t) in enumerate(facts):
        if number != left_out:
            listed += [(t, *tie((s, r, o, t))), (t, *tie((o, r + RELATIONS, s, t)))]
    mine = sorted(row for row in listed if wanted(*row[2]))
    first = 0
    while (
        first + source.max_facts < len(mine)
        and time - mine[first][0] > mine[first + source.max_facts][0] - time
    ):
        first += 1
    earlier = sum(row[0] < time for row in mine)
    sums = [0.0] * ENTITIES
    for place, (_, _, (_, other, candidate, t)) in enumerate(mine):
        if not first <= place < first + source.max_facts:
            continue
        distance = sum(abs(t - time) >= edge for edge in (1, 2, 4, 9, 23, 61, 161))
        gap_class = 7 + (distance if t > time else -distance)
        kind = (
            1
            if other == relation
            else 2
            if other == (relation + RELATIONS) % (2 * RELATIONS)
            else 0
        )
        exponent = float(
            source.pair.own[relation, other, gap_class] + source.pair.shared[kind, gap_class]
        )
        nearness = slow_bin(t - time, STEPS, 3)
        exponent += float(source.by_time[relation, nearness] + source.shared_time[nearness])
        count = max(-source.max_facts, min(source.max_facts, place - earlier))
        pace = slow_bin(count, source.max_facts, 2)
        exponent += float(source.by_count[relation, pace] + source.shared_count[pace])
        sums[candidate] += math.exp(exponent)
    u, log_c, v = (source.shared_gain + source.gain[relation]).tolist()
    counts = [sum(row[2][2] == candidate for row in mine) for candidate in range(ENTITIES)]
    if not source.count_all:
        counts = [count * (total > 0) for count, total in zip(counts, sums, strict=True)]
    return [
        u * math.log1p(math.exp(log_c) * total)
        + v * math.log1p(count)
        + slow_prior(source, relation, o)
        for o, (total, count) in enumerate(zip(sums, counts, strict=True))
    ]


def slow_prior(source: Copying, relation: int, entity: int) -> float:
    """The number of a relation and a candidate that occur together in any fact."""
    view, pairs = source.fact_index, []
    for key in range(len(view.values)):
        pairs += [
            (key, int(o))
            for o in view.candidates[view.candidate_start[key] : view.candidate_start[key + 1]]
        ]
    if source.prior is None:
        return 0.0
    keys = {int(value): key for key, value in enumerate(view.values)}
    pair = (keys.get(relation, -1), entity)
    return float(source.prior[pairs.index(pair)]) if pair in pairs else 0.0


@cache
def tie(fact: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """What orders facts of one time."""
    return int(hash_facts(torch.tensor([fact]))), fact


def slow_bin(difference: int, largest: int, per_octave: int) -> int:
    """Distinct values of floor(k log2(1 + d)) numbered outwards from 0 on both sides."""
    values = sorted({math.floor(per_octave * math.log2(1 + d)) for d in range(largest + 1)})
    number = values.index(math.floor(per_octave * math.log2(1 + abs(difference))))
    return len(values) - 1 + (number if difference >= 0 else -number)


def dense(source: Copying, queries: Queries, left_out: Tensor | None) -> Tensor:
    nothing = torch.zeros(len(queries.time), ENTITIES, dtype=source.gain.dtype)
    actual: Tensor = source(nothing, queries.relation, source.look_up(queries, left_out))
    return actual


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.booleans(), st.sampled_from(["all", "voting"]))
def test_contributions_equal_a_loop_over_facts(
    seed: int, leave_out: bool, counts: Literal["all", "voting"]
) -> None:
    # With few votes, counts differ.
    model = random_pointer(random_graph(seed), seed, 7 if counts == "all" else 3, counts=counts)
    facts = model.timeline.facts
    queries, number = queries_of(facts[:8])
    for source in model.vote_sources:
        if isinstance(source, Paths):
            continue
        actual = dense(source, queries, number if leave_out else None).detach()
        for row, query in enumerate(zip(*(column.tolist() for column in queries), strict=True)):
            with torch.no_grad():
                expected = slow_contributions(
                    source, facts.tolist(), query, int(number[row]) if leave_out else None
                )
            assert actual[row].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=16, deadline=None)
@given(SEEDS, st.integers(1, 9), st.booleans())
def test_the_nearest_facts_vote(seed: int, most: int, leave_out: bool) -> None:
    timeline = Timeline(random_graph(seed))
    queries, number = queries_of(timeline.facts)
    for key in KEYS:
        view = FactIndex(timeline, key)
        removed = view.fact_positions(queries, number if leave_out else None)
        ranges = view.nearest(queries, most, removed)
        of_key = view.key_ids(queries)
        for row in range(len(of_key)):
            every = set(
                range(int(view.key_start[of_key[row]]), int(view.key_start[of_key[row] + 1]))
            ) - set(removed[row].tolist())
            chosen = set(range(int(ranges.start[row]), int(ranges.stop[row]))) - set(
                removed[row].tolist()
            )
            assert chosen <= every and len(chosen) == min(most, len(every))
            distance = {place: abs(int(view.time[place] - queries.time[row])) for place in every}
            assert sorted(distance[place] for place in chosen) == sorted(distance.values())[:most]


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.booleans())
def test_scores_without_a_fact_equal_those_of_a_graph_without_it(seed: int, names: bool) -> None:
    graph = random_graph(seed)
    model = random_pointer(graph, seed, names=names)
    facts = model.timeline.facts
    queries, number = queries_of(facts)
    with torch.no_grad():
        actual = model.score(queries.relation, model.look_up(queries, number))
        for fact in range(0, len(facts), 5):
            without = dataclasses.replace(graph, train=np.delete(facts.numpy(), fact, axis=0))
            other = random_pointer(without, seed, names=names)
            mine = Queries(*(column[[fact, fact + len(facts)]] for column in queries))
            prior = torch.zeros(2, ENTITIES, dtype=torch.float64)
            for here, there in zip(model.vote_sources, other.vote_sources, strict=True):
                if (
                    isinstance(here, Copying)
                    and isinstance(there, Copying)
                    and here.prior is not None
                ):
                    assert there.prior is not None
                    # The other graph has no prior for a pair that occurs in this fact alone.
                    there.prior.zero_()
                    row, position = here.fact_index.candidate_ranges(mine).expand()
                    prior[row, here.fact_index.candidates[position]] = here.prior[position]
                weights = {
                    name: value for name, value in here.state_dict().items() if name != "prior"
                }
                there.load_state_dict(weights, strict=False)
            other.entity.copy_(model.entity)
            assert_close(
                actual[[fact, fact + len(facts)]], other.scores(mine) + prior, rtol=1e-9, atol=1e-12
            )


def test_what_is_kept_outside_of_training_follows_the_weights() -> None:
    model = random_pointer(random_graph(0), 0, names=True)
    queries, _ = queries_of(model.timeline.facts[:3])
    for _ in range(2):
        with torch.no_grad():
            kept = [model.scores(queries) for _ in range(2)]
        assert torch.equal(kept[0], kept[1]) and torch.equal(kept[0], model.scores(queries))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)


def test_a_loop_is_left_out_in_both_directions_and_other_days_stay() -> None:
    graph = make_graph([(0, 0, 0, 3), (0, 0, 0, 5), (1, 0, 2, 3)], entities=3, relations=1, steps=8)
    model = Pointer(Timeline(graph), PointerSettings())
    source = model.sources[0]
    queries = Queries(torch.tensor([0]), torch.tensor([0]), torch.tensor([3]))
    place = int((model.timeline.facts == torch.tensor([0, 0, 0, 3])).all(1).nonzero())
    ballot = source.look_up(queries, torch.tensor([place]))  # type: ignore[operator]
    assert (ballot.removed < len(source.fact_index.time)).all(), (
        "both directions of a loop are among its entity's facts"
    )  # type: ignore[union-attr]
    fact, _ = source.fact_contributions(queries, 0)  # type: ignore[operator]
    assert sorted(model.timeline.facts[fact, 3].tolist()) == [3, 3, 5, 5]
    alone = make_graph([(0, 0, 0, 5), (1, 0, 2, 3)], entities=3, relations=1, steps=8)
    other = Pointer(Timeline(alone), PointerSettings()).sources[0]
    nothing = torch.zeros(1, 3)
    actual = source(nothing, queries.relation, source.look_up(queries, torch.tensor([place])))  # type: ignore[operator]
    assert_close(actual, other(nothing, queries.relation, other.look_up(queries)))  # type: ignore[operator]


@pytest.mark.parametrize("with_names", [False, True])
def test_gradients_equal_finite_differences(with_names: bool) -> None:
    model = random_pointer(random_graph(3, facts=14), 3, max_facts=4, names=with_names)
    queries, number = queries_of(model.timeline.facts[:3])
    trained = [item for item in model.named_parameters() if item[1].requires_grad]
    names, values = zip(*trained, strict=True)

    def score(*parameters: Tensor) -> Tensor:
        actual: Tensor = torch.func.functional_call(
            _Scored(model),
            dict(zip([f"model.{n}" for n in names], parameters, strict=True)),
            (queries, number),
        )
        return actual

    assert torch.autograd.gradcheck(
        score, tuple(value.detach().requires_grad_() for value in values), fast_mode=True
    )


class _Scored(torch.nn.Module):
    def __init__(self, model: Pointer) -> None:
        super().__init__()
        self.model = model

    def forward(self, queries: Queries, left_out: Tensor) -> Tensor:
        return self.model.score(queries.relation, self.model.look_up(queries, left_out))


def test_with_names_a_candidate_gains_by_its_other_facts() -> None:
    """An entity whose only fact is asked for is like one that has none."""
    graph = random_graph(2, facts=8)
    facts = [(0, 0, 1, 1), (2, 0, 1, 2), (2, 1, 3, 4)]
    model = random_pointer(
        dataclasses.replace(graph, train=np.array(facts), valid=graph.valid), 2, names=True
    )
    source = next(each for each in model.vote_sources if isinstance(each, EntityCounts))
    query = Queries(*torch.tensor([[2], [1], [4]]))
    nothing = torch.zeros(1, ENTITIES, dtype=torch.float64)
    position = model.timeline.facts.tolist().index([2, 1, 3, 4])
    table = (source.shared + source.by_relation[1]).tolist()
    for left_out, counts in ((None, (1, 2, 2, 1, 0, 0)), (position, (1, 2, 1, 0, 0, 0))):
        removed = source.look_up(query, None if left_out is None else torch.tensor([left_out]))
        unpacked = source.unpack(removed.pack())
        actual = source(nothing.clone(), query.relation, unpacked)[0].tolist()
        # The first three classes are 0, 1 and 2 facts.
        assert actual == pytest.approx([table[count] for count in counts])


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_names_equal_a_loop_over_facts(seed: int) -> None:
    model = random_pointer(random_graph(seed), seed, names=True)
    source = next(each for each in model.vote_sources if isinstance(each, Names))
    facts, vectors = model.timeline.facts.tolist(), source.names.table()
    queries, number = queries_of(model.timeline.facts[:4])
    nothing = torch.zeros(len(number), ENTITIES, dtype=torch.float64)
    lookups = source.unpack(source.look_up(queries, number).pack())
    actual = source(nothing, queries.relation, lookups)
    for row, (entity, relation, _) in enumerate(zip(*(c.tolist() for c in queries), strict=True)):
        partners = []
        for position, (s, _, o, _) in enumerate(facts):
            if position != int(number[row]):
                partners += [o] * (s == entity) + [s] * (o == entity)
        mean = vectors[partners].mean(0) if partners else torch.zeros_like(vectors[0])
        query = vectors[entity] * source.own[relation] + mean * source.partners[relation]
        expected = vectors @ (query + source.preference[relation])
        assert_close(actual[row], expected, rtol=1e-9, atol=1e-9)


def test_evidence_says_what_names_add() -> None:
    model = random_pointer(random_graph(7), 7, names=True)
    source = next(each for each in model.vote_sources if isinstance(each, Names))
    subject, relation, answer, time = model.timeline.facts[0].tolist()
    query = Queries(*(torch.tensor([part]) for part in (subject, relation, time)))
    scores = model.scores(query)[0]
    with torch.no_grad():
        for weight in (source.own, source.partners, source.preference):
            weight.zero_()
    gains = (scores - model.scores(query)[0]).detach()
    expected = f"names {float(gains[answer] - gains.mean()):+.2f}"
    again = random_pointer(random_graph(7), 7, names=True).float()
    assert again.evidence(query, answer).reason == f"learned copying, {expected}"
    plain = random_pointer(random_graph(7), 7).float()
    assert plain.evidence(query, answer).reason == "learned copying"


def test_name_dropout_leaves_out_parts_of_names_in_training_alone() -> None:
    model = random_pointer(random_graph(4), 4, names=True)
    batch, losses = torch.arange(6), []
    for rate in (0.0, 0.5):
        settings = PointerTrainSettings(fact_dropout=0.0, name_dropout=rate)
        loss = PointerLoss(model, settings)
        seeds = (torch.Generator().manual_seed(seed) for seed in (0, 0, 1))
        losses.append([float(loss(batch, generator).detach()) for generator in seeds])
    (first, same, other), (dropped, again, differently) = losses
    assert first == same == other
    assert dropped == again != differently != first


def test_pair_tables_of_many_relations_have_low_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(6)
    whole = random_pointer(graph, 6)
    monkeypatch.setattr(copying, "MAX_RELATIONS", 2 * RELATIONS - 1)
    narrow = random_pointer(graph, 6)
    with torch.no_grad():
        for wide, slim in zip(whole.vote_sources, narrow.vote_sources, strict=True):
            if isinstance(slim, Paths):
                wide.load_state_dict(slim.state_dict())
                continue
            own = (slim.pair.left @ slim.pair.right).view(2 * RELATIONS, 2 * RELATIONS, -1)
            shared = {
                name: value
                for name, value in slim.state_dict().items()
                if "left" not in name and "right" not in name
            }
            wide.load_state_dict(shared | {"pair.own": own})
        whole.entity.copy_(narrow.entity)
        queries, _ = queries_of(whole.timeline.facts[:5])
        assert_close(narrow.scores(queries), whole.scores(queries), rtol=1e-9, atol=1e-12)
    loss = PointerLoss(narrow, PointerTrainSettings())(
        torch.arange(5), torch.Generator().manual_seed(0)
    )
    left = narrow.get_parameter("sources.0.pair.left")
    assert float(torch.autograd.grad(loss, left)[0].abs().sum()) > 0


def test_facts_of_one_time_are_in_random_order() -> None:
    """Where not all facts of a time may vote, those that do are no particular ones."""
    facts = [(s, 0, o, 1) for s in range(30) for o in range(30)]
    view = FactIndex(Timeline(make_graph(facts, entities=30, relations=1, steps=3)), "time")
    query = Queries(torch.tensor([0]), torch.tensor([0]), torch.tensor([1]))
    nearest = view.nearest(query, 300, view.fact_positions(query, None))
    voting = view.candidates[view.candidate_slot[int(nearest.start) : int(nearest.stop)]]
    assert len(voting) == 300 and torch.unique(voting).numel() > 25
    assert abs(float(voting.float().mean()) - 14.5) < 2


def test_bins_are_fine_near_zero_and_signed() -> None:
    bins = signed_bins(364, per_octave=3).tolist()
    assert bins == sorted(bins) and bins == [
        slow_bin(difference, 364, 3) for difference in range(-364, 365)
    ]
    assert len({bins[364 + difference] for difference in (-3, -2, -1, 0, 1, 2, 3)}) == 7


def test_it_learns_to_copy_and_never_from_the_fact_itself() -> None:
    """Facts of a random graph are unpredictable unless the model sees the fact of the query."""
    rng = np.random.default_rng(0)
    facts = np.unique(rng.integers(0, [30, 2, 30, 40], (400, 4)), axis=0)
    graph = make_graph(facts, valid=facts[:5], test=facts[:5], entities=30, relations=2, steps=40)
    model = Pointer(Timeline(graph), PointerSettings())
    loss = PointerLoss(model, PointerTrainSettings(facts_per_step=100))
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    generator = torch.Generator().manual_seed(0)
    for _ in range(12):
        for batch in loss.batches(generator):
            optimizer.zero_grad()
            loss(batch, generator).backward()
            optimizer.step()
    answer = torch.cat([model.timeline.facts[:, 2], model.timeline.facts[:, 0]])
    with torch.no_grad():
        queries, number = queries_of(model.timeline.facts)
        unseen = torch.log_softmax(model.score(queries.relation, model.look_up(queries, number)), 1)
    # Left out, a random fact is little more likely than any other: log(1 / 30) = -3.4.
    assert float(unseen[torch.arange(len(answer)), answer].mean()) < -2.5


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_loss_equals_a_loop_over_questions(dropout: float) -> None:
    """Each query without its own fact, against all false answers; dropped facts do not vote."""
    model = random_pointer(random_graph(6), 6)
    loss = PointerLoss(model, PointerTrainSettings(fact_dropout=dropout))
    facts, batch = model.timeline.facts, torch.tensor([1, 4, 9])
    fact_mask = (
        torch.rand(len(facts), generator=torch.Generator().manual_seed(5)) >= dropout
        if dropout
        else None
    )
    right = {tuple(row) for row in both_directions(facts, RELATIONS).tolist()}
    losses = []
    for number in batch.tolist():
        s, r, o, t = facts[number].tolist()
        for entity, relation, answer in ((s, r, o), (o, r + RELATIONS, s)):
            query = Queries(*torch.tensor([[entity], [relation], [t]]))
            lookups = model.look_up(query, torch.tensor([number]))
            scores = model.score(query.relation, lookups, VoteSample(fact_mask))[0]
            rivals = [
                e for e in range(ENTITIES) if e == answer or (entity, relation, e, t) not in right
            ]
            losses.append(torch.logsumexp(scores[rivals], 0) - scores[answer])
    actual = loss(batch, torch.Generator().manual_seed(5))
    assert_close(actual.double(), torch.stack(losses).mean().double(), rtol=1e-5, atol=1e-6)


def test_dropped_facts_do_not_vote() -> None:
    """The weights of votes matter only if some fact is not dropped."""
    model = random_pointer(random_graph(7), 7)
    queries, _ = queries_of(model.timeline.facts)
    lookups = model.look_up(queries, None)
    mute = torch.zeros(len(model.timeline.facts), dtype=torch.bool)
    before = [
        model.score(queries.relation, lookups, VoteSample(mask)).detach().clone()
        for mask in (None, mute)
    ]
    with torch.no_grad():
        for source in model.vote_sources:
            if isinstance(source, Copying):
                for name, weight in source.named_parameters():
                    if "gain" not in name and name != "prior":
                        weight.add_(torch.randn_like(weight))
    after = [
        model.score(queries.relation, lookups, VoteSample(mask)).detach() for mask in (None, mute)
    ]
    assert not torch.allclose(after[0], before[0]) and torch.allclose(after[1], before[1])


@pytest.mark.parametrize(("num_queries", "names"), [(1, False), (3, True), (7, False)])
def test_chunks_within_a_budget_have_the_same_loss_and_gradients(
    num_queries: int, names: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = random_pointer(random_graph(4), 4, names=names)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    loss = PointerLoss(model, PointerTrainSettings(fact_dropout=0.2))
    actual = []
    for budget in (2**30, num_queries * model.bytes_per_candidate * ENTITIES):
        monkeypatch.setitem(MEMORY_BUDGETS, "pointer_loss", Budget(budget, 0))
        value = loss(torch.arange(8), torch.Generator().manual_seed(0))
        actual.append([value.detach(), *torch.autograd.grad(value, trained)])
    # The loss is in single precision.
    assert_close(actual[1], actual[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("entities", [20, 150])
def test_ranking_stays_within_its_budget_where_votes_outnumber_entities(entities: int) -> None:
    rng = np.random.default_rng(0)
    facts = rng.permutation(
        np.unique(rng.integers(0, [entities, 3, entities, 40], (12_000, 4)), axis=0)
    )
    graph = make_graph(facts[400:], test=facts[:400], entities=entities, relations=3, steps=40)
    model = Pointer(Timeline(graph), PointerSettings())
    budget = 2**23
    with PeakMemory() as peak:
        evaluate_model(model, graph, "test", "strict", budget=budget)
    # What is known of all facts lies beside it.
    assert budget / 2 < peak.bytes <= 1.1 * budget


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.sampled_from(["strict", "paper"]))
def test_valid_and_test_facts_change_nothing(seed: int, protocol: Protocol) -> None:
    graph, held = random_graph(seed), random_graph(seed + 1).train
    changed = dataclasses.replace(graph, valid=held[::2], test=held[1::2])
    actual = []
    for each in (graph, changed):
        model = Pointer(Timeline(each, protocol), PointerSettings(7, 9, 5, 8, 10, paths=True))
        queries, left_out = queries_of(model.timeline.facts)
        loss = PointerLoss(model, PointerTrainSettings())(
            left_out[: len(graph.train)], torch.Generator().manual_seed(1)
        )
        actual.append(
            [loss, *torch.autograd.grad(loss, list(model.parameters())), model.scores(queries)]
        )
    assert all(torch.equal(one, other) for one, other in zip(*actual, strict=True))


def test_a_pattern_is_learned() -> None:
    """Whoever writes to someone is answered two days later."""
    rng = np.random.default_rng(1)
    rows = []
    for day in range(0, 60):
        for _ in range(4):
            one, other = rng.choice(12, 2, replace=False)
            rows += [(one, 0, other, day), (other, 1, one, day + 2)]
    facts = np.unique(np.array(rows), axis=0)
    order = rng.permutation(len(facts))
    held = facts[order[: len(facts) // 10]]
    answers = held[held[:, 1] == 1]
    graph = make_graph(
        facts[order[len(facts) // 10 :]],
        valid=held,
        test=answers,
        entities=12,
        relations=2,
        steps=62,
    )
    run = tempograph.train(
        graph, "pointer", device="cpu", overrides=["train.epochs=12", "train.learning_rate=0.05"]
    )
    figures = evaluate_model(run.model, graph, "test", "strict").summary()["metrics"]
    assert figures["mrr"] > 0.8
    rank_one = (
        evaluate_model(run.model, graph, "test", "strict").ranks.realistic[: len(answers)] == 1
    )
    one = answers[int(rank_one.nonzero()[0])]
    support = run.model.evidence(
        Queries(*(torch.tensor([value]) for value in one[[0, 1, 3]])), int(one[2])
    )
    assert support.facts[0].tolist() == [one[2], 0, one[0], one[3] - 2], (
        "the letter that is answered"
    )
    assert support.shares is not None and float(support.shares.abs().sum()) == pytest.approx(1)
    assert bool((support.shares[:-1] >= support.shares[1:]).all())


def test_shares_equal_the_contributions_of_votes() -> None:
    model = random_pointer(random_graph(5), 5)
    queries, _ = queries_of(model.timeline.facts[:1])
    query = Queries(*(column[:1] for column in queries))
    with torch.no_grad():
        contributions = [dense(source, query, None)[0] for source in model.sources]  # type: ignore[arg-type]
        for answer in range(ENTITIES):
            copied = (source for source in model.vote_sources if isinstance(source, Copying))
            priors = sum(slow_prior(source, int(query.relation), answer) for source in copied)
            met = {
                (s, o)
                for s, _, o, _ in both_directions(model.timeline.facts, RELATIONS).tolist()
                if s != o
            }
            if (int(query.entity), answer) not in met:
                paths = next(source for source in model.vote_sources if isinstance(source, Paths))
                priors += float(paths.shared_gain[3] + paths.gain[query.relation, 3])
            total = sum(
                float(source.fact_contributions(query, answer)[1].sum()) for source in model.sources
            )  # type: ignore[operator]
            assert total == pytest.approx(
                sum(float(gain[answer]) for gain in contributions) - priors
            )


@pytest.mark.parametrize(
    ("kind", "setting", "value", "bounds"),
    [
        (PointerSettings, "max_facts", 0, "at least 1"),
        (PointerSettings, "max_facts_per_time", -1, "at least 0"),
        (PointerTrainSettings, "fact_dropout", 1.0, "at least 0 and below 1"),
        (PointerTrainSettings, "cooldown", 1.5, "between 0 and 1"),
    ],
)
def test_settings_out_of_bounds_are_refused(
    kind: Callable[..., object], setting: str, value: float, bounds: str
) -> None:
    with raises(ConfigError, "typing.bounds", setting=setting, bounds=bounds, value=value):
        kind(**{setting: value})


def test_sampled_negatives_are_refused() -> None:
    with raises(ConfigError, "settings.pointer_negatives", value=5):
        PointerTrainSettings(negatives=5)


def test_the_learning_rate_falls_to_a_tenth() -> None:
    rates = [
        learning_rate(PointerTrainSettings(epochs=10, learning_rate=1.0, cooldown=0.5), epoch)
        for epoch in range(10)
    ]
    assert rates == pytest.approx([1, 1, 1, 1, 1, 0.82, 0.64, 0.46, 0.28, 0.1])
    assert learning_rate(PointerTrainSettings(epochs=10, learning_rate=1.0), 9) == 1.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
def test_a_step_does_not_wait_for_the_gpu() -> None:
    rng = np.random.default_rng(0)
    graph = make_graph(
        np.unique(rng.integers(0, [200, 3, 200, 20], (400, 4)), axis=0),
        entities=200,
        relations=3,
        steps=20,
    )
    model = Pointer(Timeline(graph, device=torch.device("cuda")), PointerSettings(paths=True))
    loss, chance = (
        PointerLoss(model, PointerTrainSettings()),
        torch.Generator("cuda").manual_seed(0),
    )
    batch = torch.arange(300, device="cuda")
    loss(batch, chance).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss(batch, chance).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
