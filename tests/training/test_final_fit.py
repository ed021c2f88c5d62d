"""Answers from all facts: what was held out answers questions, and figures stay as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import tempograph
from graphs import make_graph
from predicting import GRAPH
from tempograph import Predictor, Run, TemporalGraph
from tempograph.training.callbacks import Callbacks
from tempograph.training.final_fit import answer_from_all_facts

QUIET = Callbacks(None, None)
COMPLEX = ["model.dim=8", "train.epochs=3"]


def visits() -> TemporalGraph:
    """Visits (r0) and who hosted them (r1); of the visit of e0 to e5 on day 30, valid has only r1.

    On the days around, e0 visits e1.
    """
    rng = np.random.default_rng(0)
    pairs = [
        (guest, (guest + rng.integers(1, 12)) % 12, day)
        for day in range(60)
        for guest in rng.choice(12, 3, replace=False)
    ]
    pairs = [pair for pair in pairs if pair[2] != 30 or 0 not in pair[:2]]
    pairs += [(0, 1, 29), (0, 1, 31)]
    facts = [each for s, o, day in pairs for each in ((s, 0, o, day), (o, 1, s, day))]
    facts = rng.permutation(np.unique(facts, axis=0))
    valid, test, train = facts[:10], facts[10:20], facts[20:]
    return make_graph(train, [*valid, (5, 1, 0, 30)], test, entities=12, steps=60)


@pytest.fixture(scope="module")
def visit_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    settings = ["train.epochs=12", "train.facts_per_step=40", "train.learning_rate=0.05"]
    path = tmp_path_factory.mktemp("visits") / "run"
    return tempograph.train(visits(), "pointer", out=path, overrides=settings, device="cpu")


def test_a_mirror_fact_that_was_held_out_answers_a_question(visit_run: Run) -> None:
    assert visit_run.path is not None
    (before,) = Predictor(visit_run).objects("e0", "r0", 30, top=1).answers
    measured = tempograph.evaluate(visit_run, "test")
    relations = tempograph.evaluate(visit_run, "test", ask="relation")
    basis = answer_from_all_facts(visit_run, QUIET)
    assert basis is not None and basis["facts"] == len(visit_run.graph.all_facts)
    assert basis["refitted"] == []
    loaded = Run.load(visit_run.path)
    predictor = Predictor(loaded)
    (after,) = predictor.objects("e0", "r0", 30, top=1).answers
    assert before.name != "e5" and after.name == "e5" and after.probability > 0.5
    evidence = after.evidence[0]
    assert (evidence.subject, evidence.relation, evidence.object) == ("e5", "r1", "e0")
    assert evidence.time == "day 30"
    known = predictor.subjects("r1", "e0", 30, top=12, evidence=0).answers
    assert {answer.name: answer.known for answer in known}["e5"] == "valid"
    again = tempograph.evaluate(loaded, "test")
    assert torch.equal(again.ranks.realistic, measured.ranks.realistic)
    again_relations = tempograph.evaluate(loaded, "test", ask="relation")
    assert torch.equal(again_relations.ranks.realistic, relations.ranks.realistic)
    card = (visit_run.path / "README.md").read_text()
    assert f"Answers rest on all {basis['facts']:,} facts, those held out included." in card


def test_missing_facts_are_in_no_split(visit_run: Run) -> None:
    answer_from_all_facts(visit_run, QUIET)
    found = Predictor(visit_run).missing(top=500, progress=False)
    assert not isinstance(found, int) and len(found) > 50
    graph = visit_run.graph
    known = {tuple(graph.describe(fact).values()) for fact in graph.all_facts}
    rows = {
        tuple(row[part] for part in ("subject", "relation", "object", "time"))
        for row in found.to_pylist()
    }
    assert not rows & known


def test_an_embedding_method_is_trained_again_on_all_facts(tmp_path: Path) -> None:
    run = tempograph.train(GRAPH, "complex", out=tmp_path / "run", overrides=COMPLEX, device="cpu")
    measured = tempograph.evaluate(run, "test")
    # As if killed after training was finished and before its checkpoint was removed.
    (tmp_path / "run" / "checkpoint.safetensors").write_bytes(b"of another training")
    basis = answer_from_all_facts(run, QUIET)
    assert basis is not None and basis["refitted"] == ["complex"]
    loaded = Run.load(tmp_path / "run")
    answering = loaded.answering().model
    weights = loaded.model.state_dict()
    assert any(not torch.equal(new, weights[name]) for name, new in answering.state_dict().items())
    assert torch.equal(
        tempograph.evaluate(loaded, "test").ranks.realistic, measured.ranks.realistic
    )
    moved = loaded.save_pretrained(tmp_path / "copy")
    for name, value in moved.answering().model.state_dict().items():
        assert torch.equal(value, answering.state_dict()[name])


def test_training_on_all_facts_in_pieces_equals_one_in_one(tmp_path: Path) -> None:
    states = []
    for name in ("whole", "pieces"):
        run = tempograph.train(
            GRAPH, "complex", out=tmp_path / name, overrides=COMPLEX, device="cpu"
        )
        deadline = 0.0 if name == "pieces" else None
        calls = 1
        while answer_from_all_facts(run, Callbacks(None, None, deadline=deadline)) is None:
            calls += 1
        assert (calls > 1) == (name == "pieces")
        assert not list((tmp_path / name).glob("checkpoint*"))
        states.append(run.answering().model.state_dict())
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name])


def test_a_run_that_keeps_its_holdout_says_so(tmp_path: Path) -> None:
    run = tempograph.train(GRAPH, "ted", out=tmp_path / "run", overrides=["model.sigma=1"])
    assert "Answers rest on the same facts." in (tmp_path / "run" / "README.md").read_text()
    assert len(Predictor(run).graph.train) == len(GRAPH.train)
