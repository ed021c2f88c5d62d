"""Measured results on disk, and the Markdown tables made of them; a figure in a table is never typed."""

from __future__ import annotations

import json
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

PAPER_TED_TEST: Final[dict[str, dict[float, Figures]]] = {
    "icews14": {1e-1: (0.441, 35.3, 49.1, 60.8)},
    "icews05-15": {1e-1: (0.503, 40.8, 56.1, 68.4)},
}
"""The row of TED in the paper's comparative table, on test."""


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
    published = (PAPER_TED_VALID if split == "valid" else PAPER_TED_TEST)[dataset]
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
    """For each dataset, model and protocol the variant that is best on valid, with its test figures."""
    best: dict[tuple[str, str, str], dict[str, Any]] = {}
    for result in sorted(results, key=lambda result: result["valid"]["metrics"]["mrr"]):
        best[result["dataset"], result["model"], result["protocol"]] = result
    lines = [
        "| dataset | model | protocol | MRR | Hits@1 | Hits@3 | Hits@10 | published: MRR | Hits@1 | Hits@3 | Hits@10 |",
        "|---|---|---|" + "---:|" * 8,
    ]
    for (dataset, model, protocol), result in sorted(best.items()):
        theirs = PAPER_TED_TEST[dataset][1e-1]
        cells = _cells(figures(result["test"]["metrics"])) + _cells(theirs)
        lines.append(f"| {dataset} | {model} | {protocol} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(values: Figures) -> list[str]:
    return [f"{values[0]:.3f}", *(f"{value:.1f}" for value in values[1:])]
