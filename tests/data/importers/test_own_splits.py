"""Facts that are split already: by a column, in files of their own, or in tables of their own."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coded import ICEWS_HEADER, icews_row
from conftest import Call, as_json
from frames import pandas, polars
from messages import message, raises
from tempograph import ConfigError, DataError, ImportOptions, TemporalGraph, fit, load_dataset
from tempograph.data.folder import write_folder
from tempograph.data.importers.any_source import import_facts
from tempograph.data.importers.importer import ImportResult
from tempograph.data.importers.own_splits import find_split
from tempograph.typing import SPLITS

pytestmark = pytest.mark.usefixtures("short_fits", "no_drawings")

Row = tuple[str, str, str, str, str]
"""Subject, relation, object, time and split."""

NAMES = ("subject", "relation", "object", "time", "fold")
SPELLINGS = {
    "train": ("train", "Training", " TRAIN "),
    "valid": ("valid", "validation", "Val", "dev", "development"),
    "test": ("test", "TESTING"),
}


def make_rows(seed: int = 0, count: int = 300) -> list[Row]:
    """Rows with repeated facts, within splits and across them; some names are only in test."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        split = rng.choices(SPLITS, (8, 1, 1))[0]
        subject = f"new {number}" if split == "test" and number % 3 == 0 else rng.choice("abcd")
        # Some steps are in held-out splits only, at both ends of the grid.
        day = rng.choice((1, 31)) if split != "train" and number % 4 == 0 else rng.randint(5, 25)
        time = f"2024-01-{day:02}"
        rows.append((subject, rng.choice("rs"), rng.choice("abcd"), time, split))
    return [*rows, ("a", "r", "b", "2024-01-09", "train"), ("a", "r", "b", "2024-01-09", "test")]


def slow_division(rows: Sequence[Row]) -> dict[str, set[tuple[str, ...]]]:
    """The slow twin: a fact goes to the last split that has it."""
    splits: dict[tuple[str, ...], str] = {}
    for split in SPLITS:
        splits |= {row[:4]: split for row in rows if row[4] == split}
    return {split: {fact for fact in splits if splits[fact] == split} for split in SPLITS}


def by_name(graph: TemporalGraph) -> dict[str, set[tuple[str, ...]]]:
    return {
        split: {tuple(graph.describe(fact).values()) for fact in graph.facts(split)}
        for split in SPLITS
    }


def check(imported: ImportResult, rows: Sequence[Row]) -> None:
    """Compare an import with its slow twin, and account for every row."""
    expected = slow_division(rows)
    graph = imported.graph
    assert by_name(graph) == expected
    facts = sum(map(len, expected.values()))
    assert (imported.rows, imported.duplicates) == (len(rows), len(rows) - facts)
    shared = {row[:4] for row in rows if len({r[4] for r in rows if r[:4] == row[:4]}) > 1}
    assert imported.overlaps == len(shared) > 0
    assert {*graph.entities} == {name for row in rows for name in (row[0], row[2])}
    assert (graph.times[0], graph.times[-1]) == (min(r[3] for r in rows), max(r[3] for r in rows))


def write(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    """Write rows as the suffix says."""
    names = NAMES[: len(rows[0])]
    table = [dict(zip(names, row, strict=True)) for row in rows]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(table), path)
        return path
    if "jsonl" in path.name:
        text = "\n".join(json.dumps(row) for row in table)
    else:
        sign = "\t" if "tsv" in path.name else ","
        text = "\n".join(sign.join(row) for row in (names, *rows))
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def read(source: Any, **options: Any) -> ImportResult:
    return import_facts(source, ImportOptions(**options), "events")[0]


def notes_of(source: Any, **options: Any) -> list[str]:
    notes: list[str] = []
    import_facts(source, ImportOptions(**options), "events", note=notes.append)
    return notes


