"""Fits of tables of every form, and their answers as tables again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tempograph
from frames import FORMS, fact_columns
from predicting import GRAPH
from tempograph import DataError, Predictor
from tempograph.data.graph import COLUMNS

pytestmark = pytest.mark.usefixtures("short_fits", "no_drawings")


@pytest.mark.usefixtures("no_trust_report")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_fitted(form: str, tmp_path: Path) -> None:
    facts = FORMS[form](fact_columns(GRAPH, GRAPH.all_facts))
    fitted = tempograph.fit(facts, out=tmp_path / "run", model="ted", device="cpu")
    assert fitted.imported.rows == 300 and fitted.evaluation is not None
    assert fitted.columns == {name: name for name in COLUMNS}
    run = tempograph.train(facts, "ted", device="cpu")
    assert run.graph.same_as(fitted.run.graph)


@pytest.mark.usefixtures("no_trust_report")
def test_a_graph_is_fitted_as_it_is(tmp_path: Path) -> None:
    fitted = tempograph.fit(GRAPH, out=tmp_path / "run", model="ted", device="cpu")
    assert fitted.run.graph.same_as(GRAPH) and fitted.columns == {}
    few = [("a", "r", "b", "2024-01-01")]
    with pytest.raises(DataError, match="^the table: too few facts, 1, to hold some out"):
        tempograph.fit(few, out=tmp_path / "few", device="cpu")


@pytest.mark.usefixtures("no_trust_report")
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_round_trips(library: str, tmp_path: Path) -> None:
    columns = fact_columns(GRAPH, GRAPH.all_facts)
    facts = FORMS[library](columns)
    fitted = tempograph.fit(facts, out=tmp_path / "run", model="ted", device="cpu")
    predictor = Predictor(tmp_path / "run")
    scored = getattr(predictor.score(facts), f"to_{library}")()
    assert pa.table(scored).select(list(COLUMNS)).to_pydict() == columns | {
        "time": list(map(str, columns["time"]))
    }
    assert tempograph.load_dataset(scored).same_as(fitted.run.graph)
    assert predictor.score(scored).equals(predictor.score(facts))
    answers = predictor.ask(pa.table(scored).drop_columns(["object"]).slice(0, 9), top=1)
    again = predictor.score(getattr(answers, f"to_{library}")())
    assert again["object_score"].to_pylist() == pytest.approx(answers["score"].to_pylist())
    assert fitted.evaluation is not None
    ranks = getattr(fitted.evaluation, f"to_{library}")()
    assert len(ranks) == 2 * len(fitted.run.graph.test)
