"""Coded events: imports equal a slow twin, and skipped rows are counted by reason."""

from __future__ import annotations

import gzip
import random
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coded import GDELT_WIDTHS, ICEWS_COLUMNS, ICEWS_HEADER, gdelt_columns, gdelt_row, icews_row
from memory import peak_memory
from messages import message, raises
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers import event_reader as reading
from tempograph.data.importers.event_formats import (
    EVENT_SCHEMAS,
    EventColumns,
    detect_format,
    find_layouts,
)
from tempograph.data.importers.event_reader import (
    DATE_FORMAT,
    EVENT_FAULTS,
    WRONG_WIDTH,
    SkipCounter,
    read_events,
)
from tempograph.data.importers.importer import ImportResult, import_files
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.time_grid import TimeGrid
from tempograph.errors import ConfigError, DataError
from tempograph.typing import EventFormat

Row = tuple[str, ...]


@dataclass
class Slow:
    """The expected result of an import."""

    entities: list[str] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    facts: list[Row] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.facts) + sum(self.skipped.values())

    def error(self, paths: Sequence[Path]) -> str:
        """The message when no row is an event."""
        files = ", ".join(map(str, paths))
        if not self.rows:
            return message("importer.no_rows", paths=files)
        reasons = [self._reason(fault) for fault in (WRONG_WIDTH, *EVENT_FAULTS)]
        return message(
            "importer.no_events",
            paths=files,
            rows=self.rows,
            reasons="; ".join(reason for reason in reasons if reason),
        )

    def _reason(self, fault: str) -> str:
        rows = self.skipped[fault]
        if not rows:
            return ""
        path, line = self.first[fault].rsplit(":", 1)
        name = "bad_rows.one" if rows == 1 else "bad_rows.several"
        return message(name, reason=fault, rows=rows, path=path, line=line)


def slow_import(texts: Sequence[tuple[str, bytes]], format: EventFormat, level: str) -> Slow:
    """The slow twin: one line after the other, with Python's own datetime."""
    slow = Slow()
    for name, text in texts:
        lines = text.replace(b"\r\n", b"\n").split(b"\n")
        columns = list(ICEWS_COLUMNS) if format == "icews" else gdelt_columns(61)
        for number, line in enumerate(lines, 1):
            if not line or (format == "icews" and number == 1):
                continue
            found = slow_row(line, columns, format, level)
            if isinstance(found, str):
                slow.skipped[found] += 1
                slow.first.setdefault(found, f"{name}:{number}")
                continue
            subject, relation, object_, _ = found
            slow.facts.append(found)
            slow.entities = list(dict.fromkeys([*slow.entities, subject, object_]))
            slow.relations = list(dict.fromkeys([*slow.relations, relation]))
    return slow


def slow_row(line: bytes, columns: list[str], format: EventFormat, level: str) -> Row | str:
    """The fact in a line, or why there is none."""
    fields = line.split(b"\t")
    if len(fields) != len(columns):
        return WRONG_WIDTH
    row = dict(zip(columns, fields, strict=True))
    if format == "icews":
        relation = row["Event Text"] if level == "text" else row["CAMEO Code"]
        raw = [row["Source Name"], relation, row["Target Name"], row["Event Date"]]
    else:
        relation = row[
            {"full": "EventCode", "base": "EventBaseCode", "root": "EventRootCode"}[level]
        ]
        raw = [row["Actor1Name"], relation, row["Actor2Name"], row["SQLDATE"]]
    try:
        *names, date = (value.decode().strip() for value in raw)
    except UnicodeDecodeError:
        return EVENT_FAULTS[0]
    for fault, name in zip(EVENT_FAULTS[1:], names, strict=False):
        if not name or (format == "icews" and name == "NULL"):
            return fault
    names[1] = names[1][: {"base": 3, "root": 2}.get(level)]
    if format == "gdelt" and re.fullmatch(r"\d{8}", date):
        date = f"{date[:4]}-{date[4:6]}-{date[6:]}"
    for pattern in ("%Y-%m-%d", "%m/%d/%Y") if format == "icews" else ("%Y-%m-%d",):
        try:
            return *names, datetime.strptime(date, pattern).strftime("%Y-%m-%d")
        except ValueError:
            pass
    return EVENT_FAULTS[-1]


def named(graph: TemporalGraph) -> list[Row]:
    return sorted(tuple(graph.describe(fact).values()) for fact in graph.all_facts)


