"""The paper by command: what its tables need is looked up among measured results, and what is missing is trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tempograph.data.catalog import load_dataset
from tempograph.data.graph import TemporalGraph
from tempograph.data.statistics import statistics
from tempograph.errors import ConfigError, DataError, did_you_mean
from tempograph.evaluation.rank_table import RankTable
from tempograph.experiments.batch import Note, alone
from tempograph.experiments.comparison import Outcome
from tempograph.experiments.paper.paper_tables import (
    ablation_table,
    comparative_table,
    cost_table,
    error_reduction_table,
    leak_table,
    statistics_table,
    ted_table,
)
from tempograph.experiments.paper.required_runs import (
    MEASURED,
    Need,
    bring,
    job_of,
    missing_of,
    once,
)
from tempograph.experiments.published import (
    NAMES,
    PAPER_ABLATION,
    PAPER_TED_VALID,
    PAPER_TEST,
    SEES_WHO_IS_ACTIVE,
)
from tempograph.experiments.results import Alone, Result, load_alone, load_results
from tempograph.experiments.status import Watch
from tempograph.io import make_folder, write_text
from tempograph.report.text_table import TextTable
from tempograph.training.presets import shipped_presets
from tempograph.training.setting_values import parse_override
from tempograph.typing import ARTEFACTS, Artefact, Protocol

OURS: Final = ("tcomplex", "pointer", "temp-pointer")
"""Rows below the paper's."""
DRAWN: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("de-simple", ()),
    ("srgcn", ()),
    ("temp-gru", ("model.gate=false",)),
    ("temp-gru", ()),
    ("pointer", ()),
)
"""Models whose ranks are drawn against frequencies: the paper's, and the pointer."""
WINDOW: Final = 8
"""Steps on each side in which the pictures count."""


@dataclass(frozen=True)
class Reproduction:
    """What came of it: the sheets by the name of their files, the runs that are still missing, and pictures."""

    dataset: str
    folder: Path
    sheets: dict[str, TextTable]
    missing: tuple[Need, ...]
    failed: tuple[Outcome, ...]
    pictures: tuple[Path, ...]

    def summary(self) -> dict[str, Any]:
        """What `reproduce --json` prints."""
        return {
            "dataset": self.dataset,
            "folder": str(self.folder),
            "tables": {name: sheet.records() for name, sheet in self.sheets.items()},
            "missing": [
                {
                    "model": need.model,
                    "protocol": need.protocol,
                    "seed": need.seed,
                    "variant": need.variant,
                }
                for need in self.missing
            ],
            "failed": [{"run": run.run, "reason": run.reason} for run in self.failed],
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
    note: Note | None = None,
    watch: Watch | None = None,
) -> Reproduction:
    """Make tables and pictures of the paper for a dataset from the results in a folder.

    Runs that they need and that are not there are trained, `jobs` at once, below `out`, and their results are kept with
    the others; with `train=False` they stay dashes. The data of a benchmark need not be here unless something is
    trained or counted.
    """
    wanted = [_artefact(name) for name in artefacts]
    tell: Note = note or (lambda _: None)
    graph = _data(dataset, wanted, train, tell)
    name, folder, kept = str(dataset) if graph is None else graph.name, Path(out), Path(results)
    _check_results(kept, tell)
    make_folder(folder)
    with alone(folder):
        needs = once(
            [need for artefact in wanted for need in needs_of(artefact, name, protocols, seeds)]
        )
        missing, failed = missing_of(needs, kept, name), list[Outcome]()
        if missing and train and graph is not None:
            planned = {
                job_of(need, dataset, folder / "runs", device, max_seconds): need
                for need in missing
            }
            failed = bring(planned, len(needs), graph, kept, jobs, tell, watch)
            missing = missing_of(needs, kept, name)
        found, speeds = load_results(kept, MEASURED), load_alone(kept)
        made = {
            artefact: _sheets(artefact, found, name, graph, protocols, speeds)
            for artefact in wanted
        }
        sheets = {file: sheet for of in made.values() for file, sheet in of.items() if sheet.rows}
        for line in _why_nothing(
            [what for what in made if not made[what].keys() & sheets.keys()], name, protocols
        ):
            tell(line)
        for file, sheet in sheets.items():
            for suffix, text in (
                (".md", sheet.page()),
                (".tex", sheet.latex()),
                (".csv", sheet.csv()),
            ):
                write_text(folder / f"{file}{suffix}", text)
        drawn = graph if "figures" in wanted else None
        pictures = () if drawn is None else _pictures(drawn, kept, folder, protocols, tell)
    return Reproduction(name, folder, sheets, tuple(missing), tuple(failed), pictures)


def needs_of(
    artefact: Artefact, dataset: str, protocols: Sequence[Protocol], seeds: Sequence[int]
) -> list[Need]:
    """The runs that an artefact is made of; a model without a preset for the dataset is left out."""
    needs: list[Need] = []
    if artefact == "table":
        for model in (*PAPER_TEST["icews14"], *OURS):
            for protocol in protocols if model in SEES_WHO_IS_ACTIVE else ("strict",):
                presets = ("tuned-leak", "tuned") if protocol == "paper" else ("tuned", "paper")
                shipped = [
                    name for name in presets if f"{dataset}.{name}" in shipped_presets(model)
                ]
                needs += [Need(model, protocol, seed, shipped[0]) for seed in seeds if shipped]
    elif artefact == "ablation" and "paper" in protocols:
        for model, variants in PAPER_ABLATION.items():
            if f"{dataset}.paper" in shipped_presets(model):
                for imputation, gate in variants:
                    changes = (
                        f"model.imputation={str(imputation).lower()}",
                        f"model.gate={str(gate).lower()}",
                    )
                    needs += [Need(model, "paper", seed, "paper", changes) for seed in seeds]
    elif artefact == "figures":
        for model, drawn_with in DRAWN:
            shown = model not in SEES_WHO_IS_ACTIVE or "strict" in protocols
            if shown and f"{dataset}.tuned" in shipped_presets(model):
                needs.append(Need(model, "strict", 0, "tuned", drawn_with, drawn=True))
    elif artefact == "ted":
        needs = [
            Need("ted", "strict", 0, overrides=(f"model.sigma={sigma:g}",))
            for sigma in PAPER_TED_VALID.get(dataset, ())
        ]
    return needs


