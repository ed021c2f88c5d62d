"""The runs of a report, read from their folders and labelled."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tempograph.data.graph import TemporalGraph
from tempograph.errors import RunError
from tempograph.evaluation.rank_table import RankTable, read_run_ranks
from tempograph.training.config import Config
from tempograph.training.run_folder import read_config, read_graph, read_results
from tempograph.training.run_results import RunResults
from tempograph.typing import Split


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """One run of a report, with a label of its own."""

    label: str
    folder: Path
    config: Config
    results: RunResults
    graph: TemporalGraph

    @cached_property
    def ranks(self) -> dict[Split, RankTable]:
        """Its ranks by split."""
        ranks = read_run_ranks(self.folder)
        for split, ranked in ranks.items():
            if not ranked.covers(self.graph.facts(split)):
                raise RunError(
                    f"{self.folder / 'ranks.parquet'}: ranks of other facts than those of {split}; "
                    f"compute them again with `{self.command('evaluate')} --split {split}`"
                )
        return ranks

    def command(self, name: str) -> str:
        """A command for this run, ready to paste into a shell."""
        return f"tempograph {name} {shlex.quote(str(self.folder))}"


def read_runs(folders: Sequence[Path]) -> list[ReportedRun]:
    """Read the runs of distinct folders; runs on the same data share one graph."""
    configs = {folder: read_config(folder) for folder in folders}
    runs: list[ReportedRun] = []
    for label, (folder, config) in zip(_labels(configs), configs.items(), strict=True):
        results, graph = read_results(folder), read_graph(folder, config.dataset)
        for run in runs:
            if run.graph.name == graph.name and run.graph.same_as(graph):
                graph = run.graph
        runs.append(ReportedRun(label, folder, config, results, graph))
    return runs


def _labels(configs: dict[Path, Config]) -> list[str]:
    """The shortest labels that are distinct, with the protocol if the runs differ in it."""
    candidates: list[Callable[[Path, Config], str]] = [
        lambda _, config: config.name,
        lambda _, config: f"{config.name} on {config.dataset}",
        lambda _, config: f"{config.name}, seed {config.seed}",
        lambda folder, _: folder.name,
        lambda folder, _: str(folder),
    ]
    mixed = len({config.protocol for config in configs.values()}) > 1
    labels: list[str] = []
    for make_label in candidates:
        labels = [
            make_label(folder, config) + (f", {config.protocol}" if mixed else "")
            for folder, config in configs.items()
        ]
        if len(set(labels)) == len(labels):
            break
    return labels
