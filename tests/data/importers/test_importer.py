"""Tables of dated events: imports equal a slow twin, and faults are named by file and line."""

from __future__ import annotations

import csv
import gzip
import io
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from messages import message, raises
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers import csv_reader as reading
from tempograph.data.importers.importer import ImportResult, import_files
from tempograph.data.importers.options import ImportOptions
from tempograph.errors import ConfigError, DataError
from tempograph.typing import SPLITS, Granularity

Row = tuple[str, str, str, str]

HEADER = ("subject", "relation", "object", "time")
LABELS = {
    "hour": "%Y-%m-%dT%H",
    "day": "%Y-%m-%d",
    "week": "%G-W%V",
    "month": "%Y-%m",
    "year": "%Y",
}


@dataclass
class Slow:
    """The expected result: names in order, labels of the grid, distinct facts by name."""

    entities: list[str]
    relations: list[str]
    times: list[str]
    facts: set[Row]
    duplicates: int


def slow_import(rows: Sequence[Row], granularity: Granularity | None) -> Slow:
    """The slow twin: one row after the other, with Python's own datetime."""
    entities: list[str] = []
    relations: list[str] = []
    facts: list[Row] = []
    for row in rows:
        subject, relation, object_ = (
            unicodedata.normalize("NFC", name).strip() for name in row[:3]
        )
        time = row[3]
        for name in (subject, object_):
            if name not in entities:
                entities.append(name)
        if relation not in relations:
            relations.append(relation)
        facts.append((subject, relation, object_, slow_label(time, granularity)))
    times = [time for *_, time in rows]
    return Slow(
        entities, relations, slow_grid(times, granularity), set(facts), len(facts) - len(set(facts))
    )


def slow_label(time: str, granularity: Granularity | None) -> str:
    return (
        slow_moment(time).strftime(LABELS[granularity or "day"])
        if "-" in time[1:]
        else str(int(time))
    )


def slow_moment(time: str) -> datetime:
    moment = datetime.fromisoformat(time)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def slow_grid(times: Sequence[str], granularity: Granularity | None) -> list[str]:
    if "-" not in times[0][1:]:
        numbers = [int(time) for time in times]
        return [str(number) for number in range(min(numbers), max(numbers) + 1)]
    moments = [slow_moment(time) for time in times]
    # No step is shorter than an hour, so that walking by hours meets them all.
    hours = int((max(moments) - min(moments)) / timedelta(hours=1)) + 1
    walk = [*(min(moments) + timedelta(hours=hour) for hour in range(hours)), max(moments)]
    return list(dict.fromkeys(moment.strftime(LABELS[granularity or "day"]) for moment in walk))


def by_name(graph: TemporalGraph, facts: np.ndarray) -> list[Row]:
    return [tuple(graph.describe(fact).values()) for fact in facts]


def assert_same(imported: ImportResult, slow: Slow, rows: int) -> None:
    graph = imported.graph
    assert (list(graph.entities), list(graph.relations)) == (slow.entities, slow.relations)
    assert list(graph.times) == slow.times
    named = by_name(graph, graph.all_facts)
    assert len(named) == len(slow.facts)
    assert set(named) == slow.facts
    assert (imported.rows, imported.duplicates) == (rows, slow.duplicates)


def assert_equal(left: TemporalGraph, right: TemporalGraph) -> None:
    assert (left.entities, left.relations, left.times) == (
        right.entities,
        right.relations,
        right.times,
    )
    for split in SPLITS:
        assert left.facts(split).tolist() == right.facts(split).tolist()


def write_csv(
    path: Path, rows: Sequence[Sequence[str]], header: Sequence[str] | None = HEADER
) -> Path:
    text = io.StringIO()
    csv.writer(text, delimiter="\t" if ".tsv" in path.name else ",", lineterminator="\n").writerows(
        [*([header] if header else []), *rows]
    )
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_parquet(path: Path, **columns: pa.Array | list[object]) -> Path:
    pa.parquet.write_table(pa.table(columns), path)
    return path


def read(path: Path, **options: object) -> ImportResult:
    return import_files([path], table_options(**options), "events")


def table_options(**options: object) -> ImportOptions:
    return ImportOptions(format="table", **options)  # type: ignore[arg-type]


def error_of(paths: Path | list[Path], **options: object) -> str:
    """The error message, one line, of an import."""
    with pytest.raises(DataError) as caught:
        import_files(
            paths if isinstance(paths, list) else [paths], table_options(**options), "events"
        )
    assert "\n" not in str(caught.value)
    return str(caught.value)


NAMES = st.sampled_from(
    [
        "Iraq",
        "iraq",
        "NA",
        "null",
        "nan",
        "17",
        'a "b"',
        "a, b",
        " a",
        "Türkiye",
        "Tu\u0308rkiye",
        "\u00a0Iraq ",
        "東京",
        "a\u2028b",
        "''",
    ]
)
INTEGER_TIMES = st.integers(-20, 20).map(str)
DATE_TIMES = st.one_of(
    st.dates(date(1969, 11, 1), date(1970, 2, 28)).map(date.isoformat),
    st.datetimes(
        datetime(1969, 11, 1), datetime(1970, 2, 28), timezones=st.sampled_from([None, UTC])
    ).map(datetime.isoformat),
)
CALENDAR = st.sampled_from([None, *LABELS])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Row], Granularity | None]:
    """Rows with many duplicates and gaps, and a granularity that suits their times."""
    integers = draw(st.booleans())
    times = st.sampled_from(
        draw(st.lists(INTEGER_TIMES if integers else DATE_TIMES, min_size=1, max_size=5))
    )
    rows = draw(
        st.lists(st.tuples(NAMES, st.sampled_from("rst"), NAMES, times), min_size=1, max_size=20)
    )
    return rows, None if integers else draw(CALENDAR)


