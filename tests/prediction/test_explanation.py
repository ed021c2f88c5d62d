"""Evidence against full rescores without the fact, and against the rules of the demo world."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import tempograph
from messages import raises
from predicting import GRAPH, entity_scores
from tempograph import Predictor, Run
from tempograph.data.fact_ids import to_fact_ids
from tempograph.data.graph import rows_in
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Timeline
from tempograph.errors import ConfigError

pytest_plugins = ("predictor_fixtures",)


def test_effects_equal_full_rescores_without_the_fact(run: Run) -> None:
    predictor = Predictor(run)
    subject, relation, _, time = GRAPH.test[2].tolist()
    completion = predictor.objects(subject, relation, time, top=3, evidence=5)
    effective = 0
    for answer in completion.answers:
        candidate = GRAPH.entities.index(answer.name)
        before = entity_scores(run.model, subject, relation, time)[candidate]
        effects = [fact.effect for fact in answer.evidence]
        assert effects == sorted(effects, reverse=True)
        for fact in answer.evidence:
            row = to_fact_ids(GRAPH, [(fact.subject, fact.relation, fact.object, fact.time)])
            without = replace(GRAPH, train=GRAPH.train[~rows_in(GRAPH.train, row)])
            after = entity_scores(
                run.model.with_timeline(Timeline(without)), subject, relation, time
            )[candidate]
            assert fact.effect == pytest.approx(
                before - max(after, 0 if after == -math.inf else after), abs=2e-4
            )
            effective += bool(fact.effect)
    assert effective if run.model.uses_train_facts else not effective
    if not run.model.uses_train_facts:
        assert any("does not use known facts" in note for note in completion.notes)


def test_why_lists_facts_by_the_size_of_their_effect(predictor: Predictor) -> None:
    fact = GRAPH.describe(GRAPH.test[2])
    for side in ("object", "subject"):
        (answer,) = predictor.why(*fact.values(), side=side, evidence=20).answers
        every = predictor.objects(
            fact["subject"], fact["relation"], fact["time"], top=12, evidence=0
        )
        assert answer.name == fact[side] and answer.known == "test"
        sizes = [abs(item.effect or 0) for item in answer.evidence]
        assert sizes == sorted(sizes, reverse=True)
        if side == "object":
            assert answer.rank == next(
                (a.rank for a in every.answers if a.name == answer.name), answer.rank
            )
    with raises(ConfigError, "predictor.side", value="relation"):
        predictor.why(*fact.values(), side="relation")


def test_evidence_contains_the_fact_that_a_rule_used() -> None:
    """In a synthetic world most right answers show the fact that the rule used."""
    world = make_world(entities=40, relations=20, steps=60, facts=3000)
    run = tempograph.train(world.graph, "pointer", device="cpu", overrides=["train.epochs=8"])
    predictor, right, explained = Predictor(run), 0, 0
    for fact, (number, cause) in zip(
        world.graph.test.tolist(), world.origins["test"].tolist(), strict=True
    ):
        if world.rules[number].kind not in ("reciprocal", "chain") or not 0 <= cause < len(
            world.graph.train
        ):
            continue
        subject, relation, object_, time = fact
        answer = predictor.objects(subject, relation, time, top=1).answers[0]
        if answer.name == world.graph.entities[object_]:
            shown = [(e.subject, e.relation, e.object, e.time) for e in answer.evidence]
            right += 1
            explained += tuple(world.graph.describe(world.graph.train[cause]).values()) in shown
    assert right >= 20 and explained >= 0.8 * right
