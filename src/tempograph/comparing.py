"""From a list of models to a table: runs that are finished are taken over, the others are brought to their end."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tempograph.comparison import Comparison, Outcome, Row
from tempograph.config import Config
from tempograph.data.catalog import load_dataset
from tempograph.data.graph import TemporalGraph
from tempograph.environment import resolve_device
from tempograph.errors import ConfigError, DataError, RunError
from tempograph.files import make_folder, write_json, write_text
from tempograph.jobs import Event, Job, run_jobs
from tempograph.models.registry import MODELS
from tempograph.planning import make_plans, plan_notes, run_there
from tempograph.published import published
from tempograph.runs import RUN_MARKER, read_record
from tempograph.standing import Standing, Watch
from tempograph.timeline import Protocol


def compare(
    dataset: str | Path,
    models: Iterable[str] | None = None,
    *,
    out: str | Path,
    seeds: Iterable[int] = (0,),
    protocol: Protocol = "strict",
    preset: str | None = None,
    overrides: Iterable[str] = (),
    device: str = "auto",
    jobs: int = 1,
    max_seconds: float | None = None,
    note: Callable[[str], None] | None = None,
    watch: Watch | None = None,
) -> Comparison:
    """Train models, by default all there are, once for each seed, rank test once with each run, and keep a table.

    A run is a process and a folder of its own, MODEL-seedN below `out`; `jobs` of them are at work at once. Called
    again, this takes over the runs that are finished, goes on with those that are not, and refuses one with other
    settings. The preset is taken by the models that have it for the dataset, an override by those that have such a
    setting: `note` hears by which. `watch` hears how the runs stand.
    """
    graph, place, folder, given = load_dataset(dataset), resolve_device(device), Path(out), tuple(overrides)
    names, numbers = list(dict.fromkeys(MODELS if models is None else models)), list(dict.fromkeys(seeds))
    if not names or not numbers or jobs < 1:
        raise ConfigError(f"compare needs a model, a seed and a job; found {len(names)}, {len(numbers)} and {jobs}")
    if not len(graph.test):
        raise DataError(f"{graph.name}: the test split has no facts, so there is nothing to compare models by")
    plans = make_plans(graph, names, place, protocol, preset, given)
    runs: dict[Job, Config] = {}
    for seed in numbers:
        for plan in plans:
            config = dataclasses.replace(plan.config, seed=seed)
            path = folder / f"{config.name}-seed{seed}"
            job = Job(
                path, str(dataset), config.name, seed, protocol, config.preset, plan.overrides, device, max_seconds
            )
            runs[job] = config
    make_folder(folder)
    with _alone(folder):
        standings = {job: _standing(job, config, graph) for job, config in runs.items()}
        done = sum(standing.state == "finished" for standing in standings.values())
        for line in [*plan_notes(plans, given), *([f"{done} of {len(standings)} runs are there"] if done else [])]:
            if note is not None:
                note(line)
        _bring_to_end(standings, jobs, watch)
        outcomes = [
            (job.model, Outcome(standing.name, job.seed, standing.state, _results(job), standing.reason))
            for job, standing in standings.items()
        ]
        rows = [
            Row(
                plan.config.name,
                plan.origin,
                published(graph.name, plan.config.name, protocol),
                tuple(outcome for model, outcome in outcomes if model == plan.config.name),
            )
            for plan in plans
        ]
        comparison = Comparison(graph.name, protocol, folder, given, jobs, tuple(rows))
        write_json(folder / "compare.json", comparison.summary())
        write_text(folder / "compare.md", comparison.markdown())
    return comparison


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep a second comparison out of the folder as long as this one is at work."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"{folder}: another comparison is at work here; wait, or choose another --out") from None
        yield
    finally:
        os.close(handle)


def _standing(job: Job, config: Config, graph: TemporalGraph) -> Standing:
    """Where a run stands before the work."""
    results = run_there(job.folder, config, graph)
    if results is not None and results["finished"] and "test" in results:
        return Standing(job.folder.name, job.model, "finished", seconds=results["train_seconds"])
    return Standing(job.folder.name, job.model)


def _bring_to_end(standings: Mapping[Job, Standing], at_once: int, watch: Watch | None) -> None:
    def hear(job: Job, event: Event, line: dict[str, Any]) -> None:
        standing, now = standings[job], time.monotonic()
        if event == "started":
            standing.state, standing.began = "running", now
        elif event == "report":
            standing.told, standing.heard = line, now
        else:
            standing.seconds, standing.reason = now - standing.began, line.get("reason")
            done = event == "ended" and _results(job)["finished"]
            standing.state = "failed" if event == "failed" else "finished" if done else "unfinished"
        if watch is not None:
            watch(list(standings.values()), standing)

    run_jobs([job for job, standing in standings.items() if standing.state == "waiting"], at_once, hear)


def _results(job: Job) -> dict[str, Any]:
    return read_record(job.folder)[1] if (job.folder / RUN_MARKER).is_file() else {}