def assert_same(imported: ImportResult, slow: Slow) -> None:
    graph = imported.graph
    assert (list(graph.entities), list(graph.relations)) == (slow.entities, slow.relations)
    assert named(graph) == sorted(set(slow.facts))
    assert {skip.reason: skip.rows for skip in imported.skipped} == slow.skipped
    assert {skip.reason: skip.first for skip in imported.skipped} == slow.first
    assert (imported.rows, imported.duplicates) == (
        slow.rows,
        len(slow.facts) - len(set(slow.facts)),
    )
    assert imported.rows == len(graph.all_facts) + imported.duplicates + sum(slow.skipped.values())


def write(path: Path, rows: Sequence[str], encoding: str = "utf-8") -> Path:
    path.write_bytes("".join(f"{row}\n" for row in rows).encode(encoding))
    return path


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def read(*paths: Path, **options: object) -> ImportResult:
    return import_files(paths, ImportOptions(**options), "events")  # type: ignore[arg-type]


def error_of(*paths: Path, **options: object) -> str:
    """The error message, one line, of an import."""
    with pytest.raises(DataError) as caught:
        read(*paths, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("width", GDELT_WIDTHS)
def test_gdelt_of_every_width(tmp_path: Path, width: int) -> None:
    rows = [
        gdelt_row("RUSSIA", "043", "UKRAINE", "20150218", width),
        gdelt_row("UKRAINE", "0311", "POLICE", "20150220", width),
    ]
    imported = read(write(tmp_path / "20150218.export.CSV", rows))
    assert imported.format == "gdelt"
    assert imported.graph.times == ("2015-02-18", "2015-02-19", "2015-02-20")
    assert named(imported.graph) == [
        ("RUSSIA", "043", "UKRAINE", "2015-02-18"),
        ("UKRAINE", "0311", "POLICE", "2015-02-20"),
    ]


def test_icews_files_are_read_as_published(tmp_path: Path) -> None:
    rows = [
        ICEWS_HEADER,
        icews_row("Citizen (Iraq)", "Make statement", "Iraq", "2014-01-31"),
        icews_row(
            "Iraq",
            "Arrest, detain, or charge with legal action",
            "Citizen (Iraq)",
            "2014-02-01",
            "173",
        ),
    ]
    imported = read(write(tmp_path / "events.2014.20150313.tab", rows))
    assert (imported.format, imported.rows, imported.skipped) == ("icews", 2, ())
    assert named(imported.graph) == [
        ("Citizen (Iraq)", "Make statement", "Iraq", "2014-01-31"),
        ("Iraq", "Arrest, detain, or charge with legal action", "Citizen (Iraq)", "2014-02-01"),
    ]


@pytest.mark.parametrize(
    ("format", "level", "relations"),
    [
        ("gdelt", None, ("010", "0311", "0312")),
        ("gdelt", "full", ("010", "0311", "0312")),
        ("gdelt", "base", ("010", "031")),
        ("gdelt", "root", ("01", "03")),
        ("icews", None, ("Make statement", "Express intent", "Intend")),
        ("icews", "text", ("Make statement", "Express intent", "Intend")),
        ("icews", "full", ("010", "0311", "0312")),
        ("icews", "base", ("010", "031")),
        ("icews", "root", ("01", "03")),
    ],
)
def test_relations_of_every_level(
    tmp_path: Path, format: EventFormat, level: str | None, relations: tuple[str, ...]
) -> None:
    events = (("010", "Make statement"), ("0311", "Express intent"), ("0312", "Intend"))
    if format == "gdelt":
        rows = [gdelt_row("a", code, "b", "20150218") for code, _ in events]
    else:
        rows = [
            ICEWS_HEADER,
            *(icews_row("a", text, "b", "2014-01-31", code) for code, text in events),
        ]
    imported = read(write(tmp_path / "a.tab", rows), relation_level=level)
    assert imported.graph.relations == relations
    assert imported.duplicates == 3 - len(relations)


def test_gdelt_has_a_column_for_each_relation_level(tmp_path: Path) -> None:
    row = gdelt_row("a", "0311", "b", "20150218", EventBaseCode="04x", EventRootCode="05")
    path = write(tmp_path / "a.CSV", [row])
    assert [
        read(path, relation_level=level).graph.relations for level in ("full", "base", "root")
    ] == [("0311",), ("04x",), ("05",)]


def test_entities_are_names_or_codes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.CSV", [gdelt_row("RUSSIA", "043", "UKRAINE", "20150218", Actor2Code="UKRGOV")]
    )
    assert (
        read(path).graph.entities
        == read(path, entity="name").graph.entities
        == ("RUSSIA", "UKRAINE")
    )
    assert read(path, entity="code").graph.entities == ("RUS", "UKRGOV")


