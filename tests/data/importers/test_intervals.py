"""Facts with a start and an end: imports equal a slow twin, and bad ones are counted."""

from __future__ import annotations

import calendar
import json
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempograph import ImportOptions, TemporalGraph, load_dataset
from tempograph.data.folder import read_folder, write_folder
from tempograph.data.importers.any_source import import_facts
from tempograph.data.importers.interval_grid import IntervalGrid
from tempograph.data.importers.time_grid import TimeFault
from tempograph.data.spans import OPEN, UNKNOWN
from tempograph.errors import ConfigError, DataError, QueryError
from tempograph.typing import Granularity

COLUMNS = ("subject", "relation", "object", "start", "end")
ALL_TRAIN = {"valid_share": 0, "test_share": 0}


def spans(graph: TemporalGraph) -> set[tuple[str, ...]]:
    """The facts by name, with the labels of their start and end, or of their time if events."""
    columns = COLUMNS if graph.has_intervals else (*COLUMNS[:3], "time")
    described = [graph.describe(fact) for fact in graph.all_facts]
    return {tuple(named[column] for column in columns) for named in described}


def read(*bounds: tuple[str | None, str | None], **options: object) -> TemporalGraph:
    """A graph of one fact for each start and end."""
    rows = [(f"e{number}", "r", "x", *each) for number, each in enumerate(bounds)]
    return load_dataset(rows, ImportOptions(**ALL_TRAIN, **options))  # type: ignore[arg-type]


def bounds_of(graph: TemporalGraph) -> list[tuple[str, str]]:
    """The start and end of each fact, in the order of the rows."""
    named = {fact[0]: fact for fact in spans(graph)}
    return [named[name][3:] for name in graph.entities if name in named]  # type: ignore[misc]


# A date as text, its first day and its last day: the slow twin of the parser.
def slow_days(year: int, month: int | None, day: int | None) -> tuple[date, date]:
    first = date(year, month or 1, day or 1)
    if day:
        return first, first
    last_month = month or 12
    return first, date(year, last_month, calendar.monthrange(year, last_month)[1])


@st.composite
def partial_dates(draw: st.DrawFn) -> tuple[str, date, date]:
    """A date written in some way, and the first and last day it stands for."""
    # Years of three and four digits, on a short axis.
    day = draw(st.dates(date(980, 1, 1), date(1020, 12, 31)))
    known = draw(st.sampled_from(["year", "month", "day"]))
    month_known, day_known = known != "year", known == "day"
    first, last = slow_days(
        day.year, day.month if month_known else None, day.day if day_known else None
    )
    year = f"{day.year:04d}"
    forms = {
        "year": [f"{year}-##-##", f"+{year}-00-00T00:00:00Z", f"{day.year:03d}-##-##"],
        "month": [
            f"{year}-{day.month:02d}",
            f"+{year}-{day.month:02d}-00T00:00:00Z",
            f"{year}-{day.month:02d}-##",
        ],
        "day": [day.isoformat(), f"+{day.isoformat()}T00:00:00Z"],
    }
    return draw(st.sampled_from(forms[known])), first, last


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(partial_dates(), partial_dates()), min_size=1, max_size=8),
    st.sampled_from(["day", "month", "year"]),
)
def test_a_fact_lasts_from_the_first_day_to_the_last(
    pairs: list[tuple[tuple[str, date, date], tuple[str, date, date]]], granularity: Granularity
) -> None:
    pairs = [(a, b) if a[1] <= b[2] else (b, a) for a, b in pairs]
    length = {"day": 10, "month": 7, "year": 4}[granularity]
    graph = read(*((a[0], b[0]) for a, b in pairs), granularity=granularity)
    expected = [(a[1].isoformat()[:length], b[2].isoformat()[:length]) for a, b in pairs]
    if all(start == end for start, end in expected):
        assert not graph.has_intervals
        expected = [bounds[:1] for bounds in expected]  # type: ignore[misc]
    assert bounds_of(graph) == expected
    flat = [label for bounds in expected for label in bounds]
    assert (graph.times[0], graph.times[-1]) == (min(flat), max(flat))


