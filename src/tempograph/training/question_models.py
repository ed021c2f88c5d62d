"""What a run needs beside its model to answer questions, fitted at first use and kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.errors import QueryError, StorageError
from tempograph.evaluation.calibration import (
    Calibration,
    calibrate,
    calibrator_of,
    score_valid,
    score_valid_questions,
)
from tempograph.evaluation.fact_scores import entity_log_probs
from tempograph.evaluation.history import with_history
from tempograph.evaluation.interval_choice import IntervalChooser
from tempograph.evaluation.interval_choice_fit import (
    ChooserSummary,
    chooser_of,
    fit_interval_choice,
)
from tempograph.evaluation.probabilities import Calibrator
from tempograph.models.base import Model
from tempograph.models.heads.fact_classifier import FactClassifier
from tempograph.models.heads.fact_features import FEATURES
from tempograph.models.heads.held_classifier import HeldClassifier
from tempograph.models.heads.occurrence_classifier import OccurrenceClassifier
from tempograph.training.classifier_fit import fit_classifier
from tempograph.training.held_classifier_fit import fit_held_classifier
from tempograph.training.held_proposals import HeldProposals
from tempograph.training.occurrence_fit import fit_occurrence
from tempograph.training.occurrence_proposals import OccurrenceProposals
from tempograph.training.run_folder import (
    CLASSIFIER,
    HEADS,
    OCCURRENCE,
    explain_damage,
    write_weights,
)
from tempograph.training.run_heads import Heads, fit_heads, load_heads, save_heads
from tempograph.training.run_results import RunResults
from tempograph.typing import Asked, Progress


class Answering(NamedTuple):
    """The facts and the model that answer questions."""

    graph: TemporalGraph
    """Its train facts are those that answers rest on."""
    timeline: Timeline
    model: Model


@dataclass(frozen=True, eq=False)
class QuestionModels:
    """The heads, the probabilities and the classifiers of a run.

    Each is fitted at the first call and kept in the run folder. In a folder that may not be
    written, every process fits its own.
    """

    model: Model
    graph: TemporalGraph
    timeline: Timeline
    seed: int
    results: RunResults
    path: Path | None
    update_results: Callable[..., None]
    _fitted: dict[str, Any] = field(default_factory=dict)

    @property
    def has_heads(self) -> bool:
        """Whether what ranks relations and times is fitted."""
        in_folder = self.path is not None and (self.path / HEADS).is_file()
        return "heads" in self._fitted or in_folder

    @property
    def heads_refused(self) -> str | None:
        """Why the run ranks neither relations nor times; None if it does.

        If facts hold for a while, it ranks relations, and the answers to a time are intervals.
        """
        if self.timeline.past_only:
            return (
                f"{self.graph.name}: a forecaster ranks entities, not relations or times, and does "
                "not search for missing facts; train a run with task complete for that"
            )
        return None

    def heads(self, progress: Progress | None = None) -> Heads:
        """What ranks relations and times, unless it is refused."""
        if self.heads_refused is not None:
            raise QueryError(self.heads_refused)
        if "heads" not in self._fitted:
            self._fitted["heads"] = self._load_or_fit_heads(progress)
        heads: Heads = self._fitted["heads"]
        return heads

    def _load_or_fit_heads(self, progress: Progress | None) -> Heads:
        file = None if self.path is None else self.path / HEADS
        if file is not None and file.is_file():
            with explain_damage(file.parent):
                return load_heads(self.timeline, self.seed, file)
        heads = fit_heads(self.timeline, self.graph, self.seed, progress)
        if file is not None:
            with suppress(StorageError):
                save_heads(heads, file)
        return heads

    def calibrator(self, asked: Asked = "entity", progress: Progress | None = None) -> Calibrator:
        """What turns the scores of a kind of question into probabilities.

        Without valid facts, it is a plain softmax.
        """
        if self.results.calibration_of(asked) is None and len(self.graph.valid):
            name = "calibration" if asked == "entity" else f"{asked}_calibration"
            with suppress(StorageError):
                self.update_results(**{name: self._calibrate(asked, progress)})
        return calibrator_of(self.results.calibration_of(asked))

    def calibration(self, asked: Asked, progress: Progress | None = None) -> Calibration:
        """How the probabilities of a kind of question are calibrated, and how reliable they are."""
        self.calibrator(asked, progress)
        found = self.results.calibration_of(asked)
        if found is None:
            raise QueryError(
                f"{self.graph.name}: its valid split has no facts, so nothing can be calibrated"
            )
        return found

    def _calibrate(self, asked: Asked, progress: Progress | None) -> Calibration:
        if asked == "entity":
            protocol = self.timeline.protocol
            return calibrate(score_valid(self.model, self.graph, protocol, progress))
        return calibrate(score_valid_questions(self.heads(progress).head(asked), self.graph))

    def interval_choice(self, progress: Progress | None = None) -> ChooserSummary:
        """How the intervals of facts are chosen."""
        if not self.timeline.has_intervals:
            raise QueryError(f"{self.graph.name}: its facts are events; ask for their times")
        choice = self.results.interval_choice
        if choice is None:
            choice = fit_interval_choice(
                self.model, self.graph, self.calibrator(progress=progress), progress=progress
            )
            with suppress(StorageError):
                self.update_results(interval_choice=choice)
            self.results.interval_choice = choice
        return choice

    def interval_chooser(self, model: Model, progress: Progress | None = None) -> IntervalChooser:
        """What chooses the interval of a fact for the model of the run over any facts."""
        return chooser_of(self.interval_choice(progress), model)

    def classifier(self, progress: Progress | None = None) -> FactClassifier:
        """What tells whether a fact happened."""
        if "classifier" not in self._fitted:
            self._fitted["classifier"] = self._load_or_fit_classifier(progress)
        classifier: FactClassifier = self._fitted["classifier"]
        return classifier

    @property
    def has_occurrence(self) -> bool:
        """Whether what tells which facts will happen is fitted."""
        in_folder = self.path is not None and (self.path / OCCURRENCE).is_file()
        return "occurrence" in self._fitted or in_folder

    def occurrence(self, progress: Progress | None = None) -> OccurrenceClassifier:
        """What tells whether a fact will happen, given those before."""
        if "occurrence" not in self._fitted:
            self._fitted["occurrence"] = self._load_or_fit_occurrence(progress)
        classifier: OccurrenceClassifier = self._fitted["occurrence"]
        return classifier

    def _load_or_fit_occurrence(self, progress: Progress | None) -> OccurrenceClassifier:
        if not self.timeline.past_only:
            raise QueryError(
                f"{self.graph.name}: {self.model.name} was trained to complete facts, not to "
                "forecast them; train a run with task forecast"
            )
        file = None if self.path is None else self.path / OCCURRENCE
        if file is not None and file.is_file():
            with explain_damage(file.parent):
                classifier = OccurrenceClassifier().to(self.timeline.device)
                classifier.load_state_dict(safetensors.torch.load_file(file))
                return classifier.requires_grad_(False)
        if not len(self.graph.valid):
            raise QueryError(
                f"{self.graph.name}: its valid split has no facts, so the probability that a fact "
                "happens cannot be calibrated; import the data with some facts held out"
            )
        model = with_history(self.model, self.graph, "valid", "forecast-single")
        source = OccurrenceProposals(model, model.timeline, self.calibrator())
        classifier, summary = fit_occurrence(source, self.graph, self.seed, progress)
        with suppress(StorageError):
            if file is not None:
                write_weights(classifier, file)
            self.update_results(occurrence=summary)
        return classifier

    def _load_or_fit_classifier(self, progress: Progress | None) -> FactClassifier:
        classifier: FactClassifier
        file = None if self.path is None else self.path / CLASSIFIER
        if file is not None and file.is_file():
            with explain_damage(file.parent):
                held = self.graph.has_intervals
                classifier = HeldClassifier() if held else FactClassifier(len(FEATURES))
                classifier = classifier.to(self.timeline.device)
                classifier.load_state_dict(safetensors.torch.load_file(file))
                return classifier.requires_grad_(False)
        if not len(self.graph.valid):
            raise QueryError(
                f"{self.graph.name}: its valid split has no facts, so the probability that a fact "
                "is missing cannot be calibrated; import the data with some facts held out"
            )
        if self.graph.has_intervals:
            source = HeldProposals(self.model, self.timeline.rows, self.calibrator())
            classifier, summary = fit_held_classifier(source, self.graph, self.seed, progress)
        else:
            known = KnownAnswers(self.timeline.facts, self.graph.sizes)
            log_probs = partial(
                entity_log_probs, model=self.model, known=known, calibrator=self.calibrator()
            )
            heads = self.heads(progress)
            classifier, summary = fit_classifier(heads, self.graph, log_probs, self.seed, progress)
        with suppress(StorageError):
            if file is not None:
                write_weights(classifier, file)
            self.update_results(classifier=summary)
        return classifier
