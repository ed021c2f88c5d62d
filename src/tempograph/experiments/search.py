"""A search within a budget: successive halving of trials by their valid MRR.

A model that needs no training comes first, so that there is something to ask at once. Then every
trial is trained for its share of the time, and the worse half is dropped, until one is left, which
is trained with the rest of the time. In the end, trials that add something to it are trained on and
combined with it. Test facts are never ranked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tempograph.data.timeline import Timeline
from tempograph.errors import RunError
from tempograph.experiments.fit_hooks import FitHooks
from tempograph.experiments.halving import halvings_left, keep_better_half, share_of_trial
from tempograph.experiments.part_choice import MIN_GAIN, choose_parts
from tempograph.experiments.search_start import begin_record, describe_first
from tempograph.experiments.trial_runs import TrialRuns
from tempograph.experiments.trials import ENSEMBLE, FIRST_MODEL
from tempograph.io import lock_folder, make_folder
from tempograph.models.ensemble.ensemble_settings import part_names
from tempograph.training.fit_record import FitRecord
from tempograph.training.run_evaluation import evaluate
from tempograph.training.run_folder import read_config
from tempograph.training.runs import Run
from tempograph.training.search_record import TRIALS, SearchRecord, Trial, read_search_record
from tempograph.training.trainer import end_training

_COMBINING: Final = 0.1
"""The share of the time that training leaves for combining the best trials."""


def is_unfinished_search(folder: Path, fit: FitRecord) -> bool:
    """Whether a fit was asked to search and has not come to the end of that."""
    if fit.plan is None:
        return False
    record = read_search_record(folder)
    return record is None or not record.finished


def run_search(folder: Path, fit: FitRecord, hooks: FitHooks, device: str) -> FitRecord | None:
    """Search, and leave the best model as the run in the folder; None if the time is up before.

    The folder holds a run of the first model; the trials are trained in a folder in it. Whatever
    ends this function, the folder holds the best model so far, and another call continues.
    """
    assert fit.plan is not None
    make_folder(folder / TRIALS)
    with lock_folder(folder / TRIALS, wait=False):
        record = read_search_record(folder)
        if record is None:
            record = begin_record(folder, fit.plan, device)
            hooks.notify(describe_first(folder, record))
        runs = TrialRuns(folder, fit, fit.plan, record, hooks, device)
        try:
            with hooks.stage("searching") as runs.progress:
                if not (halve_trials(runs) and _train_last(runs) and _combine(runs)):
                    return None
                _choose(runs)
        finally:
            runs.write()
        return runs.fit


def _alive(record: SearchRecord) -> list[Trial]:
    """The trials that are still trained; the first model has nothing to train."""
    others = (FIRST_MODEL, ENSEMBLE)
    return [each for each in record.trials if each.dropped is None and each.name not in others]


def _train(runs: TrialRuns, trials: Sequence[Trial], number: int, halvings: int) -> bool:
    """Train trials for a round, unless they took part in it; False if the time is up.

    A trial whose share is too short for an epoch stays as it is.
    """
    waiting = [trial for trial in trials if not (trial.finished or trial.took_part(number))]
    if not waiting:
        return True
    left = (1 - _COMBINING) * runs.record.seconds_left
    share = share_of_trial(left, halvings, len(waiting), runs.jobs)
    return runs.train([each for each in waiting if each.epoch_seconds <= share], number, share)


def halve_trials(runs: TrialRuns) -> bool:
    """Train all trials and drop the worse half, until one is left or nothing is gained."""
    record = runs.record
    while len(alive := _alive(record)) > 1 and record.stopped is None:
        number = record.halvings + 1
        if not _train(runs, alive, number, halvings_left(len(alive))):
            return False
        alive = _alive(record)
        kept = keep_better_half({trial.name: trial.valid_mrr for trial in alive})
        for trial in alive:
            if trial.name not in kept:
                trial.dropped = f"in the worse half after round {number}"
        gain = runs.best_mrr(number) - runs.best_mrr(number - 1)
        if not record.seconds_left:
            record.stopped = "the time was used up"
        elif number > 1 and gain < MIN_GAIN and all(each.was_validated for each in alive):
            record.stopped = f"round {number} gained only {max(gain, 0.0):.4f} in valid MRR"
        record.halvings = number
        runs.write()
    return True


def _train_last(runs: TrialRuns) -> bool:
    """Train the trial that is left with the rest of the time."""
    if runs.record.stopped is not None:
        return True
    return _train(runs, _alive(runs.record), runs.record.halvings + 1, 0)


def _combine(runs: TrialRuns) -> bool:
    """Combine the best trial with others that add something; not if a model was requested."""
    record, best, number = runs.record, runs.best(), runs.record.halvings + 2
    ensemble = next((trial for trial in record.trials if trial.name == ENSEMBLE), None)
    if ensemble is None:
        if best is None or best.name == FIRST_MODEL or runs.plan.requested:
            return True
        if not record.seconds_left:
            return True
        parts = [record.trial(name) for name in _find_parts(runs, best)]
        if len(parts) < 2:
            return True
        for part in parts:
            part.dropped = None
        if not _train(runs, parts, number, 0):
            return False
        ensemble = _new_ensemble(runs, parts)
        record.trials.append(ensemble)
        runs.write()
    if not ensemble.rounds:
        most = max(record.seconds_left, _COMBINING * 60 * record.minutes)
        runs.train_whole(ensemble, number, most)
    return True


def _find_parts(runs: TrialRuns, best: Trial) -> list[str]:
    """The names of the best trial and of those that raise the valid MRR of a mixture with it."""
    graph, timeline = runs.graph, Timeline(runs.graph, "strict", runs.device)
    others = [each for each in runs.eligible() if each is not best and each.name != FIRST_MODEL]
    models = {
        trial.name: Run.load_with(runs.path(trial.name), graph, timeline).model
        for trial in (best, *sorted(others, key=lambda each: -(each.valid_mrr or 0.0)))
    }
    usable = {name: model for name, model in models.items() if model.probabilistic}
    return choose_parts(usable, graph, timeline, runs.seed) if best.name in usable else []


def _new_ensemble(runs: TrialRuns, parts: Sequence[Trial]) -> Trial:
    """A trial that combines others, whose best weights so far become the final ones.

    Its gate is fitted on valid, which needs no copies of the parts, and its valid MRR comes from
    gates that are fitted on the other half of valid.
    """
    for part in parts:
        end_training(runs.path(part.name), device=runs.device_name)
    paths = json.dumps([str(runs.path(part.name)) for part in parts])
    overrides = [f"model.parts={paths}", "model.fit_on=valid"]
    if runs.device.type == "cuda":
        overrides += ["model.candidate_hidden=32", "model.common_neighbors=true"]
    else:
        overrides += ["model.candidates=20", "model.steps=500"]
    return Trial(ENSEMBLE, ENSEMBLE, tuple(overrides))


def _choose(runs: TrialRuns) -> None:
    """Make the best trial the run, and note why."""
    record, best = runs.record, runs.best()
    if best is None:
        reasons = "; ".join(f"{each.name}: {each.dropped}" for each in record.trials[1:])
        raise RunError(f"{runs.folder}: no trial could be trained; {reasons}")
    parts = _parts_of(runs, best)
    if best.name != FIRST_MODEL:
        end_training(runs.path(best.name), device=runs.device_name)
    for trial in record.trials:
        if trial.name in parts:
            trial.dropped = "a part of the choice"
        elif trial is not best and trial.dropped is None:
            trial.dropped = "not as good as the choice"
    record.why = _describe_choice(record, best, parts)
    runs.adopt(best, record.why)
    # The search leaves out the test facts, also as known answers; figures that are reported do not.
    evaluate(runs.folder, "valid", device=runs.device_name, progress=False)
    record.finished = True


def _parts_of(runs: TrialRuns, trial: Trial) -> list[str]:
    """The names of the trials that a trial combines."""
    if trial.name != ENSEMBLE:
        return []
    return part_names(read_config(runs.path(ENSEMBLE)).model.parts)


def _describe_choice(record: SearchRecord, best: Trial, parts: Sequence[str]) -> str:
    """Why a trial was chosen, beside what the rules choose."""
    subject = f"{', '.join(parts[:-1])} and {parts[-1]} together have" if parts else "it has"
    count = sum(trial.valid_mrr is not None for trial in record.trials)
    among = f"the best valid MRR, {best.valid_mrr:.3f}, of {count} trials"
    why = f"{subject} {among if count > 1 else f'valid MRR {best.valid_mrr:.3f}'}"
    for trial in record.trials:
        if trial.name == record.rules.model != best.name and trial.valid_mrr is not None:
            why += f"; {trial.name}, by the rules, has {trial.valid_mrr:.3f}"
    return why
