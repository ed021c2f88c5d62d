"""What an evaluation of a split found: ranks, figures, and how far probabilities were right."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict

import numpy as np
import pyarrow as pa
from torch import Tensor

from tempograph.data.graph import COLUMNS, Facts, TemporalGraph
from tempograph.data.html_table import html_block, html_note, html_title
from tempograph.data.result_table import Tabular, name_columns
from tempograph.evaluation.hard_questions import HardQuestions, hard_questions
from tempograph.evaluation.interval_figures import FactFigures, by_kind, by_length, fact_figures
from tempograph.evaluation.metrics_html import html_metrics
from tempograph.evaluation.probabilities import Confidence
from tempograph.evaluation.ranking import Metrics, Ranks, StepMeans, StepRanks, metrics
from tempograph.evaluation.reliability import calibration_error, reliability
from tempograph.evaluation.step_columns import step_columns, with_bound_names
from tempograph.typing import Filter, HeadAsked, Protocol, RankingRules, Split


class EvaluationSummary(TypedDict):
    """The JSON object that `evaluate --json` prints and results.json holds for each split."""

    dataset: str
    model: str
    split: Split
    protocol: Protocol
    filter: Filter
    metrics: Metrics
    subject: Metrics
    object: Metrics
    optimistic: Metrics
    pessimistic: Metrics
    facts: int
    seconds: float
    calibration_error: NotRequired[float]
    """The expected calibration error of the best answers' probabilities; not on valid."""
    log_loss: NotRequired[float]
    """Not if it is infinite: a right answer has the probability 0."""
    hard: NotRequired[dict[str, HardQuestions]]
    """Figures of questions that train facts say little about, by kind."""
    kinds: NotRequired[dict[str, FactFigures]]
    """Figures of facts that hold for a while, by which of their bounds are dates."""
    lengths: NotRequired[dict[str, FactFigures]]
    """The same by the number of steps at which a fact holds."""
    queries: NotRequired[int]
    """The number of queries, if a fact is asked about at several steps."""
    rules: NotRequired[RankingRules]
    """Another package whose rules of ranking were followed."""
    negatives: NotRequired[int]
    """Sampled ranks: each answer is ranked among so many sampled entities, not among all."""
    note: NotRequired[str]


class QuestionSummary(TypedDict):
    """What `evaluate --ask relation` or `time` prints, and results.json holds for each split."""

    dataset: str
    model: str
    split: Split
    protocol: Protocol
    filter: Filter
    asked: HeadAsked
    metrics: Metrics
    baseline: Metrics
    """Metrics of counts: what the same pair did, or when it was active."""
    optimistic: Metrics
    pessimistic: Metrics
    facts: int
    seconds: float
    calibration_error: NotRequired[float]
    log_loss: NotRequired[float]
    queries: NotRequired[int]
    """The number of queries, if a fact is asked about at several steps."""
    note: NotRequired[str]