GDELT_QUIRKS = [
    gdelt_row(" RUSSIA ", "043", "UKRAINE\u00a0", "20150218"),
    gdelt_row("RUSSIA", "043", "UKRAINE", "20150218", GLOBALEVENTID="2"),
    gdelt_row("POLICE", "190", "POLICE", "20150218"),
    "",
    gdelt_row("", "043", "UKRAINE", "20150218"),
    gdelt_row("RUSSIA", "043", "  ", "20150218"),
    gdelt_row("RUSSIA", "", "UKRAINE", "20150218"),
    gdelt_row("RUSSIA", "043", "UKRAINE", "20150230"),
    gdelt_row("RUSSIA", "043", "UKRAINE", "2015218"),
    gdelt_row("RUSSIA", "043", "UKRAINE", ""),
    gdelt_row("RUSSIA", "043", "UKRAINE", "20150218") + "\tone more",
    gdelt_row("RUSSIA", "043", "UKRAINE", "20150218", width=58),
    "half a row\tof",
    gdelt_row("", "", "", "never"),
]
SKIPPED = {
    WRONG_WIDTH: (3, 11),
    "no subject": (2, 5),
    "no object": (1, 6),
    "no relation": (1, 7),
    "no valid date": (3, 8),
}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [64, 500, 1 << 20])
def test_quirks_are_trimmed_merged_skipped_and_counted(
    tmp_path: Path, ending: str, block: int
) -> None:
    path = tmp_path / "quirks.export.CSV"
    path.write_bytes(ending.join(GDELT_QUIRKS).encode())
    with patch.object(reading, "_BLOCK", block):
        imported = read(path)
    assert named(imported.graph) == [
        ("POLICE", "190", "POLICE", "2015-02-18"),
        ("RUSSIA", "043", "UKRAINE", "2015-02-18"),
    ]
    assert (imported.rows, imported.duplicates) == (13, 1)
    assert {skip.reason: (skip.rows, skip.first) for skip in imported.skipped} == {
        reason: (rows, f"{path}:{line}") for reason, (rows, line) in SKIPPED.items()
    }


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    good = gdelt_row("Zürich", "043", "SÃO PAULO", "20150218").encode()
    lines = [
        good,
        gdelt_row("SÃO PAULO", "043", "b", "20150218").encode("latin-1"),
        gdelt_row("a", "04\x93", "b", "20150218").encode("latin-1"),
        gdelt_row("a", "043", "b", "2015\xb2", width=58).encode("latin-1"),
        # Bytes in columns that nobody reads may be in any encoding.
        gdelt_row("a", "043", "b", "20150218", ActionGeo_FullName="São Paulo").encode("latin-1"),
        "Zürich".encode("latin-1"),
    ]
    path = tmp_path / "a.CSV"
    path.write_bytes(b"\n".join(lines))
    imported = read(path)
    assert imported.graph.entities == ("Zürich", "SÃO PAULO", "a", "b")
    assert [(skip.reason, skip.rows, skip.first) for skip in imported.skipped] == [
        (WRONG_WIDTH, 2, f"{path}:4"),
        ("bytes that are not UTF-8", 2, f"{path}:2"),
    ]


def test_a_byte_order_mark_or_a_carriage_return_hides_no_row(tmp_path: Path) -> None:
    rows = [
        gdelt_row('5" PIPE', "043", "b", "20150218", SOURCEURL='"'),
        gdelt_row('"', "043", "one\rtwo", "20150218"),
        gdelt_row("c", "043", "d", "20150218"),
    ]
    path = tmp_path / "a.CSV"
    path.write_bytes("\n".join(rows).encode())
    assert read(path).graph.entities == ('5" PIPE', "b", '"', "one two", "c", "d")