def _artefact(name: str) -> Artefact:
    for artefact in ARTEFACTS:
        if artefact == name:
            return artefact
    offer = did_you_mean(name, ARTEFACTS) or f"; there are {', '.join(ARTEFACTS)}, and all"
    raise ConfigError(f"'{name}' cannot be reproduced{offer}")


def _data(
    dataset: str | Path, wanted: Sequence[Artefact], train: bool, note: Note
) -> TemporalGraph | None:
    """The data; None for a benchmark whose tables can be made without."""
    without = str(dataset) in PAPER_TEST and not train
    if without and not set(wanted) & {"statistics", "figures"}:
        return None
    try:
        return load_dataset(dataset)
    except DataError as error:
        if not without or set(wanted) == {"figures"}:
            raise
        note(f"{error}; until then nothing is counted or drawn")
        return None


def _check_results(folder: Path, note: Note) -> None:
    """Refuse a file in place of the folder of results, and say so where there is no such folder."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; --results takes a folder of measured results")
    if not folder.exists():
        note(f"{folder}: there is no such folder, so no measured results are known")


def _why_nothing(
    empty: Iterable[Artefact], dataset: str, protocols: Sequence[Protocol]
) -> Iterator[str]:
    """For artefacts without a table, what they lack."""
    lacking = [artefact for artefact in empty if artefact != "figures"]
    if "ablation" in lacking and "paper" not in protocols:
        lacking.remove("ablation")
        yield "ablation: left out, as it is of protocol paper"
    if lacking:
        there = ", ".join(PAPER_TED_VALID if lacking == ["ted"] else PAPER_TEST)
        yield (
            f"{', '.join(lacking)}: nothing to show for {dataset}, of which the paper has no such table and nothing is "
            f"measured; the paper has {there}, and `tempograph compare` trains models on any data"
        )


def _sheets(
    artefact: Artefact,
    results: Sequence[Result],
    dataset: str,
    graph: TemporalGraph | None,
    protocols: Sequence[Protocol],
    speeds: Alone | None,
) -> dict[str, TextTable]:
    if artefact == "table":
        sheets = {
            "comparative": comparative_table(results, dataset, protocols),
            "errors": error_reduction_table(results, dataset, protocols),
            "cost": cost_table(results, dataset, protocols, speeds),
        }
        if len(set(protocols)) > 1:
            sheets["leak"] = leak_table(
                [result for result in results if result["dataset"] == dataset]
            )
        return sheets
    if artefact == "ablation" and "paper" in protocols:
        return {"ablation": ablation_table(results, dataset)}
    if artefact == "ted" and dataset in PAPER_TED_VALID:
        return {f"ted-{split}": ted_table(results, dataset, split) for split in ("valid", "test")}
    if artefact == "statistics":
        return {"statistics": statistics_table(dataset, graph)}
    return {}


def _pictures(
    graph: TemporalGraph, results: Path, folder: Path, protocols: Sequence[Protocol], note: Note
) -> tuple[Path, ...]:
    # Imported here: nobody else has to wait for the drawing library.
    from tempograph.report.html import pictures
    from tempograph.report.plots import save, statistics_figure
    from tempograph.report.sections import Findings

    drawn = {"statistics": statistics_figure(statistics(graph), graph)}
    ranks = {}
    for file, label in _labels(results / graph.name / "ranks", protocols).items():
        ranked = RankTable.read(file)
        if ranked.covers(graph.test):
            ranks[label] = ranked
        else:
            note(f"{file}: ranks of other facts than the test facts of these data; left out")
    if ranks:
        others = any("-seed" in label for label in ranks)
        alike = (
            f"protocol strict, preset tuned, seed 0{' where no name says more' if others else ''}"
        )
        found = Findings(graph, "test", ranks, alike, WINDOW)
        drawn |= {picture.name: picture.figure for picture in pictures(found.blocks(""))}
    made = []
    for name, figure in drawn.items():
        save(figure, folder / f"{name}.svg")
        made.append(folder / f"{name}.svg")
    return tuple(made)


def _labels(folder: Path, protocols: Sequence[Protocol]) -> dict[Path, str]:
    """Kept ranks with the names of a legend: those that the paper draws, then others by their files' names."""
    known = {
        need.name: need
        for need in (Need(model, "strict", 0, "tuned", changes) for model, changes in DRAWN)
    }
    files = {file.stem: file for file in sorted(folder.glob("*.parquet"))}
    labels = {}
    for stem in (
        *(name for name in known if name in files),
        *(stem for stem in files if stem not in known),
    ):
        protocol = next((name for name in ("strict", "paper") if f"-{name}-seed" in stem), "strict")
        depends = any(stem.startswith(model) for model in SEES_WHO_IS_ACTIVE)
        if protocol in protocols or not depends:
            labels[files[stem]] = _called(known[stem]) if stem in known else stem
    return labels


def _called(need: Need) -> str:
    """What people call it: TeMP-GRU without gate."""
    changes = [
        f" without {name}" if value is False else f" with {name} = {value}"
        for _, name, value in map(parse_override, need.overrides)
    ]
    return NAMES.get(need.model, need.model) + "".join(changes)