def test_an_end_is_the_last_step_of_its_date() -> None:
    graph = read(("1926", "1929"), ("1926-02-03", "1927-02"), granularity="day")
    assert bounds_of(graph) == [("1926-01-01", "1929-12-31"), ("1926-02-03", "1927-02-28")]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("1926", "", ("1926", OPEN)),
        ("1926", None, ("1926", OPEN)),
        ("1926", "..", ("1926", OPEN)),
        ("1926", "present", ("1926", OPEN)),
        ("1926", "9999-12-31", ("1926", OPEN)),
        ("1926", "31/12/9999", ("1926", OPEN)),
        ("1926", "9999-12-31 23:59:59", ("1926", OPEN)),
        ("1926", "####-##-##", ("1926", UNKNOWN)),
        ("1926", "unknown", ("1926", UNKNOWN)),
        ("1926", "http://www.wikidata.org/.well-known/genid/7c1", ("1926", UNKNOWN)),
        ("", "1926", (UNKNOWN, "1926")),
        ("..", "1926", (OPEN, "1926")),
        ("..", "..", (OPEN, OPEN)),
        ("####", "1926", (UNKNOWN, "1926")),
        ("360-##-##", "1926", ("0360", "1926")),
        ("-0044-03-15", "1926", ("-0044", "1926")),
        ("-44", "1926", ("-0044", "1926")),
        ("44 BC", "1926", ("-0044", "1926")),
        ("19##-##-##", "1926", ("1900", "1926")),
        ("May 1926", "3 June 1927", ("1926", "1927")),
        ("05/1926", "13/06/1927", ("1926", "1927")),
        ("1926/5", "1927.05", ("1926", "1927")),
        ("1926.0", "1927.0", ("1926", "1927")),
        ("1926-05-04T12:30:00+02:00", "1927", ("1926", "1927")),
    ],
)
def test_bounds_are_read(start: str | None, end: str | None, expected: tuple[str, str]) -> None:
    assert bounds_of(read((start, end), ("1700", "2000"), granularity="year"))[0] == expected


@pytest.mark.parametrize("meaning", ["open", "unknown"])
def test_what_empty_bounds_mean_is_a_choice_and_is_said(meaning: str) -> None:
    rows = [("a", "r", "b", "1926", None), ("a", "r", "c", None, "1929"), ("a", "r", "d", "1", "9")]
    options = ImportOptions(empty_start=meaning, empty_end=meaning, **ALL_TRAIN)  # type: ignore[arg-type]
    notes: list[str] = []
    imported, _ = import_facts(rows, options, "x", note=notes.append)
    shown = OPEN if meaning == "open" else UNKNOWN
    by_object = {fact[2]: fact[3:] for fact in spans(imported.graph)}
    assert by_object["b"] == ("1926", shown) and by_object["c"] == (shown, "1929")
    other = "unknown" if meaning == "open" else "open"
    says = f"1 empty end mean.*; ImportOptions(empty_end='{other}') says otherwise"
    start, rest = says.split(".*")
    assert any(note.startswith(f"note: {start}") and note.endswith(rest) for note in notes)


def test_open_bounds_reach_the_ends_of_the_axis() -> None:
    graph = read(
        ("1926", ".."), ("..", "1929"), ("####", "1930"), ("1920", "####"), ("1920", "1940")
    )
    rows = {graph.entities[fact[0]]: fact[3:].tolist() for fact in graph.train}
    assert graph.times == tuple(map(str, range(1920, 1941)))
    assert rows["e0"][:2] == [6, 20] and rows["e1"][:2] == [0, 9]
    assert rows["e2"][:2] == [10, 10] and rows["e3"][:2] == [0, 0]
    later = graph.with_later_times(("1941",))
    ends = {later.entities[fact[0]]: int(fact[4]) for fact in later.train}
    assert ends == {"e0": 21, "e1": 9, "e2": 10, "e3": 0, "e4": 20}


