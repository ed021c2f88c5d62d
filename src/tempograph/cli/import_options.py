"""The options that describe files of facts: `data import`, `fit` and `score` take them alike."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

from tempograph.typing import (
    EmptyBound,
    EntityField,
    FileFormat,
    Granularity,
    RelationLevel,
    SplitRule,
)

if TYPE_CHECKING:
    from tempograph.data.importers.any_source import FactSource

Files = Annotated[
    list[Path],
    typer.Argument(
        help="Tables (CSV, TSV or JSON lines, plain or gzipped, or Parquet), or ICEWS or "
        "GDELT event files (plain, gzipped or zipped). Patterns such as 'events/*.zip' work. "
        "All files together form one dataset. A folder may hold tables named train, valid and test."
    ),
]
_table = functools.partial(typer.Option, rich_help_panel="Options for tables")
_events = functools.partial(typer.Option, rich_help_panel="Options for ICEWS and GDELT")
_steps = functools.partial(typer.Option, rich_help_panel="Options for time steps and splits")
ValidFiles = Annotated[
    list[Path] | None,
    _steps(
        "--valid-file",
        help="File of validation facts; those named without an option then hold the train facts. "
        "Can be repeated.",
    ),
]
TestFiles = Annotated[
    list[Path] | None, _steps("--test-file", help="File of test facts. Can be repeated.")
]
AttributesFile = Annotated[
    Path | None,
    typer.Option(
        "--attributes",
        help="CSV file with attributes of entities: a column entity, and others such as type or "
        "country. Models with model.names=true use them.",
    ),
]

_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "format": (
        FileFormat | None,
        typer.Option(None, help="File format; by default detected from the content."),
    ),
    "subject": (str, _table("subject", help="Column with the subject.")),
    "relation": (str, _table("relation", help="Column with the relation.")),
    "object": (str, _table("object", help="Column with the object.")),
    "time": (str, _table("time", help="Column with the time.")),
    "start": (
        str | None,
        _table(None, help="Column with the start of facts that hold for a while, not --time."),
    ),
    "end": (str | None, _table(None, help="Column with the end of facts that hold for a while.")),
    "header": (
        bool,
        _table(
            True,
            help="Whether the first row is a header. Without one, number columns from 0; by "
            "default, the first four are used.",
        ),
    ),
    "delimiter": (
        str | None,
        _table(None, help="Field delimiter; by default detected from the first line."),
    ),
    "encoding": (
        str | None,
        _table(
            None,
            help="Encoding of text files, such as cp1252; by default UTF-8, UTF-16 if the file "
            "says so, or else Windows-1252.",
        ),
    ),
    "time_format": (
        str | None,
        _table(
            None,
            help="'integer' or a format such as %d/%m/%Y; by default, integers or dates in any "
            "common format.",
        ),
    ),
    "day_first": (
        bool | None,
        _table(
            None,
            "--day-first/--month-first",
            help="How to read dates such as 01/02/2024; by default, as other dates tell.",
        ),
    ),
    "empty_start": (
        EmptyBound | None,
        _table(
            None,
            help="What an empty start means: it is unknown (default), or the fact is true from "
            "the start of records (open).",
        ),
    ),
    "empty_end": (
        EmptyBound | None,
        _table(
            None,
            help="What an empty end means: the fact is still true (open, default), or unknown.",
        ),
    ),
    "skip_bad": (
        bool,
        _table(False, "--skip-bad", help="Skip and count faulty rows instead of stopping."),
    ),
    "max_bad": (
        float | None,
        _table(
            None,
            help="With --skip-bad, stop above this fraction of bad rows, or from 1 on this "
            "number; by default 0.05.",
        ),
    ),
    "keep_names": (
        bool,
        typer.Option(
            False,
            "--keep-names",
            help="Keep names as written; by default, surrounding blanks are trimmed and letters "
            "normalized to the Unicode form NFC.",
        ),
    ),
    "entity": (
        EntityField | None,
        _events(None, help="Use actor names as entities (default) or, for GDELT, actor codes."),
    ),
    "relation_level": (
        RelationLevel | None,
        _events(
            None,
            help="Use event texts as relations (default for ICEWS), or CAMEO codes: full "
            "(default for GDELT), base (three digits) or root (two digits).",
        ),
    ),
    "granularity": (
        Granularity | None,
        _steps(
            None,
            help="Length of a time step; by default, a day, or with --start and --end one that "
            "suits the dates. Integers are used as they are.",
        ),
    ),
    "bins": (
        int | None,
        _steps(
            None,
            help="With --start and --end: join steps to this many bins with about equally many "
            "starts and ends.",
        ),
    ),
    "split": (SplitRule | None, _steps(None, help="How to split the facts; by default, random.")),
    "valid_share": (
        float | None,
        _steps(None, "--valid", help="Fraction of facts in the validation split; by default 0.1."),
    ),
    "test_share": (
        float | None,
        _steps(None, "--test", help="Fraction of facts in the test split; by default 0.1."),
    ),
    "split_column": (
        str | None,
        _steps(None, help="Column that says train, valid or test, if the facts are split already."),
    ),
    "seed": (int, _steps(0, help="Random seed for the split and, in fit, for training.")),
}
"""Type and command-line option of each field of `ImportOptions`."""

_COLUMNS: Final = ("subject", "relation", "object", "time")
BATCH_OPTIONS: Final = (
    *_COLUMNS,
    *("start", "end", "empty_start", "empty_end"),
    *("header", "delimiter", "encoding", "time_format", "day_first", "keep_names"),
    *("format", "entity", "relation_level"),
)
"""The options that say how a file is read, without those that say what becomes of it."""


def takes_import_options(
    fields: Iterable[str] = tuple(_OPTIONS), remembered: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `options: ImportOptions` of a command by one option per field.

    With `remembered`, options left out are those of the run's import: the command gets the options
    that are given, by name.
    """
    memory = "as in the import of the run, or else " if remembered else ""

    def parameter(name: str) -> inspect.Parameter:
        kind, option = _OPTIONS[name]
        if name in _COLUMNS:
            words = f"Column with the {name}; by default {memory}guessed from the column names."
            kind, option = str | None, _table(None, help=words)
        elif remembered:
            kind, option = kind | None, copy(option)
            option.default = None
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=option
        )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, localns={"ImportOptions": Any}, include_extras=True)
        own = [
            given.replace(annotation=hints[given.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for given in inspect.signature(command).parameters.values()
            if given.name != "options"
        ]
        added = [parameter(name) for name in fields]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            from tempograph.data.importers.options import ImportOptions

            chosen = {each.name: arguments.pop(each.name) for each in added}
            if chosen["delimiter"]:
                # A tab is hard to type.
                chosen["delimiter"] = chosen["delimiter"].replace("\\t", "\t")
            given = {name: value for name, value in chosen.items() if value is not None}
            command(**arguments, options=given if remembered else ImportOptions(**given))

        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in (*own, *added)}
        return run

    return decorate


def fact_source(
    files: list[Path], valid_files: list[Path] | None, test_files: list[Path] | None
) -> FactSource:
    """The files to import, by split if there are files of held-out facts."""
    if not valid_files and not test_files:
        return files
    splits = {"train": files, "valid": valid_files, "test": test_files}
    return {split: paths for split, paths in splits.items() if paths}
