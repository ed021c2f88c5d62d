"""Results as HTML for a notebook: tables, properties and notes, on light and dark pages."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Final

SHOWN_ROWS: Final = 20
"""Rows that a notebook shows."""

_GROUPS: Final = ("object", "subject")
"""Columns such as object_rank and object_score have one heading above them."""

# Colors of text and lines come from the page; the classes are doubled to win over its tables.
_STYLE: Final = """<style>
.tempograph{font-size:13px;line-height:1.45;overflow-x:auto}
.tempograph table{border:0;border-collapse:collapse;display:table;font-size:inherit;\
margin:.3em 0;table-layout:auto;width:auto}
.tempograph.tempograph tr,.tempograph.tempograph tbody tr:nth-child(n){background:none;border:0}
.tempograph.tempograph td,.tempograph.tempograph th{border:0;line-height:inherit;max-width:34em;\
min-width:0;overflow-wrap:break-word;padding:.15em .9em .15em 0;text-align:left;\
vertical-align:top;white-space:normal}
.tempograph.tempograph thead th{border-bottom:1px solid rgba(128,128,128,.5);font-weight:600;\
vertical-align:bottom;white-space:nowrap}
.tempograph.tempograph tbody th{font-weight:600}
.tempograph.tempograph .number{font-variant-numeric:tabular-nums;text-align:right;\
white-space:nowrap}
.tempograph.tempograph td[colspan]{max-width:none}
.tempograph.tempograph .time{white-space:nowrap}
.tempograph.tempograph .group{text-align:center}
.tempograph table table{font-size:12px;margin:.1em 0 .4em}
.tempograph summary{cursor:pointer}
.tempograph p{margin:.2em 0}
.tempograph .title{font-weight:600}
.tempograph .note,.tempograph summary{font-size:12px;opacity:.8}
.tempograph svg{display:block;max-width:100%}
</style>"""

_TIME: Final = re.compile(r"\d{4}-[\dTW:-]+")
"""A time label, which is not broken at its hyphens."""


class Html(str):
    """Text that is HTML already; all other text is escaped."""


def html_block(*parts: str) -> Html:
    """Parts of a result below each other, with the style they share."""
    return Html(f'<div class="tempograph">{_STYLE}{"".join(map(html_text, parts))}</div>')


def html_text(text: str) -> str:
    """Text as HTML."""
    return text if isinstance(text, Html) else escape(text)


def html_title(text: str) -> Html:
    """The heading of a result."""
    return Html(f'<p class="title">{html_text(text)}</p>')


def html_note(text: str) -> Html:
    """A remark on a result."""
    return Html(f'<p class="note">{html_text(text)}</p>')


def html_row(
    cells: Sequence[str], numbers: Collection[int] = (), header: int | None = None
) -> Html:
    """A row of a table; the header is the cell that names the row."""
    return Html(f"<tr>{''.join(_cell(i, c, numbers, header) for i, c in enumerate(cells))}</tr>")


def _cell(index: int, text: str, numbers: Collection[int], header: int | None) -> str:
    name = "number" if index in numbers else "time" if _TIME.fullmatch(text) else ""
    kind = f' class="{name}"' if name else ""
    if index == header:
        return f'<th scope="row"{kind}>{html_text(text)}</th>'
    return f"<td{kind}>{html_text(text)}</td>"


def html_table(
    columns: Sequence[str], rows: Sequence[Sequence[str] | Html], numbers: Collection[int] = ()
) -> Html:
    """A table; `numbers` are the indices of columns with numbers, which are aligned to the right.

    A row is its cells, or HTML. Columns such as object_rank and object_score are grouped.
    """
    body = "".join(row if isinstance(row, Html) else html_row(row, numbers) for row in rows)
    head = _head(columns, numbers)
    return Html(f'<table class="result"><thead>{head}</thead><tbody>{body}</tbody></table>')


def _heading(name: str, number: bool, attributes: str = ' scope="col"') -> str:
    kind = ' class="number"' if number else ""
    return f"<th{attributes}{kind}>{html_text(name)}</th>"


def _head(names: Sequence[str], numbers: Collection[int]) -> str:
    """One row of headings, or two if there are groups of columns."""

    def group(index: int) -> str | int:
        first, _, rest = names[index].partition("_")
        return first if rest and first in _GROUPS else index

    groups = [(key, list(members)) for key, members in groupby(range(len(names)), group)]
    if not any(isinstance(key, str) for key, _ in groups):
        return f"<tr>{''.join(_heading(names[i], i in numbers) for i in range(len(names)))}</tr>"
    above, below = "", ""
    for key, members in groups:
        if isinstance(key, int):
            above += _heading(names[key], key in numbers, ' scope="col" rowspan="2"')
            continue
        above += f'<th scope="colgroup" class="group" colspan="{len(members)}">{key}</th>'
        below += "".join(_heading(names[i].partition("_")[2], i in numbers) for i in members)
    return f"<tr>{above}</tr><tr>{below}</tr>"


def html_properties(properties: Mapping[str, str]) -> Html:
    """Names and values; those without a value are left out."""
    rows = "".join(html_row(item, header=0) for item in properties.items() if item[1])
    return Html(f'<table class="result"><tbody>{rows}</tbody></table>')
