"""A table of text that can be shown in a terminal, a page, a paper or a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}
_NUMBER: Final = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class TextTable:
    """Columns and rows of cells; the first `left` columns are text, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    caption: str = ""
    packed: Sequence[tuple[str, Sequence[int]]] = ()
    """For narrow terminals: other columns, each made of some of these by their places."""
    names: Sequence[str] = ()
    """Columns for programs, where those for people are not told apart by their names alone."""
    spreads: Sequence[int] = ()
    """Places of columns whose cells may have a spread behind them, such as 0.61 ± 0.02."""

    def narrow(self) -> TextTable:
        """The same in fewer columns, if there is such a form."""
        if not self.packed:
            return self
        rows = [[self._joined(row, places) for _, places in self.packed] for row in self.rows]
        left = sum(max(places) < self.left for _, places in self.packed)
        return TextTable(self.title, [name for name, _ in self.packed], rows, left, self.caption)

    def _joined(self, row: Sequence[str], places: Sequence[int]) -> str:
        cells, width = [row[place] for place in places], 4 if max(places) >= self.left else 0
        return "-" if set(cells) == {"-"} else " ".join(cell.rjust(width) for cell in cells)

    def markdown(self) -> str:
        """The table alone."""
        rule = ["---" if place < self.left else "---:" for place in range(len(self.columns))]
        # A bar would end a cell.
        rows = [[cell.replace("|", "\\|") for cell in row] for row in (self.columns, *self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in (rows[0], rule, *rows[1:]))

    def page(self) -> str:
        """The table with its title and caption."""
        caption = f"{self.caption}\n\n" if self.caption else ""
        return f"# {self.title}\n\n{caption}{self.markdown()}\n"

    def latex(self) -> str:
        """A table for a paper, with the rules of the package booktabs."""
        shape = "l" * self.left + "r" * (len(self.columns) - self.left)
        head, *body = (" & ".join(map(_latex, row)) + r" \\" for row in (self.columns, *self.rows))
        begin = [r"% in the preamble: \usepackage{booktabs}", r"\begin{table}", r"\centering"]
        lines = [rf"\begin{{tabular}}{{{shape}}}", r"\toprule", head, r"\midrule"]
        end = [
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_latex(f'{self.title}. {self.caption}'.strip())}}}",
        ]
        label = "-".join(re.findall("[a-z0-9]+", self.title.lower()))
        return "\n".join(
            [*begin, *lines, *body, *end, rf"\label{{tab:{label}}}", r"\end{table}", ""]
        )

    def csv(self) -> str:
        """The table for a spreadsheet or a program: numbers without commas, nothing where there is a dash."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self._program_columns(), *map(self._program_cells, self.rows)])
        return text.getvalue()

    def records(self) -> list[dict[str, str | float | None]]:
        """The rows for a program, by the names of columns: numbers are numbers, None stands where there is a dash."""
        columns = self._program_columns()
        return [
            dict(zip(columns, map(_value, self._program_cells(row)), strict=True))
            for row in self.rows
        ]

    def _program_columns(self) -> list[str]:
        columns = []
        for place, name in enumerate(self.names or self.columns):
            columns += [name, f"{name} spread"] if place in self.spreads else [name]
        return columns

    def _program_cells(self, row: Sequence[str]) -> list[str]:
        cells = []
        for place, cell in enumerate(row):
            figure, _, spread = cell.partition(" ± ") if place in self.spreads else (cell, "", "")
            shown = (
                figure
                if place < self.left
                else figure.replace(",", "")
                if _NUMBER.fullmatch(figure)
                else figure
            )
            cells.append("" if shown == "-" else shown)
            cells += [spread] if place in self.spreads else []
        return cells


def _value(cell: str) -> str | float | None:
    if not cell:
        return None
    if not _NUMBER.fullmatch(cell):
        return cell
    return int(cell) if re.fullmatch(r"[+-]?\d+", cell) else float(cell)


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(sign, sign) for sign in text)
    # A hyphen before a number is a minus sign, unless it joins words such as ICEWS05-15.
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", escaped)
