"""Answers as HTML for a notebook: a table with the evidence, and a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tempograph.data.html_table import (
    SHOWN_ROWS,
    Html,
    html_block,
    html_note,
    html_row,
    html_table,
    html_text,
    html_title,
)
from tempograph.data.html_timeline import TimelineMark, TimelineRow, html_timeline
from tempograph.prediction.answer import Answer, EvidenceFact, evidence_headings, evidence_legend

_TIMELINE_ROWS: Final = 5
"""Answers whose evidence is drawn."""


def answers_html(
    question: str, asked: str, time: str | None, all_answers: Sequence[Answer], notes: Sequence[str]
) -> Html:
    """The answers to a question at a time, with their evidence as a table, and a timeline."""
    answers = all_answers[:SHOWN_ROWS]
    columns, numbers = ["#", asked, "score", "probability"], {0, 2, 3}
    if has_known := any(answer.known for answer in answers):
        columns.append("known in" if all(each.since is None for each in answers) else "in the data")
    rows = []
    for answer in answers:
        cells = [
            str(answer.rank),
            answer.name,
            f"{answer.score:.3f}",
            f"{answer.probability:.1%}",
            *([answer.known_text] if has_known else []),
        ]
        rows.append(html_row(cells, numbers, header=1))
        if answer.evidence:
            shown = _evidence_html(answer, expanded=answer is answers[0])
            width = len(columns) - 1
            rows.append(Html(f'<tr><td></td><td colspan="{width}">{shown}</td></tr>'))
    remarks = list(notes)
    if facts := [fact for answer in answers for fact in answer.evidence]:
        remarks.insert(0, evidence_legend(facts))
    if left_out := len(all_answers) - len(answers):
        remarks.insert(0, f"{left_out:,} more answers; to_pandas() has all of them")
    timeline = (
        _time_timeline(question, all_answers)
        if asked == "time"
        else _evidence_timeline(question, answers[:_TIMELINE_ROWS], time)
    )
    table = html_table(columns, rows, numbers)
    return html_block(html_title(question), timeline, table, *map(html_note, remarks))


def _evidence_html(answer: Answer, expanded: bool) -> Html:
    """The reason for an answer, and the facts, which a click shows or hides."""
    count = f"{answer.evidence_count:,} {'fact' if answer.evidence_count == 1 else 'facts'}"
    if len(answer.evidence) < answer.evidence_count:
        count += f", {len(answer.evidence):,} shown"
    facts = [fact.cells for fact in answer.evidence]
    table = html_table(evidence_headings(answer.evidence), facts, numbers={1})
    return Html(
        f"<details{' open' if expanded else ''}><summary>{html_text(f'{answer.why}, {count}')}"
        f"</summary>{table}</details>"
    )


def _evidence_timeline(question: str, answers: Sequence[Answer], asked: str | None) -> Html:
    """The evidence facts of each answer, above its line if they support it."""
    rows = [
        TimelineRow(
            f"{answer.rank}. {answer.name}",
            [TimelineMark(fact.time, _size(fact), str(fact)) for fact in answer.evidence],
        )
        for answer in answers
    ]
    against = any(mark.size < 0 for row in rows for mark in row.marks)
    has_effects = any(fact.effect is not None for each in answers for fact in each.evidence)
    weight = "effect" if has_effects else "share of the score"
    legend = f"marks: the evidence shown for each answer, longer for a larger {weight}"
    legend += "; those below a line speak against the answer" if against else ""
    return html_timeline(f"Evidence over time for {question}", legend, rows, asked)


def _size(fact: EvidenceFact) -> float:
    return (fact.share or 0.0) if fact.effect is None else fact.effect


def _time_timeline(question: str, answers: Sequence[Answer]) -> Html:
    """The time steps that are answers, by probability."""
    marks = []
    for answer in answers:
        known = f", known in {answer.known}" if answer.known else ""
        text = f"{answer.rank}. {answer.name}: {answer.probability:.1%}{known}"
        marks.append(TimelineMark(answer.name, answer.probability, text, answer.known is not None))
    legend = "marks: the answers, longer for a higher probability"
    legend += "; known facts have a dot" if any(answer.known for answer in answers) else ""
    return html_timeline(
        f"Answers over time for {question}", legend, [TimelineRow("answers", marks)]
    )
