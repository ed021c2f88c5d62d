"""Fitting of the classifier that tells whether a fact will happen at a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypedDict

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import TemporalGraph
from tempograph.evaluation.reliability import ReliabilityRow, calibration_error, reliability
from tempograph.models.heads.fact_classifier import FactClassifier
from tempograph.models.heads.occurrence_classifier import OccurrenceClassifier
from tempograph.training.log_odds_fit import cross_fit_combination, fit_log_odds
from tempograph.training.occurrence_proposals import CANDIDATES_PER_PROPOSAL, OccurrenceProposals
from tempograph.typing import Progress

_TRAIN_STEPS: Final = 180
"""Steps at the end of train whose repeated facts it is fitted on."""
_ASIDE: Final = 0.1
"""The share of these steps, the last ones, that tells when to stop. Examples of the other steps
would not tell: the same triples are among them."""
_WEIGHT_DECAY: Final = 0.5
_OPTIMIZER_STEPS: Final = 250
_MODEL_STEPS: Final = 12
"""How many of the steps new facts are proposed for: the model has to score all entities."""
_VALID_STEPS: Final = 15
"""Steps of valid that it is calibrated on."""
_HORIZONS: Final = (1, 2, 1, 4, 1, 7, 1, 14, 1, 30)
"""How many steps the questions about train facts look ahead, in turn."""
_MAX_FACTS: Final = 20_000
_MAX_OTHERS: Final = 60_000
"""Proposals of each kind that it is fitted on: those that happened, and those that did not."""


class OccurrenceSummary(TypedDict):
    """The JSON object `occurrence` in results.json; its reliability is cross-fitted on valid."""

    steps: int
    """Steps of valid for which facts were proposed."""
    proposals: int
    found: int
    """How many proposals happened."""
    facts: int
    """The number of valid facts at these steps."""
    brier: float
    """The mean of (probability - outcome)^2."""
    calibration_error: float
    reliability: list[ReliabilityRow]


@torch.inference_mode(False)
@torch.enable_grad()
def fit_occurrence(
    source: OccurrenceProposals, graph: TemporalGraph, seed: int, progress: Progress | None = None
) -> tuple[OccurrenceClassifier, OccurrenceSummary]:
    """A classifier fitted to the last steps of train, and calibrated on valid.

    The questions are asked as they will be: about a step, from the facts before it. The model of
    entities was trained on train facts, so its log probabilities enter on valid, where they are
    combined with the log odds of the other features. The timeline of `source` has the facts of
    train and valid.
    """
    generator = torch.Generator().manual_seed(seed)
    classifier = OccurrenceClassifier(generator).to(source.timeline.device)
    train = [step for step in np.unique(graph.train[:, 3]).tolist() if step][-_TRAIN_STEPS:]
    valid = _spread([step for step in np.unique(graph.valid[:, 3]).tolist() if step], _VALID_STEPS)
    report = _Report(len(train) + len(valid), progress)
    for recurring, examples in _train_examples(source, train, generator, report).items():
        examples.fit(classifier.kind(recurring))
    summary = _calibrate(classifier, source, valid, report)
    classifier.requires_grad_(False)
    return classifier, summary


class _Report:
    """Counts the steps that are done."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.done, self.total, self.progress = 0, total, progress

    def advance(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)


