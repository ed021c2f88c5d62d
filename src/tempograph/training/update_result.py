"""What an update of a run changed, for people and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tempograph.data.html_table import html_block, html_note, html_properties, html_title
from tempograph.data.importers.bad_rows import SkippedRows
from tempograph.training.run_card import describe_updates
from tempograph.training.run_results import RunResults
from tempograph.training.runs import Run

_EXAMPLES: Final = 5


@dataclass(frozen=True, eq=False, repr=False)
class UpdateResult:
    """What an update changed; each row is a new fact, known, repeated, skipped or closes a fact."""

    model: str
    dataset: str
    rows: int
    facts: int
    """New facts."""
    known: int
    """Rows with a fact that answers rested on already."""
    repeated: int
    """Rows that repeat an earlier row."""
    skipped: tuple[SkippedRows, ...]
    entities: tuple[str, ...]
    """New entities."""
    relations: tuple[str, ...]
    """New relations."""
    times: tuple[str, ...]
    """New time steps."""
    lookalikes: Mapping[str, str]
    """New names that only case, accents or blanks tell from a known one, and the known one."""
    results: RunResults
    """The results of the run: its figures are those from before the updates."""
    path: Path | None
    """The folder of the updated run; None if it is in memory alone."""
    load: Callable[[], Run] = field(repr=False)
    """Returns the updated run."""
    trained: tuple[str, ...] = ()
    """The models that were trained further, on all facts."""
    epochs: int = 0
    """For how many epochs they were."""
    closed: int = 0
    """Facts whose end was open or unknown, and is known now."""

    @cached_property
    def run(self) -> Run:
        """The updated run."""
        return self.load()

    @property
    def changed(self) -> bool:
        """Whether the run is not what it was before."""
        return bool(self.facts or self.closed or self.trained)

    def __repr__(self) -> str:
        return f"UpdateResult({self.model} on {self.dataset}: {self.account()})"

    def _repr_html_(self) -> str:
        """What was added, and what the figures of the run rest on."""
        return html_block(
            html_title(f"Update of {self.model} on {self.dataset}"),
            html_properties({"rows": self.account(), **self._additions()}),
            html_note(describe_updates(self.results)),
        )

    def account(self) -> str:
        """Where every row went, in one line."""
        bad = sum(skip.rows for skip in self.skipped)
        closed = f"{self.closed:,} closed + " if self.closed else ""
        return (
            f"{self.rows:,} rows = {self.facts:,} new facts + {closed}{self.known:,} known + "
            f"{self.repeated:,} repeated + {bad:,} bad"
        )

    def describe(self) -> list[str]:
        """What the update changed, line by line."""
        lines = [f"{self.account()}."]
        lines += [f"New {what}: {shown}." for what, shown in self._additions().items() if shown]
        if self.lookalikes:
            pairs = [f"'{new}' and '{known}'" for new, known in self.lookalikes.items()]
            lines.append(
                "New names that differ from known ones in case, accents or blanks alone: "
                f"{_examples(pairs)}."
            )
        if self.closed:
            lines.append(
                f"Closed: {self.closed:,} {'fact' if self.closed == 1 else 'facts'} known with an "
                "open or unknown end, which is known now."
            )
        if self.trained:
            epochs = "an epoch" if self.epochs == 1 else f"{self.epochs:,} epochs"
            lines.append(f"Trained for {epochs} on all facts: {', '.join(self.trained)}.")
        return [*lines, describe_updates(self.results)]

    def _additions(self) -> dict[str, str]:
        named = {"entities": self.entities, "relations": self.relations}
        added = {
            what: f"{len(names):,}, {_examples(names)}" if names else ""
            for what, names in named.items()
        }
        span = dict.fromkeys((*self.times[:1], *self.times[-1:]))
        added["steps"] = f"{len(self.times):,}, {' to '.join(span)}" if self.times else ""
        return added

    def summary(self) -> dict[str, Any]:
        """The JSON object that `update --json` prints."""
        names = {"entities": self.entities, "relations": self.relations, "steps": self.times}
        return {
            "run": None if self.path is None else str(self.path),
            "model": self.model,
            "dataset": self.dataset,
            "rows": self.rows,
            "facts": self.facts,
            "known": self.known,
            "repeated": self.repeated,
            "skipped": [dataclasses.asdict(each) for each in self.skipped],
            **{
                what: {"added": len(each), "examples": list(each[:_EXAMPLES])}
                for what, each in names.items()
            },
            "lookalikes": dict(self.lookalikes),
            "closed": self.closed,
            "trained": list(self.trained),
            "epochs": self.epochs,
            "updates": self.results.updates,
            "measured": describe_updates(self.results),
        }


def _examples(names: Sequence[str]) -> str:
    more = f" and {len(names) - _EXAMPLES:,} more" if len(names) > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + more
