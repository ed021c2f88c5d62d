"""Answers with their evidence, and facts with their scores, as tables in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tempograph.cli.console import out, print_note, table

if TYPE_CHECKING:
    from tempograph.prediction.answers import Answer, Completion, EvidenceFact
    from tempograph.prediction.predictor import Predictor

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


def print_completion(completion: Completion) -> None:
    """Print the answers as a table, each with its evidence."""
    answers = completion.answers
    has_probability = any(answer.probability is not None for answer in answers)
    has_evidence = any(answer.evidence for answer in answers)
    heading = f"{completion.asked} and evidence" if has_evidence else completion.asked
    columns = ["#", heading, "known in", "probability" if has_probability else "score"]
    rows = [
        [
            str(answer.rank),
            _with_evidence(completion, answer) if has_evidence else answer.name,
            answer.known or "",
            f"{answer.score:.3f}" if answer.probability is None else f"{answer.probability:.1%}",
        ]
        for answer in answers
    ]
    captions = []
    if any(fact.effect for answer in answers for fact in answer.evidence):
        captions.append("+ and -: how much the score falls or rises when the fact is removed")
    if has_probability and completion.asked in ("subject", "object"):
        captions.append(
            "ranks are by score among all candidates; each probability leaves out the other known "
            "answers, so probabilities need not add up to 100%"
        )
    out.print(table(completion.question, columns, rows, left=3, caption="\n".join(captions)))
    for text in completion.notes:
        print_note(text)


def _with_evidence(completion: Completion, answer: Answer) -> RenderableType:
    """The answer, and below it each fact: its time, its effect, and what differs from the query."""
    query = {
        part or answer.name for part in (completion.subject, completion.relation, completion.object)
    }
    facts = Table.grid(padding=(0, 0, 0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(no_wrap=True, justify="right")
    facts.add_column(overflow="fold")
    for fact in answer.evidence:
        reversed_ = completion.subject == fact.object or completion.object == fact.subject
        parts = (fact.subject, fact.relation, fact.object)
        shown = parts if reversed_ else [part for part in parts if part not in query]
        facts.add_row(fact.time, _effect(fact), " ".join(shown))
    if len(answer.evidence) < answer.evidence_count:
        facts.add_row("...")
    count = f"{answer.evidence_count:,} {'fact' if answer.evidence_count == 1 else 'facts'}"
    return Group(
        Text(answer.name, style="bold"),
        Padding(Group(f"{answer.why}, {count}", facts), (0, 0, 0, 2)),
    )


def _effect(fact: EvidenceFact) -> str:
    """The effect of a fact on the score, or else its share of it."""
    if fact.effect is not None:
        return f"{fact.effect:+.2f}" if fact.effect else ""
    return "" if fact.share is None else f"{fact.share:.0%}"


def print_facts(title: str, facts: Sequence[Mapping[str, Any]]) -> None:
    """Print facts as a table with the numeric columns that have values."""
    shown = [name for name in _FORMATS if any(fact.get(name) is not None for fact in facts)]
    if "object_rank" in shown:
        # Ranks say more to people than scores.
        shown = [name for name in shown if name not in ("object_score", "subject_score")]
    texts = ["time", "fact", *(["known"] if any(fact.get("known") for fact in facts) else [])]
    rows = [
        [
            str(fact["time"]),
            f"{fact['subject']}, {fact['relation']}, {fact['object']}",
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


def print_remaining(count: int, shown: int, out_file: Path | None) -> None:
    """Print how many facts were left out of the table, and where to find them."""
    if count > shown:
        where = f"all are in {out_file}" if out_file is not None else "use --out or --json for all"
        out.print(f"{shown} of {count:,}; {where}", soft_wrap=True)


def print_score_note(predictor: Predictor) -> None:
    """Print a note if the scores are not probabilities."""
    if predictor.temperature is None:
        print_note(f"the scores of {predictor.model.name} are not probabilities")