SUFFIXES = ("csv", "csv.gz", "tsv", "jsonl", "jsonl.gz", "parquet")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("seed", range(2))
def test_a_split_column(tmp_path: Path, suffix: str, seed: int) -> None:
    rows = make_rows(seed)
    rng = random.Random(seed)
    spelled = [(*row[:4], rng.choice(SPELLINGS[row[4]])) for row in rows]
    path = write(tmp_path / f"events.{suffix}", spelled)
    check(read(path, split_column="fold"), rows)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_of_splits(tmp_path: Path, suffix: str) -> None:
    """As a dict, with some in two files, and as a folder, whose names may be spelled otherwise."""
    rows = make_rows()
    of_split = {split: [row[:4] for row in rows if row[4] == split] for split in SPLITS}
    names = {"train": "Train", "valid": "dev", "test": "test"}
    for split, name in names.items():
        write(tmp_path / f"{name}.{suffix}", of_split[split])
    (tmp_path / "notes.md").write_text("not a table")
    write(tmp_path / "all.csv", rows)
    check(read(tmp_path), rows)
    check(read(str(tmp_path)), rows)
    assert load_dataset(tmp_path).same_as(read(tmp_path).graph)
    more = tmp_path / "more"
    more.mkdir()
    halves = [write(more / f"{part}.{suffix}", of_split["train"][part::2]) for part in range(2)]
    files = {"train": halves, "test": tmp_path / f"test.{suffix}"}
    check(read({**files, "validation": str(tmp_path / f"dev.{suffix}")}), rows)


FRAMES: dict[str, Callable[[list[dict[str, str]]], Any]] = {
    "pandas": lambda rows: pandas().DataFrame(rows),
    "polars": lambda rows: polars().DataFrame(rows),
    "rows": lambda rows: rows,
    "arrow": pa.Table.from_pylist,
}


@pytest.mark.parametrize("form", FRAMES)
def test_tables_in_memory(form: str, tmp_path: Path) -> None:
    """With a split column, as a dict of tables, and as a dict of tables and files."""
    rows = make_rows()
    table = [dict(zip(NAMES, row, strict=True)) for row in rows]
    check(read(FRAMES[form](table), split_column="fold"), rows)
    if form == "pandas":
        frame = pandas().DataFrame(table).astype({"fold": "category"})
        check(read(frame, split_column="fold"), rows)
    splits: dict[str, Any] = {
        split: FRAMES[form]([row for row in table if row["fold"] == split]) for split in SPLITS
    }
    check(read(splits), rows)
    assert load_dataset(splits).same_as(read(splits).graph)
    held_out = write(tmp_path / "test.csv", [row[:4] for row in rows if row[4] == "test"])
    check(read(splits | {"test": held_out}), rows)


def test_coded_events_of_splits(tmp_path: Path) -> None:
    for split, day in (("train", "2014-01-01"), ("test", "2014-01-05")):
        text = "\n".join([ICEWS_HEADER, icews_row("Ann", "Make a visit", "Bob", day)])
        (tmp_path / f"{split}.tab").write_text(text)
    graph = read({split: tmp_path / f"{split}.tab" for split in ("train", "test")}).graph
    assert [len(graph.facts(split)) for split in SPLITS] == [1, 0, 1] and len(graph.times) == 5
    table = pa.table({name: ["x"] for name in NAMES[:4]})
    with pytest.raises(DataError, match="^the test table is not an ICEWS file of coded events"):
        read({"train": tmp_path / "train.tab", "test": table})


