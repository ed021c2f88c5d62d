"""The runs that tables and pictures of the paper are made of: which are there, and how the others come to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.device import resolve_device
from tempograph.errors import DataError
from tempograph.evaluation.rank_table import read_run_ranks
from tempograph.experiments.batch import Note, bring_to_end, finished_there
from tempograph.experiments.comparison import Outcome
from tempograph.experiments.results import Result, keep_result, load_results
from tempograph.experiments.scheduler import Job
from tempograph.experiments.status import Watch
from tempograph.io import make_folder
from tempograph.training.config import Config
from tempograph.training.run_results import RunResults
from tempograph.training.setting_values import flat_settings, parse_override
from tempograph.training.setup import configure
from tempograph.typing import Protocol, Split

MEASURED: Final[tuple[Split, ...]] = ("valid", "test")
"""Splits that every table is made from."""


@dataclass(frozen=True)
class Need:
    """A run that a table is made of."""

    model: str
    protocol: Protocol
    seed: int
    preset: str | None = None
    overrides: tuple[str, ...] = ()
    drawn: bool = False
    """Whether its ranks are drawn, and so must be kept as well."""

    def met_by(self, result: Result, dataset: str) -> bool:
        """Whether a result is of such a run: the same preset, changed in nothing but the overrides."""
        wanted = {
            f"{section}.{name}": value
            for section, name, value in map(parse_override, self.overrides)
        }
        here = flat_settings(result["config"])
        return (
            (result["dataset"], result["model"]) == (dataset, self.model)
            and (result["protocol"], result["seed"]) == (self.protocol, self.seed)
            and (self.preset is None or result.get("preset") == self.preset)
            and set(result.get("changed", {})) <= set(wanted)
            and all(here.get(name) == value for name, value in wanted.items())
        )

    @property
    def variant(self) -> str:
        """What tells the file of the result from those of other settings."""
        changes = [
            f"{name.replace('_', '-')}-{value}"
            for _, name, value in map(parse_override, self.overrides)
        ]
        return "-".join([*([self.preset] if self.preset else []), *changes]).lower()

    @property
    def name(self) -> str:
        """What its run folder and the table of its ranks are called."""
        return "-".join(
            part for part in (self.model, self.variant, self.protocol, f"seed{self.seed}") if part
        )


def once(needs: Iterable[Need]) -> list[Need]:
    """Each run once: one that stands in a table and is drawn as well is one run, and its ranks are kept."""
    return list({need.name: need for need in sorted(needs, key=lambda need: need.drawn)}.values())


def missing_of(needs: Iterable[Need], results: Path, dataset: str) -> list[Need]:
    """Those without a measured result, or without the ranks that are drawn."""
    found = load_results(results, MEASURED)
    return [
        need
        for need in needs
        if not any(need.met_by(result, dataset) for result in found)
        or (need.drawn and not _ranks_file(need, results, dataset).is_file())
    ]


def _ranks_file(need: Need, results: Path, dataset: str) -> Path:
    return results / dataset / "ranks" / f"{need.name}.parquet"


def bring(
    planned: dict[Job, Need],
    of: int,
    graph: TemporalGraph,
    results: Path,
    at_once: int,
    note: Note,
    watch: Watch | None,
) -> list[Outcome]:
    """Take over the runs that are finished, train the others, and keep the result of each as soon as it is there.

    What ended with an error is given back.
    """
    for split in MEASURED:
        if not len(graph.facts(split)):
            raise DataError(
                f"{graph.name}: the {split} split has no facts, so there is nothing to measure models by"
            )

    def keep(job: Job, found: RunResults) -> None:
        need = planned[job]
        keep_result(found.to_json(), results, need.variant)
        if need.drawn:
            make_folder(results / graph.name / "ranks")
            read_run_ranks(job.folder)["test"].write(_ranks_file(need, results, graph.name))

    # The rows further down take the longest: begun last, they would be waited for with nothing beside them.
    runs = {job: _config(need, graph, job.device) for job, need in reversed(planned.items())}
    there = {job: finished_there(job, config, graph) for job, config in runs.items()}
    for job, found in there.items():
        if found is not None:
            keep(job, found)
    waiting = {job: config for job, config in runs.items() if there[job] is None}
    if not waiting:
        return []
    listed = _listed([need for job, need in planned.items() if job in waiting])
    note(f"{len(waiting)} of {of} runs are missing and will be trained: {listed}")
    make_folder(next(iter(waiting)).folder.parent)
    outcomes = bring_to_end(waiting, graph, at_once, note, watch, keep)
    return [outcome for outcome in outcomes.values() if outcome.state == "failed"]


def job_of(
    need: Need, dataset: str | Path, folder: Path, device: str, max_seconds: float | None
) -> Job:
    """How the run comes to be, in a folder of its own below this one."""
    return Job(
        folder=folder / need.name,
        dataset=str(dataset),
        model=need.model,
        seed=need.seed,
        protocol=need.protocol,
        preset=need.preset,
        overrides=need.overrides,
        device=device,
        max_seconds=max_seconds,
    )


def _config(need: Need, graph: TemporalGraph, device: str) -> Config:
    return configure(
        graph,
        need.model,
        resolve_device(device),
        protocol=need.protocol,
        preset=need.preset,
        seed=need.seed,
        overrides=need.overrides,
    )


def _listed(needs: Sequence[Need], most: int = 6) -> str:
    shown = [
        " ".join(part for part in (need.model, need.variant, need.protocol) if part)
        for need in needs
    ]
    distinct = list(dict.fromkeys(shown))
    more = f" and {len(distinct) - most} more" if len(distinct) > most else ""
    return ", ".join(distinct[:most]) + more