@dataclass(frozen=True)
class Style:
    """The ways in which two text files with the same rows may differ."""

    eol: str
    mark: bool
    blank: tuple[int, ...]
    notes: tuple[str, ...]
    packed: bool


STYLES = st.builds(
    Style,
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.tuples(*[st.integers(0, 2)] * 3),
    st.tuples(
        *[st.sampled_from(["", "plain", "a,b", "two\nlines", '"quoted"', "\n\n", 'five" pipe'])] * 3
    ),
    st.booleans(),
)


def write_styled(folder: Path, rows: Sequence[Row], style: Style) -> tuple[Path, list[int]]:
    """Write the rows with a column of notes; returns the path and each row's first line."""
    text, lines = io.StringIO(), []
    writer = csv.writer(text, lineterminator=style.eol)
    writer.writerow([*HEADER, "notes"])
    for number, row in enumerate(rows):
        text.write(style.eol * style.blank[number % 3])
        lines.append(text.getvalue().count("\n") + 1)
        writer.writerow([*row, style.notes[number % 3]])
    data = text.getvalue().encode("utf-8-sig" if style.mark else "utf-8")
    path = folder / ("events.csv.gz" if style.packed else "events.csv")
    path.write_bytes(gzip.compress(data) if style.packed else data)
    return path, lines


@settings(deadline=None, max_examples=30)
@given(tables(), STYLES, st.sampled_from([150, 400, 1 << 20]))
def test_a_text_import_equals_its_slow_twin(
    table: tuple[list[Row], Granularity | None], style: Style, block: int
) -> None:
    rows, granularity = table
    with TemporaryDirectory() as folder, patch.object(reading, "_BLOCK", block):
        path, _ = write_styled(Path(folder), rows, style)
        assert_same(read(path, granularity=granularity), slow_import(rows, granularity), len(rows))


@settings(deadline=None, max_examples=30)
@given(tables(), st.integers(1, 5))
def test_a_parquet_import_equals_its_slow_twin(
    table: tuple[list[Row], Granularity | None], group: int
) -> None:
    rows, granularity = table
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        columns = dict(zip(HEADER, map(list, zip(*rows, strict=True)), strict=True))
        pa.parquet.write_table(pa.table(columns), path, row_group_size=group)
        assert_same(read(path, granularity=granularity), slow_import(rows, granularity), len(rows))


EVENT_FAULTS = [
    ((0, ""), message("table_reader.empty", column="subject")),
    ((1, " "), message("table_reader.empty", column="relation")),
    ((2, "a\nb"), message("table_reader.line_break", column="object", value="a\nb")),
    ((3, "NaN"), message("time_grid.missing", value="NaN")),
    ((3, "soon"), message("time_grid.neither", value="soon")),
    ((3, "2014-02-30"), message("time_grid.neither", value="2014-02-30")),
]


@settings(deadline=None, max_examples=30)
@given(
    st.integers(2, 40),
    st.lists(st.integers(1, 39), min_size=1, max_size=3),
    st.sampled_from(EVENT_FAULTS),
    STYLES,
    st.data(),
)
def test_the_first_fault_is_named_by_its_line(
    count: int,
    faulty: list[int],
    fault: tuple[tuple[int, str], str],
    style: Style,
    data: st.DataObject,
) -> None:
    (column, value), problem = fault
    rows: list[list[str]] = [
        [f"subject {number}", "r", "o", "2014-01-01"] for number in range(count)
    ]
    faulty = [number % (count - 1) + 1 for number in faulty]
    for number in faulty:
        rows[number][column] = value
    block, chunk = (
        data.draw(st.sampled_from([150, 1 << 20])),
        data.draw(st.sampled_from([3, 10_000])),
    )
    with (
        TemporaryDirectory() as folder,
        patch.object(reading, "_BLOCK", block),
        patch.object(reading, "_SLOW_ROWS", chunk),
    ):
        path, lines = write_styled(Path(folder), [tuple(row) for row in rows], style)
        line = lines[min(faulty)]
        assert error_of(path) == message("table_reader.line", path=path, line=line, problem=problem)