def test_icews_files_of_2017_have_other_columns(tmp_path: Path) -> None:
    columns = [column for column in ICEWS_COLUMNS if column != "CAMEO Code"]
    events = [
        (
            "1/31/2017",
            "Iraq",
            '"Conduct suicide, car, or other ""non-military"" bombing"',
            "Turkey",
        ),
        ("12/1/2017", '" Women (Turkey) "', "Make statement", "Iraq"),
        ("13/1/2017", "Iraq", "Make statement", "Turkey"),
        ("2/3/2017", "NULL", "Make statement", "Turkey"),
        ("2/3/2017", "Iraq", '""', "Turkey"),
    ]
    rows = [
        "\t".join(
            {"Event Date": a, "Source Name": b, "Event Text": c, "Target Name": d}.get(e, "NULL")
            for e in columns
        )
        for a, b, c, d in events
    ]
    path = write(tmp_path / "Events.2017.tab", ["\t".join(columns), *rows], "utf-8-sig")
    imported = read(path)
    assert named(imported.graph) == [
        ("Iraq", 'Conduct suicide, car, or other "non-military" bombing', "Turkey", "2017-01-31"),
        ("Women (Turkey)", "Make statement", "Iraq", "2017-12-01"),
    ]
    assert [(skip.reason, skip.first) for skip in imported.skipped] == [
        ("no subject", f"{path}:5"),
        ("no relation", f"{path}:6"),
        ("no valid date", f"{path}:4"),
    ]
    expected = message("event_formats.relation_level", path=path, column="CAMEO Code", level="text")
    assert error_of(path, relation_level="root") == expected


def test_a_missing_code_has_no_root(tmp_path: Path) -> None:
    rows = [
        ICEWS_HEADER,
        icews_row("a", "r", "b", "2014-01-31", "NULL"),
        icews_row("a", "r", "b", "2014-01-31"),
    ]
    imported = read(write(tmp_path / "a.tab", rows), relation_level="root")
    assert imported.graph.relations == ("01",)
    assert [(skip.reason, skip.rows) for skip in imported.skipped] == [("no relation", 1)]


def test_the_header_may_come_later_and_be_spelled_differently(tmp_path: Path) -> None:
    order = ["Target Name", "Event Date", "Event Text", "Source Name", "Note", "Note"]
    rows = [
        "",
        "\t".join(f'"{name.upper()}"' for name in order),
        "b\t2014-01-31\tr\ta\t1\t2",
        "b\t2014-01-31\tr\ta\t1",
    ]
    path = write(tmp_path / "a.tab", rows[1:], "utf-8-sig")
    assert named(read(path).graph) == [("a", "r", "b", "2014-01-31")]
    imported = read(write(path, rows))
    assert named(imported.graph) == [("a", "r", "b", "2014-01-31")]
    assert [str(skip) for skip in imported.skipped] == [f"{WRONG_WIDTH}: 1 row, at {path}:4"]


def test_a_second_header_is_a_row_without_a_date(tmp_path: Path) -> None:
    rows = [ICEWS_HEADER, icews_row("a", "r", "b", "2014-01-31")] * 3
    path = write(tmp_path / "all.tab", rows)
    imported = read(path)
    assert (imported.rows, imported.duplicates, imported.graph.entities) == (5, 2, ("a", "b"))
    assert [str(skip) for skip in imported.skipped] == [
        f"no valid date: 2 rows, the first at {path}:3"
    ]


EVENTS = [
    gdelt_row(f"e{n % 7}", f"0{n % 3}{n % 2}", f"e{n % 5}", f"201502{n % 28 + 1:02}")
    for n in range(90)
]


def halves() -> list[bytes]:
    return ["".join(f"{row}\n" for row in rows).encode() for rows in (EVENTS[:40], EVENTS[40:])]


def test_packed_files_and_patterns_give_the_same_graph(tmp_path: Path) -> None:
    first, second = halves()
    expected = read(write(tmp_path / "all.CSV", EVENTS)).graph
    folder = tmp_path / "gdelt"
    folder.mkdir()
    (folder / "a.CSV").write_bytes(first)
    (folder / "b.CSV.gz").write_bytes(gzip.compress(second))
    (folder / ".hidden").write_bytes(b"\0")
    (folder / "deeper").mkdir()
    both = write_zip(
        tmp_path / "both.zip",
        {"x/": b"", "x/a.CSV": first, "__MACOSX/x/._a.CSV": b"\0\0", "b.CSV": second},
    )
    # Neither a suffix nor its absence deceives.
    renamed = write_zip(tmp_path / "renamed.CSV", {"a": first + second})
    found = [
        read(folder / "a.CSV", folder / "b.CSV.gz"),
        read(folder / "*"),
        read(tmp_path / "g*" / "[ab].*"),
        read(both),
        read(renamed),
    ]
    for imported in found:
        assert imported.format == "gdelt" and imported.rows == 90
        assert imported.graph.same_as(expected)


