"""The independent ranker against the oracle, and what counts as a near tie."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from graphs import graphs, make_graph
from tempograph import TemporalGraph
from tempograph.data.folder import write_folder
from tempograph.evaluation.independent_ranks import RawDataset, SlowRank, slow_metrics
from tempograph.typing import SPLITS


@settings(max_examples=25)
@given(graphs(), st.booleans(), st.integers(0, 2**32 - 1))
def test_ranks_equal_those_of_the_oracle(graph: TemporalGraph, compress: bool, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_folder(graph, Path(folder) / "data", compress=compress)
        raw = RawDataset(Path(folder) / "data")
    rng = np.random.default_rng(seed)
    for split in SPLITS:
        assert raw.facts[split] == oracle.facts_of(graph.facts(split))
        for s, r, o, t in raw.facts[split]:
            for asks_subject, query, answer in (
                (False, (s, r, t), o),
                (True, (o, r + len(graph.relations), t), s),
            ):
                scores = rng.integers(0, 3, len(graph.entities)).astype(float).tolist()
                slow = raw.rank((s, r, o, t), asks_subject, scores, rounding=0)
                by_time, static = (
                    oracle.ranks(scores, answer, oracle.known_answers(graph, query, filter))[0]
                    for filter in ("time", "static")
                )
                assert slow == SlowRank(by_time, static, 0)


def test_near_ties_are_relative_to_the_largest_score_and_not_equal(tmp_path: Path) -> None:
    write_folder(
        make_graph([(0, 0, 1, 0), (0, 0, 2, 0), (0, 0, 3, 1)], entities=7), tmp_path / "data"
    )
    raw = RawDataset(tmp_path / "data")
    # 2 is known, 3 is known at another time, 4 ties, 5 and 6 nearly tie.
    scores = [-float("inf"), 1.0, 9.0, 2.0, 1.0, 1.0005, 0.9995]
    expected = SlowRank(rank=1 + 2 + 1 / 2, rank_without_time=1 + 1 + 1 / 2, near_ties=2)
    assert raw.rank((0, 0, 1, 0), False, scores, rounding=1e-4) == expected
    assert raw.rank((0, 0, 1, 0), False, scores, rounding=1e-5).near_ties == 0


def test_metrics_by_hand() -> None:
    expected = {"mrr": (1 + 1 / 2.5 + 1 / 4 + 1 / 20) / 4, "hits@1": 1 / 4, "hits@3": 2 / 4}
    assert slow_metrics([1, 2.5, 4, 20]) == pytest.approx(expected | {"hits@10": 3 / 4})
