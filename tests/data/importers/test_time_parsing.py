"""Times are read as Python's datetime reads them, and labels follow the calendar."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from messages import message, raises
from tempograph.data.importers.time_grid import MAX_STEPS, TimeGrid, step_labels, steps_since_1970
from tempograph.data.importers.time_parsing import format_pattern, parse_dates, parse_integers
from tempograph.errors import ConfigError, DataError
from tempograph.typing import Granularity

FORMATS = [
    "%d/%m/%Y",
    "%Y%m%d",
    "%y-%m-%d",
    "%d %b %Y",
    "%B %d, %Y",
    "%a %b %d %H:%M:%S %Y",
    "%A, %d.%m.%Y %H.%M",
    "%m/%d/%Y %I:%M:%S %p",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%d %H:%M:%S %z",
    "%Y (%%) [%m]",
    "%Y",
]


def parsed(text: str, time_format: str) -> datetime | None:
    """The slow twin: what Python makes of a time, in UTC and to the second."""
    try:
        moment = datetime.strptime(text, time_format)
    except ValueError:
        return None
    if moment.tzinfo:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.replace(microsecond=0)


def read_one(text: str, time_format: str) -> datetime | None:
    moments, readable = parse_dates(pa.array([text]), format_pattern(time_format))
    return moments[0].item() if readable[0] else None


def read_iso(text: str, granularity: Granularity = "hour") -> str:
    grid = TimeGrid(granularity=granularity)
    steps, readable = grid.steps(pa.array([text]))
    assert readable.all()
    return grid.label(steps)[1][0]


ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
# Two digits of a year stand for these hundred years.
MOMENTS = st.datetimes(datetime(1969, 1, 2), datetime(2068, 12, 30), timezones=ZONES)


@given(MOMENTS, st.sampled_from(FORMATS))
def test_formats_read_the_times_they_write(moment: datetime, time_format: str) -> None:
    text = moment.strftime(time_format)
    expected = parsed(text, time_format)
    assert expected is not None
    assert read_one(text, time_format) == expected


@given(
    st.text("0123456789", min_size=1, max_size=9),
    st.sampled_from(["%Y%m%d", "%d%m%Y", "%Y%m", "%y%m%d"]),
)
@example("20140229", "%Y%m%d")
@example("20120229", "%Y%m%d")
@example("201411", "%Y%m%d")
@example("00000101", "%Y%m%d")
@example("680101", "%y%m%d")
@example("690101", "%y%m%d")
def test_digits_are_read_or_refused_as_python_does(text: str, time_format: str) -> None:
    assert read_one(text, time_format) == parsed(text, time_format)


@given(
    st.tuples(*[st.integers(0, 40)] * 3), st.sampled_from(["{}/{}/20{:02}", "{:02}/{:02}/20{:02}"])
)
@example((31, 2, 14), "{}/{}/20{:02}")
@example((30, 4, 14), "{}/{}/20{:02}")
@example((31, 4, 14), "{}/{}/20{:02}")
def test_dates_must_exist_in_the_calendar(numbers: tuple[int, int, int], layout: str) -> None:
    text = layout.format(*numbers)
    assert read_one(text, "%d/%m/%Y") == parsed(text, "%d/%m/%Y")


@given(
    MOMENTS,
    st.sampled_from(["T", " "]),
    st.sampled_from(["hours", "minutes", "seconds", "milliseconds"]),
)
def test_iso_times_are_converted_to_utc(moment: datetime, separator: str, precision: str) -> None:
    text = moment.isoformat(separator, timespec=precision)
    in_utc = datetime.fromisoformat(text).astimezone(UTC)
    assert read_iso(text) == in_utc.strftime("%Y-%m-%dT%H")


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2014-01-01", "2014-01-01T00"),
        ("2014-01-01T05", "2014-01-01T05"),
        (" 2014-01-01 05:59:59.999999 ", "2014-01-01T05"),
        ("2014-01-01T05:06Z", "2014-01-01T05"),
        ("2014-01-01T00:30+01:00", "2013-12-31T23"),
        ("2014-01-01T00:30+01", "2013-12-31T23"),
        ("2014-12-31T23:45-0030", "2015-01-01T00"),
        ("1969-12-31T23:59:59", "1969-12-31T23"),
    ],
)
def test_iso_forms(text: str, hour: str) -> None:
    assert read_iso(text) == hour


@pytest.mark.parametrize(
    "text",
    [
        "2014-02-29",
        "2014-13-01",
        "2014-1-1",
        "2014-01",
        "2014-01-01T24:00",
        "2014-01-01T05:60",
        "0000-01-01",
        "x",
        "",
    ],
)
def test_other_texts_are_not_read_as_iso_times(text: str) -> None:
    assert not TimeGrid().steps(pa.array([text]))[1].any()


@given(st.integers(-(10**17), 10**17), st.sampled_from(["day", "month"]))
def test_seconds_since_1970(seconds: int, granularity: Granularity) -> None:
    seconds %= 4 * 10**9
    grid = TimeGrid("%s", granularity)
    steps, _ = grid.steps(pa.array([seconds]))
    expected = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    assert grid.label(steps)[1] == (expected if granularity == "day" else expected[:7],)


@pytest.mark.parametrize(
    ("time_format", "name", "values"),
    [
        ("%Y-%q", "time_parsing.directive", {"directive": "%q"}),
        ("%Y-%", "time_parsing.directive", {"directive": "%"}),
        ("%Y %m %Y", "time_parsing.twice", {}),
        ("%d/%m", "time_parsing.no_year", {}),
        ("", "time_parsing.no_year", {}),
    ],
)
def test_invalid_formats_are_refused(time_format: str, name: str, values: dict[str, str]) -> None:
    with raises(ConfigError, name, time_format=time_format, **values):
        TimeGrid(time_format)


@pytest.mark.parametrize(
    ("text", "value"),
    [("17", 17), ("-3", -3), ("007", 7), ("0", 0), ("999999999999999999", 10**18 - 1)],
)
def test_integers(text: str, value: int) -> None:
    numbers, readable = parse_integers(pa.array([text]))
    assert (numbers[0], readable[0]) == (value, True)


@pytest.mark.parametrize("text", ["1.5", "1e3", "9" * 19, "--1", "", "nan", "1_000", "٣", None])
def test_other_texts_are_not_read_as_integers(text: str | None) -> None:
    assert not parse_integers(pa.array([text], pa.string()))[1].any()


def test_labels_of_all_days_of_two_centuries() -> None:
    days = [date(1890, 1, 1) + timedelta(days=number) for number in range(80_000)]
    moments = np.array(days, "M8[D]")
    names = {
        "day": [day.isoformat() for day in days],
        "week": ["{}-W{:02}".format(*day.isocalendar()[:2]) for day in days],
        "month": [day.isoformat()[:7] for day in days],
        "year": [day.isoformat()[:4] for day in days],
    }
    for granularity, expected in names.items():
        steps = steps_since_1970(moments, granularity)
        grid = step_labels(int(steps[0]), int(steps[-1]), granularity)
        assert [grid[step - steps[0]] for step in steps] == expected
        assert list(grid) == list(dict.fromkeys(expected))


def test_hours_before_and_after_1970() -> None:
    assert step_labels(-2, 1, "hour") == (
        "1969-12-31T22",
        "1969-12-31T23",
        "1970-01-01T00",
        "1970-01-01T01",
    )


def test_integer_labels() -> None:
    assert step_labels(-1, 2, None) == ("-1", "0", "1", "2")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([date(1969, 12, 31), date(2014, 1, 6)], pa.date32()),
        pa.array([date(1969, 12, 31), date(2014, 1, 6)], pa.date64()),
        pa.array([datetime(1969, 12, 31, 23), datetime(2014, 1, 6, 1)], pa.timestamp("s")),
        pa.array(
            [datetime(1969, 12, 31, 23, tzinfo=UTC), datetime(2014, 1, 6, 1, tzinfo=UTC)]
        ).cast(pa.timestamp("ns", "Asia/Tokyo")),
        pa.array(["1969-12-31", "2014-01-06T01:00"]),
        pa.array(["1969-12-31", "2014-01-06"]).dictionary_encode(),
    ],
)
@pytest.mark.parametrize(
    ("granularity", "expected"),
    [
        (None, ["1969-12-31", "2014-01-06"]),
        ("week", ["1970-W01", "2014-W02"]),
        ("year", ["1969", "2014"]),
    ],
)
def test_columns_of_dates(
    column: pa.Array, granularity: Granularity | None, expected: list[str]
) -> None:
    grid = TimeGrid(granularity=granularity)
    steps, readable = grid.steps(column)
    ids, grid = grid.label(steps)
    assert readable.all()
    assert [grid[number] for number in ids] == expected


def test_missing_dates_cannot_be_read() -> None:
    readable = TimeGrid().steps(pa.array([date(2014, 1, 1), None]))[1]
    assert readable.tolist() == [True, False]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float64(), pa.string()])
def test_columns_of_numbers(kind: pa.DataType) -> None:
    grid = TimeGrid()
    steps, readable = grid.steps(pa.array([3, 5]).cast(kind))
    assert readable.all()
    ids, grid = grid.label(steps)
    assert ids.tolist() == [0, 2]
    assert grid == ("3", "4", "5")


def test_floats_that_are_no_integers_cannot_be_read() -> None:
    assert TimeGrid().steps(pa.array([1.0, float("nan"), 2.5, None, 1.4e9]))[1].tolist() == [
        True,
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("first", "value", "name"),
    [
        ("2014-01-01", "17", "time_grid.integer_among_dates"),
        ("17", "2014-01-01", "time_grid.date_among_integers"),
        ("2014-01-01", "1/2/x", "time_grid.neither"),
        ("17", "x", "time_grid.neither"),
        ("17", " ", "time_grid.empty"),
        ("17", None, "time_grid.empty"),
        ("2014-01-01", "NaN", "time_grid.missing"),
    ],
)
def test_an_invalid_time_is_explained(first: str, value: str | None, name: str) -> None:
    grid = TimeGrid()
    assert grid.steps(pa.array([first, value]))[1].tolist() == [True, False]
    assert grid.explain(value) == message(name, value=value)


def test_the_kind_of_the_first_time_holds_for_later_columns() -> None:
    grid = TimeGrid()
    grid.steps(pa.array(["17"]))
    assert not grid.steps(pa.array(["2014-01-01"]))[1].any()
    assert not grid.steps(pa.array([date(2014, 1, 1)]))[1].any()


@pytest.mark.parametrize(
    "make",
    [lambda: TimeGrid("integer", "day"), lambda: TimeGrid(None, "day").steps(pa.array(["17"]))],
)
def test_a_granularity_is_for_dates(make: Callable[[], object]) -> None:
    with raises(ConfigError, "time_grid.for_dates", granularity="day"):
        make()


def grid_of(grid: TimeGrid, *times: object) -> tuple[str, ...]:
    return grid.label(grid.steps(pa.array(times))[0])[1]


def test_the_longest_grid() -> None:
    assert len(grid_of(TimeGrid(), 1, MAX_STEPS)) == MAX_STEPS


@pytest.mark.parametrize(
    ("grid", "times", "name", "values"),
    [
        (TimeGrid(), (0, MAX_STEPS), "time_grid.too_long_integers", {"count": "1,000,001"}),
        (
            TimeGrid(),
            (1400000000, 1500000000),
            "time_grid.too_long_seconds",
            {"count": "100,000,001"},
        ),
        (
            TimeGrid(granularity="hour"),
            ("1800-01-01", "2014-01-01"),
            "time_grid.too_long_dates",
            {"first": "1800-01-01T00", "last": "2014-01-01T00", "count": "1,875,889"},
        ),
        (TimeGrid(), (20140101, 20141231), "time_grid.look_like_dates", {"time_format": "%Y%m%d"}),
        (TimeGrid(), (201401, 201412), "time_grid.look_like_dates", {"time_format": "%Y%m"}),
        (
            TimeGrid(),
            (2014010105, 2014123123),
            "time_grid.look_like_dates",
            {"time_format": "%Y%m%d%H"},
        ),
    ],
)
def test_implausible_grids_are_refused(
    grid: TimeGrid, times: tuple[object, object], name: str, values: dict[str, str]
) -> None:
    first, last = times
    with raises(DataError, name, **{"first": first, "last": last} | values):
        grid_of(grid, *times)


@pytest.mark.parametrize(
    ("grid", "times", "size"),
    [
        (TimeGrid("integer"), (20140101, 20140201), 101),
        (TimeGrid(), (20140101, 20140199), 99),
        (TimeGrid(), (18990101, 18990102), 2),
        (TimeGrid("%Y%m%d"), (20140101, 20140201), 32),
        (TimeGrid(), (2014, 2016), 3),
    ],
)
def test_plausible_grids_are_accepted(grid: TimeGrid, times: tuple[object, ...], size: int) -> None:
    assert len(grid_of(grid, *times)) == size
