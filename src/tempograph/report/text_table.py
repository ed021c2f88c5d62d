"""A table of text for a terminal, a page, a paper or a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tempograph.data.html_table import html_block, html_note, html_table, html_title

_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}
_NUMBER: Final = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class TextTable:
    """Columns and rows of cells; a dash means that there is no value."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1
    """How many of the first columns are text; the others are numbers."""
    caption: str = ""
    narrow_columns: Sequence[tuple[str, Sequence[int]]] = ()
    """For narrow terminals: a heading and the indices of the columns joined below it."""
    keys: Sequence[str] = ()
    """Names of the columns in CSV and records, if the headings alone are ambiguous."""
    spread_columns: Sequence[int] = ()
    """Indices of columns with cells such as 0.61 ± 0.02; CSV and records split them in two."""
    marks: Sequence[str] = ()
    """A sign behind the first cell of each row that the notes explain, or an empty text."""
    notes: Sequence[str] = ()
    """Lines below the table."""
    data_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Columns that only CSV and records have, such as those that say what a mark means."""

    @property
    def marked_rows(self) -> list[list[str]]:
        """The rows as people read them, with their marks."""
        marks = self.marks or [""] * len(self.rows)
        return [
            [f"{row[0]} {mark}" if mark else row[0], *row[1:]]
            for row, mark in zip(self.rows, marks, strict=True)
        ]

    @property
    def full_caption(self) -> str:
        """The caption and the notes as one text."""
        return " ".join(filter(None, (self.caption, *self.notes)))

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        numbers = range(self.text_columns, len(self.columns))
        notes = map(html_note, filter(None, (self.caption, *self.notes)))
        table = html_table(self.columns, self.marked_rows, numbers)
        return html_block(html_title(self.title), table, *notes)

    def narrow(self) -> TextTable:
        """The table with fewer columns, if `narrow_columns` says how."""
        if not self.narrow_columns:
            return self
        rows = [[self._join(row, parts) for _, parts in self.narrow_columns] for row in self.rows]
        text_columns = sum(max(parts) < self.text_columns for _, parts in self.narrow_columns)
        headings = [heading for heading, _ in self.narrow_columns]
        return TextTable(
            self.title,
            headings,
            rows,
            text_columns,
            self.caption,
            marks=self.marks,
            notes=self.notes,
        )

    def _join(self, row: Sequence[str], parts: Sequence[int]) -> str:
        cells, width = [row[index] for index in parts], 4 * (max(parts) >= self.text_columns)
        return "-" if set(cells) == {"-"} else " ".join(cell.rjust(width) for cell in cells)

    def markdown(self) -> str:
        """The table alone in Markdown."""
        numbers = len(self.columns) - self.text_columns
        rule = ["---"] * self.text_columns + ["---:"] * numbers
        # A bar would end a cell.
        lines = (self.columns, *self.marked_rows)
        rows = [[cell.replace("|", "\\|") for cell in row] for row in lines]
        return "\n".join(f"| {' | '.join(line)} |" for line in (rows[0], rule, *rows[1:]))

    def markdown_page(self) -> str:
        """The table with its title, caption and notes in Markdown."""
        caption = f"{self.caption}\n\n" if self.caption else ""
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"# {self.title}\n\n{caption}{self.markdown()}\n{notes}"

    def latex(self) -> str:
        """A LaTeX table with the rules of the package booktabs."""
        alignment = "l" * self.text_columns + "r" * (len(self.columns) - self.text_columns)
        lines = (self.columns, *self.marked_rows)
        head, *body = (" & ".join(map(_latex, row)) + r" \\" for row in lines)
        label = "-".join(re.findall("[a-z0-9]+", self.title.lower()))
        text = [
            r"% in the preamble: \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_latex(f'{self.title}. {self.full_caption}'.strip())}}}",
            rf"\label{{tab:{label}}}",
            r"\end{table}",
        ]
        return "\n".join(text) + "\n"

    def csv(self) -> str:
        """The table for a spreadsheet: numbers without thousands separators, no dashes."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        rows = [
            [*self._values(row), *("" if cell == "-" else cell for cell in self._data(index))]
            for index, row in enumerate(self.rows)
        ]
        writer.writerows([[*self._keys(), *self.data_columns], *rows])
        return text.getvalue()

    def records(self) -> list[dict[str, str | float | None]]:
        """The rows by column name: numbers as numbers, None for a dash."""
        keys = self._keys()
        return [
            dict(zip(keys, map(_parse, self._values(row)), strict=True))
            | {
                name: None if cell == "-" else cell
                for name, cell in zip(self.data_columns, self._data(index), strict=True)
            }
            for index, row in enumerate(self.rows)
        ]

    def _data(self, index: int) -> list[str]:
        return [column[index] for column in self.data_columns.values()]

    def _keys(self) -> list[str]:
        keys = []
        for index, name in enumerate(self.keys or self.columns):
            keys += [name, f"{name} spread"] if index in self.spread_columns else [name]
        return keys

    def _values(self, row: Sequence[str]) -> list[str]:
        values = []
        for index, cell in enumerate(row):
            value, _, spread = (
                cell.partition(" ± ") if index in self.spread_columns else (cell, "", "")
            )
            if index >= self.text_columns and _NUMBER.fullmatch(value):
                value = value.replace(",", "")
            values.append("" if value == "-" else value)
            if index in self.spread_columns:
                values.append(spread)
        return values


def _parse(cell: str) -> str | float | None:
    if not cell:
        return None
    if not _NUMBER.fullmatch(cell):
        return cell
    return int(cell) if re.fullmatch(r"[+-]?\d+", cell) else float(cell)


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(sign, sign) for sign in text)
    # A hyphen before a number is a minus sign, unless it joins words such as ICEWS05-15.
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", escaped)
