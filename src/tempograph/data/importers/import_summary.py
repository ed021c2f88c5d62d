"""What an import read and made, in numbers and in notes for the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tempograph.data.importers.bad_rows import SkippedRows
from tempograph.data.importers.options import ImportOptions
from tempograph.typing import FileFormat, Split

_MANY_STEPS: Final = 1000


@dataclass(frozen=True)
class ImportSummary:
    """The size of an imported dataset, and where every row went."""

    entities: int
    relations: int
    times: tuple[str, ...]
    """The labels of the time steps."""
    used_steps: int
    """How many steps have a fact."""
    splits: Mapping[Split, int]
    """The number of facts in each split."""
    format: FileFormat
    rows: int
    duplicates: int
    skipped: tuple[SkippedRows, ...] = ()
    remarks: tuple[str, ...] = ()
    """What was changed or decided while reading, such as names that were joined."""
    overlaps: int | None = None
    """How many facts were in several splits of the data's own; None if it was split here."""
    options: ImportOptions | None = None
    """The options with what was found, as in `ImportResult`."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """How many facts hold how, if they hold for a while (`spans.kinds_of_spans`)."""

    @property
    def facts(self) -> int:
        """The number of facts in all splits."""
        return sum(self.splits.values())

    def account(self) -> str:
        """Where every row went, in one line."""
        bad = sum(skip.rows for skip in self.skipped)
        facts = self.rows - self.duplicates - bad
        return (
            f"{self.rows:,} rows = {facts:,} facts + {self.duplicates:,} duplicates + {bad:,} bad"
        )

    def notes(self, guessed: bool) -> list[str]:
        """Notes for the user: a guessed format, skipped rows, times that look like a typo."""
        notes = [*self.remarks, *(f"skipped, {skip}" for skip in self.skipped)]
        if guessed and self.format != "table":
            guess = f"the file looks like {self.format.upper()} events"
            notes.insert(0, f"{guess}; if it is not, pass --format")
        times = self.times
        if len(times) > _MANY_STEPS and 100 * self.used_steps < len(times):
            notes.append(
                f"only {self.used_steps:,} of the {len(times):,} steps from {times[0]} to "
                f"{times[-1]} have a fact; is one of these two a typo?"
            )
        return notes
