"""What is likely to happen: facts of steps to come, each with a probability and evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tempograph.data.graph import COLUMNS
from tempograph.data.html_table import (
    SHOWN_ROWS,
    Html,
    html_block,
    html_note,
    html_table,
    html_title,
)
from tempograph.data.result_table import Tabular
from tempograph.errors import ConfigError
from tempograph.prediction.answer import EvidenceFact, evidence_legend

_EVIDENCE_TYPE: Final = pa.list_(
    pa.struct(
        [
            *((name, pa.string()) for name in COLUMNS),
            *((name, pa.float64()) for name in ("share", "effect")),
            *((name, pa.string()) for name in ("start", "end")),
        ]
    )
)


def check_forecast(top: int, days: int, at_least: float) -> None:
    """Refuse a forecast of no facts, of no steps, or with an impossible probability."""
    if top < 1 or days < 1:
        raise ConfigError(f"top and days must be at least 1, found {top} and {days}")
    if not 0 <= at_least <= 1:
        raise ConfigError(f"a probability is between 0 and 1, found {at_least}")


@dataclass(frozen=True, repr=False)
class ForecastFact:
    """A fact that may happen."""

    subject: str
    """Name of the subject."""
    relation: str
    """Name of the relation."""
    object: str
    """Name of the object."""
    time: str
    """Label of the time step."""
    probability: float
    """The probability that it happens at this step, given what is known before."""
    last: str | None
    """Label of the step at which it happened last; null if it never did."""
    count: int
    """How often it happened before."""
    happened: bool | None
    """Whether it did happen, if the step is one of the data; null otherwise."""
    why: str
    """What the evidence has in common, in a few words."""
    evidence: tuple[EvidenceFact, ...]
    """The known facts that matter most, as many as requested."""

    def __repr__(self) -> str:
        fact = ", ".join((self.subject, self.relation, self.object, self.time))
        return f"ForecastFact({fact}: {self.probability:.1%})"


@dataclass(frozen=True, repr=False)
class Forecast(Tabular):
    """Facts that are likely to happen, by step and the most likely first."""

    facts: tuple[ForecastFact, ...]
    steps: tuple[str, ...]
    """Labels of the steps that the forecast is for."""
    known_until: str
    """Label of the last step whose facts were known."""
    notes: tuple[str, ...]
    """What a reader should know about the forecast."""

    @property
    def title(self) -> str:
        """What the forecast is for, in a line."""
        first, last = self.steps[0], self.steps[-1]
        return f"What may happen {f'at {first}' if first == last else f'from {first} to {last}'}"

    def to_arrow(self) -> pa.Table:
        """One row per fact, by step and probability.

        The columns are subject, relation, object, time, probability, last, count, happened, and
        evidence if it was requested.
        """
        types = {
            **{name: pa.string() for name in COLUMNS},
            "probability": pa.float64(),
            "last": pa.string(),
            "count": pa.int64(),
            "happened": pa.bool_(),
        }
        columns = {
            name: pa.array([getattr(fact, name) for fact in self.facts], kind)
            for name, kind in types.items()
        }
        if any(fact.evidence for fact in self.facts):
            evidence = [[vars(each) for each in fact.evidence] for fact in self.facts]
            columns["evidence"] = pa.array(evidence, _EVIDENCE_TYPE)
        return pa.table(columns)

    @property
    def evidence(self) -> tuple[EvidenceFact, ...]:
        """The facts behind all rows, in their order."""
        return tuple(each for fact in self.facts for each in fact.evidence)

    def __len__(self) -> int:
        return len(self.facts)

    def __repr__(self) -> str:
        count = f"{len(self.facts):,} {'fact' if len(self.facts) == 1 else 'facts'}"
        best = max(self.facts, key=lambda fact: fact.probability, default=None)
        shown = "" if best is None else f", the most likely {best!r}"
        return f"Forecast({self.title}: {count}{shown})"

    def _repr_html_(self) -> str:
        """The first facts as a table, with when they happened last."""
        columns = ["time", "subject", "relation", "object", "probability", "last", "count"]
        happened = any(fact.happened is not None for fact in self.facts)
        rows = [
            [
                *(fact.time, fact.subject, fact.relation, fact.object),
                f"{fact.probability:.1%}",
                *(fact.last or "never", f"{fact.count:,}"),
                *(["yes" if fact.happened else "no"] if happened else []),
            ]
            for fact in self.facts[:SHOWN_ROWS]
        ]
        remarks = list(self.notes)
        if self.evidence:
            remarks.append(evidence_legend(self.evidence))
        if (more := len(self.facts) - len(rows)) > 0:
            remarks.insert(0, f"{more:,} more facts; to_pandas() has all of them")
        table: Html = html_table(columns + ["happened"] * happened, rows, {4, 6})
        return html_block(html_title(self.title), table, *map(html_note, remarks))
