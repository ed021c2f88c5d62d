"""Answers with what they rest on, and facts with their figures, as tables in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tempograph.cli.console import err, out, table

if TYPE_CHECKING:
    from tempograph.prediction.answers import Answer, Completion, EvidenceFact
    from tempograph.prediction.predictor import Predictor


def print_completion(completion: Completion) -> None:
    """The answers as a table, each with the facts that speak for it."""
    sure = any(answer.probability is not None for answer in completion.answers)
    reasoned = any(answer.evidence for answer in completion.answers)
    asked = f"{completion.asked}, and what it rests on" if reasoned else completion.asked
    columns = ["#", asked, "known in", "probability" if sure else "score"]
    rows = [
        [
            str(answer.rank),
            _reasoned(completion, answer) if reasoned else answer.name,
            answer.known or "",
            _strength(answer),
        ]
        for answer in completion.answers
    ]
    captions = []
    if any(fact.effect for answer in completion.answers for fact in answer.evidence):
        captions.append("+ and -: how much the score falls or rises when the fact is taken out")
    if sure and completion.asked in ("subject", "object"):
        captions.append(
            "ranks are by score among all; each probability leaves the other known answers out, "
            "so they need not add up to 100%"
        )
    out.print(table(completion.question, columns, rows, left=3, caption="\n".join(captions)))
    for note in completion.notes:
        err.print(f"note: {note}", soft_wrap=True)


def _strength(answer: Answer) -> str:
    return f"{answer.score:.3f}" if answer.probability is None else f"{answer.probability:.1%}"


def _reasoned(completion: Completion, answer: Answer) -> RenderableType:
    """An answer; below it what the facts share with the question, and of each its time, its weight and what else."""
    said = {
        part or answer.name for part in (completion.subject, completion.relation, completion.object)
    }
    facts = Table.grid(padding=(0, 0, 0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(no_wrap=True, justify="right")
    facts.add_column(overflow="fold")
    for fact in answer.evidence:
        turned = completion.subject == fact.object or completion.object == fact.subject
        parts = (fact.subject, fact.relation, fact.object)
        news = parts if turned else [part for part in parts if part not in said]
        facts.add_row(fact.time, _weight(fact), " ".join(news))
    if len(answer.evidence) < answer.evidence_count:
        facts.add_row("...")
    count = f"{answer.evidence_count:,} {'fact' if answer.evidence_count == 1 else 'facts'}"
    return Group(
        Text(answer.name, style="bold"),
        Padding(Group(f"{answer.why}, {count}", facts), (0, 0, 0, 2)),
    )


def _weight(fact: EvidenceFact) -> str:
    """The effect of a fact on the score, or the share that the model gives it."""
    if fact.effect is not None:
        return f"{fact.effect:+.2f}" if fact.effect else ""
    return "" if fact.share is None else f"{fact.share:.0%}"


def print_facts(title: str, facts: Sequence[Mapping[str, Any]]) -> None:
    """Facts as a table, with as many figures as there are."""
    figures: dict[str, Callable[[float], str]] = {
        "score": "{:.2f}".format,
        "probability": "{:.1%}".format,
        "object_score": "{:.2f}".format,
        "subject_score": "{:.2f}".format,
        "object_probability": "{:.1%}".format,
        "object_rank": "{:,g}".format,
        "subject_probability": "{:.1%}".format,
        "subject_rank": "{:,g}".format,
        "surprise": "{:.2f}".format,
    }
    shown = [name for name in figures if any(fact.get(name) is not None for fact in facts)]
    if "object_rank" in shown:
        # Ranks say more to people than scores.
        shown = [name for name in shown if name not in ("object_score", "subject_score")]
    texts = ["time", "fact", *(["known"] if any(fact.get("known") for fact in facts) else [])]
    rows = [
        [
            str(fact["time"]),
            f"{fact['subject']}, {fact['relation']}, {fact['object']}",
            *(str(fact[name] or "") for name in texts[2:]),
            *("-" if fact[name] is None else figures[name](fact[name]) for name in shown),
        ]
        for fact in facts
    ]
    two_sided = any("_" in name for name in shown)
    sure = "; p: probability" if any("probability" in name for name in shown) else ""
    caption = f"o: asked for the object, s: for the subject{sure}" if two_sided else ""
    out.print(
        table(
            title,
            [*texts, *(_HEADS.get(name, name) for name in shown)],
            rows,
            left=len(texts),
            caption=caption,
        )
    )


_HEADS: Final = {
    f"{side}_{figure}": f"{short}({side[0]})"
    for side in ("object", "subject")
    for figure, short in (("score", "score"), ("probability", "p"), ("rank", "rank"))
}


def print_rest(count: int, shown: int, out_file: Path | None) -> None:
    """How many more there are than are shown, and how to have them all."""
    if count > shown:
        where = (
            f"all are in {out_file}" if out_file is not None else "--out FILE or --json gives all"
        )
        out.print(f"{shown} of {count:,}; {where}", soft_wrap=True)


def print_note(predictor: Predictor) -> None:
    """What must be known of the scores of some models."""
    if predictor.temperature is None:
        err.print(
            f"note: the scores of {predictor.model.name} are not probabilities", soft_wrap=True
        )
