"""Update a run: new facts, names and time steps enter its history, without training or with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from tempograph.data.additions import Additions
from tempograph.data.fact_ids import FactsLike
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.batch_options import Note
from tempograph.data.importers.options import ImportOptions
from tempograph.data.protocol import task_of
from tempograph.device import resolve_device
from tempograph.errors import ConfigError, QueryError, RunError, TempographWarning
from tempograph.io import lock_folder, refuse_existing
from tempograph.models.registry import MODELS
from tempograph.training.answering import all_facts_in_train
from tempograph.training.callbacks import Callbacks
from tempograph.training.config import Config
from tempograph.training.run_folder import (
    RUN_MARKER,
    explain_damage,
    read_config,
    read_graph,
    read_import_options,
    read_results,
)
from tempograph.training.run_results import RunResults
from tempograph.training.runs import Run
from tempograph.training.update_facts import UpdateFacts, read_update
from tempograph.training.update_result import UpdateResult
from tempograph.training.update_storage import copy_run, save_run, write_update
from tempograph.training.updates import Updates
from tempograph.training.warm_training import train_further
from tempograph.typing import MetricsCallback, ProgressOption


def update(
    run: Run | str | Path,
    facts: FactsLike,
    *,
    out: str | Path | None = None,
    train: int = 0,
    options: ImportOptions | Mapping[str, Any] | None = None,
    save: bool = True,
    overwrite: bool = False,
    device: str = "auto",
    note: Note | None = None,
    report: MetricsCallback | None = None,
    progress: ProgressOption = True,
) -> UpdateResult:
    """Add facts to the history of a run, with their new entities, relations and time steps.

    Facts are a file, a DataFrame or Arrow table, rows (subject, relation, object, time), or an
    array of ids. Those of a run whose facts hold for a while may have a start and an end. Columns
    and times are read as in the import that made the run's data; options that differ, or those in a
    mapping, count instead. A faulty row is an error and changes nothing, or is skipped with
    `ImportOptions(skip_bad=True)`. Facts that are known are left out. A fact with an end replaces
    the same fact, from the same start, if its end was open or unknown. Steps may come after the
    last one; there is a warning if one is so far after it that it looks like a typo.

    The run folder changes as a whole or not at all; with `out`, the updated run is a new folder.
    With `save=False`, and for a run without a folder, it is in memory alone. With `train`, the
    model is trained for so many epochs on all facts, from the weights it has; `report` is called
    with each epoch. The data, weights and figures that were measured stay as they are, and are
    marked as from before the update. `note` is called with what was guessed.
    """
    if train < 0:
        raise ConfigError(f"train must be a number of epochs from 0, found {train}")
    if out is not None:
        refuse_existing(Path(out), RUN_MARKER, overwrite)
    given = options.given if isinstance(options, ImportOptions) else options or {}
    source = _Source(facts, given, note)
    goal = _Goal(None if out is None else Path(out), overwrite, save)
    if isinstance(run, Run):
        loaded = run
    else:
        read_config(Path(run))  # Refuses a folder that is no run.
        if not train:
            return _update_folder(Path(run), source, goal, device)
        loaded = Run.load(run, resolve_device(device))
    description = f"training {loaded.config.name} on {loaded.graph.name}"
    with Callbacks.open(description, report, progress, False, None) as callbacks:
        return _update_run(loaded, source, goal, train, callbacks)


class _Source(NamedTuple):
    """The facts of an update, and how they are read."""

    facts: FactsLike
    given: Mapping[str, Any]
    note: Note | None


class _Goal(NamedTuple):
    """Where the updated run goes: into its own folder, a new one, or nowhere."""

    out: Path | None
    overwrite: bool
    save: bool

    @property
    def in_place(self) -> bool:
        return self.save and self.out is None


def _update_folder(folder: Path, source: _Source, goal: _Goal, device: str) -> UpdateResult:
    """Update a run folder; its model is only loaded if it may not take what is added.

    Other updates wait until this one is written, and then add to it.
    """
    with lock_folder(folder) if goal.in_place else nullcontext():
        data = _RunData.read(folder)
        read = data.read_update(source)
        updates = data.add(read.additions) if len(read.additions.facts) else None
        if updates is not None and data.may_refuse(read.additions):
            _refuse_fixed_model(Run.load(folder).with_updates(updates))
        results, path = data.results, folder if goal.save or goal.out else None
        if goal.out is not None:
            results = copy_run(
                folder, goal.out, goal.overwrite, data.config, data.graph, updates or data.updates
            )
            path = goal.out
        elif updates is not None and goal.save:
            results = write_update(folder, data.config, data.graph, updates)
        elif updates is not None:
            results = replace(results, updates=updates.summary(data.graph))

    def load() -> Run:
        run = Run.load(path or folder, resolve_device(device))
        return run if path or updates is None else run.with_updates(updates)

    return _result(data, read, results, path, load)


def _update_run(
    run: Run, source: _Source, goal: _Goal, train: int, callbacks: Callbacks
) -> UpdateResult:
    """Update a loaded run."""
    data = _RunData(run.config, run.graph, run.results, run.import_options, run.updates, run.path)
    read = data.read_update(source)
    trained: tuple[str, ...] = ()
    if len(read.additions.facts) or train:
        updated = run.with_updates(data.add(read.additions))
        if data.may_refuse(read.additions):
            _refuse_fixed_model(updated)
        if train:
            updated, trained = train_further(updated, train, callbacks)
        if len(read.additions.facts) or trained:
            run = updated
    if goal.out is not None or goal.save:
        run = save_run(run, goal.out, goal.overwrite)
    path = run.path if goal.save or goal.out else None
    result = _result(data, read, run.results, path, lambda: run)
    return replace(result, trained=trained, epochs=train if trained else 0)


def _result(
    data: _RunData,
    read: UpdateFacts,
    results: RunResults,
    path: Path | None,
    load: Callable[[], Run],
) -> UpdateResult:
    added = read.additions
    return UpdateResult(
        data.config.name,
        data.graph.name,
        read.rows,
        len(added.facts) - read.closed,
        read.known,
        read.repeated,
        read.skipped,
        added.entities,
        added.relations,
        added.times,
        read.lookalikes,
        results,
        path,
        load,
        closed=read.closed,
    )


@dataclass(frozen=True, eq=False)
class _RunData:
    """What of a run an update needs, without its model, which takes long to load."""

    config: Config
    graph: TemporalGraph
    results: RunResults
    import_options: ImportOptions | None
    updates: Updates | None
    path: Path | None

    def __post_init__(self) -> None:
        if not self.results.finished:
            way_out = "train it again"
            if self.path is not None:
                way_out = f"continue it with: tempograph resume {quote(str(self.path))}"
            raise RunError(
                f"{self.config.name} on {self.graph.name} is not finished, so it cannot be "
                f"updated; {way_out}"
            )

    @staticmethod
    def read(folder: Path) -> _RunData:
        """The data of a run folder."""
        with explain_damage(folder):
            config, results = read_config(folder), read_results(folder)
            graph, updates = read_graph(folder, config.dataset), None
            if results.updates is not None:
                updates = Updates.read(folder, results.updates["number"], graph)
            return _RunData(config, graph, results, read_import_options(folder), updates, folder)

    @property
    def additions(self) -> Additions:
        """What was added so far."""
        return Additions() if self.updates is None else self.updates.additions

    def read_update(self, source: _Source) -> UpdateFacts:
        """The facts of an update; those that answers rest on are known."""
        forecasts = task_of(self.config.protocol) == "forecast"
        all_splits = forecasts or self.results.answers is not None
        known = self.additions.onto(all_facts_in_train(self.graph) if all_splits else self.graph)
        read = read_update(known, source.facts, source.given, self.import_options, source.note)
        if read.far is not None:
            # Before anything is written: where warnings are errors, nothing changes. `update`
            # called the caller of this method.
            warnings.warn(read.far, TempographWarning, stacklevel=4)
        return read

    def add(self, additions: Additions) -> Updates:
        """The updates of the run and one more."""
        if self.updates is None:
            return Updates(1, additions)
        together = self.updates.additions.then(additions)
        return replace(self.updates, number=self.updates.number + 1, additions=together)

    def may_refuse(self, additions: Additions) -> bool:
        """Whether the model may not take an update: one of another package, or new relations."""
        names = [self.config.name, *self.results.parts]
        return bool(additions.relations) or any(map(MODELS.package, names))


def _refuse_fixed_model(run: Run) -> None:
    """Refuse an update that the model of a run cannot take."""
    for name, each in run.single_models.items():
        try:
            each.model.with_timeline(each.timeline)
        except QueryError as error:
            raise RunError(f"{name} cannot be updated: {error}; train it again") from error
    timeline = run.answering().timeline
    if run.questions.has_heads:
        run.questions.heads().with_timeline(timeline)
