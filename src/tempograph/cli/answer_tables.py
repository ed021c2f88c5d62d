"""Answers with their evidence, and facts with their scores, as tables in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table

from tempograph.cli.console import out, print_note, table
from tempograph.data.span_text import span_text
from tempograph.report.folding import column_widths, fold

if TYPE_CHECKING:
    from tempograph.prediction.answer import Answer
    from tempograph.prediction.answers import Completion
    from tempograph.prediction.forecast import Forecast

_FORMATS: Final = {
    "score": ".2f",
    "probability": ".1%",
    "object_score": ".2f",
    "subject_score": ".2f",
    "object_probability": ".1%",
    "object_rank": ",g",
    "subject_probability": ".1%",
    "subject_rank": ",g",
    "surprise": ".2f",
}
"""Numeric columns of a table of facts, in order."""

_HEADINGS: Final = {
    f"{side}_{column}": f"{short}({side[0]})"
    for side in ("object", "subject")
    for column, short in (("score", "score"), ("probability", "p"), ("rank", "rank"))
}

_SHOWN_PROBABILITY: Final = 0.05
"""Other times of a missing fact are shown from this probability on."""
_GAP: Final = 2
"""Spaces between columns."""
_MARGIN: Final = 4
"""Columns that the frame of a table takes."""
_MAX_LINES: Final = 3
"""Lines that the name of a fact may take in a column."""
_LEAST_ROOM: Final = 10
"""The least width of a column of facts."""


def print_completion(completion: Completion) -> None:
    """Print the answers as a table, each with its evidence."""
    from tempograph.prediction.answer import evidence_legend

    answers = completion.answers
    known = "in the data" if any(answer.since is not None for answer in answers) else "known in"
    columns = ["#", completion.asked, known, "probability"]
    rows = [
        [str(answer.rank), answer.name, answer.known_text, f"{answer.probability:.1%}"]
        for answer in answers
    ]
    caption = evidence_legend(completion.evidence) if completion.evidence else ""
    if completion.evidence:
        out.print(_evidence_table(completion, columns, rows, caption))
    else:
        out.print(table(completion.question, columns, rows, left=3, caption=caption))
    for text in completion.notes:
        print_note(text)


def _evidence_table(
    completion: Completion, columns: list[str], rows: list[list[str]], caption: str
) -> Table:
    """The answers, and below each of them its facts over the whole width of the table."""
    from tempograph.prediction.answer import evidence_headings, evidence_legend

    facts = completion.evidence
    room = out.width - _MARGIN
    answer_widths = column_widths([columns, *rows], room, _GAP)
    indent = answer_widths[0] + _GAP
    fact_rows = [evidence_headings(facts), *(fact.cells for fact in facts)]
    fact_widths = column_widths(fact_rows, room - indent, _GAP)
    if _most_lines(fact_rows, fact_widths) > _MAX_LINES:
        # Names that long are easier to read below each other than in narrow columns.
        fact_rows = [(time, effect, "\n".join(names)) for time, effect, *names in fact_rows]
        fact_widths = column_widths(fact_rows, room - indent, _GAP)
    remaining = iter(fact_rows)

    def next_facts(count: int) -> Table:
        return _grid(islice(remaining, count), fact_widths, right=1)

    def below(*parts: RenderableType) -> Padding:
        return Padding(Group(*parts), (0, 0, 0, indent))

    def block(row: list[str], answer: Answer) -> Group:
        count = f"{answer.evidence_count:,} {'fact' if answer.evidence_count == 1 else 'facts'}"
        more = ["..."] if len(answer.evidence) < answer.evidence_count else []
        shown = next_facts(len(answer.evidence))
        name = _grid([row], answer_widths, right=3, bold=1)
        return Group(name, below(f"{answer.why}, {count}", shown, *more))

    heading = Group(_grid([columns], answer_widths, right=3), below(next_facts(1)))
    blocks = [[block(*pair)] for pair in zip(rows, completion.answers, strict=True)]
    made = table(completion.question, [heading], blocks, caption=caption)
    # The legend stays in one line, even below a narrow table.
    made.min_width = min(out.width, len(evidence_legend(facts)))
    return made


def _grid(
    rows: Iterable[Sequence[str]], widths: Sequence[int], right: int, bold: int | None = None
) -> Table:
    """Cells in columns of these widths; a name that is too long for its column is folded."""
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for index, width in enumerate(widths):
        justify: JustifyMethod = "right" if index == right else "left"
        style = "bold" if index == bold else None
        grid.add_column(width=width, justify=justify, overflow="fold", style=style)
    for row in rows:
        grid.add_row(*row)
    return grid


def _most_lines(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> int:
    """The lines that the longest cell takes in columns of these widths."""
    return max(
        -(-cell_len(cell) // width) for row in rows for cell, width in zip(row, widths, strict=True)
    )


def print_facts(title: str, facts: Sequence[Mapping[str, Any]]) -> None:
    """Print facts as a table with the numeric columns that have values."""
    shown = [name for name in _FORMATS if any(fact.get(name) is not None for fact in facts)]
    if "object_rank" in shown:
        # Ranks say more to people than scores.
        shown = [name for name in shown if name not in ("object_score", "subject_score")]
    optional = [name for name in ("known", "error") if any(fact.get(name) for fact in facts)]
    texts = ["time", "fact", *optional]
    rows = [
        [
            _when(fact),
            ", ".join(fact[part] or "" for part in ("subject", "relation", "object")),
            *(str(fact[name] or "") for name in texts[2:]),
            *("-" if fact[name] is None else f"{fact[name]:{_FORMATS[name]}}" for name in shown),
        ]
        for fact in facts
    ]
    caption = ""
    if any(name in _HEADINGS for name in shown):
        caption = "o: as answer to the object query, s: to the subject query"
        if any("probability" in name for name in shown):
            caption += "; p: probability"
    headings = [*texts, *(_HEADINGS.get(name, name) for name in shown)]
    out.print(table(title, headings, rows, left=len(texts), caption=caption))


def _when(fact: Mapping[str, Any]) -> str:
    """The time of a fact, or its interval in words."""
    if fact.get("start") is None or fact.get("end") is None:
        return fact["time"] or ""
    return span_text(fact["start"], fact["end"])


def print_missing(facts: Sequence[Mapping[str, Any]]) -> None:
    """Print facts that are missing from the data, each with its best times."""
    rows = [
        [
            _when(fact),
            ", ".join(fact[part] for part in ("subject", "relation", "object")),
            ", ".join(
                f"{time} ({probability:.0%})"
                for time, probability in zip(
                    fact.get("other_times", ()), fact.get("other_probabilities", ()), strict=True
                )
                if probability >= _SHOWN_PROBABILITY
            ),
            f"{fact['probability']:.1%}",
        ]
        for fact in facts
    ]
    columns = ["time", "fact", "also likely", "probability"]
    if not any(row[2] for row in rows):
        columns.pop(2)
        rows = [[*row[:2], row[3]] for row in rows]
    title, left = "Facts that probably happened and are not in the data", len(columns) - 1
    caption = "probability: that it happened, if as many facts are missing as were held out"
    out.print(table(title, columns, rows, left=left, caption=caption))


def print_forecast(forecast: Forecast) -> None:
    """Print facts that may happen, each with when it happened last and the facts behind it."""
    from tempograph.prediction.answer import evidence_legend

    happened = any(fact.happened is not None for fact in forecast.facts)
    texts = [
        [", ".join((fact.subject, fact.relation, fact.object)), *map(str, fact.evidence)]
        for fact in forecast.facts
    ]
    longest = max((cell_len(text) + 2 for lines in texts for text in lines), default=0)
    before, room = _last_times(forecast, " ({count} in all)", happened)
    if longest > room:
        before, room = _last_times(forecast, "\n{count} in all", happened)
    rows = [
        [
            fact.time,
            "\n".join([*fold(name, room), *(_hanging(each, room) for each in evidence)]),
            last,
            *(["yes" if fact.happened else "no"] if happened else []),
            f"{fact.probability:.1%}",
        ]
        for fact, last, (name, *evidence) in zip(forecast.facts, before, texts, strict=True)
    ]
    columns = ["time", "fact", "happened last", *(["happened"] * happened), "probability"]
    caption = (
        f"probability: that it happens at that time, given the facts to {forecast.known_until}"
    )
    if forecast.evidence:
        caption += f"\n{evidence_legend(forecast.evidence)}"
    out.print(table(forecast.title, columns, rows, left=len(columns) - 1, caption=caption))
    for text in forecast.notes:
        print_note(text)


def _last_times(forecast: Forecast, count: str, happened: bool) -> tuple[list[str], int]:
    """When each fact happened last, with how often it did, and the room that is left for facts."""
    before = [
        "never" if fact.last is None else fact.last + count.format(count=f"{fact.count:,}")
        for fact in forecast.facts
    ]
    times = ["time", *(fact.time for fact in forecast.facts)]
    others = ["probability", *(["happened"] * happened)]
    taken = [max(map(cell_len, times)), *map(cell_len, others)]
    taken += column_widths([["happened last"], *([each] for each in before)], out.width, _GAP)
    return before, max(_LEAST_ROOM, out.width - _MARGIN - sum(taken) - len(taken) * (_GAP + 1))


def _hanging(text: str, room: int) -> str:
    """A fact below another, of which further lines are indented further."""
    first, *others = fold(text, room - 4)
    return "\n".join([f"  {first}", *(f"    {line}" for line in others)])


def print_remaining(count: int, shown: int, out_file: Path | None) -> None:
    """Print how many facts were left out of the table, and where to find them."""
    if count > shown:
        where = f"all are in {out_file}" if out_file is not None else "use --out or --json for all"
        out.print(f"{shown} of {count:,}; {where}", soft_wrap=True)