BAD = [
    ("a,r,b,2014-01-01", "wrong number of columns"),
    ("a,r,b,2014-01-01,x,y", "wrong number of columns"),
    (" ,r,b,2014-01-01,x", "no usable subject"),
    ("a,,b,never,x", "no usable relation"),
    ('a,r,"b\nc",2014-01-01,x', "no usable object"),
    ("a,r,b,never,x", "no readable time"),
    ("a,r,b,17,x", "no readable time"),
    ("a,r,caf\udce9,2014-01-01,x", "bytes that are not UTF-8"),
]


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.sampled_from([None, None, *BAD]), min_size=1, max_size=60),
    st.sampled_from([200, 1 << 20]),
    st.sampled_from([3, 10_000]),
)
def test_bad_rows_are_skipped_and_counted(
    kinds: list[tuple[str, str] | None], block: int, chunk: int
) -> None:
    """The import equals one of the good rows alone; each reason has a count and a first line."""
    good = [f"a{number % 7},r,b,2014-01-{number % 28 + 1:02},x" for number in range(len(kinds) + 1)]
    lines, kept, reasons, at = ["subject,relation,object,time,notat\u00e9"], [], {}, 2
    for number, kind in enumerate([None, *kinds]):
        row = good[number] if kind is None else kind[0]
        if kind is None:
            kept.append(tuple(row.split(",")[:4]))
        else:
            rows, first = reasons.get(kind[1], (0, at))
            reasons[kind[1]] = rows + 1, first
        lines.append(row)
        at += 1 + row.count("\n")
    with (
        TemporaryDirectory() as folder,
        patch.object(reading, "_BLOCK", block),
        patch.object(reading, "_SLOW_ROWS", chunk),
    ):
        path = Path(folder) / "events.csv"
        path.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
        imported = read(path, skip_bad=True, max_bad=len(kinds))
        assert_equal(imported.graph, read(write_csv(Path(folder) / "good.csv", kept)).graph)
        assert imported.rows == len(kinds) + 1
        found = {skip.reason: (skip.rows, skip.first) for skip in imported.skipped}
        assert found == {
            reason: (rows, f"{path}:{first}") for reason, (rows, first) in reasons.items()
        }


def test_bad_rows_of_parquet_are_skipped_and_counted(tmp_path: Path) -> None:
    names: list[object] = [f"e{number % 9}" for number in range(5000)]
    names[4321] = " "
    times: list[object] = ["2014-01-01"] * 5000
    times[7] = times[4321] = times[4999] = None
    path = write_parquet(
        tmp_path / "a.parquet", subject=names, relation=["r"] * 5000, object=names, time=times
    )
    imported = read(path, skip_bad=True)
    assert [str(skip) for skip in imported.skipped] == [
        message("bad_rows.value", reason="no usable subject", value=" ", path=path, line=4322),
        message(
            "bad_rows.values",
            reason="no readable time",
            rows=2,
            values=f"'' at {path}:8, '' at {path}:5000",
        ),
    ]
    assert imported.rows == 5000 and imported.duplicates == 4997 - 9


def test_a_bad_first_row_does_not_decide_the_kind_of_times(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path / "a.csv", [("a", "r", "b", "n/a"), ("a", "r", "b", "17"), ("a", "r", "b", "18")]
    )
    assert read(path, skip_bad=True, max_bad=0.5).graph.times == ("17", "18")


def test_a_file_of_bad_rows_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("a", "r", "b", "never"), ("a", "", "b", "17")])
    reasons = [
        message("bad_rows.value", reason="no usable relation", value="", path=path, line=3),
        message("bad_rows.value", reason="no readable time", value="never", path=path, line=2),
    ]
    expected = message("importer.no_events", paths=path, rows=2, reasons="; ".join(reasons))
    assert error_of(path, skip_bad=True) == expected


@pytest.mark.parametrize(
    ("max_bad", "allowed"), [(None, 5), (0.1, 10), (0.0, 0), (1, 1), (7, 7), (0.999, 99)]
)
def test_too_many_bad_rows_stop_the_import(
    tmp_path: Path, max_bad: float | None, allowed: int
) -> None:
    """Of 100 rows, as many as allowed may be bad, and not one more."""

    def written(bad: int) -> Path:
        good = [(f"a{number}", "r", "b", "2014-01-01") for number in range(100 - bad)]
        times = [("a", "r", "b", f"day {number}") for number in range(bad)]
        return write_csv(tmp_path / "a.csv", [*good, *times])

    imported = read(written(allowed), skip_bad=True, max_bad=max_bad)
    assert (imported.rows, len(imported.graph.all_facts)) == (100, 100 - allowed)
    bad = allowed + 1
    path = written(bad)
    places = [f"'day {number}' at {path}:{102 - bad + number}" for number in range(min(bad, 3))]
    reason = {"reason": "no readable time", "rows": bad, "values": ", ".join(places)}
    one = message("bad_rows.value", path=path, line=101, value="day 0", **reason)
    reasons = one if bad == 1 else message("bad_rows.values", **reason)
    if bad < 100:
        share = f"{bad}.0%"
        expected = message(
            "importer.too_many_bad", paths=path, bad=bad, rows=100, share=share, reasons=reasons
        )
    else:
        expected = message("importer.no_events", paths=path, rows=100, reasons=reasons)
    assert error_of(path, skip_bad=True, max_bad=max_bad) == expected


def test_the_report_accounts_for_every_row_and_shows_bad_values(tmp_path: Path) -> None:
    good = "a,r,b,2014-01-01\na,r,c,2014-01-01\n"
    bad = ["a,r,b", "x" * 99 + ",r", "a,r,b,soon", "a,r,b,1,2", "a,r,b,later", "a,r,b", "a, ,b,x"]
    path = tmp_path / "a.csv"
    path.write_text("subject,relation,object,time\n" + 2 * good + "\n".join(bad) + "\n")
    imported = read(path, skip_bad=True, max_bad=7)
    assert imported.account() == "11 rows = 2 facts + 2 duplicates + 7 bad"
    assert {
        skip.reason: (skip.rows, [(bad.value, bad.at) for bad in skip.examples])
        for skip in imported.skipped
    } == {
        "wrong number of columns": (
            4,
            [("a,r,b", f"{path}:6"), ("x" * 60, f"{path}:7"), ("a,r,b,1,2", f"{path}:9")],
        ),
        "no usable relation": (1, [(" ", f"{path}:12")]),
        "no readable time": (2, [("soon", f"{path}:8"), ("later", f"{path}:10")]),
    }


