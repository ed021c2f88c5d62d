"""What `fit` returns: a run, its data, why it is this model, and how far to trust it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tempograph.data.html_table import (
    Html,
    html_block,
    html_properties,
    html_row,
    html_table,
    html_text,
    html_title,
)
from tempograph.data.importers.column_guessing import TableColumns
from tempograph.data.importers.importer import ImportResult
from tempograph.data.protocol import task_of
from tempograph.evaluation.evaluations import Evaluation
from tempograph.evaluation.query_groups import by_relation, group_metrics
from tempograph.evaluation.rank_table import RankTable
from tempograph.report.search_report import describe_search
from tempograph.report.trust_report import TRUST_REPORT, TrustReport
from tempograph.training.fit_record import ModelChoice
from tempograph.training.runs import Run
from tempograph.training.search_record import SearchRecord

_MAX_RELATIONS: Final = 15


@dataclass(frozen=True, eq=False, repr=False)
class FitResult:
    """A trained run: its data, why it is this model, and how it does on held-out facts."""

    run: Run
    imported: ImportResult
    table: TableColumns
    """The columns of a table; none for coded events."""
    choice: ModelChoice
    evaluation: Evaluation | None
    """On the test split; None if the fit was stopped before its end."""
    trust: TrustReport | None = None
    """Figures beside baselines, where the model is weak, examples, missing and surprising facts;
    None if the fit was stopped before its end."""
    search: SearchRecord | None = None
    """What was tried within the minutes of the fit; None for the rules alone."""

    def __repr__(self) -> str:
        return f"FitResult({self.choice.model} on {self.run.graph.describe_size()})"

    def _repr_html_(self) -> str:
        """The data, the model and why it was chosen, and how it does on held-out facts."""
        skipped = sum(skip.rows for skip in self.imported.skipped)
        counts = {"repeated": self.imported.duplicates, "skipped": skipped}
        left_out = [f"{count:,} {what}" for what, count in counts.items() if count]
        properties = {
            "data": self.run.graph.describe_size(),
            "columns": ", ".join(f"{part}: {name}" for part, name in self.columns.items()),
            "rows": ", ".join([f"{self.imported.rows:,} read", *left_out]),
            "model": f"{self.choice.model}, because {self.choice.why}",
            "search": "" if self.search is None else describe_search(self.search),
            "folder": str(self.run.path),
            "trust report": "" if self.report is None else str(self.report),
        }
        rows = [
            html_row([name, f"{queries:,}", f"{first:.0%}", f"{ten:.0%}"], (1, 2, 3), header=0)
            for name, queries, first, ten in self.relations()
        ]
        columns = ("relation", "queries", "first", "first ten")
        return html_block(
            html_title(f"{self.choice.model} on {self.run.graph.name}"),
            html_properties(properties),
            Html(f"<p>{html_text(self.describe())}</p>"),
            html_table(columns, rows, (1, 2, 3)) if rows else "",
        )

    @property
    def columns(self) -> dict[str, str]:
        """The column of each part of a fact."""
        return self.table.columns

    @property
    def finished(self) -> bool:
        """Whether the model is trained and measured, and the trust report written."""
        return self.trust is not None

    @property
    def report(self) -> Path | None:
        """The page of the trust report; None if the fit was stopped before its end."""
        if self.trust is None or self.run.path is None:
            return None
        return self.run.path / TRUST_REPORT

    def relations(self) -> list[tuple[str, int, float, float]]:
        """Return the queries, Hits@1 and Hits@10 of the most frequent relations on test."""
        if self.evaluation is None:
            return []
        ranks = RankTable.from_evaluation(self.evaluation)
        groups = group_metrics(ranks, by_relation(ranks, self.run.graph))
        order = np.argsort(-groups.questions, kind="stable")[:_MAX_RELATIONS]
        figures = (groups.questions, groups.hits_1, groups.hits_10)
        columns = [column[order].tolist() for column in figures]
        return list(zip([groups.labels[index] for index in order], *columns, strict=True))

    def summary(self) -> dict[str, Any]:
        """Return what `fit --json` prints."""
        graph, imported, results = self.run.graph, self.imported, self.run.results
        return {
            "run": str(self.run.path),
            "format": imported.format,
            "columns": self.columns,
            "unused_columns": list(self.table.unused),
            "rows": imported.rows,
            "duplicates": imported.duplicates,
            "overlaps": imported.overlaps,
            "skipped": [{"reason": str(skip), "rows": skip.rows} for skip in imported.skipped],
            "entities": len(graph.entities),
            "relations": len(graph.relations),
            "steps": len(graph.times),
            "facts": len(graph.all_facts),
            "model": self.choice.model,
            "why": self.choice.why,
            "search": None if self.search is None else self.search.to_json(),
            "finished": self.finished,
            "held_out": results.test,
            "figures": [] if self.trust is None else list(self.trust.figures.questions),
            "groups": [] if self.trust is None else list(self.trust.figures.groups),
            "weakest": [] if self.trust is None else self.trust.figures.weakest(),
            "task": task_of(results.protocol),
            "calibration": results.calibration,
            "occurrence": results.occurrence,
            "relation_calibration": results.relation_calibration,
            "time_calibration": results.time_calibration,
            "answers": results.answers,
            "report": None if self.report is None else str(self.report),
            "relations_held_out": [
                dict(zip(("relation", "questions", "hits@1", "hits@10"), row, strict=True))
                for row in self.relations()
            ],
        }

    def describe(self) -> str:
        """Return what the test figures mean, in a sentence."""
        if self.evaluation is None:
            stage = "trained, but not measured" if self.run.results.finished else "not trained"
            return f"The fit is not finished: the model is {stage}."
        metrics = self.evaluation.summary()["metrics"]
        later = (
            ", the latest of the data, each forecast from the facts before it and"
            if self.run.timeline.past_only
            else ","
        )
        return (
            f"On {len(self.evaluation.facts):,} held-out facts{later} queried once for the object "
            "and once for the subject, the right answer among "
            f"{len(self.run.graph.entities):,} entities is first in "
            f"{metrics['hits@1']:.0%} of the queries, and among the first ten in "
            f"{metrics['hits@10']:.0%}."
        )
