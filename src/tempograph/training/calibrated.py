"""The temperature of a run: fitted once on the validation split, then kept with it."""

from __future__ import annotations

from contextlib import suppress

from tempograph.errors import StorageError
from tempograph.evaluation.calibration import calibrate
from tempograph.training.runs import Run
from tempograph.typing import Progress


def temperature_of(run: Run, progress: Progress | None = None) -> float | None:
    """The temperature kept with a run, fitted now and kept if there is none; None where scores are no probabilities."""
    if not run.model.probabilistic:
        return None
    if "calibration" not in run.results and len(run.graph.valid):
        # A folder that others own can be read all the same; the next one to read it fits again.
        with suppress(StorageError):
            run.add_results(calibration=calibrate(run.model, run.graph, progress))
    return float(run.results.get("calibration", {"temperature": 1.0})["temperature"])