def test_spellings_of_one_name_are_joined_and_counted(tmp_path: Path) -> None:
    names = ["Bob ", "Jose\u0301", "Ann ", "Jos\u00e9", "Cai\t", "\u00a0Ann", "Ann", " Cai"]
    rows = [(name, " r", "o", f"2014-01-{day:02}") for day, name in enumerate(names, 1)]
    path = write_csv(tmp_path / "a.csv", rows)
    for block in (64, 1 << 20):
        with patch.object(reading, "_BLOCK", block):
            imported = read(path)
        assert imported.graph.entities == ("Bob", "o", "Jos\u00e9", "Ann", "Cai")
        assert imported.remarks == (
            message(
                "name_ids.changed",
                names="6 entity names",
                joined=4,
                changes="'Jose\\u0301' -> 'Jos\\xe9', 'Ann ' -> 'Ann', '\\xa0Ann' -> 'Ann'",
            ),
            message("name_ids.changed", names="1 relation name", joined=0, changes="' r' -> 'r'"),
        )
    kept = read(path, keep_names=True)
    assert kept.graph.entities == ("Bob ", "o", *names[1:]) and not kept.remarks


def test_rows_of_joined_names_may_be_duplicates(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("a", "r", "b", "1"), ("a ", "r", "b", "1")])
    imported = read(path)
    assert (imported.rows, imported.duplicates, len(imported.graph.all_facts)) == (2, 1, 1)
    assert read(path, keep_names=True).duplicates == 0


def test_a_time_far_from_all_others_gets_a_note(tmp_path: Path) -> None:
    rows = [("a", "r", "b", f"2023-01-{day:02}") for day in range(1, 29)]
    path = write_csv(tmp_path / "a.csv", [*rows, ("a", "r", "b", "1023-01-01")])
    (note,) = read(path).notes(guessed=True)
    ends = {"first": "1023-01-01", "last": "2023-01-28"}
    assert note == message("importer.sparse", used=29, count="365,271", **ends)
    assert not read(write_csv(path, [*rows, ("a", "r", "b", "2022-01-01")])).notes(guessed=True)


def test_all_formats_give_the_same_graph(tmp_path: Path) -> None:
    rows = [
        (f"s{number % 7}", f"r{number % 3}", f"o{number % 5}", f"2014-01-{number % 28 + 1:02}")
        for number in range(90)
    ]
    expected = read(write_csv(tmp_path / "a.csv", rows)).graph
    for name in ("a.tsv", "a.csv.gz", "a.tsv.gz", "A.CSV"):
        assert_equal(read(write_csv(tmp_path / name, rows)).graph, expected)
    packed = (tmp_path / "a.csv.gz").rename(tmp_path / "packed.csv")
    assert_equal(read(packed).graph, expected)
    subjects, relations, objects, times = (list(column) for column in zip(*rows, strict=True))
    dates = [date.fromisoformat(time) for time in times]
    for column in (
        times,
        dates,
        pa.array(dates).cast(pa.timestamp("us")),
        pa.array(times).dictionary_encode(),
    ):
        path = write_parquet(
            tmp_path / "a.parquet",
            time=column,
            object=pa.array(objects).dictionary_encode(),
            subject=pa.array(subjects, pa.large_string()),
            relation=pa.array(relations, pa.binary()),
        )
        assert_equal(read(path).graph, expected)


def test_integer_columns_are_steps_and_names(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "a.parquet", subject=[7, 8], relation=["r", "s"], object=[8, 7], time=[-1, 1]
    )
    graph = read(path).graph
    assert (graph.entities, graph.times) == (("7", "8"), ("-1", "0", "1"))


def test_integer_columns_may_be_dates(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "a.parquet", subject=["a"], relation=["r"], object=["b"], time=[20140131]
    )
    assert read(path, time_format="%Y%m%d").graph.times == ("2014-01-31",)


def test_columns_by_name_in_any_order(tmp_path: Path) -> None:
    header = ("when", "id", "target", "what", "source")
    path = write_csv(
        tmp_path / "a.csv",
        [("31/12/2013", "1", "b", "r", "a"), ("1/1/2014", "2", "a", "s", "c")],
        header,
    )
    options = {
        "subject": "source",
        "relation": "what",
        "object": "target",
        "time": "when",
        "time_format": "%d/%m/%Y",
    }
    graph = read(path, **options).graph
    assert by_name(graph, graph.all_facts) == [
        ("a", "r", "b", "2013-12-31"),
        ("c", "s", "a", "2014-01-01"),
    ]


def test_columns_by_number(tmp_path: Path) -> None:
    rows = [("1", "a", "b", "r"), ("2", "c", "a", "r")]
    path = write_csv(tmp_path / "a.csv", rows, header=None)
    graph = read(path, header=False, subject="1", object="2", relation="3", time="0").graph
    assert graph.entities == ("a", "b", "c")
    assert by_name(graph, graph.all_facts) == [("a", "r", "b", "1"), ("c", "r", "a", "2")]


def test_any_suffix_and_any_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"
    path.write_text("subject|relation|object|time\na|r|b|1\n")
    assert read(path, delimiter="|").graph.entities == ("a", "b")


