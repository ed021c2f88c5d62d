"""Tables of dated events become the dataset that a slow reading of them makes, and faults are named where they are."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
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

from tempograph.data.graph import TemporalGraph
from tempograph.data.importers import csv_reader as reading
from tempograph.data.importers.importer import ImportResult, import_table
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
    """What an import should give: names in order, labels of the whole grid, and the distinct facts by name."""

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
    for subject, relation, object_, time in rows:
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
    return import_table([path], ImportOptions(**options), "events")  # type: ignore[arg-type]


def complaint(paths: Path | list[Path], **options: object) -> str:
    """The one line with which an import is refused."""
    with pytest.raises(DataError) as caught:
        import_table(
            paths if isinstance(paths, list) else [paths],
            ImportOptions(**options),  # type: ignore[arg-type]
            "events",
        )
    message = str(caught.value)
    assert "\n" not in message
    return message


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
    """Write the rows with a column of notes, and tell on which line each of them begins."""
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


@settings(deadline=None, max_examples=150)
@given(tables(), STYLES, st.sampled_from([150, 400, 1 << 20]))
def test_text_imports_as_a_slow_reading_does(
    table: tuple[list[Row], Granularity | None], style: Style, block: int
) -> None:
    rows, granularity = table
    with TemporaryDirectory() as folder, patch.object(reading, "_BLOCK", block):
        path, _ = write_styled(Path(folder), rows, style)
        assert_same(read(path, granularity=granularity), slow_import(rows, granularity), len(rows))


@settings(deadline=None, max_examples=60)
@given(tables(), st.integers(1, 5))
def test_parquet_imports_as_a_slow_reading_does(
    table: tuple[list[Row], Granularity | None], group: int
) -> None:
    rows, granularity = table
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        columns = dict(zip(HEADER, map(list, zip(*rows, strict=True)), strict=True))
        pa.parquet.write_table(pa.table(columns), path, row_group_size=group)
        assert_same(read(path, granularity=granularity), slow_import(rows, granularity), len(rows))


EVENT_FAULTS = [
    ((0, ""), "the subject is empty; fill it in or remove the row"),
    ((1, " "), "the relation is empty; fill it in or remove the row"),
    ((2, "a\nb"), "the object 'a\\nb' contains a line break; a name must be one line"),
    ((3, "NaN"), "the time is 'NaN'; fill it in or remove the row"),
    ((3, "soon"), "the time 'soon' is neither an ISO date"),
    ((3, "2014-02-30"), "the time '2014-02-30' is neither an ISO date"),
]


@settings(deadline=None, max_examples=150)
@given(
    st.integers(2, 40),
    st.lists(st.integers(1, 39), min_size=1, max_size=3),
    st.sampled_from(EVENT_FAULTS),
    STYLES,
    st.data(),
)
def test_the_line_of_the_first_fault(
    count: int,
    faulty: list[int],
    fault: tuple[tuple[int, str], str],
    style: Style,
    data: st.DataObject,
) -> None:
    (column, value), message = fault
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
        assert f"{path}:{lines[min(faulty)]}: {message}" in complaint(path)


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


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.sampled_from([None, None, *BAD]), min_size=1, max_size=60),
    st.sampled_from([200, 1 << 20]),
    st.sampled_from([3, 10_000]),
)
def test_bad_rows_are_skipped_and_counted(
    kinds: list[tuple[str, str] | None], block: int, chunk: int
) -> None:
    """What is left is what an import of the good rows alone gives; each reason has its count and its first line."""
    good = [f"a{number % 7},r,b,2014-01-{number % 28 + 1:02},x" for number in range(len(kinds) + 1)]
    lines, kept, reasons, at = ["subject,relation,object,time,note"], [], {}, 2
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
        imported = read(path, skip_bad=True)
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
        f"no usable subject: 1 row, at {path}:4322",
        f"no readable time: 2 rows, the first at {path}:8",
    ]
    assert imported.rows == 5000 and imported.duplicates == 4997 - 9


def test_a_bad_first_row_does_not_say_what_times_are(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path / "a.csv", [("a", "r", "b", "n/a"), ("a", "r", "b", "17"), ("a", "r", "b", "18")]
    )
    assert read(path, skip_bad=True).graph.times == ("17", "18")


def test_nothing_but_bad_rows_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("a", "r", "b", "never"), ("a", "", "b", "17")])
    assert complaint(path, skip_bad=True) == (
        f"{path}: none of 2 rows is an event; no usable relation: 1 row, at {path}:3; "
        f"no readable time: 1 row, at {path}:2"
    )


def test_a_time_far_from_all_others_is_asked_about(tmp_path: Path) -> None:
    rows = [("a", "r", "b", f"2023-01-{day:02}") for day in range(1, 29)]
    path = write_csv(tmp_path / "a.csv", [*rows, ("a", "r", "b", "1023-01-01")])
    (note,) = read(path).notes(guessed=True)
    assert note == (
        "only 29 of the 365,271 steps from 1023-01-01 to 2023-01-28 have a fact; is one of these two a typo?"
    )
    assert not read(write_csv(path, [*rows, ("a", "r", "b", "2022-01-01")])).notes(guessed=True)


def test_all_formats_are_one(tmp_path: Path) -> None:
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


def test_several_files_are_one_dataset(tmp_path: Path) -> None:
    first = write_csv(tmp_path / "a.csv", [("a", "r", "b", "1"), ("a", "r", "b", "2")])
    second = write_csv(
        tmp_path / "b.tsv",
        [("5", "c", "a", "s"), ("2", "a", "b", "r")],
        ("time", "subject", "object", "relation"),
    )
    imported = import_table([first, second], ImportOptions(), "both")
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
def test_progress_tells_of_every_fiftieth(tmp_path: Path, suffix: str, faulty: bool) -> None:
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
        import_table(
            [path, path], options, "events", lambda done, total: calls.append((done, total))
        )
    total = 2 * path.stat().st_size
    assert {of for _, of in calls} == {total}
    done = [0, *(bytes_done for bytes_done, _ in calls)]
    assert done[-1] == total
    steps = np.diff(done)
    assert (steps >= 0).all()
    # A read of Python's own buffer may take a little more of a packed file than the block asked for.
    assert steps.max() <= total / 50 + (1 << 17)


def test_progress_comes_to_an_end_that_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("subject,relation,object,time\na,r,b,1\n" + "\n" * 5000)
    calls: list[tuple[int, int]] = []
    with patch.object(reading, "_BLOCK", 256):
        import_table(
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


@settings(deadline=None, max_examples=60)
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


@settings(deadline=None, max_examples=40)
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


@settings(deadline=None, max_examples=60)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"valid_share": -0.1},
            "valid_share and test_share must be at least 0 and together below 1, found -0.1 and 0.1",
        ),
        ({"valid_share": 0.5, "test_share": 0.5}, "together below 1, found 0.5 and 0.5"),
        ({"test_share": float("nan")}, "together below 1, found 0.1 and nan"),
        ({"seed": -1}, "seed must be at least 0, found -1"),
        (
            {"granularity": "minute"},
            "granularity must be one of hour, day, week, month, year; found 'minute'",
        ),
        ({"split": "temporal"}, "split must be one of random, chronological; found 'temporal'"),
        ({"delimiter": ",,"}, "the delimiter must be one ASCII character such as ',', found ',,'"),
        ({"delimiter": "§"}, "the delimiter must be one ASCII character such as ',', found '§'"),
        ({"delimiter": ""}, "the delimiter must be one ASCII character such as ',', found ''"),
        (
            {"header": False},
            "without a header, columns are given by number from 0, found 'subject'",
        ),
        ({"object": "subject"}, "subject, relation, object and time must be four columns"),
        ({"time_format": "%Q"}, "the time format '%Q' has '%Q'; the directives are"),
        (
            {"time_format": "integer", "granularity": "day"},
            "granularity 'day' is for dates, but the times are integers",
        ),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ImportOptions(**options)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_granularity_with_integers_in_the_file(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("a", "r", "b", "17")])
    with pytest.raises(
        ConfigError, match="granularity 'week' is for dates, but the times are integers"
    ):
        read(path, granularity="week")


GOOD = b"subject,relation,object,time,note\n" + b"a,r,b,2014-01-01,x\n" * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD + b"a,r,b,2014-01-01\n", ":5: expected 5 fields, found 4"),
        (GOOD + b"\n\na,r,b,2014-01-01,x,y\n", ":7: expected 5 fields, found 6"),
        (GOOD + b"a,r\rb,2014-01-01,x,y\n", ":5: expected 5 fields, found 2"),
        (GOOD + b"  \n", ":5: expected 5 fields, found 1"),
        (GOOD + b"a,,b,2014-01-01\n", ":5: expected 5 fields, found 4"),
        (
            GOOD + b"a,,b,2014-01-01,x\na,r,b\n",
            ":5: the relation is empty; fill it in or remove the row",
        ),
        (GOOD + b"a,r,b\na,,b,2014-01-01,x\n", ":5: expected 5 fields, found 3"),
        (GOOD + b"a,r,,,x\n", ":5: the object is empty; fill it in or remove the row"),
        (GOOD + b"a,r,b,,x\n", ":5: the time is empty; fill it in or remove the row"),
        (GOOD + b"a,r,b,nan,x\n", ":5: the time is 'nan'; fill it in or remove the row"),
        (
            GOOD + b"a,r,b,17,x\n",
            ":5: the time '17' is an integer, but those before it are dates; write all",
        ),
        (
            GOOD + b"a,r,b,01/02/2014,x\n",
            ":5: the time '01/02/2014' is neither an ISO date such as 2014-01-31T05:00",
        ),
        (
            GOOD + b"a,r,Curr\xe9,2014-01-01,x\n",
            ":5: byte 0xe9 is not UTF-8; save the file as UTF-8",
        ),
        (
            GOOD + b'a,r,b,2014-01-01,"x\na,r,b,2014-01-01,x\n',
            ":5: a quotation mark opened in this row is never closed",
        ),
        (
            GOOD + b'a,"r,b,2014-01-01,x\n',
            ":5: a quotation mark opened in this row is never closed",
        ),
        (
            GOOD + b'a,r,b,2014-01-01,"x\n' + b"a,r,b,2014-01-01,x\n" * 99_999,
            ":5: field larger than field limit (131072); is a quotation mark left open?",
        ),
        (b"", ": the file is empty, so there is nothing to import"),
        (b"\n\n", ": the file is empty, so there is nothing to import"),
        (
            b"subject,relation,object,time\n",
            ": the file has no rows, so there is nothing to import",
        ),
        (b"subject,relation,object,time", ": the file has no rows, so there is nothing to import"),
        (
            b"\nsubject,r\xffelation,object,time\n",
            ":2: byte 0xff is not UTF-8; save the file as UTF-8",
        ),
        (
            b"Subject,relation,object,time\n",
            ": the file has no rows, so there is nothing to import",
        ),
        (
            b"Subject,relation,object,time\na,r,b,1\n",
            ": there is no column 'subject' among 'Subject', 'relation', 'object', 'time'; did you mean 'Subject' or",
        ),
        (
            b"subject,object,relation,time,object\na,b,r,1,c\n",
            ": 2 columns are named 'object'; rename all but one",
        ),
        (
            b"subject,relation,object,time\na,r,b,20140101\na,r,b,20140102\n",
            ": the times, from 20140101 to 20140102, look like dates: pass the time format '%Y%m%d'",
        ),
        (
            b"subject,relation,object,time\na,r,b,1\na,r,b,2000000\n",
            ": the times run from 1 to 2000000, which is 2,000,000 steps and more than 1,000,000;",
        ),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_text_that_is_refused(tmp_path: Path, content: bytes, message: str, packed: bool) -> None:
    path = tmp_path / ("events.csv.gz" if packed else "events.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert complaint(path).startswith(f"{path}{message}")


def test_bytes_that_are_not_used_may_be_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(GOOD + b"a,r,c,2014-01-02,caf\xe9\n")
    assert read(path).graph.entities == ("a", "b", "c")
    path.write_bytes(GOOD + b"a,r,c,2014-01-02,caf\xe9\na,r,c,never,x\n")
    assert f"{path}:6: the time 'never' is neither" in complaint(path)


def test_a_single_quotation_mark_inside_a_field_is_text(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(
        GOOD + b'a,r,5" pipe,2014-01-02,x\na,r,d,2014-01-03,6" pipe\na,r,7" pipe,2014-01-04,x\n'
    )
    assert read(path).graph.entities == ("a", "b", '5" pipe', "d", '7" pipe')


def test_the_line_of_a_fault_beyond_the_first_block(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(
        GOOD + b"a,r,b,2014-01-01,x\n" * 120_000 + b"a,r,b,2014-01-01,x,y\n" + b"a,r,b,x,x\n"
    )
    assert path.stat().st_size > 2 << 20
    assert (
        complaint(path) == f"{path}:120005: expected 5 fields, found 6; --skip-bad skips such rows"
    )


def test_times_that_do_not_match_the_format(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path / "a.csv", [("a", "r", "b", "31/01/2014"), ("a", "r", "b", "2014-01-31")]
    )
    assert (
        f"{path}:3: the time '2014-01-31' does not match the time format '%d/%m/%Y'"
        in complaint(path, time_format="%d/%m/%Y")
    )
    assert f"{path}:2: the time '31/01/2014' does not match the time format 'integer'" in complaint(
        path, time_format="integer"
    )


def test_a_missing_column_by_number(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("a", "r", "b", "1")], header=None)
    assert f"{path}: there is no column '4' among '0', '1', '2', '3'" in complaint(
        path, header=False, subject="0", relation="1", object="2", time="4"
    )


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    good = write_csv(tmp_path / "good.csv", [("a", "r", "b", "1")])
    assert complaint([good, tmp_path / "none.csv"]) == f"{tmp_path / 'none.csv'}: no such file"
    assert complaint(tmp_path) == f"{tmp_path}: is a folder; name the files in it"
    assert complaint(good / "inner.csv") == f"{good / 'inner.csv'}: cannot be read: Not a directory"
    assert complaint([]) == "there is no file to import; name at least one"
    with patch.object(Path, "open", side_effect=PermissionError(13, "Permission denied")):
        assert complaint(good) == f"{good}: cannot be read: Permission denied"


@pytest.mark.parametrize("name", ["events.xlsx", "events", "events.txt.gz", "events.parquet.gz"])
def test_unknown_suffixes(tmp_path: Path, name: str) -> None:
    path = write_csv(tmp_path / name, [("a", "r", "b", "1")])
    suffix = Path(name.removesuffix(".gz")).suffix
    assert (
        f"{path}: the suffix '{suffix}' is unknown; import .csv, .tsv, .csv.gz, .tsv.gz or .parquet"
        in complaint(path)
    )


@pytest.mark.parametrize("keep", [5, 200, 60_000])
def test_damaged_gzip(tmp_path: Path, keep: int) -> None:
    names = [
        f"{number:x}" for number in np.random.default_rng(0).integers(0, 1 << 60, 20_000).tolist()
    ]
    path = write_csv(tmp_path / "a.csv.gz", [(name, "r", "o", "1") for name in names])
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    assert f"{path}: cannot be read: Compressed file ended before" in complaint(path)
    path.write_bytes(whole[:keep] + bytes(64) + whole[keep + 64 :])
    assert f"{path}: cannot be read: " in complaint(path)
    path.write_bytes(b"subject,relation,object,time\na,r,b,1\n")
    assert f"{path}: cannot be read: Not a gzipped file" in complaint(path)


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
    assert f"{path}: cannot be read: Parquet magic bytes not found in footer." in complaint(path)
    path.write_bytes(whole[:4] + bytes(60) + whole[64:])
    assert f"{path}: cannot be read: " in complaint(path)
    path.write_bytes(b"")
    assert (
        f"{path}: cannot be read: Parquet file size is 0 bytes; is the file complete?"
        in complaint(path)
    )


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (
            "subject",
            pa.array(["a", None]),
            ": row 2: the subject is empty; fill it in or remove the row",
        ),
        (
            "relation",
            pa.array([1.5, float("nan")]),
            ": row 2: the relation is empty; fill it in or remove the row",
        ),
        (
            "object",
            pa.array(["a", "b\nc"]),
            ": row 2: the object 'b\\nc' contains a line break; a name must be one line",
        ),
        (
            "object",
            pa.array(["b\r", "c"]),
            ": row 1: the object 'b\\r' contains a line break; a name must be one line",
        ),
        ("time", pa.array([1, None]), ": row 2: the time is empty; fill it in or remove the row"),
        (
            "time",
            pa.array([1, float("nan")]),
            ": row 2: the time is 'nan'; fill it in or remove the row",
        ),
        ("time", pa.array([1, 2.5]), ": row 2: the time '2.5' is neither an ISO date"),
        (
            "time",
            pa.array([date(2014, 1, 1), None]),
            ": row 2: the time is empty; fill it in or remove the row",
        ),
        (
            "time",
            pa.array(["2014-01-01", "17"]),
            ": row 2: the time '17' is an integer, but those before it are dates",
        ),
        ("time", pa.array([True, False]), ": row 1: the time 'true' is neither an ISO date"),
        (
            "subject",
            pa.array([["a"], ["b"]]),
            ": column 'subject' must hold text, numbers or dates, not list<",
        ),
        ("subject", pa.array([b"a", b"caf\xe9"]), ": rows 2 to 2 hold text that is not UTF-8"),
        (
            "subject",
            pa.array([b"a", b"caf\xe9"]).view(pa.string()),
            ": rows 2 to 2 hold text that is not UTF-8",
        ),
        (
            "time",
            pa.array([b"1", b"caf\xe9"]).view(pa.string()),
            ": rows 2 to 2 hold text that is not UTF-8",
        ),
        (
            "when",
            pa.array([1, 2]),
            ": there is no column 'time' among 'subject', 'relation', 'object', 'when'",
        ),
    ],
)
def test_parquet_that_is_refused(
    tmp_path: Path, column: str, values: pa.Array, message: str
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
    assert complaint(path).startswith(f"{path}{message}")


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
    fault = "the subject is empty; fill it in or remove the row"
    assert complaint(path) == f"{path}: row 4322: {fault}; --skip-bad skips such rows"


def test_parquet_without_rows(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "a.parquet", **{column: pa.array([], pa.string()) for column in HEADER}
    )
    assert complaint(path) == f"{path}: the file has no rows, so there is nothing to import"


def test_dates_in_one_file_and_integers_in_another(tmp_path: Path) -> None:
    first = write_csv(tmp_path / "a.csv", [("a", "r", "b", "17")])
    second = write_csv(tmp_path / "b.csv", [("a", "r", "b", "2014-01-01")])
    third = write_parquet(
        tmp_path / "c.parquet", subject=["a"], relation=["r"], object=["b"], time=[date(2014, 1, 1)]
    )
    expected = "the time '2014-01-01' is a date, but those before it are integers; write all of them one way"
    expected += "; --skip-bad skips such rows"
    assert complaint([first, second]) == f"{second}:2: {expected}"
    assert complaint([first, third]) == f"{third}: row 1: {expected}"


def test_a_grid_that_is_too_long_names_all_files(tmp_path: Path) -> None:
    first = write_csv(tmp_path / "a.csv", [("a", "r", "b", "1")])
    second = write_csv(tmp_path / "b.csv", [("a", "r", "b", "2000000")])
    assert complaint([first, second]).startswith(
        f"{first}, {second}: the times run from 1 to 2000000"
    )
