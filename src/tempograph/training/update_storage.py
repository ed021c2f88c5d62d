"""Write what updates added: into the folder of the run, or into a copy of it."""

from __future__ import annotations

import dataclasses
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from tempograph.data.additions import Additions
from tempograph.data.graph import TemporalGraph
from tempograph.errors import RunError, StorageError
from tempograph.io import atomic_folder, lock_folder, write_json
from tempograph.models.ensemble.ensemble_settings import part_names
from tempograph.training.config import Config
from tempograph.training.run_card import write_card, write_results
from tempograph.training.run_folder import (
    CHECKPOINT,
    CHECKPOINT_ALL_FACTS,
    HOLDOUT,
    RESULTS,
    RUN_MARKER,
    UPDATES,
    explain_damage,
    read_results,
)
from tempograph.training.run_results import RunResults
from tempograph.training.runs import Run
from tempograph.training.updates import Updates

_NOT_COPIED: Final = (".*", UPDATES, CHECKPOINT, CHECKPOINT_ALL_FACTS, HOLDOUT, "tensorboard")
"""Files of a run folder that a copy does not need, or that it gets anew."""


def save_run(run: Run, out: Path | None = None, overwrite: bool = False) -> Run:
    """Write the updates of a run into its folder, or the whole run into another one.

    A run without a folder stays in memory alone, if there is no other one.
    """
    if out is not None and (run.path is None or out.resolve() != run.path.resolve()):
        if run.path is None:
            return run.save(out, overwrite)
        copy_run(run.path, out, overwrite, run.config, run.graph, run.updates)
        return run.moved(out)
    if run.path is not None and run.updates is not None:
        with lock_folder(run.path):
            results = write_update(run.path, run.config, run.graph, run.updates)
        vars(run.results).update(vars(results))
    return run


def write_update(
    folder: Path, config: Config, graph: TemporalGraph, updates: Updates
) -> RunResults:
    """Write updates into their run folder, whose lock the caller holds.

    The folder of the update is written first, then results.json, which makes it count. What is
    killed or fails before that leaves the run as it was. The card comes last; if it cannot be
    written, it is with the next results. Updates that are in the folder are not written again.
    """
    results = read_results(folder)
    number, epochs = 0, 0
    if results.updates is not None:
        number, epochs = results.updates["number"], results.updates["epochs"]
    stored = _stored_additions(folder, graph, number)
    _refuse_other_updates(folder, updates.additions.first(stored.sizes), stored)
    if updates.additions.sizes == stored.sizes and updates.summary(graph)["epochs"] == epochs:
        return results
    updates = dataclasses.replace(updates, number=max(updates.number, number + 1))
    updates.write(folder)
    results.updates = updates.summary(graph)
    write_json(folder / RESULTS, results.to_json())
    with suppress(StorageError):
        write_card(folder, config, graph, results, _part_names(config))
    updates.discard_earlier(folder)
    return results


def copy_run(
    source: Path,
    out: Path,
    overwrite: bool,
    config: Config,
    graph: TemporalGraph,
    updates: Updates | None,
) -> RunResults:
    """Write a copy of a run folder with other updates, whole or not at all."""
    results = read_results(source)
    with atomic_folder(out, RUN_MARKER, overwrite) as folder:
        skipped = shutil.ignore_patterns(*_NOT_COPIED)
        shutil.copytree(source, folder, ignore=skipped, dirs_exist_ok=True)
        if updates is not None:
            updates.write(folder)
            results.updates = updates.summary(graph)
        write_results(folder, config, graph, results, _part_names(config))
    return results


def _stored_additions(folder: Path, graph: TemporalGraph, number: int) -> Additions:
    """What updates have added to a run folder so far."""
    if not number:
        return Additions()
    with explain_damage(folder):
        return Additions.read(folder / UPDATES / str(number), graph)


def _refuse_other_updates(folder: Path, ours: Additions, stored: Additions) -> None:
    """Refuse updates that do not begin with those that are in the folder."""
    same_names = all(
        getattr(ours, names) == getattr(stored, names)
        for names in ("entities", "relations", "times")
    )
    if not same_names or not ours.same_facts(stored):
        raise RunError(
            f"{folder}: was updated by another command since it was loaded; load it again"
        )


def _part_names(config: Config) -> list[str]:
    return part_names(config.model.parts) if config.kind.has_parts else []
