"""Guess which columns of a table are subject, relation, object and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tempograph.data.arrow_tables import TABLE
from tempograph.data.graph import COLUMNS, INTERVAL_PARTS
from tempograph.data.importers.bound_columns import STARTS, BoundColumns, find_bounds, is_end
from tempograph.data.importers.column_words import plain_words
from tempograph.data.importers.event_formats import detect_format
from tempograph.data.importers.option_words import COMMAND_LINE, PYTHON, OptionWords
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.sources import find_files
from tempograph.data.importers.table_header import header_of, lacks_header
from tempograph.errors import DataError

_WORDS: Final = {
    "subject": "subject actor actor1 source from head sender src who initiator",
    "relation": "relation predicate action event type verb rel edge link activity what",
    "object": "object target actor2 to tail receiver recipient dst whom counterpart",
    "time": "time date timestamp when datetime",
}
"""Words that name a column; a column named exactly like the part wins."""
_PARTS_OF_DATES: Final = "day month year"
"""Names of a time column if there is no better one."""
_SPLIT_WORDS: Final = "split fold subset partition"
_PARTNERS: Final = {
    "source": "target",
    "actor": "target recipient counterpart",
    "actor1": "actor2",
    "from": "to",
    "head": "tail",
    "sender": "receiver recipient",
    "src": "dst",
    "who": "whom",
    "initiator": "target recipient",
}
"""Words for the object that belong to a word for the subject."""


@dataclass(frozen=True)
class TableColumns:
    """The column of each part of a fact, and the columns that are not used."""

    columns: dict[str, str]
    unused: tuple[str, ...] = ()
    guessed: bool = False
    """Whether a column is neither named by the options nor named like its part."""
    setting: str = COMMAND_LINE.columns
    """How to name the columns."""
    interval_setting: str = COMMAND_LINE.bounds
    """How to name the columns of start and end."""
    split_hint: str | None = None
    """A note on a column that holds splits and is not used."""

    def notes(self) -> list[str]:
        """Notes on the columns: guessed ones, unused ones, and ends of facts that have a time."""
        notes = [describe_columns(self.columns, self.setting)] if self.guessed else []
        has_time = "time" in self.columns
        ends = [name for name in self.unused if has_time and is_end(name)]
        others = [repr(name) for name in self.unused if name not in ends]
        if others:
            hint = f"; {self.split_hint}" if self.split_hint else ""
            notes.append(f"columns not used: {', '.join(others)}{hint}")
        for name in ends:
            start = self.columns["time"]
            way_out = self.interval_setting.format(start=start, end=name)
            notes.append(
                f"warning: column {name!r} is not used: facts are taken at their start, "
                f"column {start!r}; {way_out} reads facts that hold until their end"
            )
        return notes


def resolve_columns(
    patterns: Sequence[Path], options: ImportOptions
) -> tuple[ImportOptions, TableColumns]:
    """The options with the columns of a table set, and these columns; none for coded events."""
    paths = find_files(patterns)
    if not paths:
        raise DataError("there is no file to import; name at least one")
    coded = options.format not in (None, "table")
    if coded or (
        options.format is None
        and not options.table_settings
        and detect_format(paths[0]) is not None
    ):
        return options, TableColumns({})
    names = header_of(paths[0], options)
    if options.header:
        columns = guess_columns(paths[0], names, options)
    else:
        names = [str(number) for number in range(len(names))]
        columns = dict(zip(options.parts, options.fact_columns, strict=True))
    return _with_columns(options, names, columns, COMMAND_LINE)


def _with_columns(
    options: ImportOptions, names: Sequence[str], columns: dict[str, str], words: OptionWords
) -> tuple[ImportOptions, TableColumns]:
    """The options with these columns, and whether the options had named them."""
    guessed = any((getattr(options, part) or part) != column for part, column in columns.items())
    named = replace(options, format="table", **columns)  # type: ignore[arg-type]
    unused = tuple(name for name in names if name not in named.used_columns)
    setting = words.interval_columns if "start" in columns else words.columns
    return named, TableColumns(columns, unused, guessed, setting, words.bounds)


def resolve_table_columns(
    names: Sequence[str], options: ImportOptions
) -> tuple[ImportOptions, TableColumns]:
    """The options with the columns of a table in memory set, and these columns."""
    if options.format not in (None, "table"):
        raise DataError(f"{TABLE} has no format; leave out format={options.format!r}")
    columns = guess_columns(TABLE, names, options, PYTHON.column)
    return _with_columns(options, names, columns, PYTHON)


def guess_columns(
    path: Path | str,
    names: Sequence[str],
    options: ImportOptions,
    setting: str = COMMAND_LINE.column,
) -> dict[str, str]:
    """The column of each part of a fact: as the options say, or by its name.

    A fact has a time, or a start and an end if two columns are named after these.
    If two columns fit, it stops and tells you which option to set, written as in `setting`.
    """
    # A column that is there twice is refused when the table is read.
    names = list(dict.fromkeys(names))
    fitting: dict[str, list[str]] = {
        part: [getattr(options, part)] for part in COLUMNS if part in options.table_settings
    }
    if options.split_column is not None:
        fitting["split"] = [options.split_column]

    def free() -> list[str]:
        return [name for name in names if not any(name in columns for columns in fitting.values())]

    # A column named after an event may be its date or its actor, so these are matched first.
    if "time" not in fitting:
        times = [name for name in free() if not is_end(name)]
        kinds = (None, STARTS, _PARTS_OF_DATES)
        found = next(filter(None, (_fitting("time", times, kind) for kind in kinds)), [])
        bounds = find_bounds(free(), options.start, options.end)
        if options.has_intervals or bounds is not None:
            fitting |= _fitting_bounds(path, bounds, found, options, setting)
        else:
            fitting["time"] = found
    parts = INTERVAL_PARTS if "start" in fitting else COLUMNS
    ends = {part: fitting.get(part) or _fitting(part, free()) for part in ("subject", "object")}
    fitting |= _belonging(ends)
    if "relation" not in fitting:
        fitting["relation"] = _fitting("relation", free())
    lacking = [part for part in parts if not fitting[part]]
    if lacking:
        part = lacking[0]
        known = ", ".join(map(repr, names))
        if isinstance(path, Path) and lacks_header(path, names):
            raise DataError(
                f"{path}: the first row, {known}, looks like a fact and not like a header; pass "
                "--no-header, or name the columns in the first row"
            )
        raise DataError(
            f"{path}: no column name suggests the {part}; the columns are {known}: "
            f"name it with {setting.format(part=part)}"
        )
    unclear = [part for part in parts if len(fitting[part]) > 1]
    if unclear:
        questions = (_question(part, fitting[part], setting) for part in unclear)
        raise DataError(f"{path}: {'; '.join(questions)}")
    return {part: fitting[part][0] for part in parts}


def _fitting_bounds(
    path: Path | str,
    bounds: BoundColumns | None,
    times: Sequence[str],
    options: ImportOptions,
    setting: str,
) -> dict[str, list[str]]:
    """The columns of start and end; refuses a table that has a column `time` as well."""
    if bounds is None:
        # A fact may begin at its date.
        begins = [options.start] if options.start else [*times]
        return {"start": begins, "end": [options.end] if options.end else []}
    rival = [name for name in times if name not in bounds and plain_words(name) == ["time"]]
    if rival and not options.has_intervals:
        start, end = map(repr, bounds)
        both = f"{setting.format(part='start')} and {setting.format(part='end')}"
        raise DataError(
            f"{path}: facts have a time, {rival[0]!r}, or a start and an end, {start} and {end}; "
            f"say which with {setting.format(part='time')}, or with {both}"
        )
    return {"start": [bounds.start], "end": [bounds.end]}


def describe_columns(columns: Mapping[str, str], options: str) -> str:
    """A note on which column each part of a fact comes from, and how to name others."""
    named = ", ".join(f"{part} from '{column}'" for part, column in columns.items())
    return f"columns: {named}; if that is wrong, name them with {options}"


def _fitting(part: str, names: Sequence[str], words: str | None = None) -> list[str]:
    """Columns named like the part, else named by a word for it, else containing such a word."""
    known = (words or _WORDS[part]).split()
    exact = [name for name in names if "".join(plain_words(name)) in known]
    named = [name for name in exact if "".join(plain_words(name)) == part]
    return named or exact or [name for name in names if set(plain_words(name)) & set(known)]


def _belonging(ends: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The columns of subject and object, reduced to pairs of words that belong together."""

    def paired(subject: str, object_: str) -> bool:
        left, right = (
            {"".join(plain_words(name)), *plain_words(name)} for name in (subject, object_)
        )
        return any(right & set(_PARTNERS.get(word, "").split()) for word in left)

    pairs = [
        (one, other) for one in ends["subject"] for other in ends["object"] if paired(one, other)
    ]
    if not pairs:
        return dict(ends)
    subjects, objects = zip(*pairs, strict=True)
    return {"subject": list(dict.fromkeys(subjects)), "object": list(dict.fromkeys(objects))}


def named_like_split(name: str) -> bool:
    """Whether a column's name says that it holds splits."""
    return bool(set(plain_words(name)) & set(_SPLIT_WORDS.split()))


def _question(part: str, columns: Sequence[str], setting: str) -> str:
    both = " and ".join(map(repr, columns))
    return f"{both} fit the {part} equally well; say which it is with {setting.format(part=part)}"