def test_a_fact_in_two_splits_is_a_leak(tmp_path: Path) -> None:
    """It stays where it is asked about, and this is said."""
    fact, other = ("Ann", "meets", "Bob", "2024-01-01"), ("Cai", "meets", "Bob", "2024-01-02")
    more = ("Dan", "meets", "Bob", "2024-01-03")
    rows: list[Row] = [
        *((*each, "train") for each in (fact, fact, other, more)),
        *((*each, "valid") for each in (fact, other)),
        (*fact, "test"),
    ]
    path = write(tmp_path / "a.csv", rows)
    imported = read(path, split_column="fold")
    check(imported, rows)
    assert imported.account() == "7 rows = 3 facts + 4 duplicates + 0 bad"
    counts = "1 in train and valid, 1 in train and test"
    values = {"facts": "2 facts are", "counts": counts, "fact": ", ".join(fact)}
    overlap = message("fact_splits.overlap", **values)
    assert notes_of(path, split_column="fold") == [overlap]
    values = {"facts": "1 fact is", "counts": "1 in train and test", "fact": ", ".join(fact)}
    path = write(tmp_path / "b.csv", [rows[0], rows[3], rows[6]])
    assert notes_of(path, split_column="fold") == [
        message("fact_splits.overlap", **values),
        message("fact_splits.empty", split="valid", use="most models need to know when to stop"),
    ]
    path = write(tmp_path / "c.csv", [rows[0], rows[6]])
    with raises(DataError, "importer.no_train", paths=path):
        read(path, split_column="fold")


def test_facts_that_share_a_step_may_be_a_leak(tmp_path: Path) -> None:
    """With a coarse granularity, two rows may be one fact."""
    days = [("train", "2024-01-01"), ("train", "2024-02-01"), ("test", "2024-01-02")]
    path = write(tmp_path / "a.csv", [("a", "r", "b", day, split) for split, day in days])
    assert read(path, split_column="fold").overlaps == 0
    weekly = read(path, split_column="fold", granularity="week")
    assert weekly.overlaps == 1 and len(weekly.graph.train) == len(weekly.graph.test) == 1


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_unknown_splits_are_bad_rows(tmp_path: Path, suffix: str) -> None:
    splits = ["train"] * 40 + ["holdout", " ", "test"]
    facts = [(f"a{number}", "r", "b", "2024-01-01") for number in range(len(splits))]
    rows = [(*fact, split) for fact, split in zip(facts, splits, strict=True)]
    path = write(tmp_path / f"a.{suffix}", rows)
    line = {"csv": 42, "jsonl": 41, "parquet": 41}[suffix]
    where = {"line": line} if suffix != "parquet" else {"row": line}
    problem = message("own_splits.unknown", value="holdout")
    kind = "table_reader.line" if suffix != "parquet" else "table_reader.row"
    with raises(DataError, kind, path=path, problem=problem, **where):
        read(path, split_column="fold")
    imported = read(path, split_column="fold", skip_bad=True)
    assert imported.account() == "43 rows = 41 facts + 0 duplicates + 2 bad"
    values = f"'holdout' at {path}:{line}, ' ' at {path}:{line + 1}"
    reason = {"reason": "no known split", "rows": 2, "values": values}
    assert [str(skip) for skip in imported.skipped] == [message("bad_rows.values", **reason)]
    path = write(tmp_path / f"b.{suffix}", [rows[0], rows[41]])
    where = {"line": {"csv": 3, "jsonl": 2}[suffix]} if suffix != "parquet" else {"row": 2}
    with raises(DataError, kind, path=path, problem=message("own_splits.empty"), **where):
        read(path, split_column="fold")


def test_spellings() -> None:
    for split, spellings in SPELLINGS.items():
        assert {find_split(spelling) for spelling in spellings} == {split}
    assert {find_split(text) for text in ("", "tests", "0", "traintest")} == {None}


