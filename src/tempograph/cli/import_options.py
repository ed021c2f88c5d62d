"""What `data import` and `fit` ask alike: which files, where the parts of a fact stand in them, how facts are split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tempograph.cli.console import err
from tempograph.typing import EntityField, FileFormat, Granularity, RelationLevel, SplitRule

if TYPE_CHECKING:
    from tempograph.data.importers.importer import ImportResult
    from tempograph.data.importers.options import ImportOptions

_TABLES = "Options for tables"
_EVENTS = "Options for ICEWS and GDELT"
_SPLIT = "Options for steps and splits"


Files = Annotated[
    list[Path],
    typer.Argument(
        help="Tables: CSV, TSV (both may be gzipped) or Parquet. Or event files of ICEWS or GDELT, as they come, "
        "gzipped and zipped ones too. Patterns such as 'events/*.zip' will do; all files make one dataset."
    ),
]
FormatOption = Annotated[
    FileFormat | None,
    typer.Option(
        "--format", help="What the files hold; by default what the first lines look like."
    ),
]
Subject = Annotated[str, typer.Option(help="Column of the subject.", rich_help_panel=_TABLES)]
Relation = Annotated[str, typer.Option(help="Column of the relation.", rich_help_panel=_TABLES)]
Object = Annotated[
    str, typer.Option("--object", help="Column of the object.", rich_help_panel=_TABLES)
]
Time = Annotated[str, typer.Option(help="Column of the time.", rich_help_panel=_TABLES)]
_GUESSED = "by default guessed from the names of all columns."
GuessedSubject = Annotated[
    str | None, typer.Option(help=f"Column of the subject; {_GUESSED}", rich_help_panel=_TABLES)
]
GuessedRelation = Annotated[
    str | None, typer.Option(help=f"Column of the relation; {_GUESSED}", rich_help_panel=_TABLES)
]
GuessedObject = Annotated[
    str | None,
    typer.Option("--object", help=f"Column of the object; {_GUESSED}", rich_help_panel=_TABLES),
]
GuessedTime = Annotated[
    str | None, typer.Option(help=f"Column of the time; {_GUESSED}", rich_help_panel=_TABLES)
]
Header = Annotated[
    bool,
    typer.Option(
        "--header/--no-header",
        help="Without a header, columns are numbers from 0.",
        rich_help_panel=_TABLES,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="By default a comma for .csv, a tab for .tsv.", rich_help_panel=_TABLES),
]
TimeFormat = Annotated[
    str | None,
    typer.Option(
        help="integer, or a format such as %d/%m/%Y; by default ISO dates or integers.",
        rich_help_panel=_TABLES,
    ),
]
EntityOption = Annotated[
    EntityField | None,
    typer.Option(
        "--entity",
        help="Entities are names of actors (default) or, of GDELT, their codes.",
        rich_help_panel=_EVENTS,
    ),
]
Level = Annotated[
    RelationLevel | None,
    typer.Option(
        "--relation-level",
        help="Relations are event texts (default for ICEWS) or CAMEO codes: full (default for GDELT), "
        "base (three digits) or root (two).",
        rich_help_panel=_EVENTS,
    ),
]
Step = Annotated[
    Granularity | None,
    typer.Option(
        "--granularity",
        help="Length of a step; by default a day, integers as they are.",
        rich_help_panel=_SPLIT,
    ),
]
Split = Annotated[SplitRule, typer.Option(help="How facts are divided.", rich_help_panel=_SPLIT)]
Valid = Annotated[float, typer.Option(help="Share of facts to choose on.", rich_help_panel=_SPLIT)]
Test = Annotated[float, typer.Option(help="Share of facts to test on.", rich_help_panel=_SPLIT)]
Seed = Annotated[int, typer.Option(help="Of the random split.", rich_help_panel=_SPLIT)]


SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Skip faulty rows, and count them, instead of stopping.",
        rich_help_panel=_TABLES,
    ),
]


def import_options(
    format: FileFormat | None,
    columns: tuple[str, str, str, str],
    table: tuple[bool, str | None, str | None],
    events: tuple[EntityField | None, RelationLevel | None],
    granularity: Granularity | None,
    split: tuple[SplitRule, float, float, int],
    skip_bad: bool = False,
) -> ImportOptions:
    """What was asked, as the import takes it: columns, (header, delimiter, time format), and so on."""
    from tempograph.data.importers.options import ImportOptions

    subject, relation, object_, time = columns
    header, delimiter, time_format = table
    entity, level = events
    rule, valid, test, seed = split
    return ImportOptions(
        format=format,
        subject=subject,
        relation=relation,
        object=object_,
        time=time,
        header=header,
        delimiter=as_typed(delimiter),
        time_format=time_format,
        entity=entity,
        relation_level=level,
        granularity=granularity,
        split=rule,
        valid_share=valid,
        test_share=test,
        seed=seed,
        skip_bad=skip_bad,
    )


def as_typed(delimiter: str | None) -> str | None:
    """A delimiter as it was meant: a tab is hard to type."""
    return delimiter.replace("\\t", "\t") if delimiter else None


def tell_import(imported: ImportResult, format: FileFormat | None) -> None:
    """What was guessed, what was skipped and what looks odd, on standard error."""
    for line in imported.notes(guessed=format is None):
        err.print(f"note: {line}", soft_wrap=True)