BAD = {
    "no readable start": [("soon", "1929"), ("1926-13-01", "1929"), ("31/02/1926", "1929")],
    "no readable end": [("1926", "never"), ("1926", "1926.5")],
    "neither start nor end": [("", ""), ("####", ".."), ("..", "####"), ("####", "####")],
    "start after end": [("1930", "1929"), ("1929-05-02", "1929-05-01")],
}


def test_bad_rows_are_counted_by_reason_with_examples(tmp_path: Path) -> None:
    good = [("1926", "1929"), ("1926-05", "1926"), ("1926", "1926-01"), ("", "1929"), ("1929", "")]
    rows = [*good, *(bounds for each in BAD.values() for bounds in each)]
    path = tmp_path / "facts.csv"
    lines = [f"e{number},r,x,{start},{end}" for number, (start, end) in enumerate(rows)]
    path.write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    options = ImportOptions(skip_bad=True, max_bad=100, **ALL_TRAIN)  # type: ignore[arg-type]
    imported, _ = import_facts(path, options, "x")
    assert {skip.reason: skip.rows for skip in imported.skipped} == {
        reason: len(each) for reason, each in BAD.items()
    }
    assert [len(skip.examples) for skip in imported.skipped] == [3, 2, 3, 2]
    assert str(imported.skipped[-1].examples[0]) == f"'1930 to 1929' at {path}:16"
    assert imported.account() == "16 rows = 5 facts + 0 duplicates + 11 bad"
    with pytest.raises(DataError, match="facts.csv:7: the time 'soon' is no date such as 1926"):
        import_facts(path, ImportOptions(), "x")
    for reason, text in (
        ("start after end", "is after the end"),
        ("neither start nor end", "known"),
    ):
        start, end = BAD[reason][0]
        with pytest.raises(DataError, match=text):
            read((start, end), ("1926", "1929"))


