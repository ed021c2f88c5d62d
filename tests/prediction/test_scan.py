"""Scans for missing facts, against a loop over every candidate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import tempograph
from graphs import make_graph
from predicting import GRAPH, entity_scores, slow_side
from tempograph import Predictor, ResultTable
from tempograph.typing import SPLITS

pytest_plugins = ("predictor_fixtures",)


def test_missing_facts_are_the_best_of_all_candidates(predictor: Predictor, tmp_path: Path) -> None:
    known = {tuple(fact) for split in SPLITS for fact in GRAPH.facts(split).tolist()}
    every = {}
    for subject, relation in {tuple(pair) for pair in GRAPH.train[:, :2].tolist()}:
        for time in range(5, 8):
            scores = entity_scores(predictor.model, subject, relation, time)
            for object_ in range(len(GRAPH.entities)):
                fact = (subject, relation, object_, time)
                if fact not in known:
                    score, probability, _ = slow_side(predictor, fact, "object", scores)
                    every[tuple(GRAPH.describe(np.array(fact)).values())] = (
                        score if probability is None else probability
                    )
    best = sorted(every.values(), reverse=True)
    out = tmp_path / "best.parquet"
    table = predictor.missing(first=5, last=7, top=15, out=out, budget=3000)
    assert isinstance(table, ResultTable) and table.equals(pq.read_table(out))
    column = "score" if predictor.temperature is None else "probability"
    assert table[column].to_pylist() == pytest.approx(best[:15], rel=1e-3)
    for row in table.to_pylist():
        key = row["subject"], row["relation"], row["object"], row["time"]
        assert every[key] == pytest.approx(row[column], rel=1e-3)
    if predictor.temperature is None:
        return
    bar = (best[20] + best[21]) / 2
    count = predictor.missing(first=5, last=7, at_least=bar, out=out, budget=3000)
    assert count == sum(value >= bar for value in every.values()) == pq.read_metadata(out).num_rows


def test_an_empty_scan_finds_nothing(predictor: Predictor, tmp_path: Path) -> None:
    assert len(predictor.missing(relations=[], first=3, last=6)) == 0  # type: ignore[arg-type]
    assert len(predictor.score([])) == 0
    if predictor.temperature is not None:
        assert predictor.missing(relations=[], at_least=0.5, out=tmp_path / "none.parquet") == 0
        assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_a_scan_of_one_entity_finds_its_own_facts(predictor: Predictor) -> None:
    table = predictor.missing(
        entity=GRAPH.entities[0], relations=[GRAPH.relations[0]], first=3, last=6, top=50
    )
    assert isinstance(table, ResultTable) and len(table)
    rows = table.to_pylist()
    assert all(GRAPH.entities[0] in (row["subject"], row["object"]) for row in rows)
    assert {row["relation"] for row in rows} == {GRAPH.relations[0]}
    assert len(
        {tuple(row[name] for name in ("subject", "relation", "object", "time")) for row in rows}
    ) == len(rows)


def test_a_loop_is_found_once_with_any_budget(tmp_path: Path) -> None:
    graph = make_graph(
        [(0, 0, 1, 0), (1, 0, 0, 1), (0, 0, 0, 2), (0, 1, 2, 3), (2, 1, 0, 4)], valid=[(0, 0, 1, 2)]
    )
    predictor = Predictor(
        tempograph.train(graph, "pointer", overrides=["train.epochs=1"], device="cpu")
    )
    facts_by_budget = []
    for budget in (None, 1):
        count = predictor.missing(
            "e0", at_least=1e-9, out=tmp_path / "facts.parquet", budget=budget
        )
        rows = [
            tuple(row.values())[:4] for row in pq.read_table(tmp_path / "facts.parquet").to_pylist()
        ]
        assert count == len(rows) == len(set(rows))
        facts_by_budget.append(sorted(rows))
    assert facts_by_budget[0] == facts_by_budget[1] and any(
        row[0] == row[2] for row in facts_by_budget[0]
    )


def test_the_chunk_size_does_not_change_a_scan(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = []
    for chunk_size in (1, 50, 100_000):
        monkeypatch.setattr("tempograph.prediction.scan._CHUNK_SIZE", chunk_size)
        reported: list[tuple[int, int]] = []
        table = predictor.missing(
            top=40, progress=lambda *steps, reported=reported: reported.append(steps)
        )
        assert isinstance(table, ResultTable) and reported[-1] == (20, 20)
        tables.append(table.drop_columns(["score", "probability"]).to_pylist())
        if predictor.temperature is not None:
            out = tmp_path / f"{chunk_size}.parquet"
            predictor.missing(at_least=0.05, out=out)
            times = pq.read_table(out)["time"].to_pylist()
            assert times == sorted(times) and len(times) > 100
    assert tables[0] == tables[1] == tables[2]
