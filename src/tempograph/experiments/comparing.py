"""From a list of models to a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from tempograph.data.catalog import load_dataset
from tempograph.device import resolve_device
from tempograph.errors import ConfigError, DataError
from tempograph.experiments.batch import Note, alone, bring_to_end
from tempograph.experiments.comparison import Comparison, Row
from tempograph.experiments.plan import make_plans, plan_notes
from tempograph.experiments.published import published
from tempograph.experiments.scheduler import Job
from tempograph.experiments.status import Watch
from tempograph.io import make_folder, write_json, write_text
from tempograph.models.registry import MODELS
from tempograph.training.config import Config
from tempograph.typing import Protocol


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
    note: Note | None = None,
    watch: Watch | None = None,
) -> Comparison:
    """Train models, by default all there are, once for each seed, rank test once with each run, and keep a table.

    A run is a process and a folder of its own, MODEL-seedN below `out`; `jobs` of them are at work at once. Called
    again, this takes over the runs that are finished, goes on with those that are not, and refuses one with other
    settings. The preset is taken by the models that have it for the dataset, an override by those that have such a
    setting: `note` hears by which. `watch` hears how the runs stand.
    """
    graph, place, folder, given = (
        load_dataset(dataset),
        resolve_device(device),
        Path(out),
        tuple(overrides),
    )
    names, numbers = (
        list(dict.fromkeys(MODELS if models is None else models)),
        list(dict.fromkeys(seeds)),
    )
    for what, count in (("model", len(names)), ("seed", len(numbers)), ("job", jobs)):
        if count < 1:
            raise ConfigError(f"compare needs at least one {what}, found {count}")
    if not len(graph.test):
        raise DataError(
            f"{graph.name}: the test split has no facts, so there is nothing to compare models by"
        )
    plans = make_plans(graph, names, place, protocol, preset, given)
    runs: dict[Job, Config] = {}
    for seed in numbers:
        for plan in plans:
            config = dataclasses.replace(plan.config, seed=seed)
            path = folder / f"{config.name}-seed{seed}"
            job = Job(
                path,
                str(dataset),
                config.name,
                seed,
                protocol,
                config.preset,
                plan.overrides,
                device,
                max_seconds,
            )
            runs[job] = config
    make_folder(folder)
    with alone(folder):
        if note is not None:
            for line in plan_notes(plans, given):
                note(line)
        outcomes = bring_to_end(runs, graph, jobs, note, watch)
        rows = [
            Row(
                plan.config.name,
                plan.origin,
                published(graph.name, plan.config.name, protocol),
                tuple(
                    outcome for job, outcome in outcomes.items() if job.model == plan.config.name
                ),
            )
            for plan in plans
        ]
        comparison = Comparison(graph.name, protocol, folder, given, jobs, tuple(rows))
        write_json(folder / "compare.json", comparison.summary())
        write_text(folder / "compare.md", comparison.markdown())
    return comparison
