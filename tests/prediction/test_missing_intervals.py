"""Missing facts that hold for a while: once each, with an interval and a probability to trust."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import tempograph
from conftest import Call, as_json
from intervals import interval_graph
from live_service import live_service
from messages import raises
from tempograph import Client, Predictor, QueryError, ResultTable, TemporalGraph

PARTS = ("subject", "relation", "object")
NUMBER = 120
"""Pairs of entities; each fact of a pair is recorded from both sides, if it is not missing."""


def marriages() -> TemporalGraph:
    """Marriages from both sides, of some of which the second side is held out, and other facts."""
    rng = np.random.default_rng(8)
    start = rng.integers(0, 12, NUMBER)
    when = (start, start + rng.integers(1, 8, NUMBER), np.zeros(NUMBER, np.int64))
    pair = np.arange(NUMBER)
    one = np.column_stack([2 * pair, 0 * pair, 2 * pair + 1, *when])
    other = one[:, [2, 1, 0, 3, 4, 5]]
    lives = np.column_stack([2 * pair, pair * 0 + 1, rng.integers(0, 30, NUMBER), *when])
    never = 10
    train = np.concatenate([one, lives, other[: NUMBER - 40 - never]])
    held_out = other[NUMBER - 40 - never : NUMBER - never]
    graph = interval_graph(train, held_out[:20], held_out[20:], 2 * NUMBER, 2, 20, 1950)
    return dataclasses.replace(graph, name="marriages")


@pytest.fixture(scope="module")
def graph() -> TemporalGraph:
    return marriages()


@pytest.fixture(scope="module")
def predictor(graph: TemporalGraph, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """A run that knows valid but not test, with probabilities that were fitted without either."""
    folder = tmp_path_factory.mktemp("runs") / "marriages"
    run = tempograph.train(graph, "ted", overrides=["model.sigma=0.5"], out=folder, device="cpu")
    known = dataclasses.replace(run, graph=dataclasses.replace(graph, test=graph.test[:0]))
    known.__dict__["questions"] = run.questions
    return Predictor(known)


def triples(graph: TemporalGraph, facts: np.ndarray) -> set[tuple[str, ...]]:
    names = (graph.entities, graph.relations, graph.entities)
    return {tuple(names[i][row[i]] for i in range(3)) for row in facts.tolist()}


def tuple_of(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[part] for part in PARTS)


def rows(table: object) -> list[dict[str, object]]:
    assert isinstance(table, ResultTable)
    return table.to_pylist()


def test_sides_that_are_missing_come_first_with_their_intervals(
    graph: TemporalGraph, predictor: Predictor
) -> None:
    found = rows(predictor.missing(top=34, progress=False))
    own = [tuple_of(row) for row in found]
    known = np.concatenate([graph.train, graph.valid])
    assert len(set(own)) == len(own) == 34 and not set(own) & triples(graph, known)
    # The other side of 20 marriages is in test, and that of 10 nowhere.
    married = triples(graph, graph.train[:NUMBER][:, [2, 1, 0]]) - triples(graph, known)
    assert len(married) == 30 and triples(graph, graph.test) < married <= set(own)
    shares = [row["probability"] for row in found]
    assert shares == sorted(shares, reverse=True) and shares[0] < 0.9
    expected = np.mean([row["probability"] for row in found if tuple_of(row) in married])
    assert expected == pytest.approx(20 / 30, abs=0.3)
    for row in found[:5]:
        best = predictor.when(*(str(row[part]) for part in PARTS), top=1).answers[0]
        assert (row["start"], row["end"], row["time"]) == (best.start, best.end, best.start)


def test_every_fact_above_a_probability_is_written(predictor: Predictor, tmp_path: Path) -> None:
    best = predictor.missing(top=12, out=tmp_path / "best.csv", progress=False)
    assert (tmp_path / "best.csv").read_text().count("\n") == 13
    least = rows(best)[-1]["probability"]
    count = predictor.missing(at_least=least, out=tmp_path / "all.parquet", progress=False)
    stored = pq.read_table(tmp_path / "all.parquet")
    assert count == len(stored) >= 12 and stored.column_names == best.column_names  # type: ignore[union-attr]
    assert stored["time"].to_pylist() == sorted(stored["time"].to_pylist())
    assert min(stored["probability"].to_pylist()) >= least


def test_a_search_keeps_to_its_bounds(graph: TemporalGraph, predictor: Predictor) -> None:
    entity, bounds = graph.entities[2 * NUMBER - 1], {"first": "1955", "last": "1965"}
    for found in rows(predictor.missing(entity, progress=False)):
        assert entity in (found["subject"], found["object"])
    limited = rows(predictor.missing(relations=["r1"], **bounds, progress=False))
    assert limited and {row["relation"] for row in limited} == {"r1"}
    assert all("1955" <= str(row["start"]) <= str(row["end"]) <= "1965" for row in limited)
    assert rows(predictor.missing(relations=[], progress=False)) == []


def test_progress_and_memory_do_not_change_what_is_found(predictor: Predictor) -> None:
    seen: list[tuple[int, int]] = []
    one = predictor.missing(top=3, progress=lambda done, total: seen.append((done, total)))
    other = predictor.missing(top=3, progress=False, budget=200_000)
    assert seen[-1] == (3, 3) and all(0 < done <= total for done, total in seen)
    assert rows(one) == [
        row | {"probability": pytest.approx(row["probability"], rel=1e-3)} for row in rows(other)
    ]


def test_the_classifier_is_kept_and_says_how_far_it_can_be_trusted(predictor: Predictor) -> None:
    predictor.missing(top=1, progress=False)
    summary = predictor.run.questions.results.classifier
    assert summary is not None and summary["found"] == summary["facts"] == 20
    assert sum(row["questions"] for row in summary["reliability"]) == summary["proposals"]
    assert summary["calibration_error"] < 0.05
    stored = Predictor(tempograph.Run.load(predictor.run.path or ""), device="cpu")
    assert stored.run.results.classifier == summary
    again = rows(stored.missing(top=10, progress=False))
    assert 0 < float(str(again[0]["probability"])) < 1


def test_a_service_finds_the_same(predictor: Predictor) -> None:
    wanted = predictor.missing(top=4, progress=False)
    with live_service({"run": predictor}) as url, Client(url) as client:
        found = client.missing(top=4, progress=False)
        every = client.missing(at_least=0.3, progress=False)
    assert isinstance(wanted, ResultTable)
    assert found.column_names == wanted.column_names
    for name in (*PARTS, "time", "start", "end"):
        assert found[name].to_pylist() == wanted[name].to_pylist()
    assert {"start", "end", "probability"} <= set(every.column_names) and len(every) >= 4


def test_the_command_prints_intervals(predictor: Predictor, call: Call) -> None:
    folder = str(predictor.run.path)
    found = as_json(call("missing", folder, "--top", "1", "--json"))["facts"]
    assert {"start", "end"} <= set(found[0]) and "other_times" not in found[0]
    code, printed, _ = call("missing", folder, "--top", "1")
    assert code == 0 and f"{found[0]['start']} to {found[0]['end']}" in printed
    command = ("missing", folder, "--at-least", "0.3", "--out", "found.csv", "--json")
    count = as_json(call(*command))["facts"]
    assert Path("found.csv").read_text().count("\n") == count + 1


def test_a_run_without_valid_facts_cannot_tell_what_is_missing() -> None:
    graph = interval_graph([(0, 0, 1, 0, 2, 0), (1, 1, 2, 1, 3, 0)])
    run = tempograph.train(graph, "ted", overrides=["model.sigma=1"], device="cpu")
    with raises(QueryError, "question_models.no_valid_facts", data="small"):
        Predictor(run).missing(progress=False)
