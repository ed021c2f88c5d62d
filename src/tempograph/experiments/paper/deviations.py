"""Where the paper, its code and the paper presets differ, read from deviations.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

from tempograph.experiments.configurations import has_settings_of
from tempograph.experiments.measured_rows import with_sources
from tempograph.experiments.results import (
    SPREAD,
    mean,
    metric,
    metrics_of,
    seeds_cells,
    without_copies,
)
from tempograph.experiments.specs import RunSpec
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults


@dataclass(frozen=True)
class Deviation:
    """A setting that another source has otherwise than the paper preset of a model."""

    model: str
    source: str
    settings: Mapping[str, bool | int | str]

    @property
    def overrides(self) -> tuple[str, ...]:
        """The settings as `section.setting=value`."""
        return tuple(
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in self.settings.items()
        )


_FILE: Final = resources.files("tempograph") / "experiments" / "paper" / "deviations.toml"
_TABLES: Final = tomllib.loads(_FILE.read_text(encoding="utf-8"))
DEVIATIONS: Final = tuple(Deviation(**row) for row in _TABLES["deviation"])
DEVIATIONS_DATASET: Final[str] = _TABLES["dataset"]
"""The dataset that deviations are measured on."""


def deviation_runs(dataset: str, seeds: Sequence[int]) -> list[RunSpec]:
    """Return the runs of each preset as it is and with each deviation."""
    if dataset != DEVIATIONS_DATASET:
        return []
    models = dict.fromkeys(deviation.model for deviation in DEVIATIONS)
    changes: list[tuple[str, tuple[str, ...]]] = [(model, ()) for model in models]
    changes += [(each.model, each.overrides) for each in DEVIATIONS]
    return [
        RunSpec(dataset, model, "paper", seed, "paper", overrides)
        for model, overrides in changes
        for seed in seeds
    ]


def deviation_table(results: Sequence[RunResults], dataset: str) -> TextTable:
    """Return the valid MRR of the paper presets with each deviation, and what it is worth."""
    candidates = [
        run
        for run in without_copies(results)
        if (run.dataset, run.preset, run.protocol) == (dataset, "paper", "paper")
    ]
    rows: list[list[str]] = []
    measured: list[list[RunResults]] = []
    listed = DEVIATIONS if dataset == DEVIATIONS_DATASET else ()
    for model in dict.fromkeys(deviation.model for deviation in listed):
        own = [run for run in candidates if run.model == model]
        as_shipped = [run for run in own if has_settings_of(run, "paper", {})]
        usual = mean(metric(as_shipped, "valid", "mrr"))
        described = [("as shipped", "-", as_shipped)]
        for each in DEVIATIONS:
            if each.model == model:
                runs = [run for run in own if has_settings_of(run, "paper", dict(each.settings))]
                changed = " ".join(text.partition(".")[2] for text in each.overrides)
                described.append((changed, each.source, runs))
        for setting, source, runs in described:
            value = mean(metric(runs, "valid", "mrr"))
            change = None if value is None or usual is None else value - usual
            difference = "-" if change is None or runs is as_shipped else f"{change:+.3f}"
            mrr = seeds_cells(metrics_of(runs, "valid"))[0] if runs else "-"
            rows.append([model, setting, source, str(len(runs) or "-"), mrr, difference])
            measured.append(runs)
    columns = ("model", "changed setting", "as in", "seeds", "valid MRR", "difference")
    caption = f"{dataset}, the paper presets under the paper protocol, valid; {SPREAD}."
    narrow = [("model, setting", [0, 1]), ("as in", [2]), ("valid MRR, difference", [4, 5])]
    title = f"Deviations from the paper on {dataset}"
    table = TextTable(title, columns, rows, 3, caption, narrow, spread_columns=[4])
    names = [f"{row[0]}, {row[1]}" for row in rows]
    return with_sources(table, [[runs] for runs in measured], names)
