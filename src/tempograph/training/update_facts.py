"""Read the facts of an update: which are new, and what is wrong with the others."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tempograph.data.additions import Additions
from tempograph.data.arrow_tables import TABLE, ArrowStream, to_arrow_table
from tempograph.data.closed_facts import close_facts
from tempograph.data.fact_ids import FactBatch, FactsLike, read_facts
from tempograph.data.graph import Facts, TemporalGraph, distinct_rows, rows_in
from tempograph.data.importers.arrow_reader import as_text
from tempograph.data.importers.bad_rows import EXAMPLES, BadValue, SkippedRows, bad_limit
from tempograph.data.importers.batch_options import Note
from tempograph.data.importers.batch_reader import BROKEN_LINE
from tempograph.data.importers.later_steps import describe_steps
from tempograph.data.importers.option_words import COMMAND_LINE, PYTHON
from tempograph.data.importers.options import ImportOptions
from tempograph.data.span_lookup import SpanLookup
from tempograph.data.spans import Bounds, as_intervals, last_given_step, spans_of, until_last_step
from tempograph.data.time_lookup import UNCLEAR_TIME
from tempograph.errors import DataError

_MAX_LENGTH: Final = 60
_MIN_FAR: Final = 30
_MAX_FAR: Final = 100
"""A step so far after the last one with a fact looks like a typo: a tenth of all steps, within
these bounds, and further than twice any gap before."""


class UpdateFacts(NamedTuple):
    """The new facts of an update, with new names and steps, and what became of the other rows."""

    additions: Additions
    rows: int
    known: int
    repeated: int
    skipped: tuple[SkippedRows, ...]
    lookalikes: dict[str, str]
    closed: int
    """Facts among those added that give a known one its end."""
    far: str | None
    """What to say of a time that is far after all earlier facts."""


def read_update(
    graph: TemporalGraph,
    facts: FactsLike,
    given: Mapping[str, Any],
    remembered: ImportOptions | None,
    note: Note | None = None,
) -> UpdateFacts:
    """Read facts that may have new names, and later steps than the graph.

    A file or table is read as by `score`; numbers are names and labels of steps, not ids, except in
    an array. A row that cannot be read is an error, or is skipped if the options say so. Facts of
    train are known. Facts that hold for a while are known if start and end are the same as well;
    one at a moment is known if a fact holds then. A fact with an end replaces a known one that has
    none yet.
    """
    batch = read_facts(
        graph, _as_texts(facts), given, remembered, extend=True, note=note, new_names=True
    )
    in_file = isinstance(facts, str | os.PathLike)
    source = os.fspath(facts) if isinstance(facts, str | os.PathLike) else TABLE
    skipped = _skip_bad(batch, source, in_file, given)
    rows = batch.ids[batch.valid]
    known_facts = until_last_step(graph.train, len(batch.graph.times))
    known = _find_known(rows, known_facts)
    rows = as_intervals(rows) if graph.has_intervals else rows
    new = distinct_rows(rows[~known])
    last = 1 + max(last_given_step(new), len(graph.times) - 1)
    additions = Additions.between(graph, batch.graph, until_last_step(new, last))
    return UpdateFacts(
        replace(additions, times=batch.graph.times[len(graph.times) : last]),
        len(batch.ids) + sum(each.rows for each in batch.skipped),
        int(known.sum()),
        len(rows) - int(known.sum()) - len(new),
        (*batch.skipped, *skipped),
        _find_lookalikes(graph, additions),
        int(close_facts(known_facts, new).closing.sum()),
        _describe_far(graph, batch),
    )


def _find_known(rows: Facts, known_facts: Facts) -> NDArray[np.bool_]:
    """Which facts [n, 4 or 6] are known; one at a moment is, if it holds then."""
    if rows.shape[1] == known_facts.shape[1]:
        return rows_in(rows, known_facts[np.isin(known_facts[:, 3], rows[:, 3])])
    return SpanLookup(known_facts, np.zeros(len(known_facts), np.int64)).find(rows) >= 0


def _as_texts(facts: FactsLike) -> FactsLike:
    """Facts of which numbers are texts, as in a file; an array holds ids."""
    if isinstance(facts, str | os.PathLike | np.ndarray):
        return facts
    if isinstance(facts, ArrowStream):
        table = to_arrow_table(facts)
        columns = [
            as_text(column) if _is_number(column.type) else column for column in table.columns
        ]
        return pa.table(columns, names=table.column_names)  # type: ignore[no-any-return]
    return [
        {name: _as_text(value) for name, value in row.items()}
        if isinstance(row, Mapping)
        else [_as_text(value) for value in row]
        if isinstance(row, Sequence) and not isinstance(row, str)
        else row
        for row in facts
    ]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _as_text(value: Any) -> Any:
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return str(value) if is_integer else value


def _skip_bad(
    batch: FactBatch, source: str, in_file: bool, given: Mapping[str, Any]
) -> tuple[SkippedRows, ...]:
    """The rows with an error, reason by reason, if the given options allow to skip them.

    That the import skipped bad rows says nothing about those of an update.
    """
    bad, count = int(batch.errors.mask.sum()), len(batch.ids)
    if not bad:
        return ()
    words = COMMAND_LINE if in_file else PYTHON
    max_bad = given.get("max_bad")
    unclear = pc.index(batch.errors.kinds, UNCLEAR_TIME).as_py()
    if unclear >= 0 or not given.get("skip_bad"):
        row = unclear if unclear >= 0 else batch.errors.first_rows(1)[0]
        problem = f"{batch.places([row])[0]}: {batch.errors.texts[row].as_py()}"
        # An option reads unclear dates, so they are not skipped.
        hint = "" if unclear >= 0 else f"; {words.skip_hint}"
        raise DataError(f"{problem}{hint}; nothing was changed")
    skipped = _by_reason(batch)
    reasons = "; ".join(map(str, skipped))
    if bad == count:
        raise DataError(f"{source}: none of {count:,} rows can be added; {reasons}")
    if bad > bad_limit(max_bad, count):
        raise DataError(
            f"{source}: {bad:,} of {count:,} rows are bad ({bad / count:.1%}): {reasons}; "
            f"correct them, or allow more with {words.max_bad}"
        )
    return skipped


def _by_reason(batch: FactBatch) -> tuple[SkippedRows, ...]:
    """The rows with an error, those of the most frequent reason first."""
    parts = [each.texts() for each in batch.columns] or list(batch.names().values())
    texts = pc.binary_join_element_wise(*parts, ", ", null_handling="replace", null_replacement="")
    reasons = pc.value_counts(batch.errors.kinds.drop_null()).to_pylist()
    skipped = []
    for each in sorted(reasons, key=lambda reason: -reason["counts"]):
        same = pc.equal(batch.errors.kinds, each["values"]).fill_null(False)
        # A line that cannot be read has no values; its error quotes it.
        shown = batch.errors.texts if each["values"] == BROKEN_LINE else texts
        rows = np.flatnonzero(same.to_numpy(zero_copy_only=False))[:EXAMPLES].tolist()
        places = batch.places(rows)
        examples = tuple(
            BadValue((shown[row].as_py() or "")[:_MAX_LENGTH], at)
            for row, at in zip(rows, places, strict=True)
        )
        skipped.append(SkippedRows(each["values"], each["counts"], places[0], examples))
    return tuple(skipped)


def _describe_far(graph: TemporalGraph, batch: FactBatch) -> str | None:
    """The first row that is far after all facts before it, with how many steps it adds."""
    new = np.unique(_given_steps(batch.ids[batch.valid]))
    if new.max(initial=0) < len(graph.times):
        return None
    known = np.unique(_given_steps(graph.all_facts))
    gap = np.diff(known).max(initial=0)
    allowed = max(2 * gap, _MIN_FAR, min(_MAX_FAR, len(graph.times) // 10))
    steps = np.union1d(known, new)
    far = (steps[1:] >= len(graph.times)) & (np.diff(steps) > allowed)
    if not far.any():
        return None
    before, step = steps[np.argmax(far) :][:2].tolist()
    row = int(np.argmax(batch.valid & (_given_steps(batch.ids) == step).any(0)))
    times, distance = batch.graph.times, describe_steps(graph, step - before)
    added = step + 1 - max(before + 1, len(graph.times))
    return (
        f"{batch.places([row])[0]}: '{times[step]}' is {distance} after the last fact before it, "
        f"{times[before]}, and adds {added:,} steps; is it a typo?"
    )


def _given_steps(facts: Facts) -> NDArray[np.int64]:
    """The first and the last step that facts name, [2, n]; an open end names none."""
    start, end, bounds = spans_of(facts)
    return np.stack([start, np.where(bounds & Bounds.OPEN_END, start, end)])


def _find_lookalikes(graph: TemporalGraph, additions: Additions) -> dict[str, str]:
    """New names that are known but for case, accents or blanks, and the known ones."""
    found: dict[str, str] = {}
    for index, names in (
        (graph.entity_index, additions.entities),
        (graph.relation_index, additions.relations),
    ):
        for name in names:
            if (known := index.find(name)) is not None:
                found[name] = index.names[known]
    return found
