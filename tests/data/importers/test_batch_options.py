"""How a batch is read: by the given options, else as the import, else by guesses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from messages import message, raises
from tempograph import ImportOptions
from tempograph.data.importers.batch_options import (
    file_options,
    merge_options,
    question_options,
    row_options,
    table_options,
)
from tempograph.errors import DataError

TABLE = ImportOptions("actor", "action", "target", "day", day_first=True, format="table")
COLUMNS = list(TABLE.columns)
ICEWS = ImportOptions(format="icews", relation_level="root")


def test_options_of_the_import_apply_and_given_ones_win() -> None:
    assert table_options([*COLUMNS, "note"], {}, TABLE, None) == TABLE
    given = {"subject": "who", "keep_names": True}
    found = table_options([*COLUMNS, "who"], given, TABLE, None)
    assert found.columns == ("who", *COLUMNS[1:]) and found.keep_names and found.day_first
    # A setting that excludes another one replaces it.
    found = table_options(COLUMNS, {"time_format": "%d/%m/%Y"}, TABLE, None)
    assert found.time_format == "%d/%m/%Y" and found.day_first is None
    written = merge_options({"day_first": False}, found)
    assert written is not None and written.time_format is None and written.day_first is False


def test_a_column_at_its_default_name_can_be_given() -> None:
    names = [*COLUMNS, "subject"]
    assert table_options(names, {"subject": "subject"}, TABLE, None).subject == "subject"


@pytest.mark.parametrize(
    "given", [{}, {"subject": "target"}, {"subject": "who"}], ids=["", "target", "who"]
)
def test_other_columns_are_guessed_with_a_note(given: dict[str, Any]) -> None:
    notes: list[str] = []
    names = ["target", "verb", "whom", "when", "who"]
    if given != {"subject": "target"}:
        names.remove("target")
    found = table_options(names, given, TABLE, notes.append)
    assert found.columns == (given.get("subject", "who"), "verb", "whom", "when")
    assert found.day_first is None and len(notes) == 1
    start = message(
        "batch_options.other", source="the table", columns=", ".join(map(repr, COLUMNS))
    )
    assert notes[0].startswith(f"{start}; columns: subject from '{found.subject}', ")


def test_columns_named_like_their_parts_are_no_guess() -> None:
    notes: list[str] = []
    names = ["subject", "relation", "object", "time", "score"]
    for remembered in (TABLE, None):
        found = table_options(names, {}, remembered, notes.append)
        assert found.columns == tuple(names[:4]) and not notes
    table_options(["who", "verb", "whom", "when"], {}, None, notes.append)
    assert notes[0].startswith("the table: columns: subject from 'who', ")
    with raises(
        DataError, "column_guessing.no_table_column", part="relation", columns="'who', 'whom'"
    ):
        table_options(["who", "whom"], {"time": "when"}, TABLE, None)


def test_keeping_names_is_remembered_whatever_the_columns() -> None:
    kept = ImportOptions(*COLUMNS, keep_names=True)
    assert table_options(["subject", "relation", "object", "time"], {}, kept, None).keep_names


def test_rows_have_no_column_names() -> None:
    found = row_options({"subject": "who"}, TABLE)
    assert found.columns == ("subject", "relation", "object", "time") and found.day_first
    numbered = ImportOptions("0", "1", "2", "3", header=False, time_format="%s")
    assert row_options({}, numbered).time_format == "%s"
    assert row_options({}, ICEWS) == ImportOptions()
    assert row_options({"keep_names": True}, None) == ImportOptions(keep_names=True)


def test_a_question_needs_three_columns_of_the_import() -> None:
    assert question_options(COLUMNS[:2] + COLUMNS[3:], {}, TABLE) == TABLE
    assert question_options(["subject", "action", "target"], {}, TABLE) == ImportOptions()
    assert question_options(COLUMNS, {}, ICEWS) == ImportOptions()


def test_options_of_tables_and_events_are_not_mixed() -> None:
    assert merge_options({"relation_level": "full"}, ICEWS) == ImportOptions(
        format="icews", relation_level="full"
    )
    assert merge_options({"subject": "who"}, ICEWS) is None
    assert merge_options({"entity": "code"}, TABLE) is None
    assert merge_options({"format": "gdelt"}, ICEWS) is None
    assert merge_options({"format": "table"}, TABLE) == TABLE
    assert merge_options({}, None) is None
    notes: list[str] = []
    found = table_options(["who", "verb", "whom", "when"], {}, ICEWS, notes.append)
    assert found.subject == "who" and notes[0].startswith("the table: columns: subject from 'who'")


def test_a_file_is_read_as_the_import_if_it_has_the_columns(tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("note|day|target|action|actor\nx|1|2|3|4\n")
    assert file_options(file, {}, TABLE, None) == TABLE
    file.write_text("who^verb^whom^when\n1^2^3^4\n")
    caret = ImportOptions("who", "verb", "whom", "when", delimiter="^", format="table")
    assert file_options(file, {}, caret, None) == caret
    notes: list[str] = []
    file.write_text("who,verb,whom,when,actor\n1,2,3,4,5\n")
    found = file_options(file, {"subject": "who"}, caret, notes.append)
    assert found.delimiter is None and found.subject == "who" and not found.day_first
    assert notes[0].startswith(f"{file} does not have the columns of the import, 'who', 'verb', ")
    numbered = ImportOptions("3", "1", "2", "0", header=False, format="table")
    file.write_text("1,2,3,4\n")
    assert file_options(file, {}, numbered, None) == numbered
    with raises(DataError, "sources.no_file", path=tmp_path / "gone.csv"):
        file_options(tmp_path / "gone.csv", {}, TABLE, None)


def test_a_batch_needs_no_splits(tmp_path: Path) -> None:
    split = replace(TABLE, split_column="part")
    file = tmp_path / "new.csv"
    file.write_text(f"{','.join(COLUMNS)}\n1,2,3,4\n")
    assert file_options(file, {}, split, None) == TABLE
    assert table_options(COLUMNS, {}, split, None) == TABLE
    assert question_options(COLUMNS[:3], {}, split) == TABLE
    assert row_options({}, split) == row_options({}, TABLE)
    names = ["subject", "relation", "object", "time"]
    for given in ({"split_column": "part"}, {"split": "chronological", "valid_share": 0.2}):
        assert table_options(COLUMNS, given, split, None) == TABLE
        assert table_options(names, given, ICEWS, None) == ImportOptions(format="table")
