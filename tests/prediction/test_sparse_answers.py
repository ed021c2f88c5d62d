"""Many questions to models that lay out only the candidates that differ from the rest."""

from __future__ import annotations

import pytest

import tempograph
from predicting import GRAPH
from tempograph.data.graph import COLUMNS
from tempograph.models import ted
from tempograph.models.pointer import sparse_layout


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("ted", ["model.sigma=0.5"]),
        ("pointer", ["train.epochs=1", "model.paths=false", "model.names=false"]),
    ],
)
@pytest.mark.parametrize("new", [False, True])
def test_answers_are_those_of_all_scores(
    model: str, settings: list[str], new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tempograph.train(GRAPH, model, overrides=settings, device="cpu")
    predictor = tempograph.Predictor(run)
    questions = []
    for fact in GRAPH.test[:12]:
        names = GRAPH.describe(fact)
        questions += [
            tuple(None if part == asked else names[part] for part in COLUMNS)
            for asked in ("subject", "object")
        ]
    expected = predictor.ask(questions, top=4, new=new).to_pylist()
    for module in (ted, sparse_layout):
        monkeypatch.setattr(module, "MANY_ENTITIES", 0)
    monkeypatch.setattr(predictor.model, "scores", None)
    answers = predictor.ask(questions, top=4, new=new).to_pylist()
    assert len(answers) == len(expected) > 24
    for row, wanted in zip(answers, expected, strict=True):
        # Those that tie may stand in another order.
        for name in ("question", "rank", "asked"):
            assert row[name] == wanted[name]
        for name in ("score", "probability"):
            assert row[name] == pytest.approx(wanted[name], rel=1e-4, abs=1e-6)
