"""Measured results on disk, and the Markdown tables made of them; a figure in a table is never typed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tempograph.errors import DataError
from tempograph.files import write_json
from tempograph.runs import Run

HITS: Final = ("hits@1", "hits@3", "hits@10")

Figures = tuple[float, float, float, float]
"""MRR, then Hits@1, 3 and 10 in per cent."""

PAPER_TED_VALID: Final[dict[str, dict[float, Figures]]] = {
    "icews14": {
        1e-5: (0.434, 36.2, 48.9, 60.5),
        1e-2: (0.445, 35.5, 49.9, 61.2),
        1e-1: (0.455, 36.7, 50.7, 61.6),
        1e0: (0.449, 35.9, 50.3, 61.4),
        1e1: (0.449, 35.9, 50.3, 61.5),
        1e2: (0.446, 35.5, 50.0, 61.2),
        1e5: (0.359, 24.9, 41.7, 57.2),
    },
    "icews05-15": {
        1e-5: (0.466, 36.2, 52.4, 66.6),
        1e-2: (0.498, 39.7, 55.9, 68.8),
        1e-1: (0.505, 40.8, 56.3, 68.7),
        1e0: (0.500, 40.1, 55.9, 68.5),
        1e1: (0.496, 39.8, 55.4, 68.1),
        1e2: (0.482, 38.3, 53.9, 66.8),
        1e5: (0.362, 23.8, 42.8, 60.6),
    },
}
"""The paper's sensitivity table of TED, on valid."""

PAPER_TEST: Final[dict[str, dict[str, Figures]]] = {
    "icews14": {
        "ted": (0.441, 35.3, 49.1, 60.8),
        "srgcn": (0.604, 48.3, 68.0, 83.0),
        "temp-gru": (0.601, 47.8, 68.1, 82.8),
        "temp-sa": (0.607, 48.4, 68.4, 84.0),
    },
    "icews05-15": {
        "ted": (0.503, 40.8, 56.1, 68.4),
        "srgcn": (0.662, 53.5, 74.7, 89.9),
        "temp-gru": (0.691, 56.6, 78.2, 91.7),
        "temp-sa": (0.680, 55.3, 76.9, 91.3),
    },
}
"""The paper's comparative table, on test; the rows of models that see who is active hold under protocol paper alone."""


def keep_result(run: Run, folder: Path, variant: str = "") -> Path:
    """Copy the figures of a run to results/<dataset>/<model>[-variant]-<protocol>-seed<N>.json."""
    config = run.config
    name = "-".join(part for part in (config.name, variant, config.protocol, f"seed{config.seed}") if part)
    path = folder / config.dataset / f"{name}.json"
    write_json(path, run.results)
    return path


def load_results(folder: Path) -> list[dict[str, Any]]:
    """Every result below a folder, in order of file name."""
    results = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            results.append(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise DataError(f"{path}: not a result: {error}") from None
    return results


def figures(metrics: dict[str, float]) -> Figures:
    """The four figures of a published table."""
    return metrics["mrr"], *(100 * metrics[name] for name in HITS)  # type: ignore[return-value]


def ted_table(results: list[dict[str, Any]], dataset: str, split: str) -> str:
    """TED for every sigma measured on a dataset, beside the published figures."""
    published = PAPER_TED_VALID[dataset] if split == "valid" else {1e-1: PAPER_TEST[dataset]["ted"]}
    rows = sorted(
        (r["config"]["model"]["sigma"], r[split]) for r in results if r["model"] == "ted" and r["dataset"] == dataset
    )
    lines = [
        f"| sigma | {dataset} {split}: MRR | Hits@1 | Hits@3 | Hits@10 | published: MRR | Hits@1 | Hits@3 | Hits@10 |",
        "|" + "---:|" * 9,
    ]
    for sigma, found in rows:
        theirs = published.get(sigma)
        cells = _cells(figures(found["metrics"])) + (_cells(theirs) if theirs else ["-"] * 4)
        lines.append(f"| {sigma:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def headline_table(results: list[dict[str, Any]]) -> str:
    """For each dataset, model and protocol the settings that are best on valid, with their test figures.

    Several seeds of the same settings stand in one row: their mean, and half the distance of the extremes of MRR.
    """
    lines = [
        "| dataset | model | protocol | seeds | MRR | Hits@1 | Hits@3 | Hits@10 "
        "| published: MRR | Hits@1 | Hits@3 | Hits@10 |",
        "|---|---|---|" + "---:|" * 9,
    ]
    for (dataset, model, protocol), runs in sorted(_best_settings(results).items()):
        columns = list(zip(*(figures(run["test"]["metrics"]) for run in runs), strict=True))
        mean = _cells([statistics.mean(column) for column in columns])
        if len(runs) > 1:
            mean[0] += f" ± {(max(columns[0]) - min(columns[0])) / 2:.3f}"
        comparable = model == "ted" or protocol == "paper"
        theirs = _cells(PAPER_TEST[dataset][model]) if comparable else ["-"] * 4
        lines.append(f"| {dataset} | {model} | {protocol} | {len(runs)} | {' | '.join(mean + theirs)} |")
    return "\n".join(lines)


def _best_settings(results: list[dict[str, Any]]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """For each (dataset, model, protocol) the runs of the settings with the highest mean MRR on valid."""
    groups: dict[tuple[str, str, str], dict[str, list[dict[str, Any]]]] = {}
    for result in results:
        key = result["dataset"], result["model"], result["protocol"]
        groups.setdefault(key, {}).setdefault(json.dumps(result["config"], sort_keys=True), []).append(result)

    def on_valid(runs: list[dict[str, Any]]) -> float:
        return statistics.mean(float(run["valid"]["metrics"]["mrr"]) for run in runs)

    return {key: max(variants.values(), key=on_valid) for key, variants in groups.items()}


def _cells(values: Sequence[float]) -> list[str]:
    return [f"{values[0]:.3f}", *(f"{value:.1f}" for value in values[1:])]
