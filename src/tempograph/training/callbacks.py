"""Who hears of a training while it goes on, and how long it may take."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempograph.errors import ConfigError
from tempograph.typing import MetricsCallback, Progress


@dataclass(frozen=True)
class Callbacks:
    """Who hears of a training, and when it must stop, by the clock of time.perf_counter."""

    report: MetricsCallback | None
    progress: Progress | None
    tensorboard: bool = False
    stop: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """How long training may still take; None for as long as it likes."""
        return None if self.stop is None else self.stop - time.perf_counter()

    def tell(self, line: dict[str, Any]) -> None:
        """Hand a line on."""
        if self.report is not None:
            self.report(line)

    def about(self, part: str) -> Callbacks:
        """The same, where each line says which part it is about."""
        return dataclasses.replace(self, report=lambda line: self.tell({"part": part} | line))

    def at(self, run: Path | None) -> Callbacks:
        """The same, where each line also becomes TensorBoard events in the run folder, if so asked."""
        return (
            dataclasses.replace(self, report=_board(run, self.tell)) if self.tensorboard else self
        )


def _board(run: Path | None, report: MetricsCallback) -> MetricsCallback:
    if run is None:
        raise ConfigError("TensorBoard events lie in the run folder; say where it is with out")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "this needs tensorboard; pip install '.[tensorboard]' in the repository brings it"
        ) from None
    writer = SummaryWriter(str(run / "tensorboard"))

    def tell(line: dict[str, Any]) -> None:
        for name, value in line.items():
            writer.add_scalar(name, value, int(line["epoch"]))
        writer.flush()
        report(line)

    return tell
