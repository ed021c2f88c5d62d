"""Measured results on disk, and how the seeds of one setting become a row of a table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tempograph.errors import DataError
from tempograph.experiments.published import Figures
from tempograph.io import make_folder, write_json
from tempograph.models.registry import MODELS
from tempograph.training.recipes import recipe_for
from tempograph.training.run_results import RunResults
from tempograph.training.setting_values import current_name, earlier_values, flat_settings
from tempograph.typing import Split

HITS: Final = ("hits@1", "hits@3", "hits@10")
SPREAD: Final = "± is half the range from the worst to the best seed"

Metrics = Mapping[str, float]
ResultKey = tuple[str, str, str]
"""Dataset, model and protocol."""


def result_name(model: str, variant: str, protocol: str, seed: int) -> str:
    """Return MODEL[-VARIANT]-PROTOCOL-seedN, the name of a result file."""
    return "-".join(part for part in (model, variant, protocol, f"seed{seed}") if part)


def save_result(result: RunResults, folder: Path, variant: str = "") -> Path:
    """Write a result to <folder>/<dataset>/<model>[-variant]-<protocol>-seed<N>.json."""
    name = result_name(result.model, variant, result.protocol, result.seed)
    path = folder / result.dataset / f"{name}.json"
    make_folder(path.parent)
    write_json(path, result.to_json())
    return path


def load_results(folder: Path, splits: Iterable[Split] = ()) -> list[RunResults]:
    """Return the results of all datasets, by file name; each must have figures of these splits."""
    results = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            result = RunResults.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: not a result: {error}") from None
        for split in splits:
            if result.evaluation(split) is None:
                raise DataError(f"{path}: not a result: it has no {split} figures")
        results.append(result)
    return results


def current_names(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, as `section.setting`, with earlier spellings replaced by the current."""
    owners = _settings_classes(model)
    split = [name.partition(".") for name in settings]
    names = [f"{part}.{current_name(owners.get(part), setting)}" for part, _, setting in split]
    return dict(zip(names, settings.values(), strict=True))


def _settings_classes(model: str) -> dict[str, type]:
    """Return the classes of a model's settings, by section."""
    classes: dict[str, type] = {}
    if (kind := MODELS.get(model)) is not None:
        classes["model"] = kind.settings
        if (gradient := recipe_for(kind).gradient) is not None:
            classes["train"] = gradient.settings
    return classes


def _earlier_settings(result: RunResults) -> dict[str, Any]:
    """Return the settings that a result of an earlier version lacks, with their values then."""
    return flat_settings(
        {
            section: {
                name: value
                for name, value in earlier_values(settings).items()
                if name not in result.config.get(section, {})
            }
            for section, settings in _settings_classes(result.model).items()
        }
    )


def settings_of(result: RunResults) -> dict[str, Any]:
    """Return all settings of a result, as `section.setting`."""
    return _earlier_settings(result) | current_names(result.model, flat_settings(result.config))


def changes_of(result: RunResults) -> dict[str, Any]:
    """Return the settings of a result that differ from its preset as it is today."""
    return _earlier_settings(result) | current_names(result.model, result.changed)


def row_label(results: Sequence[RunResults], model: str) -> str:
    """Return a model's name in a table; a gate that was fitted on valid facts is marked."""
    on_valid = any(settings_of(result).get("model.fit_on") == "valid" for result in results)
    return f"{model}*" if on_valid else model


def explain_marks(rows: Iterable[Sequence[str]]) -> str:
    """Return what the marks of `row_label` in the first cells mean; empty if there is none."""
    marked = any(row[0].endswith("*") for row in rows)
    return "* The gate was fitted on validation facts." if marked else ""


EpochSeconds = dict[tuple[str, str, str, str], float]
"""Seconds of an epoch by dataset, model, preset and hardware."""


