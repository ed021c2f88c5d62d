"""What a search tried and chose, kept in the run folder so that it can be shown and resumed."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tempograph.io import write_json
from tempograph.training.fit_record import ModelChoice
from tempograph.training.run_folder import explain_damage

SEARCH: Final = "search.json"
"""The file of a run folder with what a search tried; other run folders have none."""
TRIALS: Final = "search"
"""The folder of a run folder with the trials of its search, each a run folder."""


@dataclass(frozen=True)
class TrialRound:
    """How far a trial was when a round ended."""

    number: int
    at: float
    """Seconds of the search until then."""
    seconds: float
    """How long the trial took in this round."""
    valid_mrr: float | None
    """The best so far; None if nothing was measured."""
    epochs: int = 0
    validations: int = 0
    """How often the valid MRR was measured in training so far."""
    finished: bool = False
    """Whether training came to its own end."""
    interrupted: bool = False
    """Whether the call ended before the round did, so that the trial has some of it left."""


@dataclass
class Trial:
    """A model with some settings, and how it did in each round."""

    name: str
    """The name of its folder."""
    model: str
    overrides: tuple[str, ...] = ()
    """The settings that differ from those of the rules."""
    rounds: list[TrialRound] = field(default_factory=list)
    dropped: str | None = None
    """Why it was not trained on."""

    @property
    def valid_mrr(self) -> float | None:
        """The best valid MRR so far."""
        return max(
            (one.valid_mrr for one in self.rounds if one.valid_mrr is not None), default=None
        )

    @property
    def finished(self) -> bool:
        """Whether training came to its own end."""
        return bool(self.rounds) and self.rounds[-1].finished

    def took_part(self, number: int) -> bool:
        """Whether it was trained in a round, to the end of its share of time."""
        return any(one.number == number and not one.interrupted for one in self.rounds)

    @property
    def was_validated(self) -> bool:
        """Whether its last round measured it again, so that it could have become better."""
        before, last = [TrialRound(0, 0, 0, None), *self.rounds][-2:]
        return last.validations > before.validations

    @property
    def seconds(self) -> float:
        """How long it took in all rounds."""
        return sum(one.seconds for one in self.rounds)

    @property
    def epoch_seconds(self) -> float:
        """How long an epoch takes, the start of its processes included; 0 if that is not known."""
        return (
            self.seconds / self.rounds[-1].epochs if self.rounds and self.rounds[-1].epochs else 0.0
        )


@dataclass
class SearchRecord:
    """The trials of a search, the time it took, and what it chose."""

    minutes: float
    rules: ModelChoice
    """The model that the rules choose from the data and the device, or that was requested."""
    trials: list[Trial]
    seconds: float = 0.0
    """How long the search took so far."""
    halvings: int = 0
    """How often the worse half of the trials was dropped."""
    stopped: str | None = None
    """Why the search stopped before its time was used up."""
    leader: str | None = None
    """The trial whose model is in the run folder: the best so far, and in the end the choice."""
    why: str = ""
    finished: bool = False

    @property
    def seconds_left(self) -> float:
        """How much of the budget is left, at least 0."""
        return max(0.0, 60 * self.minutes - self.seconds)

    def trial(self, name: str) -> Trial:
        """The trial of a name."""
        return next(trial for trial in self.trials if trial.name == name)

    def write(self, folder: Path) -> None:
        """Write the file of a run folder, whole or not at all."""
        write_json(folder / SEARCH, self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> SearchRecord:
        """What `to_json` returned."""
        # A later version may have more fields.
        values = _known(SearchRecord, data)
        return SearchRecord(
            **values
            | {
                "rules": ModelChoice(**values["rules"]),
                "trials": [_parse_trial(each) for each in values["trials"]],
            }
        )


def read_search_record(folder: Path) -> SearchRecord | None:
    """The record in a run folder; None if no search has written one."""
    path = folder / SEARCH
    if not path.is_file():
        return None
    with explain_damage(folder):
        try:
            return SearchRecord.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{SEARCH} does not hold what a search writes: {error!r}") from error


def _parse_trial(data: dict[str, Any]) -> Trial:
    values = _known(Trial, data)
    rounds = [TrialRound(**_known(TrialRound, each)) for each in values["rounds"]]
    return Trial(**values | {"overrides": tuple(values["overrides"]), "rounds": rounds})


def _known(cls: type, data: dict[str, Any]) -> dict[str, Any]:
    names = {each.name for each in dataclasses.fields(cls)}
    return {name: value for name, value in data.items() if name in names}
