"""Reproduce the paper: look up what its tables need, train what is missing, write the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tempograph.data.catalog import load_dataset
from tempograph.data.graph import TemporalGraph
from tempograph.data.statistics import statistics
from tempograph.data.suggestions import did_you_mean
from tempograph.errors import ConfigError, DataError
from tempograph.evaluation.rank_table import RankTable
from tempograph.experiments.paper.detail_tables import ablation_table, statistics_table, ted_table
from tempograph.experiments.paper.deviations import DEVIATIONS_DATASET, deviation_table
from tempograph.experiments.paper.paper_tables import (
    comparative_table,
    cost_table,
    error_reduction_table,
    leak_table,
)
from tempograph.experiments.paper.required_runs import (
    MEASURED,
    missing_runs,
    plotted_runs,
    required_runs,
    train_required,
    without_duplicates,
)
from tempograph.experiments.published import PAPER_TED_VALID, PAPER_TEST, PROTOCOL_DEPENDENT
from tempograph.experiments.results import EpochSeconds, load_results, load_unshared_epochs
from tempograph.experiments.slurm import SlurmArray
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.status import Notify, RunStatus, Watch, count_ended
from tempograph.io import lock_folder, make_folder, write_text
from tempograph.progress import show_progress
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import ARTEFACTS, PROTOCOLS, Artefact, ProgressOption, Protocol

WINDOW: Final = 8
"""Steps on each side in which the pictures count frequencies."""


@dataclass(frozen=True)
class Reproduction:
    """Tables by the name of their files, pictures, and the runs that are missing or failed."""

    dataset: str
    folder: Path
    tables: dict[str, TextTable]
    missing: tuple[RunSpec, ...]
    failed: tuple[RunStatus, ...]
    pictures: tuple[Path, ...]

    def summary(self) -> dict[str, Any]:
        """Return what `reproduce --json` prints."""
        keys = ("model", "protocol", "seed", "variant")
        return {
            "dataset": self.dataset,
            "folder": str(self.folder),
            "tables": {name: table.records() for name, table in self.tables.items()},
            "missing": [{key: getattr(spec, key) for key in keys} for spec in self.missing],
            "failed": [{"run": run.name, "reason": run.reason} for run in self.failed],
            "pictures": [str(picture) for picture in self.pictures],
        }


def reproduce(
    artefacts: Iterable[str],
    dataset: str | Path,
    *,
    results: str | Path,
    out: str | Path,
    protocols: Sequence[Protocol] = ("paper", "strict"),
    seeds: Sequence[int] = (0,),
    train: bool = True,
    device: str = "auto",
    jobs: int = 1,
    max_seconds: float | None = None,
    slurm: SlurmArray | None = None,
    note: Notify | None = None,
    watch: Watch | None = None,
    progress: ProgressOption = True,
) -> Reproduction:
    """Make tables and pictures of the paper for a dataset from measured results.

    Missing runs are trained in `out`, `jobs` at a time, and their results are added to the folder
    `results`; with `train=False` they stay dashes. The data of a benchmark is needed only to train,
    to count, or to draw. `slurm`, `note`, `watch` and `progress` are those of
    `compare`.
    """
    wanted = list(dict.fromkeys(_artefact(name) for name in artefacts))
    notify: Notify = note or (lambda _: None)
    graph = _load_data(dataset, wanted, train, notify)
    name, folder, measured = graph.name if graph else str(dataset), Path(out), Path(results)
    if measured.exists() and not measured.is_dir():
        raise ConfigError(f"{measured}: is a file; --results takes a folder of measured results")
    if not measured.exists():
        notify(f"{measured}: there is no such folder, so no measured results are known")
    make_folder(folder)
    with lock_folder(folder, wait=False):
        specs = [spec for what in wanted for spec in required_runs(what, name, protocols, seeds)]
        required = [
            replace(
                spec,
                source=str(dataset),
                folder=folder / "runs" / spec.name,
                device=device,
                max_seconds=max_seconds,
            )
            for spec in without_duplicates(specs)
        ]
        failed = []
        if train and graph is not None:
            with show_progress(f"training on {name}", progress) as advance:
                counted = count_ended(watch, advance)
                failed = train_required(required, graph, measured, jobs, notify, counted, slurm)
        all_results, epochs = load_results(measured, MEASURED), load_unshared_epochs(measured)
        tables: dict[str, TextTable] = {}
        empty: list[Artefact] = []
        for artefact in wanted:
            made = _tables(artefact, all_results, name, graph, protocols, epochs)
            shown = {file: table for file, table in made.items() if table.rows}
            tables |= shown
            empty += [] if shown else [artefact]
        for line in _explain_empty(empty, name, protocols):
            notify(line)
        for file, table in tables.items():
            write_text(folder / f"{file}.md", table.markdown_page())
            write_text(folder / f"{file}.tex", table.latex())
            write_text(folder / f"{file}.csv", table.csv())
        drawn = graph if "figures" in wanted else None
        pictures = _draw(drawn, measured, folder, protocols, notify) if drawn else ()
        missing = missing_runs(required, measured)
    return Reproduction(name, folder, tables, tuple(missing), tuple(failed), pictures)


def _artefact(name: str) -> Artefact:
    for artefact in ARTEFACTS:
        if artefact == name:
            return artefact
    offer = did_you_mean(name, ARTEFACTS) or f"; there are {', '.join(ARTEFACTS)}, and all"
    raise ConfigError(f"'{name}' cannot be reproduced{offer}")


def _load_data(
    dataset: str | Path, wanted: Sequence[Artefact], train: bool, notify: Notify
) -> TemporalGraph | None:
    """Return the data, or None for a benchmark whose tables can be made without it."""
    without = str(dataset) in PAPER_TEST and not train
    if without and not set(wanted) & {"statistics", "figures"}:
        return None
    try:
        return load_dataset(dataset)
    except DataError as error:
        if not without or set(wanted) == {"figures"}:
            raise
        notify(f"{error}; until then nothing is counted or drawn")
        return None


def _explain_empty(
    empty: Iterable[Artefact], dataset: str, protocols: Sequence[Protocol]
) -> Iterator[str]:
    """Yield lines that say why artefacts have no table."""
    missing = [artefact for artefact in empty if artefact != "figures"]
    for artefact in ("ablation", "deviations"):
        if artefact in missing and "paper" not in protocols:
            missing.remove(artefact)
            yield f"{artefact}: skipped, since it needs protocol paper"
    if "deviations" in missing and dataset in PAPER_TEST and dataset != DEVIATIONS_DATASET:
        missing.remove("deviations")
        yield f"deviations: measured on {DEVIATIONS_DATASET} only"
    if missing:
        covered = ", ".join(PAPER_TED_VALID if missing == ["ted"] else PAPER_TEST)
        yield (
            f"{', '.join(missing)}: nothing to show for {dataset}: the paper has no such table for "
            f"it, and nothing has been measured; the paper covers {covered}, and "
            "`tempograph compare` trains models on any dataset"
        )


def _tables(
    artefact: Artefact,
    results: Sequence[RunResults],
    dataset: str,
    graph: TemporalGraph | None,
    protocols: Sequence[Protocol],
    epochs: EpochSeconds,
) -> dict[str, TextTable]:
    if artefact == "table":
        tables = {
            "comparative": comparative_table(results, dataset, protocols),
            "errors": error_reduction_table(results, dataset, protocols),
            "cost": cost_table(results, dataset, protocols, epochs),
        }
        if len(set(protocols)) > 1:
            tables["leak"] = leak_table([result for result in results if result.dataset == dataset])
        return tables
    if artefact == "ablation" and "paper" in protocols:
        return {"ablation": ablation_table(results, dataset)}
    if artefact == "deviations" and "paper" in protocols:
        return {"deviations": deviation_table(results, dataset)}
    if artefact == "ted" and dataset in PAPER_TED_VALID:
        return {f"ted-{split}": ted_table(results, dataset, split) for split in MEASURED}
    if artefact == "statistics":
        return {"statistics": statistics_table(dataset, graph)}
    return {}


def _draw(
    graph: TemporalGraph, results: Path, folder: Path, protocols: Sequence[Protocol], notify: Notify
) -> tuple[Path, ...]:
    """Write the pictures of the data and of all saved ranks; return their files."""
    # Imported here because matplotlib is slow to import.
    from tempograph.report.dataset_plots import statistics_figure
    from tempograph.report.document import find_pictures
    from tempograph.report.drawing import save
    from tempograph.report.sections import RankAnalysis

    figures = {"statistics": statistics_figure(statistics(graph), graph)}
    ranks = {}
    for file, label in _legend(results / graph.name / "ranks", protocols).items():
        ranked = RankTable.read(file)
        if ranked.covers(graph.test):
            ranks[label] = ranked
        else:
            notify(f"{file}: skipped, since its ranks are not those of the test facts here")
    if ranks:
        others = " where no name says more" if any("-seed" in label for label in ranks) else ""
        alike = f"protocol strict, preset tuned, seed 0{others}"
        analysis = RankAnalysis(graph, "test", ranks, alike, WINDOW)
        figures |= {picture.name: picture.figure for picture in find_pictures(analysis.blocks(""))}
    files = {folder / f"{name}.svg": figure for name, figure in figures.items()}
    for file, figure in files.items():
        save(figure, file)
    return tuple(files)


def _legend(folder: Path, protocols: Sequence[Protocol]) -> dict[Path, str]:
    """Return the labels of saved ranks: the plotted runs first, then others by file name."""
    files = {file.stem: file for file in sorted(folder.glob("*.parquet"))}
    labels = {spec.name: label for label, spec in plotted_runs("").items() if spec.name in files}
    labels |= {stem: stem for stem in files if stem not in labels}

    def shown(stem: str) -> bool:
        protocol = next((name for name in PROTOCOLS if f"-{name}-seed" in stem), "strict")
        return protocol in protocols or not stem.startswith(PROTOCOL_DEPENDENT)

    return {files[stem]: label for stem, label in labels.items() if shown(stem)}
