"""A table of text that can be shown in a terminal, a page, a paper or a spreadsheet."""

from __future__ import annotations

import csv
import io
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


@dataclass(frozen=True)
class Sheet:
    """Columns and rows of cells; the first `left` columns are text, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    caption: str = ""
    packed: Sequence[tuple[str, Sequence[int]]] = ()
    """For narrow terminals: other columns, each made of some of these by their places."""

    def narrow(self) -> Sheet:
        """The same in fewer columns, if there is such a form."""
        if not self.packed:
            return self
        rows = [[self._joined(row, places) for _, places in self.packed] for row in self.rows]
        left = sum(max(places) < self.left for _, places in self.packed)
        return Sheet(self.title, [name for name, _ in self.packed], rows, left, self.caption)

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
        lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{shape}}}", r"\toprule", head, r"\midrule"]
        end = [r"\bottomrule", r"\end{tabular}", rf"\caption{{{_latex(f'{self.title}. {self.caption}'.strip())}}}"]
        return "\n".join([*lines, *body, *end, r"\end{table}", ""])

    def csv(self) -> str:
        """The table for a spreadsheet."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.columns, *self.rows])
        return text.getvalue()


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
