"""TeMP with its encodings kept scores as it does without, whatever was asked before and however little is kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import graphs
from tempograph import TemporalGraph
from tempograph.models.temp import TeMP
from tempograph.models.temp_settings import TeMPSettings
from tempograph.server.kept import KeptTeMP
from tempograph.timeline import Queries, Timeline

VARIANTS: list[dict[str, Any]] = [
    {},
    {"gate": False, "imputation": False, "bidirectional": False},
    {"temporal": "none", "gate": False, "imputation": False},
    {"temporal": "attention", "decoder": "transe", "time_embedding": True},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@settings(max_examples=25)
@given(graph=graphs(), seed=st.integers(0, 99), budget=st.sampled_from([1, 600, 10**9]))
def test_scores_are_those_of_the_model(variant: dict[str, Any], graph: TemporalGraph, seed: int, budget: int) -> None:
    torch.manual_seed(seed)
    timeline = Timeline(graph)
    model = TeMP(timeline, TeMPSettings(**({"dim": 4, "heads": 2, "window": 2, "initial_scale": 1.0} | variant))).eval()
    kept = KeptTeMP(model, budget)
    with torch.inference_mode():
        for count in (1, 7):
            sizes = (timeline.num_entities, 2 * timeline.num_relations, timeline.num_steps)
            queries = Queries(*(torch.randint(size, (count,)) for size in sizes))
            torch.testing.assert_close(kept.scores(queries), model.scores(queries), rtol=1e-4, atol=1e-5)
            place = int(queries.entity[0]), int(queries.entity[-1]), int(queries.time[0])
            torch.testing.assert_close(
                kept.relation_scores(*place), model.relation_scores(*place), rtol=1e-4, atol=1e-5
            )
            assert 0 <= kept.nbytes <= budget


@given(graph=graphs(), budget=st.sampled_from([1, 600, 10**9]))
def test_preparing_comes_to_an_end(graph: TemporalGraph, budget: int) -> None:
    timeline = Timeline(graph)
    kept = KeptTeMP(TeMP(timeline, TeMPSettings(dim=4)).eval(), budget)
    calls = 1
    while kept.prepare():
        calls += 1
    assert calls <= timeline.num_steps
    assert kept.nbytes <= budget
