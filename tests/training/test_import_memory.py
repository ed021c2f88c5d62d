"""A run remembers how its data was imported."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import tempograph
from frames import FORMS
from messages import message
from tempograph import ImportOptions, Run
from tempograph.data.fact_ids import read_facts
from tempograph.data.graph import rows_in
from tempograph.errors import ConfigError, RunError

HEADER = "actor;action;target;day"


def write_events(path: Path, header: str = HEADER, order: str = "{day:02d}/01/2024") -> Path:
    """Write 28 days of two events."""
    mark = header[5]
    days = [order.format(day=day) for day in range(1, 29)]
    rows = [mark.join(row) for day in days for row in (("Ann", "meets", "Bob", day),)]
    rows += [mark.join(("Bob", "calls", "Cai", day)) for day in days]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_fit_and_train_remember_columns_and_the_order_of_dates(tmp_path: Path) -> None:
    events = write_events(tmp_path / "events.csv")
    fitted = tempograph.fit(events, out=tmp_path / "fitted", model="ted", device="cpu")
    tempograph.train(events, "ted", out=tmp_path / "trained", device="cpu")
    expected = ImportOptions("actor", "action", "target", "day", day_first=True, format="table")
    assert fitted.run.import_options == expected
    for name in ("fitted", "trained"):
        assert Run.load(tmp_path / name).import_options == expected
        stored = json.loads((tmp_path / name / "import.json").read_text())
        assert stored["subject"] == "actor" and stored["keep_names"] is False
        # Each file has its own delimiter and encoding, unless the user sets them.
        assert stored["delimiter"] is None and stored["encoding"] is None
    copy = Run.load(tmp_path / "fitted").save_pretrained(tmp_path / "copy")
    assert copy.import_options == Run.load(tmp_path / "copy").import_options == expected


def test_given_options_are_remembered(tmp_path: Path) -> None:
    events = write_events(tmp_path / "events.txt", "a|b|c|d", "{day:02d}.01.24")
    given = ImportOptions(
        *"abcd", delimiter="|", encoding="latin-1", time_format="%d.%m.%y", keep_names=True
    )
    run = tempograph.train(events, "ted", options=given, device="cpu")
    assert run.import_options is not None
    assert run.import_options.given == given.given | {"format": "table"}
    lines = events.read_text().splitlines()[1:]
    events.write_text("\n".join(lines))
    numbered = ImportOptions("0", "1", "2", "3", header=False, time_format="%d.%m.%y")
    run = tempograph.train(events, "ted", options=numbered, device="cpu")
    assert run.import_options is not None
    assert run.import_options.columns == ("0", "1", "2", "3") and not run.import_options.header


@pytest.mark.parametrize(
    ("order", "day_first"),
    [
        ("{day:02d}/01/2024", True),
        ("01/{day:02d}/2024", False),
        ("2024-01-{day:02d}", None),
        ("{day:02d} January 2024", None),
    ],
)
def test_the_order_of_day_and_month_is_remembered_if_it_is_known(
    tmp_path: Path, order: str, day_first: bool | None
) -> None:
    events = write_events(tmp_path / "events.csv", order=order)
    # Without a date that can be read both ways, the order is known all the same.
    for skipped in (range(0), range(1, 13)):
        rows = events.read_text().splitlines()
        unwanted = tuple(order.format(day=day) for day in skipped)
        events.write_text("\n".join(row for row in rows if not row.endswith(unwanted or "?")))
        run = tempograph.train(events, "ted", device="cpu")
        assert run.import_options is not None and run.import_options.day_first is day_first


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow", "tuples", "dicts"])
def test_tables_in_memory_are_remembered(form: str) -> None:
    names = ("subject", "relation", "object", "time")
    days = [f"{day:02d}/01/2024" for day in range(1, 29)]
    columns = dict(zip(names, (["Ann"] * 28, ["meets"] * 28, ["Bob"] * 28, days), strict=True))
    run = tempograph.train(FORMS[form](columns), "ted", device="cpu")
    assert run.import_options == ImportOptions(day_first=True, format="table")


def test_a_dataset_has_no_import_options(tmp_path: Path) -> None:
    run = tempograph.train("demo", "ted", overrides=["model.sigma=1"], out=tmp_path / "run")
    assert run.import_options is None and not (tmp_path / "run/import.json").exists()
    assert Run.load(tmp_path / "run").import_options is None


def test_an_interrupted_run_remembers_them(tmp_path: Path) -> None:
    events = write_events(tmp_path / "events.csv")
    settings = ["model.dim=4", "train.epochs=2"]
    options = {"overrides": settings, "device": "cpu", "out": tmp_path / "run"}
    tempograph.fit(events, model="distmult", max_seconds=0, **options)  # type: ignore[arg-type]
    resumed = tempograph.resume(tmp_path / "run", device="cpu")
    assert resumed.results.finished and resumed.import_options is not None
    assert resumed.import_options.subject == "actor"


def test_a_damaged_file_is_refused_and_later_options_are_ignored(tmp_path: Path) -> None:
    events = write_events(tmp_path / "events.csv")
    folder = tmp_path / "run"
    tempograph.train(events, "ted", out=folder, device="cpu")
    file = folder / "import.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps(stored | {"invented_later": 3}))
    assert Run.load(folder).import_options == ImportOptions(**stored)
    for text in ("{", "[]"):
        file.write_text(text)
        with pytest.raises(RunError, match="^.*run: the run is damaged: "):
            Run.load(folder)
    file.write_text(json.dumps(stored | {"subject": 3}))
    with pytest.raises(ConfigError) as caught:
        Run.load(folder)
    wrong = {"owner": file, "setting": "subject", "kind": "text", "value": 3}
    assert str(caught.value) == message("setting_values.wrong_type", **wrong)


def test_splits_of_ones_own_are_remembered_and_a_batch_needs_none(tmp_path: Path) -> None:
    events = write_events(tmp_path / "events.csv")
    header, *rows = events.read_text().splitlines()
    splits = {"train": rows[::2], "valid": rows[1::4], "test": rows[3::4]}
    folder = tmp_path / "splits"
    folder.mkdir()
    for name, lines in splits.items():
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]))
    whole = [f"{row};{name}" for name, lines in splits.items() for row in lines]
    events.write_text("\n".join([f"{header};part", *whole]))
    expected = ImportOptions("actor", "action", "target", "day", day_first=True, format="table")
    files = {name: folder / f"{name}.csv" for name in splits}
    for source, split_column in ((folder, None), (files, None), (events, "part")):
        given = ImportOptions(split_column=split_column)
        run = tempograph.train(source, "ted", options=given, out=tmp_path / "run", overwrite=True)
        assert run.import_options == dataclasses.replace(expected, split_column=split_column)
        stored = Run.load(tmp_path / "run").import_options
        assert stored == run.import_options
        batch = read_facts(run.graph, files["test"], {}, stored)
        assert batch.valid.all() and rows_in(batch.ids, run.graph.test).all()
