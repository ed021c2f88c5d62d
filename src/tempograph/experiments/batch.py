"""Many runs below one folder: those that are finished are taken over, the others are brought to their end."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tempograph.data.graph import TemporalGraph
from tempograph.device import resolve_device
from tempograph.errors import RunError
from tempograph.experiments.comparison import Outcome
from tempograph.experiments.plan import run_there
from tempograph.experiments.scheduler import Event, Job, run_jobs
from tempograph.experiments.status import Standing, Watch
from tempograph.training.config import Config
from tempograph.training.run_folder import RUN_MARKER, read_results
from tempograph.training.run_results import RunResults
from tempograph.training.setup import part_configs

Note = Callable[[str], None]
"""Told a line for people."""


Keep = Callable[[Job, RunResults], None]
"""Told the results of a run as soon as it is finished."""


def bring_to_end(
    runs: Mapping[Job, Config],
    graph: TemporalGraph,
    at_once: int,
    note: Note | None = None,
    watch: Watch | None = None,
    keep: Keep | None = None,
) -> dict[Job, Outcome]:
    """Train what is not trained, test each run once, and say what has become of all.

    A run that is made of others among them waits for these and takes them over.

    `note` hears how many are there already, `watch` how the others stand, and `keep` of each that comes to its end.
    """
    standings = {job: _standing(job, config, graph) for job, config in runs.items()}
    done = sum(standing.state == "finished" for standing in standings.values())
    if note is not None and done:
        note(f"{done} of {len(standings)} runs are there")
    parts = {
        job: part_configs(config, graph, resolve_device(job.device)) for job, config in runs.items()
    }
    made_of = {
        job: [
            other
            for other, config in runs.items()
            if any(config.flat() == part.flat() for part in parts[job])
        ]
        for job in runs
    }
    _work(standings, made_of, at_once, watch, keep)
    return {
        job: Outcome(standing.name, job.seed, standing.state, _results(job), standing.reason)
        for job, standing in standings.items()
    }


def finished_there(job: Job, config: Config, graph: TemporalGraph) -> RunResults | None:
    """The results of a run whose folder holds it trained and tested; None where it does not."""
    results = run_there(job.folder, config, graph)
    return results if results is not None and results.finished and results.test else None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep others who would work in the folder out of it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{folder}: another command is at work here; wait, or choose another --out"
            ) from None
        yield
    finally:
        os.close(handle)


def _standing(job: Job, config: Config, graph: TemporalGraph) -> Standing:
    """Where a run stands before the work."""
    results = finished_there(job, config, graph)
    if results is not None:
        return Standing(job.folder.name, job.model, "finished", seconds=results.train_seconds)
    return Standing(job.folder.name, job.model)


def _work(
    standings: Mapping[Job, Standing],
    made_of: Mapping[Job, Collection[Job]],
    at_once: int,
    watch: Watch | None,
    keep: Keep | None,
) -> None:
    def hear(job: Job, event: Event, line: dict[str, Any]) -> None:
        standing, now = standings[job], time.monotonic()
        if event == "started":
            standing.state, standing.began = "running", now
        elif event == "report":
            standing.told, standing.heard = line, now
        else:
            standing.seconds, standing.reason = now - standing.began, line.get("reason")
            results = _results(job)
            done = event == "ended" and results is not None and results.finished
            standing.state = "failed" if event == "failed" else "finished" if done else "unfinished"
            if done and keep is not None and results is not None:
                keep(job, results)
        if watch is not None:
            watch(list(standings.values()), standing)

    waiting = [job for job, standing in standings.items() if standing.state == "waiting"]
    run_jobs({job: made_of[job] for job in waiting}, at_once, hear)


def _results(job: Job) -> RunResults | None:
    return read_results(job.folder) if (job.folder / RUN_MARKER).is_file() else None