class _Examples:
    """Features of proposals that happened and of some that did not, of one kind."""

    def __init__(self, expected: int, facts: int) -> None:
        """`expected` proposals will be given at most, and `facts` of them will have happened."""
        self.shares = (
            min(1.0, _MAX_OTHERS / max(1, expected)),
            min(1.0, _MAX_FACTS / max(1, facts)),
        )
        """The shares of others and of facts that are kept."""
        self.features: tuple[list[Tensor], list[Tensor]] = ([], [])
        self.aside: tuple[list[Tensor], list[Tensor]] = ([], [])

    def add(
        self,
        source: OccurrenceProposals,
        facts: Tensor,
        now: int,
        aside: bool,
        generator: torch.Generator,
    ) -> None:
        """Add a sample of facts [n, 4] that were proposed for a step, to be fitted or not."""
        happened = source.features.happened(facts)
        chance = torch.rand(len(facts), generator=generator).to(facts.device)
        for label, share in enumerate(self.shares):
            kept = facts[(happened == bool(label)) & (chance < share)]
            self.features[label].append(source.features(kept, now).float().clone())
            self.aside[label].append(torch.full((len(kept),), aside, device=facts.device))

    def fit(self, classifier: FactClassifier) -> None:
        """Fit the log odds of a classifier."""
        if not all(sum(map(len, parts)) for parts in self.features):
            return
        other, positive = (torch.cat(parts) for parts in self.features)
        aside = torch.cat([*self.aside[1], *self.aside[0]])
        classifier.set_scale(torch.cat([positive, other]))
        rate = self.shares[1] / self.shares[0]
        # Without examples of both kinds, those aside would not tell when to stop.
        usable = aside.any() and not aside.all()
        fit_log_odds(
            classifier,
            positive,
            other,
            rate,
            0.0,
            aside if usable else None,
            _WEIGHT_DECAY,
            _OPTIMIZER_STEPS,
        )


def _train_examples(
    source: OccurrenceProposals, steps: Sequence[int], generator: torch.Generator, report: _Report
) -> dict[bool, _Examples]:
    """Proposals for the last steps of train: repeated facts, and for some steps new ones."""
    asked = set(_spread(steps, _MODEL_STEPS))
    size = max((source.limit(step) for step in steps), default=0)
    facts = sum(
        int(source.timeline.step_start[step + 1] - source.timeline.step_start[step])
        for step in steps
    )
    examples = {
        True: _Examples(len(steps) * CANDIDATES_PER_PROPOSAL * size, facts),
        False: _Examples(len(asked) * size, facts),
    }
    for number, step in enumerate(steps):
        now = max(1, step + 1 - _HORIZONS[number % len(_HORIZONS)])
        limit = source.limit(now)
        again = source.recurring(step, now, CANDIDATES_PER_PROPOSAL * limit)
        aside = number >= (1 - _ASIDE) * len(steps)
        examples[True].add(source, again, now, aside, generator)
        if step in asked:
            examples[False].add(source, source.new(step, now, limit), now, aside, generator)
        report.advance()
    return examples


def _calibrate(
    classifier: OccurrenceClassifier,
    source: OccurrenceProposals,
    steps: Sequence[int],
    report: _Report,
) -> OccurrenceSummary:
    """Combine the log odds with the log probabilities of entities on steps of valid."""
    proposed, log_probs = [], []
    for step in steps:
        proposals = source.propose(classifier, step, step)
        proposed.append(proposals)
        log_probs.append(source.log_probs(proposals.facts, step))
        report.advance()
    facts, recurring, features = (
        torch.cat(column).clone() for column in zip(*proposed, strict=True)
    )
    entity_log_probs = torch.cat(log_probs).clone()
    happened = source.features.happened(facts)
    # Proposals about one pair stay together.
    half = (facts[:, 0] + facts[:, 2]) % 2
    probability = torch.empty(len(facts), dtype=torch.float64, device=facts.device)
    for again in (True, False):
        own, kind = recurring == again, classifier.kind(again)
        with torch.no_grad():
            log_odds = kind(features[own])
        probability[own] = cross_fit_combination(
            kind, log_odds, entity_log_probs[own], happened[own], half[own], 0.0, 0.0
        )
    table = reliability(probability, happened)
    start = source.timeline.step_start
    return {
        "steps": len(steps),
        "proposals": len(facts),
        "found": int(happened.sum()),
        "facts": sum(int(start[step + 1] - start[step]) for step in steps),
        "brier": float((probability - happened.double()).square().mean()),
        "calibration_error": calibration_error(table),
        "reliability": table,
    }


def _spread(steps: Sequence[int], count: int) -> list[int]:
    """Some of the steps, spread evenly."""
    positions = np.linspace(0, len(steps) - 1, min(count, len(steps))).round().astype(int)
    return [steps[position] for position in positions.tolist()]