def load_unshared_epochs(folder: Path) -> EpochSeconds:
    """Return the epochs of benchmarks/methods_speed.py, which shared the GPU with no other run."""
    path = folder / "methods-speed.json"
    if not path.is_file():
        return {}
    try:
        speeds = json.loads(path.read_text(encoding="utf-8"))
        setting = speeds["preset"], speeds["environment"]["hardware"]
        return {
            (row["dataset"], row["model"], *setting): float(row["epoch_seconds"])
            for row in speeds["results"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not measured speeds: {error!r}") from None


def without_copies(results: Iterable[RunResults]) -> list[RunResults]:
    """Return one result for each run: another with its settings and seed is a copy."""
    runs: dict[tuple[ResultKey, str, int], RunResults] = {}
    for result in results:
        runs.setdefault((_key(result), _settings_key(result), result.seed), result)
    return list(runs.values())


def best_settings(results: Sequence[RunResults]) -> dict[ResultKey, list[RunResults]]:
    """Return for each dataset, model and protocol the runs with the best settings on valid.

    Runs with one preset and the same changes to it, or without a preset with the same settings, are
    seeds of one setting. A changed preset, such as an ablation, counts only if nothing else does.
    """
    groups: dict[ResultKey, dict[str, list[RunResults]]] = {}
    unchanged = {_key(result) for result in results if not changes_of(result)}
    for result in without_copies(results):
        key = _key(result)
        if not (changes_of(result) and key in unchanged):
            groups.setdefault(key, {}).setdefault(_settings_key(result), []).append(result)
    return {
        key: max(variants.values(), key=lambda runs: mean(metric(runs, "valid", "mrr")) or 0.0)
        for key, variants in groups.items()
    }


def _key(result: RunResults) -> ResultKey:
    return result.dataset, result.model, result.protocol


def _settings_key(result: RunResults) -> str:
    settings = [result.preset, changes_of(result)] if result.preset else settings_of(result)
    return json.dumps(settings, sort_keys=True)


def metrics_of(results: Iterable[RunResults], split: Split) -> list[Metrics]:
    """Return the metrics of a split of each result that has them."""
    evaluations = (result.evaluation(split) for result in results)
    return [evaluation["metrics"] for evaluation in evaluations if evaluation is not None]


def metric(results: Iterable[RunResults], split: Split, name: str) -> list[float]:
    """Return one metric of a split of each result that has it."""
    return [metrics[name] for metrics in metrics_of(results, split)]


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, if there are any."""
    known = [float(value) for value in values if value is not None]
    return statistics.mean(known) if known else None


def half_range(values: Sequence[float]) -> float:
    """Return half the distance between the largest and the smallest value."""
    return (max(values) - min(values)) / 2


def figures(metrics: Metrics) -> Figures:
    """Return the four figures of a published table."""
    return metrics["mrr"], *(100 * metrics[name] for name in HITS)  # type: ignore[return-value]


def seeds_cells(runs: Sequence[Metrics], digits: int = 3) -> list[str]:
    """Return the cells of the mean of several seeds, with the half range of the MRR."""
    columns = list(zip(*(figures(metrics) for metrics in runs), strict=True))
    cells = figure_cells([statistics.mean(column) for column in columns], digits)
    if len(runs) > 1:
        cells[0] += f" ± {half_range(columns[0]):.{digits}f}"
    return cells


def figure_cells(values: Sequence[float | None], digits: int = 3) -> list[str]:
    """Return MRR with this many digits and Hits with one; a dash for None."""
    return [
        "-" if value is None else f"{value:.{1 if index else digits}f}"
        for index, value in enumerate(values)
    ]


def narrow_figures(first: int) -> list[tuple[str, Sequence[int]]]:
    """Return the narrow columns of our and the published figures, which start at an index."""
    ours, theirs = range(first + 1, first + 4), range(first + 4, first + 8)
    return [("MRR", [first]), ("Hits@1, 3, 10", ours), ("published", theirs)]
