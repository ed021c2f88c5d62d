"""Time labels as dates: years, months and days, as numbers and as tokens; days of the week."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

_DATE: Final = re.compile(r"(-?\d{4})(?:-W(\d{2})|-(\d{2})(?:-(\d{2}))?)?(?:[T ].*)?")

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def calendar(labels: Sequence[str]) -> Tensor:
    """Year, month and day of each label, [steps, 3].

    A missing part is 1. Week w starts 7 (w - 1) days after the first of January, in months of 30
    days with a last one of 35. Labels that are not dates get months of 30 steps and years of twelve
    months.
    """
    dates = [_DATE.fullmatch(label) for label in labels]
    if None in dates:
        return torch.tensor(
            [(step // 360, step // 30 % 12 + 1, step % 30 + 1) for step in range(len(labels))]
        )
    return torch.tensor([_year_month_day(*date.groups("1")) for date in dates if date is not None])


def date_tokens(labels: Sequence[str]) -> Tensor:
    """Tokens for the four digits of the year, the month and two digits of the day, [steps, 7]."""
    year, month, day = calendar(labels).unbind(1)
    digits = [year // 10**place % 10 for place in (3, 2, 1, 0)]
    return torch.stack([*digits, 10 + month - 1, 22 + day // 10, 22 + day % 10], dim=1)


def weekdays(labels: Sequence[str]) -> Tensor | None:
    """The day of the week of each label, 0 for Monday, [steps]; None if steps are not days."""
    days = [_DAY.fullmatch(label) for label in labels]
    if None in days:
        return None
    numbers = np.array(labels, dtype="M8[D]").astype(np.int64)
    # 1970 began on a Thursday.
    return torch.from_numpy((numbers + 3) % 7)


def years(labels: Sequence[str]) -> Tensor | None:
    """The year of each label, [steps]; None if labels are no dates.

    A bin such as 1926/1931 is of the year in which it begins.
    """
    dates = [_DATE.fullmatch(label.partition("/")[0]) for label in labels]
    if None in dates:
        return None
    return torch.tensor([int(date[1]) for date in dates if date is not None])


def _year_month_day(year: str, week: str, month: str, day: str) -> tuple[int, int, int]:
    passed = 7 * (int(week) - 1)
    months = min(11, passed // 30)
    return int(year), int(month) + months, int(day) + passed - 30 * months