def test_a_column_of_splits_is_not_used_unless_it_is_named(tmp_path: Path) -> None:
    rows = make_rows()
    named = {"column": "fold", "columns": "'fold'"}
    for suffix in SUFFIXES:
        path = write(tmp_path / f"a.{suffix}", rows)
        hint = message("any_source.split_hint", option="--split-column 'fold'", **named)
        assert notes_of(path) == [hint]
        assert read(path).overlaps is None
        assert not [note for note in notes_of(path, split_column="fold") if "not used" in note]
    table = pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows])
    option = "ImportOptions(split_column='fold')"
    assert notes_of(table) == [message("any_source.split_hint", option=option, **named)]
    folds = [(*row[:4], str(number % 5)) for number, row in enumerate(rows)]
    unused = message("column_guessing.unused", columns="'fold'")
    assert notes_of(write(tmp_path / "b.csv", folds)) == [unused]
    # A split column is never taken for a part of a fact.
    text = (tmp_path / "a.csv").read_text().replace("fold", "event", 1)
    (tmp_path / "c.csv").write_text(text.replace("relation", "type", 1))
    check(read(tmp_path / "c.csv", split_column="event"), rows)


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ({"split": "random"}, "split"),
        ({"split": "chronological"}, "split"),
        ({"valid_share": 0.1}, "valid_share (--valid)"),
        ({"test_share": 0.0}, "test_share (--test)"),
    ],
)
def test_own_splits_exclude_other_ones(tmp_path: Path, setting: dict[str, Any], shown: str) -> None:
    path = write(tmp_path / "a.csv", make_rows())
    with raises(ConfigError, "options.already_split", given="column 'fold'", setting=shown):
        ImportOptions(split_column="fold", **setting)
    given = "the files or tables they are in"
    with raises(ConfigError, "options.already_split", given=given, setting=shown):
        read({"train": path, "test": path}, **setting)
    with raises(ConfigError, "options.already_split", given=given, setting="split_column"):
        read({"train": path, "test": path}, split_column="fold")


def test_a_split_column_is_a_column_of_its_own() -> None:
    columns = ("subject", "relation", "object", "time")
    with raises(ConfigError, "options.own_column", column="relation", columns=columns):
        ImportOptions(split_column="relation")
    with raises(ConfigError, "options.number", value="fold"):
        ImportOptions(header=False, split_column="fold")
    fixed = {"format": "icews", "setting": "split_column"}
    with raises(ConfigError, "options.fixed_columns", **fixed):
        ImportOptions(format="icews", split_column="fold")


def test_files_without_a_header(tmp_path: Path) -> None:
    """As PyKEEN and LibKGE have them: four columns, tab-separated, without names."""
    rows = make_rows()
    for split in SPLITS:
        lines = ["\t".join(row[:4]) for row in rows if row[4] == split]
        (tmp_path / f"{split}.txt").write_text("\n".join(lines))
    path = tmp_path / "train.txt"
    columns = ", ".join(map(repr, next(row[:4] for row in rows if row[4] == "train")))
    with raises(DataError, "column_guessing.no_header", path=path, columns=columns):
        read(tmp_path)
    check(read(tmp_path, header=False), rows)
    columns = "subject from '0', relation from '1', object from '2', time from '3'"
    assert columns in notes_of(tmp_path, header=False)[0]
    text = "\n".join(",".join(row) for row in rows)
    (tmp_path / "all.csv").write_text(text)
    check(read(tmp_path / "all.csv", header=False, split_column="4"), rows)


def test_folders_that_are_no_splits(tmp_path: Path) -> None:
    rows = [row[:4] for row in make_rows()]
    folder = tmp_path / "own"
    folder.mkdir()
    write(folder / "train.csv", rows)
    with raises(DataError, "any_source.folder", path=folder):
        read(folder)
    with raises(DataError, "folder.no_file", path=folder / "entities.txt"):
        load_dataset(folder)
    path = write(folder / "test.csv", rows)
    with raises(DataError, "any_source.split_again", path=folder / "train.csv", split="train"):
        read({"train": folder, "valid": path})
    two = {"path": write(folder / "training.tsv", rows), "other": "train.csv", "split": "train"}
    with raises(DataError, "own_splits.two_files", **two):
        read(folder)
    write_folder(read(path).graph, tmp_path / "dataset")
    with raises(DataError, "any_source.dataset", path=tmp_path / "dataset"):
        read(tmp_path / "dataset")


