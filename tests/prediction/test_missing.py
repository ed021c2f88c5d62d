"""Missing facts: one row for each triple, in bounds, with probabilities that can be trusted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import tempograph
from graphs import make_graph
from live_service import Answerer
from messages import raises
from predicting import GRAPH
from tempograph import Predictor, QueryError, ResultTable
from tempograph.data.graph import rows_in
from tempograph.data.synthetic.world import make_world
from tempograph.prediction.missing import MissingFacts

pytest_plugins = ("predictor_fixtures",)
PARTS = ("subject", "relation", "object", "time")


def facts_of(table: object) -> np.ndarray:
    """Rows of names as ids."""
    rows = table.to_pylist()  # type: ignore[attr-defined]
    names = [
        {name: id_ for id_, name in enumerate(column)}
        for column in (GRAPH.entities, GRAPH.relations, GRAPH.entities, GRAPH.times)
    ]
    ids = [[names[i][row[part]] for i, part in enumerate(PARTS)] for row in rows]
    return np.array(ids, dtype=np.int64).reshape(-1, 4)


def test_missing_facts_are_new_and_have_one_row_for_each_triple(
    predictor: Predictor, tmp_path: Path
) -> None:
    out = tmp_path / "best.parquet"
    table = predictor.missing(top=15, out=out)
    assert isinstance(table, ResultTable) and table.equals(pq.read_table(out)) and len(table) == 15
    facts = facts_of(table)
    assert not rows_in(facts, GRAPH.all_facts).any()
    assert len(np.unique(facts[:, :3], axis=0)) == 15
    probability = table["probability"].to_pylist()
    assert probability == sorted(probability, reverse=True) and 0 < probability[0] <= 1
    for row in table.to_pylist():
        shares = [row["probability"], *row["other_probabilities"]]
        assert shares == sorted(shares, reverse=True)
        assert len(row["other_times"]) == len(row["other_probabilities"])
        assert row["time"] not in row["other_times"]
    every = tmp_path / "every.parquet"
    count = predictor.missing(at_least=1e-6, out=every)
    stored = pq.read_table(every)
    assert count == len(stored) > 15
    assert stored["time"].to_pylist() == sorted(stored["time"].to_pylist())
    assert max(stored["probability"].to_pylist()) == pytest.approx(probability[0], rel=1e-6)
    rows = {tuple(row[part] for part in PARTS) for row in stored.to_pylist()}
    assert len(rows) == count
    assert {tuple(row[part] for part in PARTS) for row in table.to_pylist()} <= rows
    high = predictor.missing(at_least=probability[4], out=every)
    assert 5 <= high <= count


def test_missing_facts_are_the_same_over_http(predictor: Predictor, answerer: Answerer) -> None:
    table, expected = answerer.missing(top=15), predictor.missing(top=15)
    assert isinstance(table, ResultTable) and isinstance(expected, ResultTable)
    assert table.schema.equals(expected.schema) and len(table) == 15
    for name in ("probability", "other_probabilities"):
        found, wanted = (each[name].combine_chunks() for each in (table, expected))
        if name == "other_probabilities":
            found, wanted = found.flatten(), wanted.flatten()
        assert found.to_pylist() == pytest.approx(wanted.to_pylist(), rel=1e-3)


def test_a_search_keeps_to_its_bounds(answerer: Answerer) -> None:
    table = answerer.missing(
        entity=GRAPH.entities[0], relations=[GRAPH.relations[0]], first=3, last=6, top=50
    )
    assert isinstance(table, ResultTable) and len(table)
    facts = facts_of(table)
    assert ((facts[:, 0] == 0) | (facts[:, 2] == 0)).all() and (facts[:, 1] == 0).all()
    assert ((facts[:, 3] >= 3) & (facts[:, 3] <= 6)).all()
    shown = {time for row in table.to_pylist() for time in row["other_times"]}
    assert shown <= set(GRAPH.times[3:7])


def test_an_empty_search_finds_nothing(predictor: Predictor, tmp_path: Path) -> None:
    assert len(predictor.missing(relations=[], first=3, last=6)) == 0  # type: ignore[arg-type]
    assert len(predictor.score([])) == 0
    assert predictor.missing(relations=[], at_least=0.5, out=tmp_path / "none.parquet") == 0
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_the_memory_budget_does_not_change_a_search(predictor: Predictor) -> None:
    one, other = (predictor.missing(last=3, top=20, budget=budget) for budget in (None, 1))
    assert isinstance(one, ResultTable) and isinstance(other, ResultTable)
    assert one["object"].to_pylist() == other["object"].to_pylist()
    probabilities = [table["probability"].to_pylist() for table in (one, other)]
    assert probabilities[0] == pytest.approx(probabilities[1], rel=1e-3)


def test_a_run_without_valid_facts_cannot_tell_what_is_missing() -> None:
    graph = make_graph([(0, 0, 1, 0), (1, 0, 0, 1), (0, 0, 0, 2)])
    predictor = Predictor(tempograph.train(graph, "ted", overrides=["model.sigma=1"], device="cpu"))
    with raises(QueryError, "question_models.no_valid_facts", data="small"):
        predictor.missing()


def test_probabilities_of_missing_facts_can_be_trusted() -> None:
    """Valid facts fit the classifier; once they are known, test facts are what is missing."""
    world = make_world(entities=40, relations=8, steps=30, facts=2000).graph
    run = tempograph.train(world, "ted", overrides=["model.sigma=1"], device="cpu")
    run.questions.classifier()
    summary = run.results.classifier
    assert summary is not None and summary["found"] > 100 and summary["facts"] == len(world.valid)
    assert sum(row["questions"] for row in summary["reliability"]) == summary["proposals"]
    assert summary["calibration_error"] < 0.05
    without_test = dataclasses.replace(world, test=world.test[:0])
    known = dataclasses.replace(run, graph=without_test)
    known.__dict__["questions"] = run.questions
    table = Predictor(known).missing(top=150)
    assert isinstance(table, ResultTable)
    names = (world.entities, world.relations, world.entities, world.times)
    rows = np.array(
        [[names[i].index(row[part]) for i, part in enumerate(PARTS)] for row in table.to_pylist()]
    )
    assert not rows_in(rows, np.concatenate([world.train, world.valid])).any()
    right, expected = rows_in(rows, world.test).mean(), np.mean(table["probability"].to_pylist())
    base_rate = len(world.test) / np.prod([len(column) for column in names])
    assert right > 100 * base_rate and right == pytest.approx(expected, abs=0.15)


def test_rows_of_triples_equal_a_loop() -> None:
    """Ties keep the order in which the facts are given."""
    rng = np.random.default_rng(3)
    for count in (0, 1, 40):
        rows = np.unique(np.stack([rng.integers(0, 2, count) for _ in range(4)], 1), axis=0)
        rows[:, 3] = rng.permutation(len(rows)) % len(GRAPH.times)
        shares = rng.integers(1, 5, len(rows)) / 5
        found = MissingFacts(torch.from_numpy(rows), torch.from_numpy(shares))
        steps: dict[tuple[int, ...], list[tuple[float, str]]] = {}
        for place in sorted(range(len(rows)), key=lambda place: -shares[place]):
            own = steps.setdefault(tuple(rows[place, :3].tolist()), [])
            own.append((shares[place], GRAPH.times[rows[place, 3]]))
        table = found.by_triple(GRAPH, 5).to_pylist()
        assert len(table) == min(5, len(steps))
        for row, (triple, own) in zip(table, steps.items(), strict=False):
            names = (GRAPH.entities[triple[0]], GRAPH.relations[triple[1]])
            assert (row["subject"], row["relation"]) == names
            assert row["object"] == GRAPH.entities[triple[2]]
            assert [row["probability"], *row["other_probabilities"]] == [p for p, _ in own[:6]]
            assert [row["time"], *row["other_times"]] == [time for _, time in own[:6]]
        kept = found.at_least(0.5)
        assert len(kept.facts) == sum(share >= 0.5 for share in shares)