METRIC_LABELS: Final[
    dict[Literal["metrics", "subject", "object", "optimistic", "pessimistic"], str]
] = {
    "metrics": "both sides",
    "subject": "subjects (?, r, o, t)",
    "object": "objects (s, r, ?, t)",
    "optimistic": "both, ties won",
    "pessimistic": "both, ties lost",
}
"""The label of each set of metrics in a summary."""
BASELINES: Final[dict[HeadAsked, str]] = {
    "relation": "counts of the pair",
    "time": "activity of the pair",
}
"""What relations and times are compared with."""
_TIES: Final = ("optimistic", "pessimistic")
Ties = Literal["realistic", "optimistic", "pessimistic"]
"""Whether ties share their mean rank, or are won or lost."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Tabular):
    """The ranks of one split, with everything needed to read its figures."""

    dataset: str
    model: str
    split: Split
    protocol: Protocol
    filter: Filter
    facts: Facts
    ranks: Ranks
    """For each fact the rank of its object, then for each fact the rank of its subject."""
    seconds: float
    note: str | None = None
    graph: TemporalGraph | None = None
    """The names behind the ids of the facts."""
    confidence: Confidence | None = None
    """How sure the queries are of their best answers, in the order of the ranks."""
    negatives: int | None = None
    """How many sampled entities each answer is ranked among; None for all entities."""
    rules: RankingRules | None = None
    """Another package whose rules of ranking were followed."""
    step_ranks: StepRanks | None = None
    """Means over the steps of each fact, if facts hold for a while; `ranks` are mean ranks then."""

    @property
    def title(self) -> str:
        """What was ranked, in a line; sampled ranks are named as such."""
        sampled = "" if self.negatives is None else ", sampled ranks"
        facts = f"{len(self.facts):,} facts{sampled}"
        return f"{self.model} on {self.dataset}, {self.split}: {facts}"

    @property
    def basis(self) -> str:
        """What the figures depend on, in a line: the protocol, the filter and the candidates."""
        rules = "" if self.rules is None else f", rules {self.rules}"
        among = (
            ""
            if self.negatives is None
            else f", each answer ranked among {self.negatives:,} sampled entities"
        )
        asked = ""
        if self.step_ranks is not None:
            asked = ", start and end asked" if self.protocol == "paper" else ", every step asked"
        return f"protocol {self.protocol}{rules}, filter {self.filter}{asked}{among}"

    def values(self, ties: Ties = "realistic") -> Tensor | StepMeans:
        """What `metrics` takes: the ranks, or their means over steps, for one way with ties."""
        ranked = self.ranks if self.step_ranks is None else self.step_ranks
        values: Tensor | StepMeans = getattr(ranked, ties)
        return values

    def __repr__(self) -> str:
        figures = self.summary()["metrics"]
        return (
            f"Evaluation({self.title}, "
            f"MRR {figures['mrr']:.3f}, Hits@1 {figures['hits@1']:.3f}, "
            f"Hits@10 {figures['hits@10']:.3f})"
        )

    def _repr_html_(self) -> str:
        """The metrics of both sides and of each."""
        summary = self.summary()
        keys = [
            key for key in METRIC_LABELS if key not in _TIES or summary[key] != summary["metrics"]
        ]
        return html_block(
            html_title(self.title),
            html_metrics("ranked", {METRIC_LABELS[key]: summary[key] for key in keys}),
            html_note(f"{self.basis}; to_pandas() has the ranks of all facts"),
            *([] if self.note is None else [html_note(self.note)]),
        )

    def summary(self, hits: Iterable[int] = (1, 3, 10)) -> EvaluationSummary:
        """Metrics of both sides and of each, and what they would be if ties were won or lost."""
        hits = list(hits)
        ranked, count = self.values(), len(self.facts)
        summary: EvaluationSummary = {
            "dataset": self.dataset,
            "model": self.model,
            "split": self.split,
            "protocol": self.protocol,
            "filter": self.filter,
            "metrics": metrics(ranked, hits),
            "subject": metrics(ranked[count:], hits),
            "object": metrics(ranked[:count], hits),
            "optimistic": metrics(self.values("optimistic"), hits),
            "pessimistic": metrics(self.values("pessimistic"), hits),
            "facts": count,
            "seconds": round(self.seconds, 3),
        }
        if self.confidence is not None:
            summary["calibration_error"] = _error(self.confidence)
            # Without valid facts, an answer that the model rules out has the probability 0.
            if math.isfinite(log_loss := float(-self.confidence.log_prob.mean())):
                summary["log_loss"] = log_loss
        if self.graph is not None and len(self.facts):
            summary["hard"] = hard_questions(self.facts, ranked, self.graph, hits)
        if self.step_ranks is not None and isinstance(ranked, StepMeans):
            summary["kinds"] = fact_figures(by_kind(self.facts), ranked, hits)
            summary["lengths"] = fact_figures(by_length(self.facts), ranked, hits)
            summary["queries"] = int(self.step_ranks.steps.sum())
        if self.rules is not None:
            summary["rules"] = self.rules
        if self.negatives is not None:
            summary["negatives"] = self.negatives
        if self.note is not None:
            summary["note"] = self.note
        return summary

    def table(self) -> pa.Table:
        """One row per query: s, r, o, t, side, rank, optimistic, pessimistic, split, filter.

        If ranks are sampled, there is another column, negatives. Facts that hold for a while have
        one row per fact and side: t is their start, ranks are means over steps, and `STEP_COLUMNS`
        follow.
        """
        sides = ("object", "subject")
        table = _rank_table(self.facts, sides, self.ranks, self.split, self.filter)
        if self.step_ranks is not None:
            table = _with_steps(table, np.tile(self.facts, (2, 1)), self.step_ranks)
        if self.negatives is None:
            return table
        return table.append_column("negatives", pa.array(np.full(len(table), self.negatives)))

    def to_arrow(self) -> pa.Table:
        """One row per query, in names; `side` is the part that is asked for.

        The columns are subject, relation, object, time, side, rank, optimistic, pessimistic, split
        and filter. An evaluation without a graph has ids instead of names. Facts that hold for a
        while have one row per fact and side, with the columns that `table` adds.
        """
        named = _named(self.table(), self.facts, self.graph)
        return named if self.graph is None else with_bound_names(named, self.graph.times)


@dataclass(frozen=True, eq=False, repr=False)
class QuestionEvaluation(Tabular):
    """The ranks of the relations or the times of one split, beside those of a plain baseline."""

    dataset: str
    model: str
    split: Split
    protocol: Protocol
    asked: HeadAsked
    facts: Facts
    ranks: Ranks
    """The rank of the relation or the time of each fact."""
    baseline: Ranks
    """The same by counts: what the pair did, or when it was active."""
    seconds: float
    confidence: Confidence | None = None
    """How sure the questions are of their best answers."""
    graph: TemporalGraph | None = None
    """The names behind the ids of the facts."""
    filter: Filter = "time"
    note: str | None = None
    step_ranks: StepRanks | None = None
    """Means over the steps of each fact, if facts hold for a while; `ranks` are mean ranks then."""
    baseline_at_steps: StepRanks | None = None
    """The same of the baseline."""

    def __repr__(self) -> str:
        figures = self.summary()
        found, counted = figures["metrics"]["mrr"], figures["baseline"]["mrr"]
        return (
            f"QuestionEvaluation({self.asked} questions on {self.dataset}, {self.split}: "
            f"{len(self.facts):,} facts, MRR {found:.3f}, baseline {counted:.3f})"
        )

    def _repr_html_(self) -> str:
        """The metrics, and those of the baseline."""
        summary = self.summary()
        return html_block(
            html_title(
                f"{self.asked} questions on {self.dataset}, {self.split}: {len(self.facts):,} facts"
            ),
            html_metrics(
                "ranked", {f"{self.asked}s": summary["metrics"], "baseline": summary["baseline"]}
            ),
            html_note(f"protocol {self.protocol}; to_pandas() has the ranks of all facts"),
            *([] if self.note is None else [html_note(self.note)]),
        )

    def summary(self, hits: Iterable[int] = (1, 3, 10)) -> QuestionSummary:
        """The metrics, those of the baseline, and how far probabilities were right."""
        hits = list(hits)
        ranks = self.step_ranks or self.ranks
        baseline = self.baseline_at_steps or self.baseline
        summary: QuestionSummary = {
            "dataset": self.dataset,
            "model": self.model,
            "split": self.split,
            "protocol": self.protocol,
            "filter": self.filter,
            "asked": self.asked,
            "metrics": metrics(ranks.realistic, hits),
            "baseline": metrics(baseline.realistic, hits),
            "optimistic": metrics(ranks.optimistic, hits),
            "pessimistic": metrics(ranks.pessimistic, hits),
            "facts": len(self.facts),
            "seconds": round(self.seconds, 3),
        }
        if self.step_ranks is not None:
            summary["queries"] = int(self.step_ranks.steps.sum())
        if self.confidence is not None:
            summary["calibration_error"] = _error(self.confidence)
            summary["log_loss"] = float(-self.confidence.log_prob.mean())
        if self.note is not None:
            summary["note"] = self.note
        return summary

    def table(self) -> pa.Table:
        """One row per question: s, r, o, t, side, rank, optimistic, pessimistic, split, filter.

        Facts that hold for a while have one row each, with `STEP_COLUMNS`: means over steps.
        """
        table = _rank_table(self.facts, (self.asked,), self.ranks, self.split, self.filter)
        if self.step_ranks is None:
            return table
        return _with_steps(table, self.facts, self.step_ranks)

    def to_arrow(self) -> pa.Table:
        """One row per question, in names; `side` is the part that is asked for."""
        named = _named(self.table(), self.facts, self.graph)
        return named if self.graph is None else with_bound_names(named, self.graph.times)


def _with_steps(table: pa.Table, facts: Facts, step_ranks: StepRanks) -> pa.Table:
    """A table of ranks with the columns of its facts [rows, 6] that hold for a while."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return pa.table(columns | step_columns(facts, step_ranks))


