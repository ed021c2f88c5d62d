"""How messages name the options of an import: as on the command line, or as in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class OptionWords:
    """The names of options in messages; those in braces are filled in."""

    skip_bad: str = "--skip-bad"
    max_bad: str = "--max-bad"
    keep_names: str = "--keep-names"
    day_first: str = "--day-first"
    month_first: str = "--month-first"
    time_format: str = "--time-format {format!r}"
    month: str = "--granularity month"
    granularity: str = "--granularity"
    bins: str = "--bins"
    empty_start: str = "--empty-start {meaning}"
    empty_end: str = "--empty-end {meaning}"
    column: str = "--{part}"
    columns: str = "--subject, --relation, --object and --time"
    interval_columns: str = "--subject, --relation, --object, --start and --end"
    bounds: str = "--start {start!r} --end {end!r}"
    shares: str = "--valid and --test"
    split_column: str = "--split-column {column!r}"

    @property
    def skip_hint(self) -> str:
        """How to skip bad rows."""
        return f"{self.skip_bad} skips such rows"


COMMAND_LINE: Final = OptionWords()
"""For files."""

PYTHON: Final = OptionWords(
    skip_bad="ImportOptions(skip_bad=True)",
    max_bad="ImportOptions(max_bad=...)",
    keep_names="ImportOptions(keep_names=True)",
    day_first="ImportOptions(day_first=True)",
    month_first="ImportOptions(day_first=False)",
    time_format="ImportOptions(time_format={format!r})",
    month="granularity='month'",
    granularity="ImportOptions(granularity=...)",
    bins="ImportOptions(bins=...)",
    empty_start="ImportOptions(empty_start={meaning!r})",
    empty_end="ImportOptions(empty_end={meaning!r})",
    column="ImportOptions({part}=...)",
    columns="ImportOptions(subject=...) and so on",
    interval_columns="ImportOptions(subject=...) and so on",
    bounds="ImportOptions(start={start!r}, end={end!r})",
    shares="ImportOptions(valid_share=..., test_share=...)",
    split_column="ImportOptions(split_column={column!r})",
)
"""For tables in memory, which only Python has."""
