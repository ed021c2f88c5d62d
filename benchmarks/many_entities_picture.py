"""Draw what a fact and a model cost by the number of entities, from results of many_entities.py.

PYTHONPATH=src python benchmarks/many_entities_picture.py \\
    results/many-entities.json docs/images/many-entities.svg
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from tempograph.report.drawing import add_footer, clean_axes, save, styles

_FACTS_PER_ENTITY: Final = 10
_MIN_WORLDS: Final = 3
_PANELS: Final = (
    ("microseconds_per_fact", 1.0, "microseconds for a fact", "Time of an epoch"),
    ("training_peak_bytes", 2.0**30, "GiB", "Peak memory of training"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the curves of the models that were trained on at least three such worlds."""
    source, target = map(Path, sys.argv[1:] if arguments is None else arguments)
    measured = json.loads(source.read_text(encoding="utf-8"))
    found = curves(measured["results"])
    if not found:
        raise SystemExit(
            f"{source}: no model was trained on three worlds of ten facts for each entity; "
            "measure some with benchmarks/many_entities.py --worlds 1e4,1e5,1e6"
        )
    save(cost_figure(found, measured["environment"]["hardware"]), target)


def curves(results: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The results of each model on worlds of ten facts for each entity, the smallest first."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in sorted(results, key=lambda each: each["entities"]):
        alike = each["train_facts"] == _FACTS_PER_ENTITY * each["entities"]
        if alike and "microseconds_per_fact" in each:
            found[each["model"]].append(each)
    return {model: each for model, each in found.items() if len(each) >= _MIN_WORLDS}


def cost_figure(found: dict[str, list[dict[str, Any]]], about: str) -> Figure:
    """Time for a fact and peak memory of each model by the number of entities."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    for axes, (name, unit, label, title) in zip(figure.subplots(1, 2), _PANELS, strict=True):
        for (model, results), style in zip(found.items(), styles(), strict=False):
            axes.plot(
                [each["entities"] for each in results],
                [each[name] / unit for each in results],
                color=style.colour,
                marker=style.marker,
                label=model,
            )
        axes.set(xscale="log", xlabel="entities", ylabel=label)
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=10)
        clean_axes(axes, grid=True)
        axes.legend(frameon=False)
    add_footer(figure, about)
    return figure


if __name__ == "__main__":
    main()