def test_several_files_make_one_dataset(tmp_path: Path) -> None:
    first = write_csv(tmp_path / "a.csv", [("a", "r", "b", "1"), ("a", "r", "b", "2")])
    second = write_csv(
        tmp_path / "b.tsv",
        [("5", "c", "a", "s"), ("2", "a", "b", "r")],
        ("time", "subject", "object", "relation"),
    )
    imported = import_files([first, second], ImportOptions(), "both")
    graph = imported.graph
    assert (graph.name, graph.entities, graph.relations) == ("both", ("a", "b", "c"), ("r", "s"))
    assert graph.times == ("1", "2", "3", "4", "5")
    assert graph.train.tolist() == [[0, 0, 1, 0], [0, 0, 1, 1], [2, 1, 0, 4]]
    assert (imported.rows, imported.duplicates) == (4, 1)


def test_ids_do_not_depend_on_blocks(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    rows = [
        (f"e{s}", f"r{s % 9}", f"e{o}", str(t))
        for s, o, t in generator.integers(0, 200, (3000, 3)).tolist()
    ]
    path = write_csv(tmp_path / "a.csv", rows)
    whole = read(path)
    assert_same(whole, slow_import(rows, None), len(rows))
    with patch.object(reading, "_BLOCK", 256):
        assert_equal(read(path).graph, whole.graph)


@pytest.mark.parametrize("faulty", [False, True], ids=["sound", "faulty"])
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_progress_is_reported_at_least_fifty_times(
    tmp_path: Path, suffix: str, faulty: bool
) -> None:
    # Names that do not repeat keep the packed file long enough for many reads.
    names = [
        f"{number:x}" for number in np.random.default_rng(0).integers(0, 1 << 60, 100_000).tolist()
    ]
    names[0] = " " if faulty else names[0]
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        write_parquet(path, subject=names, relation=names, object=names, time=[1] * len(names))
    else:
        write_csv(path, [(name, name, name, "1") for name in names])
    calls: list[tuple[int, int]] = []
    options = ImportOptions(skip_bad=faulty)
    with patch.object(reading, "_BLOCK", 1 << 16), patch.object(reading, "_SLOW_ROWS", 1000):
        import_files(
            [path, path], options, "events", lambda done, total: calls.append((done, total))
        )
    total = 2 * path.stat().st_size
    assert {of for _, of in calls} == {total}
    done = [0, *(bytes_done for bytes_done, _ in calls)]
    assert done[-1] == total
    steps = np.diff(done)
    assert (steps >= 0).all()
    # A read of Python's own buffer may take a little more of a packed file than one block.
    assert steps.max() <= total / 50 + (1 << 17)


def test_progress_reaches_the_end_after_the_last_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("subject,relation,object,time\na,r,b,1\n" + "\n" * 5000)
    calls: list[tuple[int, int]] = []
    with patch.object(reading, "_BLOCK", 256):
        import_files(
            [path], ImportOptions(), "events", lambda done, total: calls.append((done, total))
        )
    assert calls[-1] == (path.stat().st_size, path.stat().st_size)


SHARES = st.floats(0, 0.49)


def imported_split(count: int, times: Sequence[int], **options: object) -> TemporalGraph:
    # Ids rise with first appearance: counting down makes rows whose order is not that of the facts.
    rows = [
        (
            f"e{number // 6}",
            f"r{number // 2 % 3}",
            f"e{number % 2}",
            str(times[number % len(times)]),
        )
        for number in reversed(range(count))
    ]
    with TemporaryDirectory() as folder:
        return read(write_csv(Path(folder) / "a.csv", rows), **options).graph


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 60),
    st.lists(st.integers(0, 9), min_size=1),
    SHARES,
    SHARES,
    st.sampled_from(["random", "chronological"]),
)
@example(1, [0], 0.0, 0.9, "random")
@example(1, [0], 0.9, 0.0, "chronological")
@example(2, [0, 1], 0.49, 0.5, "chronological")
def test_splits_are_whole_disjoint_sorted_and_repeatable(
    count: int, times: list[int], valid: float, test: float, split: str
) -> None:
    options = {"valid_share": valid, "test_share": test, "split": split}
    graph = imported_split(count, times, **options)
    assert_equal(imported_split(count, times, **options), graph)
    assert len(graph.train)
    assert len(graph.all_facts) == len({tuple(fact) for fact in graph.all_facts.tolist()}) == count
    for name in SPLITS:
        keys = [
            (time, subject, relation, object_)
            for subject, relation, object_, time in graph.facts(name).tolist()
        ]
        assert keys == sorted(keys)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 60), SHARES, SHARES)
@example(1, 0.1, 0.1)
@example(2, 0.49, 0.49)
def test_random_shares_are_exact(count: int, valid: float, test: float) -> None:
    graph = imported_split(count, [1, 2, 3], valid_share=valid, test_share=test)
    expected = min(round(test * count), count - 1)
    assert len(graph.test) == expected
    assert len(graph.valid) == min(round(valid * count), count - 1 - expected)


def test_random_splits_differ_by_seed_and_not_by_row_order(tmp_path: Path) -> None:
    rows = [("a", "r", "b", str(number)) for number in range(200)]
    first = read(write_csv(tmp_path / "a.csv", rows)).graph
    assert [len(first.facts(split)) for split in SPLITS] == [160, 20, 20]
    assert_equal(read(write_csv(tmp_path / "b.csv", rows[::-1])).graph, first)
    assert read(tmp_path / "a.csv", seed=1).graph.test.tolist() != first.test.tolist()
    # Held-out facts are spread over time, not taken from one end.
    assert first.test[:, 3].min() < 50
    assert first.test[:, 3].max() > 150


