"""Labels of time steps as dates: by hand, against Python's calendar, and never out of order."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempograph.data.calendar import calendar, date_tokens, years
from tempograph.data.importers.time_grid import step_labels
from tempograph.typing import GRANULARITIES, Granularity


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("2014-03-09", (2014, 3, 9)),
        ("2014-12-31", (2014, 12, 31)),
        ("2014-03", (2014, 3, 1)),
        ("2014", (2014, 1, 1)),
        ("0987", (987, 1, 1)),
        ("2014-03-09T23", (2014, 3, 9)),
        ("2014-03-09T23:45:00Z", (2014, 3, 9)),
        ("2014-03-09 23:45", (2014, 3, 9)),
        # Weeks have seven days, from the first of January; months 30 days, the last one more.
        ("2014-W01", (2014, 1, 1)),
        ("2014-W05", (2014, 1, 29)),
        ("2014-W06", (2014, 2, 6)),
        ("2014-W48", (2014, 11, 30)),
        ("2014-W49", (2014, 12, 7)),
        ("2014-W52", (2014, 12, 28)),
        ("2015-W53", (2015, 12, 35)),
    ],
)
def test_a_label_by_hand(label: str, expected: tuple[int, int, int]) -> None:
    assert calendar([label]).tolist() == [list(expected)]


@given(st.dates(date(1, 1, 1), date(9999, 11, 1)))
def test_days_follow_the_calendar(first: date) -> None:
    days = [first + timedelta(step) for step in range(60)]
    assert calendar([str(day) for day in days]).tolist() == [
        [day.year, day.month, day.day] for day in days
    ]


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_dates_rise_with_the_steps(granularity: Granularity) -> None:
    # From 1997 on: weeks of years with 52 and with 53 of them.
    per_year = {"hour": 8766, "day": 365.25, "week": 52.18, "month": 12, "year": 1}[granularity]
    first = round(27 * per_year)
    found = [tuple(row) for row in calendar(step_labels(first, first + 1500, granularity)).tolist()]
    assert found == sorted(found) and found[0][0] in (1996, 1997)
    days = 1500 // 24 + 1 if granularity == "hour" else 1501
    assert abs(len(set(found)) - days) <= (granularity == "hour"), (
        "steps of a day or more have dates of their own"
    )


@pytest.mark.parametrize(
    "names", [[str(step) for step in range(400)], [f"day {step}" for step in range(400)]]
)
def test_labels_other_than_dates_get_an_artificial_calendar(names: list[str]) -> None:
    found = calendar(names).tolist()
    assert found[0] == [0, 1, 1] and found[29] == [0, 1, 30] and found[30] == [0, 2, 1]
    assert found[359] == [0, 12, 30] and found[360] == [1, 1, 1] and found[399] == [1, 2, 10]
    assert len({tuple(row) for row in found}) == 400


def test_one_label_that_is_no_date_makes_the_calendar_artificial() -> None:
    assert calendar(["2014-03-09", "spring", "2014-05-01"]).tolist() == [
        [0, 1, 1],
        [0, 1, 2],
        [0, 1, 3],
    ]
    # Integers that grow to four digits are no years.
    assert calendar(["999", "1000"]).tolist() == [[0, 1, 1], [0, 1, 2]]


def test_tokens_by_hand() -> None:
    # Digits of the year from 0 on, months from 10 on, digits of the day from 22 on.
    assert date_tokens(["2014-03-09", "1987-12-31"]).tolist() == [
        [2, 0, 1, 4, 12, 22, 31],
        [1, 9, 8, 7, 21, 25, 23],
    ]
    assert date_tokens(["x", "y"]).tolist() == [[0, 0, 0, 0, 10, 22, 23], [0, 0, 0, 0, 10, 22, 24]]


@given(st.dates())
def test_tokens_spell_the_date(day: date) -> None:
    (tokens,) = date_tokens([f"{day.year:04}-{day.month:02}-{day.day:02}"]).tolist()
    spelled = (
        "".join(map(str, tokens[:4])),
        f"{tokens[4] - 9:02}",
        "".join(str(token - 22) for token in tokens[5:]),
    )
    assert "-".join(spelled) == day.isoformat()


def test_years_of_dates_weeks_and_bins() -> None:
    labels = ["-0044-03", "0987", "1926/1931", "2014-W53", "2014-03-09T23", "2014-12/2015-02"]
    found = years(labels)
    assert found is not None and found.tolist() == [-44, 987, 1926, 2014, 2014, 2014]
    assert years(["2014-03-09", "spring"]) is None and years(["999", "1000"]) is None
