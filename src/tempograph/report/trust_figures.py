"""The figures of a trust report: a run beside plain baselines, and where it is weak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypedDict

import numpy as np

from tempograph.data.graph import TemporalGraph
from tempograph.data.protocol import task_of
from tempograph.evaluation.evaluations import BASELINES
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.evaluation.query_groups import (
    GroupMetrics,
    QueryGroups,
    by_pair_history,
    by_rarer_entity,
    by_relation,
    by_step_activity,
    group_metrics,
)
from tempograph.evaluation.rank_table import RankTable
from tempograph.evaluation.ranking import Metrics
from tempograph.training.callbacks import Callbacks
from tempograph.training.runs import Run
from tempograph.training.setup import configure, prepare_run
from tempograph.typing import Asked, Progress, Task

_ENTITY_BASELINES: Final[dict[Task, tuple[str, str]]] = {
    "complete": ("ted", "TED"),
    "forecast": ("recurrency", "recurrency"),
}
"""The model that the figures of entities are compared with, and its name, by task."""
QUESTIONS: Final[dict[Asked, str]] = {"entity": "who", "relation": "relation", "time": "when"}
"""How people call each kind of question."""
MIN_QUESTIONS: Final = 20
"""A group of fewer questions is not called weak."""

GroupedBy = Literal["pair", "entity", "step", "relation"]
GROUPINGS: Final[dict[GroupedBy, tuple[str, Callable[[RankTable, TemporalGraph], QueryGroups]]]] = {
    "pair": ("What train says about the two entities", by_pair_history),
    "entity": ("Train facts of the rarer entity", by_rarer_entity),
    "step": ("Train facts at the time step", by_step_activity),
    "relation": ("Relation", by_relation),
}
"""A heading for each way to group questions, and how it is done."""
_PAIRS: Final = {
    "same relation": "the same fact at other times",
    "only otherwise": "other facts of the pair",
    "never": "no fact of the pair",
}


class QuestionFigures(TypedDict):
    """How a run answers one kind of question about the test facts, beside a plain baseline."""

    asked: Asked
    questions: int
    metrics: Metrics
    baseline: str | None
    """The name of the baseline; none if the model itself is the baseline."""
    baseline_metrics: Metrics | None
    calibration_error: float | None


GroupFigures = TypedDict(
    "GroupFigures",
    {
        "asked": Asked,
        "by": GroupedBy,
        "group": str,
        "questions": int,
        "mrr": float,
        "hits@1": float,
        "hits@10": float,
    },
)
"""The figures of a group of questions about the test facts."""


@dataclass(frozen=True)
class TrustFigures:
    """All figures of a trust report."""

    questions: tuple[QuestionFigures, ...]
    groups: tuple[GroupFigures, ...]

    def group(self, by: GroupedBy, asked: Asked = "entity") -> list[GroupFigures]:
        """The groups of one kind of question, in the order of what they are grouped by."""
        return [each for each in self.groups if (each["by"], each["asked"]) == (by, asked)]

    def weakest(self) -> list[GroupFigures]:
        """Of each way to group who-questions, the group with the lowest Hits@10.

        Only groups of some size count, and only those below the Hits@10 of all questions.
        """
        overall = next(each for each in self.questions if each["asked"] == "entity")
        found = []
        for by in GROUPINGS:
            large = [each for each in self.group(by) if each["questions"] >= MIN_QUESTIONS]
            lowest = min(large, key=lambda each: each["hits@10"], default=None)
            if lowest is not None and lowest["hits@10"] < overall["metrics"]["hits@10"]:
                found.append(lowest)
        return found


def trust_figures(
    run: Run, ranks: Mapping[Asked, RankTable], progress: Progress | None = None
) -> TrustFigures:
    """The figures of a run that was measured on test; `ranks` are those of the test facts."""
    return TrustFigures(
        tuple(_question_figures(run, asked, progress) for asked in ranks),
        tuple(
            figures
            for asked, ranked in ranks.items()
            for by, (_, grouping) in GROUPINGS.items()
            # No train fact is at the steps of a forecast.
            if by != "step" or not run.timeline.past_only
            for figures in _group_figures(
                asked, by, group_metrics(ranked, grouping(ranked, run.graph))
            )
        ),
    )


def describe_group(group: GroupFigures) -> str:
    """A group in words."""
    name = group["group"]
    if group["by"] == "entity":
        return f"subject or object has {name} train facts"
    if group["by"] == "step":
        return f"a time step with {name} train facts"
    return f"train has {name}" if group["by"] == "pair" else f"relation '{name}'"


def _question_figures(run: Run, asked: Asked, progress: Progress | None) -> QuestionFigures:
    name, baseline = None, None
    if asked == "entity":
        assert run.results.test is not None
        found, count = run.results.test, 2 * run.results.test["facts"]
        model, shown = _ENTITY_BASELINES[task_of(run.config.protocol)]
        if run.config.name != model:
            name, baseline = shown, _baseline_metrics(run, model, progress)
        error, metrics = found.get("calibration_error"), found["metrics"]
    else:
        summary = getattr(run.results, asked)["test"]
        name, baseline = BASELINES[asked], summary["baseline"]
        error, metrics = summary.get("calibration_error"), summary["metrics"]
        count = summary["facts"]
    return {
        "asked": asked,
        "questions": count,
        "metrics": metrics,
        "baseline": name,
        "baseline_metrics": baseline,
        "calibration_error": error,
    }


def _baseline_metrics(run: Run, name: str, progress: Progress | None) -> Metrics:
    """The figures of a baseline, fitted on valid, on the same test facts."""
    graph, timeline, protocol = run.graph, run.timeline, run.config.protocol
    config = configure(graph, name, timeline.device, protocol=protocol)
    model = prepare_run(config, graph, timeline, Callbacks(None, progress)).model
    if config.recipe.combine is not None:
        config.recipe.combine(model, graph, config.seed, lambda line: None, progress)
    return evaluate_model(model, graph, "test", protocol, progress=progress).summary()["metrics"]


def _group_figures(asked: Asked, by: GroupedBy, found: GroupMetrics) -> list[GroupFigures]:
    return [
        {
            "asked": asked,
            "by": by,
            "group": _PAIRS.get(label, label) if by == "pair" else label,
            "questions": int(found.questions[index]),
            "mrr": float(found.mrr[index]),
            "hits@1": float(found.hits_1[index]),
            "hits@10": float(found.hits_10[index]),
        }
        for index, label in enumerate(found.labels)
        if not np.isnan(found.mrr[index])
    ]
