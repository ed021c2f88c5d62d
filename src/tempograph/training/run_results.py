"""What results.json of a run holds: settings, cost, and the figures of each evaluated split."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NotRequired, TypedDict

from tempograph.data.split_records import SplitRecord
from tempograph.evaluation.audit_checks import AuditSummary
from tempograph.evaluation.calibration import Calibration
from tempograph.evaluation.evaluations import EvaluationSummary, QuestionSummary
from tempograph.evaluation.interval_choice_fit import ChooserSummary
from tempograph.evaluation.interval_evaluation import IntervalSummary
from tempograph.training.classifier_fit import ClassifierSummary
from tempograph.training.occurrence_fit import OccurrenceSummary
from tempograph.training.setting_values import Setting, SettingTables
from tempograph.typing import FORECAST_PROTOCOLS, HEAD_ASKED, SPLITS, Asked, Protocol, Split

_METRICS: Final = ("mrr", "hits@1", "hits@3", "hits@10")
_NUMBERS: Final = (
    "parameters",
    "best_epoch",
    "epoch_seconds",
    "train_seconds",
    "peak_memory_bytes",
)
_REQUIRED: Final = {"dataset": str, "model": str, "protocol": str, "seed": int, "config": dict}
_OPTIONAL: Final[dict[str, Any]] = {
    "preset": str | None,
    "asked": dict,
    "changed": dict,
    "commit": str | None,
    "dirty": bool | None,
    "code": str | None,
    "versions": dict,
    "parts": dict,
    **dict.fromkeys(_NUMBERS, int | float | None),
}


class GateSummary(TypedDict):
    """How the gate of an ensemble was fitted, and its mean weights by frequency."""

    fitted_on: NotRequired[Split]
    """The split of the facts that it was fitted on; earlier versions, without it, used valid."""
    facts: NotRequired[int]
    steps: int
    sharpness: float
    weights: list[dict[str, str | float]]


class AnswerBasis(TypedDict):
    """What the answers of a run rest on, if these are not its train facts alone."""

    facts: int
    """The number of facts, those held out for validation and test included."""
    refitted: list[str]
    """Models that were trained again on all of them, for the epochs that were best."""
    seconds: float
    """How long that took."""


class UpdateSummary(TypedDict):
    """What updates added to a run since its figures were measured, all of them together."""

    number: int
    """How many updates there were."""
    facts: int
    entities: int
    relations: int
    steps: int
    last: str
    """The last time step of the data."""
    epochs: int
    """For how many epochs the model was trained further; 0 if its weights are those measured."""


@dataclass
class RunResults:
    """The results of one run, in a run folder or under results/."""

    dataset: str
    model: str
    protocol: Protocol
    seed: int
    preset: str | None
    config: SettingTables
    """Settings by section, as fitted."""
    asked: dict[str, Setting] = field(default_factory=dict)
    """Settings of the model as given, where fitting chose another value."""
    changed: dict[str, Setting] = field(default_factory=dict)
    """Settings that differ from the preset's, as `section.setting`."""
    commit: str | None = None
    """The commit of the source; results of earlier versions may have its first digits only."""
    dirty: bool | None = None
    """Whether the source differed from the commit; None if that is not known."""
    code: str | None = None
    """The hash of the code that ran; None in results of earlier versions."""
    versions: dict[str, str | None] = field(default_factory=dict)
    """The versions of Python, torch, CUDA and Triton."""
    hardware: str = "unknown hardware"
    parameters: int = 0
    finished: bool = True
    best_epoch: int | None = None
    epoch_seconds: float | None = None
    """The median over all epochs, validation not counted."""
    train_seconds: float | None = None
    peak_memory_bytes: int | None = None
    gate: GateSummary | None = None
    parts: dict[str, SettingTables] = field(default_factory=dict)
    """Settings of the parts of an ensemble, by name; empty in results of earlier versions."""
    splits: dict[Split, SplitRecord] = field(default_factory=dict)
    """The facts that it was trained and measured on; empty in results of earlier versions."""
    valid: EvaluationSummary | None = None
    calibration: Calibration | None = None
    test: EvaluationSummary | None = None
    train: EvaluationSummary | None = None
    multi_step: dict[Split, EvaluationSummary] = field(default_factory=dict)
    """The figures of a forecaster under protocol forecast-multi, by split."""
    paper: dict[Split, EvaluationSummary] = field(default_factory=dict)
    """The figures of facts that hold for a while under protocol paper, by split, if the run was
    trained under another one."""
    audit: AuditSummary | None = None
    """What the figures rest on, if that was checked."""
    relation: dict[Split, QuestionSummary] = field(default_factory=dict)
    """The figures of questions for relations, by split."""
    time: dict[Split, QuestionSummary] = field(default_factory=dict)
    """The figures of questions for times, by split."""
    intervals: dict[Split, IntervalSummary] = field(default_factory=dict)
    """The figures of predicted intervals, by split, if facts hold for a while."""
    interval_choice: ChooserSummary | None = None
    """How intervals are chosen."""
    tgb: dict[Split, EvaluationSummary] = field(default_factory=dict)
    """The figures by the rules of TGB 2.0, by split."""
    answers: AnswerBasis | None = None
    """What answers rest on; None for the train facts."""
    updates: UpdateSummary | None = None
    """What was added after the figures were measured; they do not depend on it."""
    classifier: ClassifierSummary | None = None
    """How well the classifier recognizes missing facts among proposals."""
    occurrence: OccurrenceSummary | None = None
    """How well a forecaster tells which proposals will happen."""
    relation_calibration: Calibration | None = None
    time_calibration: Calibration | None = None
    reasons: list[str] = field(default_factory=list)
    """Why suggested settings differ from those of small data, a sentence each."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Keys that this version does not know."""
    keys: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Keys that are always written, in this order; by default all fields above `gate`."""

    def __post_init__(self) -> None:
        if not self.keys:
            names = [each.name for each in dataclasses.fields(self)]
            self.keys = tuple(names[: names.index("gate")])

    @staticmethod
    def from_json(data: object) -> RunResults:
        """Check and read a JSON object; raises ValueError with the reason if it is not a result."""
        checked = _check(data)
        values = {"preset": None} | checked
        names = {each.name for each in dataclasses.fields(RunResults)} - {"extra", "keys"}
        extra = {name: values.pop(name) for name in values.keys() - names}
        return RunResults(**values, extra=extra, keys=tuple(checked))

    def to_json(self) -> dict[str, Any]:
        """The JSON object: keys of the file first, then whatever else has been set."""
        empty = vars(RunResults("", "", "strict", 0, None, {}))
        values = {
            name: value for name, value in vars(self).items() if name not in ("extra", "keys")
        }
        values |= self.extra
        return {
            name: values[name]
            for name in dict.fromkeys((*self.keys, *values))
            if name in self.keys or values[name] != empty.get(name)
        }

    def evaluation(self, split: Split) -> EvaluationSummary | None:
        """The figures of a split, if it has been evaluated."""
        summary: EvaluationSummary | None = getattr(self, split)
        return summary

    @property
    def evaluations(self) -> dict[Split, EvaluationSummary]:
        """The figures of all evaluated splits."""
        return {
            split: summary for split in SPLITS if (summary := self.evaluation(split)) is not None
        }

    def questions(self, asked: Asked) -> dict[Split, QuestionSummary]:
        """The figures of questions for relations or times, by split."""
        figures: dict[Split, QuestionSummary] = getattr(self, asked)
        return figures

    def is_ranked(self, splits: Iterable[Split]) -> bool:
        """Whether the entities of these splits have been ranked."""
        return all(self.evaluation(split) is not None for split in splits)

    def is_measured(self, splits: Sequence[Split]) -> bool:
        """Whether the entities, the relations and the times of these splits have been ranked.

        A forecaster ranks entities under both protocols of forecasts instead. If facts hold for a
        while, intervals are predicted instead, unless all have an unknown bound, and entities
        ranked under protocol paper as well.
        """
        if any("kinds" in summary for summary in self.evaluations.values()):
            ends = self.evaluations if self.protocol == "paper" else self.paper
            return self.is_ranked(splits) and all(
                split in ends and (split in self.intervals or not self._has_known_intervals(split))
                for split in splits
            )
        figures = [self.questions(asked) for asked in HEAD_ASKED]
        if self.protocol in FORECAST_PROTOCOLS:
            return self.is_ranked(splits) and all(split in self.multi_step for split in splits)
        return self.is_ranked(splits) and all(split in each for each in figures for split in splits)

    def _has_known_intervals(self, split: Split) -> bool:
        """Whether a ranked split has facts without an unknown bound."""
        kinds = self.evaluations[split].get("kinds", {})
        return any(not kind.startswith("unknown") for kind in kinds)

    def calibration_of(self, asked: Asked) -> Calibration | None:
        """How the probabilities of a kind of question are calibrated, if they are."""
        name = "calibration" if asked == "entity" else f"{asked}_calibration"
        calibration: Calibration | None = getattr(self, name)
        return calibration

    def discard_evaluations(self) -> None:
        """Drop what was measured with weights that have changed since.

        Relations and times are ranked by heads, whose weights stay.
        """
        measured = (
            *(*SPLITS, "calibration", "answers", "classifier", "occurrence"),
            *("multi_step", "paper", "intervals", "interval_choice", "audit"),
        )
        for name in measured:
            setattr(self, name, {} if name in ("multi_step", "paper", "intervals") else None)
        self.tgb = {}
        self.keys = tuple(name for name in self.keys if name not in measured)


def _check(data: object) -> dict[str, Any]:
    """The JSON object if it is a result; otherwise a ValueError with the reason."""
    if not isinstance(data, dict):
        kind = type(data).__name__
        raise ValueError(f"expected an object with dataset, model and figures, found {kind}")
    for name, expected in (_REQUIRED | _OPTIONAL).items():
        if (name in _REQUIRED or name in data) and not isinstance(data.get(name), expected):
            raise ValueError(f"'{name}' is missing or has the wrong type")
    if not all(isinstance(section, dict) for section in data["config"].values()):
        raise ValueError("'config' must hold sections")
    for split in SPLITS:
        if split in data and not _has_metrics(data[split]):
            raise ValueError(f"it has no {split} figures")
    return data


def _has_metrics(summary: object) -> bool:
    metrics = summary.get("metrics") if isinstance(summary, Mapping) else None
    return isinstance(metrics, Mapping) and all(
        isinstance(metrics.get(name), int | float) for name in _METRICS
    )
