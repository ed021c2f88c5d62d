"""Measured results on disk, and the Markdown tables made of them; a figure in a table is never typed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tempograph.errors import DataError
from tempograph.files import write_json
from tempograph.models.registry import MODELS
from tempograph.published import PAPER_TED_VALID, PAPER_TEST, Figures, published
from tempograph.runs import Run

HITS: Final = ("hits@1", "hits@3", "hits@10")


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
    printed = PAPER_TED_VALID[dataset] if split == "valid" else {1e-1: PAPER_TEST[dataset]["ted"]}
    rows = sorted(
        (r["config"]["model"]["sigma"], r[split]) for r in results if r["model"] == "ted" and r["dataset"] == dataset
    )
    lines = [
        f"| sigma | {dataset} {split}: MRR | Hits@1 | Hits@3 | Hits@10 | published: MRR | Hits@1 | Hits@3 | Hits@10 |",
        "|" + "---:|" * 9,
    ]
    for sigma, found in rows:
        cells = figure_cells(figures(found["metrics"])) + figure_cells(printed.get(sigma, [None] * 4))
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
        cells = seeds_cells([run["test"]["metrics"] for run in runs])
        cells += figure_cells(published(dataset, model, protocol))
        lines.append(f"| {dataset} | {model} | {protocol} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def preset_table(results: list[dict[str, Any]], dataset: str, models: Sequence[str]) -> str:
    """Every preset measured on a dataset, with its protocol; seeds as in the headline."""
    lines = [
        "| model | preset | protocol | seeds | MRR | Hits@1 | Hits@3 | Hits@10 "
        "| published: MRR | Hits@1 | Hits@3 | Hits@10 |",
        "|---|---|---|" + "---:|" * 9,
    ]
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for result in results:
        if result["dataset"] == dataset and result["model"] in models and result["preset"] is not None:
            groups.setdefault((result["model"], result["preset"], result["protocol"]), []).append(result)
    for (model, preset, protocol), runs in sorted(groups.items()):
        cells = seeds_cells([run["test"]["metrics"] for run in runs])
        cells += figure_cells(published(dataset, model, protocol))
        lines.append(f"| {model} | {preset} | {protocol} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def speed_table(measured: dict[str, Any]) -> str:
    """What benchmarks/temp_speed.py found: seconds of an epoch and of an evaluation, memory, share of the floor."""
    lines = [
        f"| {measured['environment']['hardware']} | dataset | s / epoch | s / evaluation | GiB | share of the floor "
        "| paper: s / epoch |",
        "|---|---|" + "---:|" * 5,
    ]
    for found in measured["results"]:
        cells = [
            found["model"],
            found["dataset"],
            f"{found['epoch_seconds']:.2f}",
            f"{found['evaluation_seconds']:.2f}",
            f"{found['training_peak_bytes'] / 2**30:.1f}",
            f"{found['share_of_floor']:.1%}",
            f"{found['paper_epoch_seconds']:,}" if found["paper_epoch_seconds"] else "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def layers_table(measured: dict[str, Any]) -> str:
    """What benchmarks/layers.py found: our layers beside the usual ways to write them."""
    lines = [f"| {measured['environment']['hardware']} | who | milliseconds | times ours |", "|---|---|---:|---:|"]
    for found in measured["results"]:
        times = f"{found['seconds'] * 1000:.1f} | {found['times_ours']:.1f}"
        lines.append(f"| {found['what']} | {found['who']} | {times} |")
    return "\n".join(lines)


def model_table() -> str:
    """Every model of the registry: its score, what depends on time, where it comes from."""
    lines = ["| model | what it does | score | depends on time | reference |", "|---|---|---|---|---|"]
    for kind in MODELS.values():
        # A bar would end the cell of a Markdown table.
        score = kind.score.replace("|", "\\|")
        lines.append(f"| {kind.name} | {kind.summary} | `{score}` | {kind.timed} | {kind.reference} |")
    return "\n".join(lines)


def seeds_cells(runs: Sequence[dict[str, float]]) -> list[str]:
    """The four figures of several seeds: their mean, and half the distance between the best and the worst MRR."""
    columns = list(zip(*(figures(metrics) for metrics in runs), strict=True))
    cells = figure_cells([statistics.mean(column) for column in columns])
    if len(runs) > 1:
        cells[0] += f" ± {half_range(columns[0]):.3f}"
    return cells


def half_range(values: Sequence[float]) -> float:
    """Half the distance between the largest and the smallest value."""
    return (max(values) - min(values)) / 2


def figure_cells(values: Sequence[float | None]) -> list[str]:
    """MRR to three digits and Hits to one, as tables show them; a dash where there is none."""
    return ["-" if value is None else f"{value:.{1 if place else 3}f}" for place, value in enumerate(values)]


def _best_settings(results: list[dict[str, Any]]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """For each (dataset, model, protocol) the runs of the settings with the highest mean MRR on valid."""
    groups: dict[tuple[str, str, str], dict[str, list[dict[str, Any]]]] = {}
    for result in results:
        key = result["dataset"], result["model"], result["protocol"]
        settings = result.get("preset") or json.dumps(result["config"], sort_keys=True)
        groups.setdefault(key, {}).setdefault(settings, []).append(result)

    def on_valid(runs: list[dict[str, Any]]) -> float:
        return statistics.mean(float(run["valid"]["metrics"]["mrr"]) for run in runs)

    return {key: max(variants.values(), key=on_valid) for key, variants in groups.items()}
