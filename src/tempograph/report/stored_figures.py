"""Figures of results.json beside those of a run's own protocol: other rules, parts, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from tempograph.evaluation.evaluations import BASELINES, METRIC_LABELS, EvaluationSummary
from tempograph.evaluation.interval_overlap import INTERVAL_METRICS
from tempograph.report.document import Block, Paragraph
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import HEAD_ASKED, Split

METRIC_COLUMNS: Final = ("MRR", "Hits@1", "Hits@3", "Hits@10", "MR")
_SIDES: Final[tuple[Literal["metrics", "subject", "object"], ...]] = (
    "metrics",
    "subject",
    "object",
)
_PAPER: Final = (
    "Protocol paper, as in the literature on facts that hold for a while: only the start and the "
    "end of a fact are asked about, and the other answers with the same start and end are removed. "
    "Figures of every step are not comparable with these."
)
_MULTI_STEP: Final = "Protocol forecast-multi: the history ends with the split before."
_TGB: Final = "Rules tgb: those of TGB 2.0."
_INTERVALS: Final = (
    "In percent. aeIOU@1: overlap of the predicted interval with that of the fact, divided by the "
    "hull of both. gIOU@1 subtracts the gap between them. TAC: the mean of 1 / (1 + error) over "
    "start and end, in years if steps have dates."
)


def metric_cells(metrics: Mapping[str, float]) -> list[str]:
    """The cells of `METRIC_COLUMNS`."""
    hits = (f"{100 * metrics[f'hits@{k}']:.1f}" for k in (1, 3, 10))
    return [f"{metrics['mrr']:.3f}", *hits, f"{metrics['mr']:,.1f}"]


def stored_figures(results: RunResults, label: str, splits: Sequence[Split]) -> list[Block]:
    """What was measured of a run beside the ranks of entities under its own protocol."""
    return [
        *other_protocols(results, label, splits),
        *_questions(results, label, splits),
        *interval_figures(results, label, splits),
    ]


def other_protocols(results: RunResults, label: str, splits: Sequence[Split]) -> list[Block]:
    """Ranks of entities under other protocols and rules."""
    others = ((results.multi_step, _MULTI_STEP), (results.paper, _PAPER), (results.tgb, _TGB))
    found = [
        (split, figures[split]) for figures, _ in others for split in splits if split in figures
    ]
    if not found:
        return []
    rows = [
        [split, _basis(summary), METRIC_LABELS[key], *metric_cells(summary[key])]
        for split, summary in found
        for key in _SIDES
    ]
    meanings = [meaning for figures, meaning in others if any(each in figures for each in splits)]
    table = TextTable(
        f"{label} under other protocols",
        ("split", "protocol", "ranked", *METRIC_COLUMNS),
        rows,
        3,
        f"Filter time; Hits in percent. {' '.join(meanings)}",
    )
    notes = {f"{split}, protocol {_basis(each)}": each.get("note") for split, each in found}
    return [table, *_notes(notes)]


def interval_figures(results: RunResults, label: str, splits: Sequence[Split]) -> list[Block]:
    """How near predicted intervals are, over all facts and by which bounds are dates."""
    found = [results.intervals[split] for split in splits if split in results.intervals]
    if not found:
        return []
    rows = [
        [summary["split"], summary["protocol"], name, f"{facts:,}", *_percents(metrics)]
        for summary in found
        for name, facts, metrics in (
            ("all", summary["facts"], summary["metrics"]),
            *((kind, each["facts"], each["metrics"]) for kind, each in summary["kinds"].items()),
        )
    ]
    columns = ("split", "protocol", "bounds", "facts", "aeIOU@1", "gIOU@1", "TAC")
    table = TextTable(f"Intervals predicted by {label}", columns, rows, 3, _INTERVALS)
    left_out = [
        Paragraph(f"{each['left_out']:,} {each['split']} facts with an unknown bound are left out.")
        for each in found
        if each["left_out"]
    ]
    return [table, *left_out, *_notes({each["split"]: each.get("note") for each in found})]


def _questions(results: RunResults, label: str, splits: Sequence[Split]) -> list[Block]:
    """Ranks of relations and times, beside their baselines."""
    found = [
        figures[split]
        for figures in map(results.questions, HEAD_ASKED)
        for split in splits
        if split in figures
    ]
    if not found:
        return []
    rows = [
        [each["split"], each["protocol"], ranked, *metric_cells(metrics)]
        for each in found
        for ranked, metrics in (
            (f"{each['asked']}s", each["metrics"]),
            (f"baseline: {BASELINES[each['asked']]}", each["baseline"]),
        )
    ]
    table = TextTable(
        f"Relations and times ranked by {label}",
        ("split", "protocol", "ranked", *METRIC_COLUMNS),
        rows,
        3,
        "Other relations and times that are known to be right are removed; Hits in percent.",
    )
    notes = {f"{each['split']}, {each['asked']}s": each.get("note") for each in found}
    return [table, *_notes(notes)]


def _percents(metrics: Mapping[str, float]) -> list[str]:
    return [f"{100 * metrics[name]:.1f}" for name in INTERVAL_METRICS]


def _notes(notes: Mapping[str, str | None]) -> list[Paragraph]:
    """What is to be said beside figures, by what they are of."""
    return [Paragraph(f"On {about}: {note}.") for about, note in notes.items() if note]


def _basis(summary: EvaluationSummary) -> str:
    """The protocol of figures, with the rules and candidates if they are not ours."""
    rules = f", rules {summary['rules']}" if "rules" in summary else ""
    negatives = summary.get("negatives")
    sampled = "" if negatives is None else f", among {negatives:,} sampled entities"
    return f"{summary['protocol']}{rules}{sampled}"