def test_a_folder_of_splits_does_not_hide_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_rows()
    monkeypatch.chdir(tmp_path)
    for name in ("demo", "own"):
        Path(name).mkdir()
        for split in SPLITS:
            write(Path(name) / f"{split}.csv", [row[:4] for row in rows if row[4] == split])
    assert by_name(load_dataset("own")) == slow_division(rows)
    assert load_dataset("demo").entities != load_dataset("./demo").entities


def test_a_dict_needs_the_names_of_splits() -> None:
    table = pa.table({name: ["1"] for name in NAMES[:4]})
    for source, problem in (
        ({"train": table, "holdout": table}, "the key 'holdout' names no split"),
        ({"train": table, 1: table}, "the key 1 names no split"),
        ({"subject": ["a"], "relation": ["r"]}, "the key 'subject' names no split"),
        ({"train": table, "dev": table, "valid": table}, "two keys name valid"),
    ):
        with raises(DataError, "any_source.key", problem=problem):
            load_dataset(source)  # type: ignore[arg-type]
    with raises(DataError, "any_source.no_train", keys="'valid', 'test'"):
        load_dataset({"valid": table, "test": table})
    bad = {"train": table, "test": table.slice(0, 0)}
    with pytest.raises(DataError, match="^the test table has no rows"):
        load_dataset(bad)


def test_fit_needs_facts_to_validate_and_test_on(tmp_path: Path) -> None:
    rows = [row[:4] for row in make_rows()]
    path, other = write(tmp_path / "a.csv", rows[:100]), write(tmp_path / "b.csv", rows[100:])
    needed = {"source": f"{path}, {other}", "splits": "valid"}
    with raises(DataError, "any_source.empty_splits", **needed):
        fit({"train": path, "test": other}, out=tmp_path / "run")
    few = {"facts": 1, "options": "ImportOptions(valid_share=..., test_share=...)"}
    with raises(DataError, "any_source.too_few", source="the table", **few):
        fit([rows[0]], out=tmp_path / "run")


def test_fit_trains_on_train_facts_only(tmp_path: Path) -> None:
    rows = make_rows()
    table = pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows])
    options = ImportOptions(split_column="fold")
    result = fit(table, out=tmp_path / "run", options=options, model="ted", device="cpu")
    assert by_name(result.run.graph) == slow_division(rows)
    assert result.summary()["overlaps"] == result.imported.overlaps > 0


def test_the_commands_take_files_of_splits(call: Call) -> None:
    rows = make_rows()
    for split in SPLITS:
        write(Path(f"{split}.csv"), [row[:4] for row in rows if row[4] == split])
    files = ("train.csv", "--valid-file", "valid.csv", "--test-file", "test.csv")
    found = as_json(call("data", "import", *files, "--out", "mine", "--json"))
    expected = {split: len(facts) for split, facts in slow_division(rows).items()}
    assert {split: found[split] for split in SPLITS} == expected and found["overlaps"] > 0
    assert found["rows"] == found["facts"] + found["duplicates"] == len(rows)
    assert by_name(load_dataset("./mine")) == slow_division(rows)
    code, out, err = call("data", "import", *files, "--out", "again")
    assert code == 0 and err.startswith("warning: ") and "overlaps" in out
    fitted = as_json(call("fit", *files, "--model", "ted", "--out", "run", "--json"))
    assert fitted["overlaps"] == found["overlaps"] and fitted["facts"] == found["facts"]
    write(Path("all.csv"), rows)
    column = ("all.csv", "--split-column", "fold", "--out", "column", "--json")
    assert as_json(call("data", "import", *column))["train"] == expected["train"]
    for wrong in (["--split", "random"], ["--valid", "0.1"], ["--split-column", "fold"]):
        code, _, err = call("data", "import", *files, *wrong, "--out", "wrong")
        assert code == 2 and err.startswith("error: the facts are split already")
        assert err.count("\n") == 1 and not Path("wrong").exists()
    code, _, err = call("data", "import", "train.csv", "--test-file", "no.csv", "--out", "wrong")
    assert (code, err) == (2, "error: no.csv: no such file\n")
