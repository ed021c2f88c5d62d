"""The sections of a trust report that show facts: examples, missing and surprising ones."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tempograph.data.span_text import span_text
from tempograph.prediction.answer import evidence_headings, evidence_legend
from tempograph.prediction.forecast import Forecast
from tempograph.report.document import Block, Code, Heading, Paragraph
from tempograph.report.text_table import TextTable
from tempograph.report.trust_examples import RULE, ExampleAnswer
from tempograph.training.runs import Run


def _when(fact: Mapping[str, Any]) -> str:
    """The time of a fact, or its interval in words."""
    if fact.get("start") is None or fact.get("end") is None:
        return str(fact["time"])
    return span_text(fact["start"], fact["end"])


def example_blocks(examples: Sequence[ExampleAnswer]) -> list[Block]:
    blocks: list[Block] = [
        Heading("Examples"),
        Paragraph(f"{len(examples)} questions about test facts. {RULE}"),
    ]
    evidence = [fact for each in examples for fact in each.best.evidence]
    if evidence:
        blocks.append(Paragraph(f"Evidence is listed with its {evidence_legend(evidence)}."))
    for number, example in enumerate(examples, 1):
        blocks += _example(number, example)
    return blocks


def _example(number: int, example: ExampleAnswer) -> list[Block]:
    completion, right = example.completion, example.right
    verdict = "right" if example.is_right else "wrong"
    answers = list(completion.answers)
    if right.name not in [answer.name for answer in answers]:
        answers.append(right)
    rows = [
        [
            answer.name,
            "right" if answer.name == right.name else "",
            f"{answer.rank:,}",
            f"{answer.probability:.1%}",
        ]
        for answer in answers
    ]
    title = f"{number}. {completion.question}"
    columns = (completion.asked, "in the fact", "rank", "probability")
    blocks: list[Block] = [Heading(f"{title}: {verdict}", 3)]
    blocks.append(TextTable("Answers", columns, rows, 2))
    for answer in {each.name: each for each in (example.best, right)}.values():
        if answer.evidence:
            cells = [list(fact.cells) for fact in answer.evidence]
            headings = evidence_headings(answer.evidence)
            blocks.append(TextTable(f"Evidence for {answer.name}", headings, cells, 5))
    return blocks


def missing_blocks(run: Run, facts: Sequence[Mapping[str, Any]]) -> list[Block]:
    rows = [
        [_when(fact), *(fact[part] for part in ("subject", "relation", "object")), _share(fact)]
        for fact in facts
    ]
    columns = ("time", "subject", "relation", "object", "probability")
    text = (
        "Facts that are in no split of the data, most probable first. The probability is that of "
        "the fact having happened, if as many facts are missing as were held out for validation."
    )
    title = "Facts that probably happened and are not in the data"
    return [
        Heading("What may be missing"),
        Paragraph(text),
        TextTable(title, columns, rows, 4),
        Code(f"tempograph missing {shlex.quote(str(run.path))}"),
    ]


def forecast_blocks(run: Run, forecast: Forecast) -> list[Block]:
    rows = [
        [
            *(fact.time, fact.subject, fact.relation, fact.object),
            *(fact.last or "never", f"{fact.probability:.1%}"),
        ]
        for fact in forecast.facts
    ]
    columns = ("time", "subject", "relation", "object", "happened last", "probability")
    text = (
        f"Facts that may happen at the step after the data, given all facts to "
        f"{forecast.known_until}. The probability is that of the fact at this step."
    )
    return [
        Heading("What comes next"),
        Paragraph(text),
        TextTable("The most likely facts", columns, rows, 5),
        Code(f"tempograph forecast {shlex.quote(str(run.path))}"),
    ]


def _share(fact: Mapping[str, Any]) -> str:
    return f"{fact['probability']:.1%}"


def surprising_blocks(facts: Sequence[Mapping[str, Any]]) -> list[Block]:
    rows = [
        [
            _when(fact),
            *(fact[part] for part in ("subject", "relation", "object", "known")),
            f"{fact['object_rank']:,g} and {fact['subject_rank']:,g}",
            f"{fact['surprise']:.2f}",
        ]
        for fact in facts
    ]
    columns = ("time", "subject", "relation", "object", "split", "ranks", "surprise")
    text = (
        "Held-out facts that the model finds least plausible, as it was measured. They are "
        "news, mistakes in the data, or what the model does not understand. Surprise is the mean "
        "of -log p of subject and object; the ranks are those of object and subject."
    )
    return [
        Heading("What is most surprising"),
        Paragraph(text),
        TextTable("The most surprising held-out facts", columns, rows, 5),
    ]
