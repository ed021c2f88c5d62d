"""Measured results on disk, and how several of them become one row of figures."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tempograph.errors import DataError
from tempograph.experiments.published import Figures
from tempograph.io import make_folder, write_json
from tempograph.typing import SPLITS, Split

HITS: Final = ("hits@1", "hits@3", "hits@10")
SPREAD: Final = "± half the distance between the best and the worst seed"

Result = dict[str, Any]
"""What a results.json holds."""


def keep_result(result: Result, folder: Path, variant: str = "") -> Path:
    """Copy the figures of a run to results/<dataset>/<model>[-variant]-<protocol>-seed<N>.json."""
    parts = (result["model"], variant, result["protocol"], f"seed{result['seed']}")
    path: Path = folder / result["dataset"] / f"{'-'.join(part for part in parts if part)}.json"
    make_folder(path.parent)
    write_json(path, result)
    return path


def load_results(folder: Path, splits: Iterable[Split] = ()) -> list[Result]:
    """Every result below a folder, in order of file name; each must have figures of these splits."""
    results = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: not a result: {error}") from None
        if lacking := next(_lacking(found, splits), None):
            raise DataError(f"{path}: not a result: {lacking}")
        results.append(found)
    return results


def _lacking(found: Any, splits: Iterable[Split]) -> Iterator[str]:
    """What keeps something from being a result."""
    if not isinstance(found, dict):
        yield f"expected an object with dataset, model and figures, found {type(found).__name__}"
        return
    for name, kind in (
        ("dataset", str),
        ("model", str),
        ("protocol", str),
        ("seed", int),
        ("config", dict),
    ):
        if not isinstance(found.get(name), kind):
            yield f"'{name}' is missing or of another kind"
    if not all(isinstance(section, dict) for section in found.get("config", {}).values()):
        yield "'config' holds something other than sections"
    if not isinstance(found.get("preset"), str | None) or not isinstance(
        found.get("changed", {}), dict
    ):
        yield "'preset' or 'changed' is of another kind"
    for name in ("parameters", "epoch_seconds", "train_seconds"):
        if not isinstance(found.get(name), int | float | None):
            yield f"'{name}' is no number"
    for split in dict.fromkeys((*splits, *(name for name in SPLITS if name in found))):
        part = found.get(split)
        metrics = part.get("metrics") if isinstance(part, dict) else None
        if not isinstance(metrics, dict) or not all(
            isinstance(metrics.get(k), int | float) for k in ("mrr", *HITS)
        ):
            yield f"it has no figures of {split}"


def without_copies(results: Iterable[Result]) -> list[Result]:
    """One result for each run: another of the same settings and seed is a copy, and no further seed."""
    runs: dict[tuple[Any, ...], Result] = {}
    for result in results:
        runs.setdefault((*_of_what(result), _settings(result), result["seed"]), result)
    return list(runs.values())


class Alone(NamedTuple):
    """Seconds of an epoch with nothing beside it, by dataset and model, and the preset and hardware of all."""

    preset: str
    hardware: str
    seconds: dict[tuple[str, str], float]


def load_alone(folder: Path) -> Alone | None:
    """What benchmarks/methods_speed.py found, where it is kept with the results."""
    path = folder / "methods-speed.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        seconds = {
            (one["dataset"], one["model"]): float(one["epoch_seconds"]) for one in found["results"]
        }
        return Alone(found["preset"], found["environment"]["hardware"], seconds)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not measured speeds: {error!r}") from None


def figures(metrics: dict[str, float]) -> Figures:
    """The four figures of a published table."""
    return metrics["mrr"], *(100 * metrics[name] for name in HITS)  # type: ignore[return-value]


def seeds_cells(runs: Sequence[dict[str, float]], digits: int = 3) -> list[str]:
    """The four figures of several seeds: their mean, and half the distance between the best and the worst MRR."""
    columns = list(zip(*(figures(metrics) for metrics in runs), strict=True))
    cells = figure_cells([statistics.mean(column) for column in columns], digits)
    if len(runs) > 1:
        cells[0] += f" ± {half_range(columns[0]):.{digits}f}"
    return cells


def half_range(values: Sequence[float]) -> float:
    """Half the distance between the largest and the smallest value."""
    return (max(values) - min(values)) / 2


def figure_cells(values: Sequence[float | None], digits: int = 3) -> list[str]:
    """MRR to so many digits and Hits to one, as tables show them; a dash where there is none."""
    return [
        "-" if value is None else f"{value:.{1 if place else digits}f}"
        for place, value in enumerate(values)
    ]


def mean_of(runs: Sequence[Result], *path: str) -> float | None:
    """The mean of a figure over the runs that have it."""
    found = []
    for run in runs:
        value: Any = run
        for name in path:
            value = None if value is None else value.get(name)
        found += [] if value is None else [float(value)]
    return statistics.mean(found) if found else None


def best_settings(results: Sequence[Result]) -> dict[tuple[str, str, str], list[Result]]:
    """For each (dataset, model, protocol) the runs of the settings with the highest mean MRR on valid.

    Runs with the same preset and the same changes to it, or without a preset the same settings, go together. Changed
    presets, such as those of an ablation, stand for a model only where nothing else does.
    """
    groups: dict[tuple[str, str, str], dict[str, list[Result]]] = {}
    as_shipped = {_of_what(result) for result in results if not result.get("changed")}
    for result in without_copies(results):
        key = _of_what(result)
        if not (result.get("changed") and key in as_shipped):
            groups.setdefault(key, {}).setdefault(_settings(result), []).append(result)

    def on_valid(runs: list[Result]) -> float:
        return statistics.mean(float(run["valid"]["metrics"]["mrr"]) for run in runs)

    return {key: max(variants.values(), key=on_valid) for key, variants in groups.items()}


def _settings(result: Result) -> str:
    settings = (
        [result["preset"], result.get("changed", {})] if result.get("preset") else result["config"]
    )
    return json.dumps(settings, sort_keys=True)


def _of_what(result: Result) -> tuple[str, str, str]:
    return result["dataset"], result["model"], result["protocol"]