def _error(confidence: Confidence) -> float:
    return calibration_error(reliability(confidence.best, confidence.right))


def _rank_table(
    facts: Facts, sides: tuple[str, ...], ranks: Ranks, split: Split, filter: Filter
) -> pa.Table:
    """One row per question: all facts for the first side, then all facts for the next."""
    count = len(facts)

    def repeated(*values: str) -> pa.Array:
        return pa.array(np.repeat(values, len(sides) * count // len(values))).dictionary_encode()

    return pa.table(
        {
            **{name: np.tile(facts[:, column], len(sides)) for column, name in enumerate("srot")},
            "side": repeated(*sides),
            "rank": ranks.realistic.cpu().numpy(),
            "optimistic": ranks.optimistic.cpu().numpy(),
            "pessimistic": ranks.pessimistic.cpu().numpy(),
            "split": repeated(split),
            "filter": repeated(filter),
        }
    )


def _named(table: pa.Table, facts: Facts, graph: TemporalGraph | None) -> pa.Table:
    """A table of ranks with names, or with ids if there is no graph."""
    if graph is None:
        return table.rename_columns([*COLUMNS, *table.column_names[4:]])
    names = name_columns(graph, np.tile(facts[:, :4], (len(table) // max(1, len(facts)), 1)))
    return pa.table(names | {name: table[name] for name in table.column_names[4:]})