def make_rows(seed: int, count: int = 300) -> list[tuple[str, ...]]:
    """Facts between a few names with days, months, years, open and unknown bounds."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        s, r, o = (f"n{number}" for number in generator.integers(12, size=3))
        day = date(1990, 1, 1) + timedelta(int(generator.integers(4000)))
        end = day + timedelta(int(generator.integers(900)))
        texts = [day.isoformat(), end.isoformat()]
        choice = generator.integers(6)
        if choice == 1:
            texts[1] = ".."
        if choice == 2:
            texts[0] = "####-##-##"
        if choice == 3:
            texts = [texts[0][:4], texts[1][:4]]
        rows.append((s, f"r{r[-1]}", o, *texts))
    return list(dict.fromkeys(rows))


@pytest.mark.parametrize("seed", range(2))
def test_every_kind_of_table_gives_the_same_graph(tmp_path: Path, seed: int) -> None:
    rows = make_rows(seed)
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame.to_csv(tmp_path / "facts.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "facts.parquet")
    lines = (json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows)
    (tmp_path / "facts.jsonl").write_text("\n".join(lines))
    graph = load_dataset(rows)
    assert graph.has_intervals and len(graph.all_facts) == len(rows)
    others = [frame, *(tmp_path / f"facts.{kind}" for kind in ("csv", "parquet", "jsonl"))]
    assert all(load_dataset(other).same_as(graph) for other in others)
    write_folder(graph, tmp_path / "folder")
    assert read_folder(tmp_path / "folder").same_as(graph)


@pytest.mark.parametrize("seed", range(2))
def test_a_messy_file_equals_its_clean_twin(tmp_path: Path, seed: int) -> None:
    """Other ways to write dates, blanks, repeated rows and bad rows change nothing."""
    rows = make_rows(seed)
    generator = np.random.default_rng(seed)
    ways = {"..": [" .. ", "", "present"], "####-##-##": ["####", "unknown ", "?"]}
    bad = [bounds for each in BAD.values() for bounds in each]
    lines = []
    for number, (s, r, o, *bounds) in enumerate(rows):
        texts = []
        for text in bounds:
            other = list(ways.get(text, ()))
            if len(text) == 4 and text.isdigit():
                other = [f"{text}-##-##", f"+{text}-00-00T00:00:00Z"]
            elif text[:4].isdigit():
                day = date.fromisoformat(text)
                other = [day.strftime("%d %B %Y"), f"{text} 00:00:00", day.strftime("%Y/%m/%d")]
            texts.append(str(generator.choice([text, *other])))
        lines += [f" {s},{r},{o} ,{texts[0]},{texts[1]}"] * (1 + (number % 9 == 0))
        if number % 20 == 0:
            start, end = bad[number // 20 % len(bad)]
            lines.append(f"bad,bad,bad,{start},{end}")
    path = tmp_path / "messy.csv"
    path.write_text("\r\n".join([",".join(COLUMNS), *lines]) + "\r\n")
    options = ImportOptions(skip_bad=True, max_bad=0.5)
    imported, _ = import_facts(path, options, "x")
    assert imported.graph.same_as(load_dataset(rows))
    assert imported.duplicates == len(range(0, len(rows), 9))
    assert sum(skip.rows for skip in imported.skipped) == len(range(0, len(rows), 20))


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.tuples(*[st.sampled_from("abc")] * 3, st.integers(0, 6000)), min_size=1, max_size=20
    ),
    st.sampled_from(["integers", "days", "months"]),
)
def test_events_as_intervals_of_one_step_give_the_same_graph(
    rows: list[tuple[str, str, str, int]], kind: str
) -> None:
    first = np.datetime64("1999-12-30") if kind == "days" else np.datetime64("1999-12")
    texts = [str(step if kind == "integers" else first + step) for *_, step in rows]
    events = [(*row[:3], text) for row, text in zip(rows, texts, strict=True)]
    if kind == "months":
        events = [(*event[:3], f"{event[3]}-01") for event in events]
    options = ImportOptions(granularity="month" if kind == "months" else None)
    graph = load_dataset(events, options)
    again = load_dataset([(*event, event[3]) for event in events], options)
    if kind == "integers":
        # Numbers that look like years have labels of four digits.
        assert list(map(int, again.times)) == list(map(int, graph.times))
        again = replace(again, times=graph.times)
    assert again.same_as(graph) and not again.has_intervals


def test_steps_suit_the_dates_and_the_reason_is_said() -> None:
    def steps(*rows: tuple[str, str], **options: object) -> tuple[str, str]:
        table = [(f"e{number}", "r", "x", *row) for number, row in enumerate(rows)]
        settings = ImportOptions(**ALL_TRAIN, **options)  # type: ignore[arg-type]
        imported, _ = import_facts(table, settings, "x")
        return imported.graph.times[0], " ".join(imported.remarks)

    days = ("2001-02-03", "2001-04-05")
    assert steps(days)[0] == "2001-02-03" and "all dates are known to the day" in steps(days)[1]
    assert steps(("2001-02", "2001-04"))[0] == "2001-02"
    label, reason = steps(days, ("2001-##-##", "2003-##-##"), ("2001-##-##", "####"))
    assert label == "2001" and "steps are years: 60% of the dates" in reason
    label, reason = steps(("1950-01-01", "1990-01-01"))
    assert label == "1950-01" and "half of the facts last more than 1,000 days" in reason
    label, reason = steps(("1950-01-01", "1990-01-01"), granularity="day")
    assert label == "1950-01-01"
    assert "1 fact spans more than 2,000 days, the longest 14,611" in reason
    assert steps(("5", "17"))[0] == "5"
    with pytest.raises(DataError, match="look like dates: pass the time format '%Y%m%d'"):
        steps(("20140131", "20150131"))
    assert steps(("20140131", "20150131"), time_format="%Y%m%d")[0] == "2014-01-31"
    assert steps(("1/2014", "3/2014"), time_format="%m/%Y")[0] == "2014-01"
    with pytest.raises(DataError, match="'20140131' is a number, but others are dates"):
        steps(("2015-01-31", "20140131"))


def test_bins_have_about_equally_many_starts_and_ends() -> None:
    generator = np.random.default_rng(0)
    years = 2000 - generator.integers(0, 45, size=(400, 2)) ** 2
    years.sort(axis=1)
    rows = [(str(start), str(end)) for start, end in years]
    graph = read(*rows, bins=10)
    assert 8 <= len(graph.times) <= 10
    spans_of_bins = [label.split("/") for label in graph.times]
    firsts, lasts = ([int(each[end]) for each in spans_of_bins] for end in (0, -1))
    assert firsts[1:] == [last + 1 for last in lasts[:-1]]
    for (start, end), fact in zip(years, sorted(graph.train.tolist()), strict=True):
        assert firsts[fact[3]] <= start <= lasts[fact[3]]
        assert firsts[fact[4]] <= end <= lasts[fact[4]]
    for year in (firsts[0], firsts[3], lasts[3], lasts[-1]):
        step = graph.time_id(str(year))
        assert firsts[step] <= year <= lasts[step]
        assert graph.time_id(f"{year}-05-04") == step
    with pytest.raises(QueryError, match="'2050' is not on the time grid"):
        graph.time_id("2050")
    bins = zip(firsts, lasts, strict=True)
    counts = np.array([((first <= years) & (years <= last)).sum() for first, last in bins])
    assert counts.max() < 2.5 * counts.mean() and counts.sum() == years.size
    with pytest.raises(ConfigError, match="bins must be at least 1"):
        ImportOptions(bins=0)


def test_a_time_format_is_named_if_a_bound_does_not_match_it() -> None:
    for time_format in ("integer", "%Y"):
        with pytest.raises(DataError, match=f"'1926-05' does not match the .* '{time_format}'"):
            read(("1926-05", "1929"), time_format=time_format)


def test_splits_and_duplicates_of_intervals() -> None:
    rows = make_rows(3)
    imported, _ = import_facts([*rows, *rows[:7]], ImportOptions(split="chronological"), "x")
    graph = imported.graph
    assert imported.duplicates == 7 and len(graph.all_facts) == len(rows)
    assert graph.train[:, 3].max() < graph.valid[:, 3].min()
    assert graph.valid[:, 3].max() < graph.test[:, 3].min()
    own = load_dataset({"train": rows, "test": rows[:5]})
    assert (len(own.train), len(own.test)) == (len(rows) - 5, 5)


def test_a_fact_in_several_splits_is_shown_with_its_interval() -> None:
    rows = [("a", "r", "b", "1926", ""), ("a", "r", "c", "1926", "1929")]
    imported, _ = import_facts({"train": rows, "test": rows[:1]}, ImportOptions(), "x")
    assert "1 in train and test; the first is a, r, b, since 1926" in imported.remarks[0]


def test_a_time_and_a_start_do_not_go_together() -> None:
    problem = "facts have a time or a start and an end, found the time 'date' and "
    with pytest.raises(ConfigError, match=f"{problem}the start 'from' and the end 'to'; leave"):
        ImportOptions(time="date", start="from", end="to")
    with pytest.raises(ConfigError, match=f"{problem}the start 'from'; leave"):
        ImportOptions(time="date", start="from")
    with pytest.raises(ConfigError, match="must be five columns"):
        ImportOptions(start="date", end="date")
    with pytest.raises(ConfigError, match="bins are for facts with a start and an end"):
        load_dataset([("a", "r", "b", "1")], ImportOptions(bins=3))


def test_numbers_and_dates_in_columns_of_a_frame() -> None:
    """A year column with gaps is a column of floats in pandas."""
    frame = pd.DataFrame(
        {
            "subject": ["a", "b"],
            "relation": "r",
            "object": "c",
            "start": [1926, 1930],
            "end": [1929, np.nan],
        }
    )
    assert bounds_of(load_dataset(frame, ImportOptions(**ALL_TRAIN))) == [  # type: ignore[arg-type]
        ("1926", "1929"),
        ("1930", OPEN),
    ]
    frame["start"] = pd.to_datetime(["1926-05-04", "1930-01-01"])
    frame["end"] = pd.to_datetime(["1929-05-04", None])
    graph = load_dataset(frame, ImportOptions(granularity="day", **ALL_TRAIN))  # type: ignore[arg-type]
    assert bounds_of(graph) == [("1926-05-04", "1929-05-04"), ("1930-01-01", OPEN)]


def test_the_last_day_of_databases_is_open_in_columns_of_dates_too() -> None:
    rows = {"subject": ["a", "b"], "relation": ["r", "r"], "object": ["c", "c"]}
    starts = [date(1926, 5, 4), date(1930, 1, 1)]
    for ends in (
        pa.array([date(9999, 12, 31), date(1931, 1, 1)]),
        pa.array([datetime(9999, 12, 31, 23, 59, 59), datetime(1931, 1, 1)], pa.timestamp("us")),
    ):
        graph = load_dataset(
            pa.table({**rows, "start": starts, "end": ends}),
            ImportOptions(**ALL_TRAIN),  # type: ignore[arg-type]
        )
        assert bounds_of(graph) == [("1926-05-04", OPEN), ("1930-01-01", "1931-01-01")]


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize("granularity", ["hour", "day"])
def test_midnight_is_a_day_or_a_moment_whatever_the_batch(
    monkeypatch: pytest.MonkeyPatch, rows: int, granularity: Any
) -> None:
    """Whether the other ends have a time of day does not depend on how the rows are read."""
    read = IntervalGrid.read

    def in_batches(self: IntervalGrid, times: Any) -> Any:
        parts = [
            read(self, [column.slice(at, rows) for column in times])
            for at in range(0, len(times[0]), rows)
        ]
        found = np.concatenate([part for part, _ in parts])
        faults = [
            TimeFault(
                each[0].reason, np.concatenate([fault.rows for fault in each]), each[0].columns
            )
            for each in zip(*(faults for _, faults in parts), strict=True)
        ]
        return found, faults

    monkeypatch.setattr(IntervalGrid, "read", in_batches)
    names = {"subject": list("abc"), "relation": ["r"] * 3, "object": list("xyz")}
    starts = pa.array([datetime(2024, 1, 1), datetime(2024, 1, 2, 9), datetime(2024, 1, 3)])
    midnights = [datetime(2024, 1, 2), datetime(2024, 1, 2), datetime(2024, 1, 4)]
    options = ImportOptions(granularity=granularity, **ALL_TRAIN)  # type: ignore[arg-type]

    def ends_of(ends: list[datetime]) -> list[str]:
        table = pa.table({**names, "start": starts, "end": pa.array(ends)})
        return [end for _, end in bounds_of(load_dataset(table, options))]

    hour, last = ("T00", "T23") if granularity == "hour" else ("", "")
    assert ends_of(midnights) == [f"2024-01-{day}{last}" for day in ("02", "02", "04")]
    timed = [*midnights[:2], datetime(2024, 1, 4, 5)]
    late = "2024-01-04T05" if granularity == "hour" else "2024-01-04"
    # An end at midnight before its start is that day.
    assert ends_of(timed) == [f"2024-01-02{hour}", f"2024-01-02{last}", late]