def slow_cut(times: list[int], cut: int) -> int:
    """The end of a time step nearest to a cut, the later of two."""
    ends = [
        number
        for number in range(1, len(times) + 1)
        if number == len(times) or times[number] != times[number - 1]
    ]
    return min(ends, key=lambda end: (abs(end - cut), -end))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.lists(st.integers(0, 9), min_size=1), SHARES, SHARES)
@example(10, [0, 1], 0.3, 0.0)
@example(4, [0, 0, 1, 2], 0.25, 0.5)
def test_chronological_splits_keep_steps_whole(
    count: int, times: list[int], valid: float, test: float
) -> None:
    graph = imported_split(count, times, split="chronological", valid_share=valid, test_share=test)
    ordered = sorted(times[number % len(times)] for number in range(count))
    held_out = min(round(test * count), count - 1)
    late = slow_cut(ordered, count - held_out)
    early = slow_cut(ordered, count - held_out - min(round(valid * count), count - 1 - held_out))
    assert [len(graph.facts(split)) for split in SPLITS] == [early, late - early, count - late]
    spans = [facts[:, 3] for facts in (graph.train, graph.valid, graph.test) if len(facts)]
    for before, after in pairwise(spans):
        assert before.max() < after.min()


def choice(setting: str, choices: str, value: str) -> str:
    return message("options.choice", setting=setting, choices=choices, value=value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"valid_share": -0.1}, message("options.shares", valid=-0.1, test=0.1)),
        ({"valid_share": 0.5, "test_share": 0.5}, message("options.shares", valid=0.5, test=0.5)),
        ({"test_share": float("nan")}, message("options.shares", valid=0.1, test="nan")),
        (
            {"time_format": "%d/%m/%Y", "day_first": True},
            message("time_grid.day_first", time_format="%d/%m/%Y"),
        ),
        ({"encoding": "utf-99"}, message("text_encoding.unknown", encoding="utf-99")),
        ({"max_bad": 0.1}, message("options.max_bad", value=0.1)),
        ({"max_bad": -1, "skip_bad": True}, message("options.max_bad", value=-1)),
        ({"seed": -1}, message("options.seed", value=-1)),
        (
            {"granularity": "minute"},
            choice("granularity", "hour, day, week, month, year", "minute"),
        ),
        ({"split": "temporal"}, choice("split", "random, chronological", "temporal")),
        ({"delimiter": ",,"}, message("options.delimiter", value=",,")),
        ({"delimiter": "§"}, message("options.delimiter", value="§")),
        ({"delimiter": ""}, message("options.delimiter", value="")),
        ({"header": False, "time": "3"}, message("options.number", value="subject")),
        (
            {"object": "subject"},
            message("options.four_columns", columns=("subject", "relation", "subject", "time")),
        ),
        (
            {"time_format": "%Q"},
            message("time_parsing.directive", time_format="%Q", directive="%Q"),
        ),
        (
            {"time_format": "integer", "granularity": "day"},
            message("time_grid.for_dates", granularity="day"),
        ),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ImportOptions(**options)  # type: ignore[arg-type]
    assert str(caught.value) == expected


def test_a_granularity_with_integers_in_the_file(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("a", "r", "b", "17")])
    with raises(ConfigError, "time_grid.for_dates", granularity="week"):
        read(path, granularity="week")


def fields(line: int, found: int) -> Callable[..., str]:
    return partial(message, "csv_reader.wrong_field_count", line=line, expected=5, found=found)


def line(number: int, name: str, **values: object) -> Callable[..., str]:
    return partial(message, "table_reader.line", line=number, problem=message(name, **values))


def row(number: int, name: str, **values: object) -> Callable[..., str]:
    return partial(message, "table_reader.row", row=number, problem=message(name, **values))