def test_a_pattern_is_matched_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("b.CSV", EVENTS[40:]), ("a.CSV", EVENTS[:40])):
        write(Path(name), rows)
    assert read(Path("*.CSV")).graph.entities == read(Path("a.CSV"), Path("b.CSV")).graph.entities
    Path("[ab].CSV").write_text("")
    assert error_of(Path("[ab].CSV")) == message("csv_reader.empty", path="[ab].CSV")


def test_widths_may_differ_from_file_to_file(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{width}.CSV", [gdelt_row("a", "010", f"b{width}", "20150218", width)])
        for width in GDELT_WIDTHS
    ]
    imported = read(*paths)
    assert imported.graph.entities == ("a", "b57", "b58", "b61") and imported.skipped == ()


def test_the_first_lines_may_be_bad(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.CSV",
        ["broken\trow", gdelt_row("a", "010", "b", "20150218", width=58), *EVENTS],
    )
    imported = read(path)
    assert imported.format == "gdelt" and imported.rows == 92
    assert [str(skip) for skip in imported.skipped] == [
        f"{WRONG_WIDTH}: 2 rows, the first at {path}:1"
    ]


def test_a_line_without_an_end_is_cut_into_bad_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.CSV", [EVENTS[0], "x" * 5_000_000, EVENTS[1]])
    with (
        patch.object(reading, "_BLOCK", 1 << 15),
        patch.object(reading, "_MAX_LINE", 1 << 15),
        peak_memory() as most,
    ):
        imported = read(path)
    assert len(imported.graph.all_facts) == 2
    assert [(skip.reason, skip.first) for skip in imported.skipped] == [(WRONG_WIDTH, f"{path}:2")]
    assert most[0] < 1 << 20


def test_skipped_rows_name_the_member_of_an_archive(tmp_path: Path) -> None:
    first, second = halves()
    path = write_zip(tmp_path / "both.zip", {"x/a.CSV": first, "x/b.CSV": second + b"broken\n"})
    assert [skip.first for skip in read(path).skipped] == [f"{path}/x/b.CSV:51"]


@pytest.mark.parametrize(
    ("granularity", "times"), [("week", ("2015-W08", "2015-W09")), ("month", ("2015-02",))]
)
def test_days_are_grouped_into_longer_steps(
    tmp_path: Path, granularity: str, times: tuple[str, ...]
) -> None:
    rows = [gdelt_row("a", "010", "b", date) for date in ("20150218", "20150219", "20150223")]
    imported = read(write(tmp_path / "a.CSV", rows), granularity=granularity)
    assert imported.graph.times == times
    assert imported.duplicates == 3 - len(times)


DATES = st.sampled_from(
    ["20150218", "20150219", "20150301", "2015-02-18", "20151301", "2015218", "0", ""]
)
ICEWS_DATES = st.sampled_from(
    ["2014-01-31", "2014-02-01", "1/31/2014", "31/1/2014", "2014-02-30", "soon", ""]
)
NAMES = st.sampled_from(["a", "b", " a", "", " ", "NULL", "Türkiye", "東京", '5" pipe', "\u00a0b"])
CODES = st.sampled_from(["010", "0311", "0312", "19", "", " 010", "NULL"])


@st.composite
def mixed_files(draw: st.DrawFn) -> tuple[EventFormat, str, list[list[bytes]]]:
    """A format, a level, and the lines of some texts: good rows, bad ones and blank ones."""
    format: EventFormat = draw(st.sampled_from(["icews", "gdelt"]))
    make = icews_row if format == "icews" else gdelt_row
    relations = NAMES if format == "icews" else CODES
    rows = st.builds(make, NAMES, relations, NAMES, ICEWS_DATES if format == "icews" else DATES)
    good = st.builds(
        make,
        st.just("a"),
        st.just("010"),
        st.just("b"),
        st.just("2014-01-31" if format == "icews" else "20150218"),
    )
    lines = st.one_of(
        good.map(str.encode),
        rows.map(str.encode),
        rows.map(lambda row: row.encode("latin-1", "replace")),
        rows.map(lambda row: f"{row}\tmore".encode()),
        st.sampled_from([b"", b"\t", b"\xff\xfe", b"some text"]),
    )
    first = (ICEWS_HEADER if format == "icews" else gdelt_row("a", "010", "b", "20150218")).encode()
    texts = draw(st.lists(st.lists(lines, max_size=12), min_size=1, max_size=3))
    level = draw(st.sampled_from([*EVENT_SCHEMAS[format].relations]))
    return format, level, [[first, *text] for text in texts]


