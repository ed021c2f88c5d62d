"""Text tables as CSV, records, Markdown and LaTeX, and in their narrow form."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from tempograph.report.text_table import TextTable

CELLS = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=12)


@given(
    st.integers(1, 5).flatmap(
        lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1)
    )
)
def test_csv_keeps_every_cell(rows: list[list[str]]) -> None:
    table = TextTable("title", rows[0], rows[1:], text_columns=len(rows[0]))
    read = list(csv.reader(io.StringIO(table.csv())))
    assert read == [
        rows[0],
        *([cell.replace("-", "") if cell == "-" else cell for cell in row] for row in rows[1:]),
    ]


def test_csv_and_records_hold_plain_numbers() -> None:
    columns, keys = ("model", "MRR", "published: MRR", "s"), ("model", "MRR", "published MRR", "s")
    rows = [
        ("1,2", "0.50 ± 0.02", "-", "1,234"),
        ("-", "-", "+1.5", "2/3"),
        ("b", "1e-05", "-3", "not finished"),
    ]
    table = TextTable("t", columns, rows, keys=keys, spread_columns=[1])
    assert list(csv.reader(io.StringIO(table.csv()))) == [
        ["model", "MRR", "MRR spread", "published MRR", "s"],
        ["1,2", "0.50", "0.02", "", "1234"],
        ["", "", "", "+1.5", "2/3"],
        ["b", "1e-05", "", "-3", "not finished"],
    ]
    assert [list(record.values()) for record in table.records()] == [
        ["1,2", 0.5, 0.02, None, 1234],
        [None, None, None, 1.5, "2/3"],
        ["b", 1e-05, None, -3, "not finished"],
    ]


def test_markdown_escapes_bars() -> None:
    table = TextTable("t", ("model", "score"), [("a|b", "1")], caption="Why.")
    assert table.markdown() == "| model | score |\n| --- | ---: |\n| a\\|b | 1 |"
    assert table.markdown_page() == f"# t\n\nWhy.\n\n{table.markdown()}\n"


def test_latex_escapes_special_characters() -> None:
    text = TextTable("50% & more", ("a_b", "c"), [("x ± 1", "{~^\\}")], caption="see #1").latex()
    assert r"\textless{} 5 \textgreater{}" in TextTable("t", ("a",), [("< 5 >",)]).latex()
    assert (
        r"a\_b & c \\" in text
        and r"x $\pm$ 1 & \{\textasciitilde{}\textasciicircum{}\textbackslash{}\} \\" in text
    )
    assert (
        text.startswith("% in the preamble: \\usepackage{booktabs}\n")
        and r"\label{tab:50-more}" in text
    )
    assert (
        TextTable("t", ("a", "b"), [("icews05-15", "-4.4"), ("-", "1e-05")]).latex().count("$-$")
        == 1
    )
    assert r"\caption{50\% \& more. see \#1}" in text and r"\begin{tabular}{lr}" in text


def test_the_narrow_table_joins_columns() -> None:
    columns = ("model", "MRR", "1", "3")
    table = TextTable(
        "t",
        columns,
        [("a", ".5", "9.0", "10.0"), ("b", "-", "-", "-")],
        1,
        narrow_columns=[("m", [0]), ("f", [2, 3])],
    )
    assert [list(row) for row in table.narrow().rows] == [["a", " 9.0 10.0"], ["b", "-"]]
    assert table.narrow().text_columns == 1
    text = TextTable(
        "t", ("model", "on"), [("a", "b")], 2, narrow_columns=[("both", [0, 1])]
    ).narrow()
    assert text.rows == [["a b"]] and text.text_columns == 1
    plain = TextTable("t", columns, [])
    assert plain.narrow() is plain