GOOD = b"subject,relation,object,time,note\n" + b"a,r,b,2014-01-01,x\n" * 3


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (GOOD + b"a,r,b,2014-01-01\n", fields(5, 4)),
        (GOOD + b"\n\na,r,b,2014-01-01,x,y\n", fields(7, 6)),
        (GOOD + b"a,r\rb,2014-01-01,x,y\n", fields(5, 2)),
        (GOOD + b"  \n", fields(5, 1)),
        (GOOD + b"a,,b,2014-01-01\n", fields(5, 4)),
        (GOOD + b"a,,b,2014-01-01,x\na,r,b\n", line(5, "table_reader.empty", column="relation")),
        (GOOD + b"a,r,b\na,,b,2014-01-01,x\n", fields(5, 3)),
        (GOOD + b"a,r,,,x\n", line(5, "table_reader.empty", column="object")),
        (GOOD + b"a,r,b,,x\n", line(5, "time_grid.empty")),
        (GOOD + b"a,r,b,nan,x\n", line(5, "time_grid.missing", value="nan")),
        (GOOD + b"a,r,b,17,x\n", line(5, "time_grid.integer_among_dates", value="17")),
        (
            GOOD + b"a,r,b,01/02/2014,x\n",
            partial(
                message,
                "row_checks.unclear",
                line=5,
                problem=message("date_formats.unclear", value="01/02/2014"),
            ),
        ),
        (
            GOOD + b"a,r,\xc3\xa9,2014-01-01,x\na,r,Curr\xe9,2014-01-01,x\n",
            partial(message, "csv_reader.not_utf8", line=6, byte="0xe9", encoding="UTF-8"),
        ),
        (
            GOOD + b'a,r,b,2014-01-01,"x\na,r,b,2014-01-01,x\n',
            partial(message, "csv_reader.open_quote", line=5),
        ),
        (GOOD + b'a,"r,b,2014-01-01,x\n', partial(message, "csv_reader.open_quote", line=5)),
        (
            GOOD + b'a,r,b,2014-01-01,"x\n' + b"a,r,b,2014-01-01,x\n" * 99_999,
            partial(
                message,
                "csv_reader.csv_error",
                line=5,
                reason="field larger than field limit (131072)",
            ),
        ),
        (b"", partial(message, "csv_reader.empty")),
        (b"\n\n", partial(message, "csv_reader.empty")),
        (b"subject,relation,object,time\n", partial(message, "csv_reader.no_rows")),
        (b"subject,relation,object,time", partial(message, "csv_reader.no_rows")),
        (
            b"\nsubj\xc3\xa9ct,r\xffelation,object,time\n",
            partial(message, "csv_reader.header_not_utf8", line=2, byte="0xff", encoding="UTF-8"),
        ),
        (b"Subject,relation,object,time\n", partial(message, "csv_reader.no_rows")),
        (
            b"Subject,relation,object,time\na,r,b,1\n",
            partial(
                message,
                "csv_reader.misspelt_column",
                column="subject",
                columns="'Subject', 'relation', 'object', 'time'",
                names="'Subject' or 'object'",
            ),
        ),
        (
            b"subject,object,relation,time,object\na,b,r,1,c\n",
            partial(message, "csv_reader.repeated_column", count=2, column="object"),
        ),
        (
            b"subject,relation,object,time\na,r,b,20140101\na,r,b,20140102\n",
            partial(
                message,
                "time_grid.look_like_dates",
                first=20140101,
                last=20140102,
                time_format="%Y%m%d",
            ),
        ),
        (
            b"subject,relation,object,time\na,r,b,1\na,r,b,2000000\n",
            partial(
                message, "time_grid.too_long_integers", first=1, last=2000000, count="2,000,000"
            ),
        ),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_invalid_text_is_refused(
    tmp_path: Path, content: bytes, expected: Callable[..., str], packed: bool
) -> None:
    path = tmp_path / ("events.csv.gz" if packed else "events.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    # Messages about the whole grid do not name the file themselves.
    assert error_of(path).removeprefix(f"{path}: ") == expected(path=path).removeprefix(f"{path}: ")


def test_bytes_that_are_not_used_may_be_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(GOOD + b"a,r,c,2014-01-02,caf\xe9\n")
    assert read(path).graph.entities == ("a", "b", "c")
    path.write_bytes(GOOD + b"a,r,c,2014-01-02,caf\xe9\na,r,c,never,x\n")
    assert error_of(path) == line(6, "time_grid.neither", value="never")(path=path)


def test_a_single_quotation_mark_inside_a_field_is_text(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(
        GOOD + b'a,r,5" pipe,2014-01-02,x\na,r,d,2014-01-03,6" pipe\na,r,7" pipe,2014-01-04,x\n'
    )
    assert read(path).graph.entities == ("a", "b", '5" pipe', "d", '7" pipe')


def test_a_fault_beyond_the_first_block_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(
        GOOD + b"a,r,b,2014-01-01,x\n" * 120_000 + b"a,r,b,2014-01-01,x,y\n" + b"a,r,b,x,x\n"
    )
    assert path.stat().st_size > 2 << 20
    assert error_of(path) == fields(120005, 6)(path=path)


def test_times_that_do_not_match_the_format(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path / "a.csv", [("a", "r", "b", "31/01/2014"), ("a", "r", "b", "2014-01-31")]
    )
    for number, time, time_format in ((3, "2014-01-31", "%d/%m/%Y"), (2, "31/01/2014", "integer")):
        fault = line(number, "time_grid.no_match", value=time, time_format=time_format)
        assert error_of(path, time_format=time_format) == fault(path=path)


def test_a_missing_column_by_number(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("a", "r", "b", "1")], header=None)
    columns = "'0', '1', '2', '3'"
    assert error_of(path, header=False, subject="0", relation="1", object="2", time="4") == message(
        "csv_reader.no_column", path=path, column="4", columns=columns
    )


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    good = write_csv(tmp_path / "good.csv", [("a", "r", "b", "1")])
    none, inner = tmp_path / "none.csv", good / "inner.csv"
    assert error_of([good, none]) == message("sources.no_file", path=none)
    assert error_of(tmp_path) == message("sources.folder", path=tmp_path)
    assert error_of(inner) == message("sources.unreadable", path=inner, reason="Not a directory")
    assert error_of([]) == message("importer.no_files")
    reason = "Permission denied"
    with patch.object(Path, "open", side_effect=PermissionError(13, reason)):
        assert error_of(good) == message("sources.unreadable", path=good, reason=reason)


@pytest.mark.parametrize("name", ["events.xlsx", "events", "events.doc.gz", "events.parquet.gz"])
def test_unknown_suffixes(tmp_path: Path, name: str) -> None:
    path = write_csv(tmp_path / name, [("a", "r", "b", "1")])
    suffix = Path(name.removesuffix(".gz")).suffix
    assert error_of(path) == message("csv_reader.suffix", path=path, suffix=suffix)


@pytest.mark.parametrize("keep", [5, 200, 60_000])
def test_damaged_gzip(tmp_path: Path, keep: int) -> None:
    names = [
        f"{number:x}" for number in np.random.default_rng(0).integers(0, 1 << 60, 20_000).tolist()
    ]
    path = write_csv(tmp_path / "a.csv.gz", [(name, "r", "o", "1") for name in names])
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    reason = "Compressed file ended before the end-of-stream marker was reached"
    assert error_of(path) == message("sources.incomplete", path=path, reason=reason)
    path.write_bytes(whole[:keep] + bytes(64) + whole[keep + 64 :])
    assert error_of(path).startswith(message("sources.unreadable", path=path, reason=""))
    path.write_bytes(b"subject,relation,object,time\na,r,b,1\n")
    reason = "Not a gzipped file (b'su')"
    assert error_of(path) == message("sources.incomplete", path=path, reason=reason)


def test_damaged_parquet(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "a.parquet",
        subject=["a"] * 99,
        relation=["r"] * 99,
        object=["b"] * 99,
        time=[1] * 99,
    )
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    magic = message(
        "sources.unreadable", path=path, reason="Parquet magic bytes not found in footer."
    )
    assert error_of(path).startswith(magic)
    path.write_bytes(whole[:4] + bytes(60) + whole[64:])
    assert error_of(path).startswith(message("sources.unreadable", path=path, reason=""))
    path.write_bytes(b"")
    reason = "Parquet file size is 0 bytes"
    assert error_of(path) == message("sources.incomplete", path=path, reason=reason)


NOT_UTF8 = partial(message, "table_reader.not_utf8", first=2, last=2)


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("subject", pa.array(["a", None]), row(2, "table_reader.empty", column="subject")),
        (
            "relation",
            pa.array([1.5, float("nan")]),
            row(2, "table_reader.empty", column="relation"),
        ),
        (
            "object",
            pa.array(["a", "b\nc"]),
            row(2, "table_reader.line_break", column="object", value="b\nc"),
        ),
        (
            "object",
            pa.array(["b\r", "c"]),
            row(1, "table_reader.line_break", column="object", value="b\r"),
        ),
        ("time", pa.array([1, None]), row(2, "time_grid.empty")),
        ("time", pa.array([1, float("nan")]), row(2, "time_grid.missing", value="nan")),
        ("time", pa.array([1, 2.5]), row(2, "time_grid.neither", value="2.5")),
        ("time", pa.array([date(2014, 1, 1), None]), row(2, "time_grid.empty")),
        (
            "time",
            pa.array(["2014-01-01", "17"]),
            row(2, "time_grid.integer_among_dates", value="17"),
        ),
        ("time", pa.array([True, False]), row(1, "time_grid.neither", value="true")),
        (
            "subject",
            pa.array([["a"], ["b"]]),
            partial(
                message, "table_reader.column_type", column="subject", type="list<element: string>"
            ),
        ),
        ("subject", pa.array([b"a", b"caf\xe9"]), NOT_UTF8),
        ("subject", pa.array([b"a", b"caf\xe9"]).view(pa.string()), NOT_UTF8),
        ("time", pa.array([b"1", b"caf\xe9"]).view(pa.string()), NOT_UTF8),
        (
            "when",
            pa.array([1, 2]),
            partial(
                message,
                "csv_reader.no_column",
                column="time",
                columns="'subject', 'relation', 'object', 'when'",
            ),
        ),
    ],
)
def test_invalid_parquet_is_refused(
    tmp_path: Path, column: str, values: pa.Array, expected: Callable[..., str]
) -> None:
    columns = {
        "subject": ["a", "b"],
        "relation": ["r", "s"],
        "object": ["b", "a"],
        "time": [1, 2],
        column: values,
    }
    if column == "when":
        del columns["time"]
    path = write_parquet(tmp_path / "a.parquet", **columns)
    assert error_of(path) == expected(path=path)