@settings(deadline=None, max_examples=30)
@given(
    mixed_files(),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
    st.sampled_from([40, 700, 1 << 20]),
)
@example(
    ("gdelt", "full", [[EVENTS[0].encode(), b"\xff", EVENTS[1].encode()]]), b"\n", False, 1 << 20
)
def test_imports_of_mixed_files_equal_their_slow_twin(
    files: tuple[EventFormat, str, list[list[bytes]]], ending: bytes, final: bool, block: int
) -> None:
    format, level, texts = files
    with TemporaryDirectory() as folder, patch.object(reading, "_BLOCK", block):
        contents = [
            (f"{number}.tab", ending.join(lines) + ending * final)
            for number, lines in enumerate(texts)
        ]
        for name, content in contents:
            (Path(folder) / name).write_bytes(content)
        slow = slow_import(
            [(f"{folder}/{name}", content) for name, content in contents], format, level
        )
        paths = [Path(folder) / name for name, _ in contents]
        if slow.facts:
            assert_same(read(*paths, format=format, relation_level=level), slow)
        else:
            assert error_of(*paths, format=format, relation_level=level) == slow.error(paths)


def test_ids_do_not_depend_on_blocks(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 200, (3000, 2)).tolist()
    rows = [
        gdelt_row(f"e{s}", f"{s % 9:03}", f"e{o}", f"201502{o % 28 + 1:02}") for s, o in numbers
    ]
    path = write(tmp_path / "a.CSV", rows)
    whole = read(path)
    assert_same(whole, slow_import([(str(path), path.read_bytes())], "gdelt", "full"))
    with patch.object(reading, "_BLOCK", 5000):
        assert read(path).graph.same_as(whole.graph)


@pytest.mark.parametrize("packing", ["plain", "gz", "zip"])
def test_progress_covers_all_files(tmp_path: Path, packing: str) -> None:
    generator = random.Random(0)
    rows = [
        gdelt_row("a", "010", "b", "20150218", SOURCEURL=f"{generator.random()}")
        for _ in range(2000)
    ]
    content = "".join(f"{row}\n" for row in rows).encode()
    path = tmp_path / f"a.{packing}"
    if packing == "zip":
        write_zip(path, {"a": content, "b": content})
    else:
        path.write_bytes(gzip.compress(content) if packing == "gz" else content)
    calls: list[tuple[int, int]] = []
    with patch.object(reading, "_BLOCK", 1 << 14):
        import_files(
            [path, path], ImportOptions(), "events", lambda done, total: calls.append((done, total))
        )
    total = 2 * path.stat().st_size
    assert {of for _, of in calls} == {total}
    done = [0, *(bytes_done for bytes_done, _ in calls)]
    assert done[-1] == total and total / 2 in done
    assert (np.diff(done) >= 0).all()
    # Python reads packed files through its own buffer, and an archive ends with its directory.
    assert np.diff(done).max() < total / 4


def test_files_are_not_read_into_memory_as_a_whole(tmp_path: Path) -> None:
    wanted, grid = EventColumns("gdelt", "name", "full"), TimeGrid(DATE_FORMAT)
    rows = "".join(
        f"{gdelt_row(f'e{n}', '010', f'f{n}', '20150218', SOURCEURL='x' * 300)}\n"
        for n in range(500)
    )
    path = write_zip(tmp_path / "a.zip", {"a": rows.encode() * 150, "b": rows.encode() * 50})
    shapes = find_layouts(path, wanted)
    with peak_memory() as most:
        count = sum(
            len(steps) for _, steps, _ in read_events(path, shapes, wanted, grid, SkipCounter())
        )
    assert count == 100_000
    assert 200 * len(rows) > 40 << 20
    assert most[0] < 12 << 20


