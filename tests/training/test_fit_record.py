"""The record of a fit in its run folder."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import tempograph
from messages import raises
from predicting import GRAPH
from tempograph import FitRecord, ModelChoice, Run, TableColumns
from tempograph.data.importers.bad_rows import BadValue, SkippedRows
from tempograph.errors import RunError
from tempograph.training.fit_record import read_fit_record

RECORD = FitRecord(
    "table",
    rows=12,
    duplicates=1,
    skipped=(SkippedRows("no readable time", 2, "e.csv:3", (BadValue("soon", "e.csv:3"),)),),
    remarks=("warning: a", "b"),
    overlaps=None,
    table=TableColumns({"subject": "who"}, ("id",), guessed=True),
    choice=ModelChoice("ted", "it was requested"),
    keep_holdout=True,
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    RECORD.write(tmp_path)
    assert read_fit_record(tmp_path) == RECORD
    later = json.loads((tmp_path / "fit.json").read_text()) | {"of a later version": 1}
    (tmp_path / "fit.json").write_text(json.dumps(later))
    assert read_fit_record(tmp_path) == RECORD


def test_the_record_says_what_the_import_returned() -> None:
    imported = RECORD.imported(GRAPH, None)
    assert imported.account() == "12 rows = 9 facts + 1 duplicates + 2 bad"
    again = FitRecord.of(imported, RECORD.table, RECORD.choice, keep_holdout=True)
    assert again == RECORD and not again.finished


def test_a_run_keeps_its_record_and_others_have_none(tmp_path: Path) -> None:
    options = {"overrides": ["model.sigma=1"], "device": "cpu"}
    tempograph.train(GRAPH, "ted", out=tmp_path / "fit", fit_record=RECORD, **options)  # type: ignore[arg-type]
    loaded = Run.load(tmp_path / "fit")
    assert loaded.fit == RECORD
    loaded.save_pretrained(tmp_path / "copy")
    assert Run.load(tmp_path / "copy").fit == RECORD
    tempograph.train(GRAPH, "ted", out=tmp_path / "trained", **options)  # type: ignore[arg-type]
    assert Run.load(tmp_path / "trained").fit is None


@pytest.mark.parametrize("text", ["[]", "{}", "{", '{"table": {"columns": 3}}'])
def test_a_damaged_record_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "fit.json").write_text(text)
    with pytest.raises(RunError, match="the run is damaged"):
        read_fit_record(tmp_path)


def test_a_finished_fit_is_not_resumed(tmp_path: Path) -> None:
    run = tempograph.train(
        GRAPH,
        "ted",
        out=tmp_path / "run",
        overrides=["model.sigma=1"],
        device="cpu",
        fit_record=dataclasses.replace(RECORD, finished=True),
    )
    with raises(RunError, "trainer.finished", path=run.path):
        tempograph.resume(tmp_path / "run")