def test_rows_of_parquet_count_over_batches(tmp_path: Path) -> None:
    names = [f"e{number}" for number in range(5000)]
    names[4321] = " "
    path = write_parquet(
        tmp_path / "a.parquet",
        subject=names,
        relation=names[:1] * 5000,
        object=names,
        time=[1] * 5000,
    )
    assert error_of(path) == row(4322, "table_reader.empty", column="subject")(path=path)


def test_parquet_without_rows(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "a.parquet", **{column: pa.array([], pa.string()) for column in HEADER}
    )
    assert error_of(path) == message("table_reader.no_rows", path=path)


def test_dates_in_one_file_and_integers_in_another(tmp_path: Path) -> None:
    first = write_csv(tmp_path / "a.csv", [("a", "r", "b", "17")])
    second = write_csv(tmp_path / "b.csv", [("a", "r", "b", "2014-01-01")])
    third = write_parquet(
        tmp_path / "c.parquet", subject=["a"], relation=["r"], object=["b"], time=[date(2014, 1, 1)]
    )
    fault = {"name": "time_grid.date_among_integers", "value": "2014-01-01"}
    assert error_of([first, second]) == line(2, **fault)(path=second)
    assert error_of([first, third]) == row(1, **fault)(path=third)


def test_the_error_about_a_long_grid_names_all_files(tmp_path: Path) -> None:
    first = write_csv(tmp_path / "a.csv", [("a", "r", "b", "1")])
    second = write_csv(tmp_path / "b.csv", [("a", "r", "b", "2000000")])
    grid = message("time_grid.too_long_integers", first=1, last=2000000, count="2,000,000")
    assert error_of([first, second]) == f"{first}, {second}: {grid}"