def refused(tmp_path: Path) -> dict[str, tuple[list[Path], dict[str, object], str]]:
    """Files that cannot be imported, with the options and the error message."""
    gdelt = write(tmp_path / "gdelt.CSV", EVENTS)
    icews = write(tmp_path / "icews.tab", [ICEWS_HEADER, icews_row("a", "r", "b", "2014-01-31")])
    empty = write(tmp_path / "empty.CSV", [])
    blank = write(tmp_path / "blank.CSV", ["", ""])
    binary = tmp_path / "binary.CSV"
    binary.write_bytes(bytes(range(256)) * 4)
    mentions = write(tmp_path / "mentions.CSV", ["\t".join("0123456789abcdef")])
    table = write(tmp_path / "table.tsv", ["subject\trelation\tobject\ttime", "a\tr\tb\t1"])
    none = write(
        tmp_path / "none.CSV",
        [gdelt_row("", "010", "b", "20150218"), "x", gdelt_row("", "", "", "")],
    )
    lonely = write(tmp_path / "lonely.tab", [ICEWS_HEADER])
    hollow = write_zip(tmp_path / "hollow.zip", {"x/": b""})
    packed = write_zip(tmp_path / "packed.zip", {"a.CSV": halves()[0], "readme.txt": b"read me"})
    cut = tmp_path / "cut.zip"
    cut.write_bytes(packed.read_bytes()[:-40])
    torn = tmp_path / "torn.CSV.gz"
    torn.write_bytes(gzip.compress(halves()[0])[:-30])
    secret = write_zip(tmp_path / "secret.zip", {"a.CSV": halves()[0]})
    bits = bytearray(secret.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        bits[bits.index(signature) + offset] |= 1
    secret.write_bytes(bits)
    is_gdelt, is_icews = {"format": "gdelt"}, {"format": "icews"}
    gone, pattern = tmp_path / "gone.zip", tmp_path / "*.export.CSV"
    no_file, is_folder = (
        message("sources.no_file", path=gone),
        message("sources.folder", path=tmp_path),
    )
    no_files = message("importer.no_files")

    def empty_file(path: Path) -> str:
        return message("event_formats.empty", path=path)

    def not_text(title: str) -> str:
        return message("event_formats.not_text", path=binary, title=title)

    def wrong_width(path: Path, found: int) -> str:
        return message("event_formats.wrong_width", path=path, found=found)

    def not_icews(path: Path) -> str:
        return message("event_formats.not_icews", path=path, column="Source Name")

    def no_events(paths: str, times: int) -> str:
        wrong, lacking = {"path": none, "line": 2}, {"path": none, "line": 1}
        columns = "bad_rows.one" if times == 1 else "bad_rows.several"
        reasons = (
            message(columns, reason="wrong number of columns", rows=times, **wrong),
            message("bad_rows.several", reason="no subject", rows=2 * times, **lacking),
        )
        return message(
            "importer.no_events", paths=paths, rows=3 * times, reasons="; ".join(reasons)
        )

    def incomplete(path: Path, reason: str) -> str:
        return message("sources.incomplete", path=path, reason=reason)

    return {
        "missing": ([gone], {}, no_file),
        "missing later": ([gdelt, gone], {}, no_file),
        "no match": ([pattern], {}, message("sources.no_match", path=pattern)),
        "folder": ([tmp_path], is_gdelt, is_folder),
        "guessed folder": ([tmp_path], {}, is_folder),
        "no files": ([], is_gdelt, no_files),
        "guessed no files": ([], {}, no_files),
        "empty": ([empty], is_gdelt, empty_file(empty)),
        "guessed empty": ([empty], {}, empty_file(empty)),
        "empty later": ([gdelt, empty], {}, empty_file(empty)),
        "blank": ([blank], is_icews, empty_file(blank)),
        "binary": ([binary], is_gdelt, not_text("a GDELT event export")),
        "binary later": ([icews, binary], {}, not_text("an ICEWS file of coded events")),
        "mentions": ([gdelt, mentions], {}, wrong_width(mentions, 16)),
        "icews as gdelt": ([icews], is_gdelt, wrong_width(icews, 20)),
        "gdelt as icews": ([gdelt], is_icews, not_icews(gdelt)),
        "both": ([icews, gdelt], {}, not_icews(gdelt)),
        "table": ([table], is_gdelt, wrong_width(table, 4)),
        "gdelt as table": (
            [gdelt],
            {"format": "table"},
            message(
                "csv_reader.no_column",
                path=gdelt,
                column="subject",
                columns=", ".join(map(repr, EVENTS[0].split("\t"))),
            ),
        ),
        "nothing valid": ([none], {}, no_events(f"{none}", 1)),
        "nothing valid in many": (
            [none, none, none, none, none],
            {},
            no_events(f"{none}, {none}, {none} and 2 more", 5),
        ),
        "header alone": ([lonely], {}, message("importer.no_rows", paths=lonely)),
        "archive of nothing": ([hollow], {}, message("sources.empty_archive", path=hollow)),
        "archive of more": ([packed], {}, wrong_width(packed / "readme.txt", 1)),
        "cut archive": ([cut], is_gdelt, incomplete(cut, "File is not a zip file")),
        "torn gzip": (
            [torn],
            is_gdelt,
            incomplete(torn, "Compressed file ended before the end-of-stream marker was reached"),
        ),
        "secret": ([secret], is_gdelt, message("sources.encrypted", path=secret / "a.CSV")),
    }


def test_invalid_files_are_refused(tmp_path: Path) -> None:
    for case, (paths, options, expected) in refused(tmp_path).items():
        assert error_of(*paths, **options) == expected, case


def test_files_are_refused_before_any_is_read(tmp_path: Path) -> None:
    paths, _, expected = refused(tmp_path)["mentions"]
    calls: list[int] = []
    with pytest.raises(DataError) as caught:
        import_files(paths, ImportOptions(), "events", lambda done, _: calls.append(done))
    assert str(caught.value) == expected and not calls


@pytest.mark.parametrize(
    "content", [b"", b"a\tb\n", b"\0\1", b"subject,relation,object,time\n", b"PAR1"]
)
def test_other_files_are_not_detected_as_events(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(content + b"\n")
    assert detect_format(path) is None


def test_the_width_alone_does_not_make_a_gdelt_file(tmp_path: Path) -> None:
    path = write(tmp_path / "wide.tsv", ["\t".join(f"column {number}" for number in range(58))])
    assert detect_format(path) is None


def test_a_file_with_named_columns_is_a_table(tmp_path: Path) -> None:
    path = write(
        tmp_path / "events.tsv", [ICEWS_HEADER, icews_row(" a", "r", "b", "2014-01-31", "011")]
    )
    described = {
        "subject": "Source Name",
        "relation": "CAMEO Code",
        "object": "Target Name",
        "time": "Event Date",
    }
    imported = read(path, **described, keep_names=True)
    assert imported.format == "table" and named(imported.graph) == [
        (" a", "011", "b", "2014-01-31")
    ]
    assert read(path).format == "icews"


def test_tables_can_be_named_by_patterns(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write(tmp_path / f"{name}.csv", ["subject,relation,object,time", f"{name},r,x,1"])
    imported = read(tmp_path / "*.csv")
    assert (imported.format, imported.graph.entities, imported.skipped) == (
        "table",
        ("a", "x", "b"),
        (),
    )


@pytest.mark.parametrize(
    ("options", "name", "values"),
    [
        (
            {"format": "csv"},
            "options.choice",
            {"setting": "format", "choices": "table, icews, gdelt", "value": "csv"},
        ),
        (
            {"format": "icews", "entity": "code"},
            "options.choice",
            {"setting": "the entity of icews", "choices": "name", "value": "code"},
        ),
        (
            {"format": "gdelt", "relation_level": "text"},
            "options.choice",
            {
                "setting": "the relation_level of gdelt",
                "choices": "full, base, root",
                "value": "text",
            },
        ),
        ({"format": "gdelt", "subject": "a"}, "options.fixed_columns", {"setting": "subject"}),
        (
            {"format": "icews", "time_format": "%Y"},
            "options.fixed_columns",
            {"setting": "time_format"},
        ),
        ({"format": "table", "entity": "name"}, "options.for_events", {"setting": "entity"}),
        (
            {"format": "table", "relation_level": "root"},
            "options.for_events",
            {"setting": "relation_level"},
        ),
        ({"format": "gdelt", "granularity": "hour"}, "options.hour", {}),
    ],
)
def test_invalid_options_are_refused(
    options: dict[str, object], name: str, values: dict[str, str]
) -> None:
    with raises(ConfigError, name, **values | options):
        ImportOptions(**options)  # type: ignore[arg-type]


def test_options_that_the_files_do_not_allow_are_refused(tmp_path: Path) -> None:
    gdelt = write(tmp_path / "gdelt.CSV", EVENTS)
    table = write(tmp_path / "table.csv", ["subject,relation,object,time", "a,r,b,1"])
    levels = {"setting": "the relation_level of gdelt", "choices": "full, base, root"}
    with raises(ConfigError, "options.choice", **levels, value="text"):
        read(gdelt, relation_level="text")
    with raises(ConfigError, "options.for_events", setting="entity"):
        read(table, entity="code")
