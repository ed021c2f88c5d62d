"""The paper by command: what its tables need is looked up among measured results, and what is missing is trained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from tempograph.analysis import are_of, keep_ranks, kept_ranks, read_ranks
from tempograph.batch import Note, alone, bring_to_end, finished_there
from tempograph.beginning import configure
from tempograph.config import Config, parse_override, shipped_presets
from tempograph.data.catalog import load_dataset
from tempograph.data.graph import Split, TemporalGraph
from tempograph.data.statistics import statistics
from tempograph.environment import resolve_device
from tempograph.errors import ConfigError, did_you_mean
from tempograph.files import make_folder, write_text
from tempograph.jobs import Job
from tempograph.published import PAPER_ABLATION, PAPER_TED_VALID, PAPER_TEST, SEES_WHO_IS_ACTIVE
from tempograph.results import Result, keep_result, load_results
from tempograph.sheet import Sheet
from tempograph.standing import Watch
from tempograph.tables import (
    ablation_sheet,
    comparative_sheet,
    cost_sheet,
    error_reduction_sheet,
    leak_sheet,
    statistics_sheet,
    ted_sheet,
)
from tempograph.timeline import Protocol

Artefact = Literal["table", "ablation", "ted", "statistics", "figures"]
ARTEFACTS: Final[tuple[Artefact, ...]] = get_args(Artefact)
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
MEASURED: Final[tuple[Split, ...]] = ("valid", "test")
"""Splits that every table is made from."""
WINDOW: Final = 8
"""Steps on each side in which the pictures count."""


@dataclass(frozen=True)
class Need:
    """A run that a table is made of."""

    model: str
    protocol: Protocol
    seed: int
    preset: str | None = None
    overrides: tuple[str, ...] = ()
    drawn: bool = False
    """Whether its ranks are drawn, and so must be kept as well."""

    def met_by(self, result: Result, dataset: str) -> bool:
        """Whether a result is of such a run: the same preset, changed in nothing but the overrides."""
        wanted = {f"{section}.{name}": value for section, name, value in map(parse_override, self.overrides)}
        here = {f"{section}.{name}": value for section, of in result["config"].items() for name, value in of.items()}
        return (
            (result["dataset"], result["model"]) == (dataset, self.model)
            and (result["protocol"], result["seed"]) == (self.protocol, self.seed)
            and (self.preset is None or result.get("preset") == self.preset)
            and set(result.get("changed", {})) <= set(wanted)
            and all(here.get(name) == value for name, value in wanted.items())
        )

    @property
    def variant(self) -> str:
        """What tells the file of the result from those of other settings."""
        changes = [f"{name.replace('_', '-')}-{value}" for _, name, value in map(parse_override, self.overrides)]
        return "-".join([*([self.preset] if self.preset else []), *changes]).lower()

    @property
    def name(self) -> str:
        """What its run folder and the table of its ranks are called."""
        return "-".join(part for part in (self.model, self.variant, self.protocol, f"seed{self.seed}") if part)


@dataclass(frozen=True)
class Reproduction:
    """What came of it: the sheets by the name of their files, the runs that are still missing, and pictures."""

    dataset: str
    folder: Path
    sheets: dict[str, Sheet]
    missing: tuple[Need, ...]
    pictures: tuple[Path, ...]

    def summary(self) -> dict[str, Any]:
        """What `reproduce --json` prints."""
        return {
            "dataset": self.dataset,
            "folder": str(self.folder),
            "tables": {
                name: [dict(zip(_distinct(sheet.columns), row, strict=True)) for row in sheet.rows]
                for name, sheet in self.sheets.items()
            },
            "missing": [
                {"model": need.model, "protocol": need.protocol, "seed": need.seed, "variant": need.variant}
                for need in self.missing
            ],
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
    by_name = str(dataset) in PAPER_TEST and not (train or set(wanted) & {"statistics", "figures"})
    graph = None if by_name else load_dataset(dataset)
    name, folder, kept = str(dataset) if graph is None else graph.name, Path(out), Path(results)
    make_folder(folder)
    with alone(folder):
        needs = _once([need for artefact in wanted for need in needs_of(artefact, name, protocols, seeds)])
        missing = _missing(needs, kept, name)
        if missing and train and graph is not None:
            planned = {_job(need, dataset, folder / "runs", device, max_seconds): need for need in missing}
            _bring(planned, len(needs), graph, kept, jobs, note, watch)
            missing = _missing(needs, kept, name)
        found = load_results(kept, MEASURED)
        shown = [result for result in found if result["protocol"] in ("strict", *protocols)]
        made = [entry for artefact in wanted for entry in _sheets(artefact, shown, name, graph).items()]
        sheets = {file: sheet for file, sheet in made if sheet.rows}
        for file, sheet in sheets.items():
            for suffix, text in ((".md", sheet.page()), (".tex", sheet.latex()), (".csv", sheet.csv())):
                write_text(folder / f"{file}{suffix}", text)
        pictures = _pictures(graph, kept, folder, note) if "figures" in wanted and graph is not None else ()
    return Reproduction(name, folder, sheets, tuple(missing), pictures)


def needs_of(artefact: Artefact, dataset: str, protocols: Sequence[Protocol], seeds: Sequence[int]) -> list[Need]:
    """The runs that an artefact is made of; a model without a preset for the dataset is left out."""
    needs: list[Need] = []
    if artefact == "table":
        for model in (*PAPER_TEST["icews14"], *OURS):
            for protocol in protocols if model in SEES_WHO_IS_ACTIVE else ("strict",):
                presets = ("tuned-leak", "tuned") if protocol == "paper" else ("tuned", "paper")
                shipped = [name for name in presets if f"{dataset}.{name}" in shipped_presets(model)]
                needs += [Need(model, protocol, seed, shipped[0]) for seed in seeds if shipped]
    elif artefact == "ablation" and "paper" in protocols:
        for model, variants in PAPER_ABLATION.items():
            if f"{dataset}.paper" in shipped_presets(model):
                for imputation, gate in variants:
                    changes = (f"model.imputation={str(imputation).lower()}", f"model.gate={str(gate).lower()}")
                    needs += [Need(model, "paper", seed, "paper", changes) for seed in seeds]
    elif artefact == "figures":
        for model, drawn_with in DRAWN:
            if f"{dataset}.tuned" in shipped_presets(model):
                needs.append(Need(model, "strict", 0, "tuned", drawn_with, drawn=True))
    elif artefact == "ted":
        needs = [
            Need("ted", "strict", 0, overrides=(f"model.sigma={sigma:g}",))
            for sigma in PAPER_TED_VALID.get(dataset, ())
        ]
    return needs


def _bring(
    planned: dict[Job, Need],
    of: int,
    graph: TemporalGraph,
    results: Path,
    at_once: int,
    note: Note | None,
    watch: Watch | None,
) -> None:
    """Take over the runs that are finished, train the others, and keep the result of each as soon as it is there."""

    def keep(job: Job, found: Result) -> None:
        need = planned[job]
        if not all(split in found for split in MEASURED):
            return
        keep_result(found, results, need.variant)
        if need.drawn:
            make_folder(results / graph.name / "ranks")
            keep_ranks(read_ranks(job.folder)["test"], _ranks_file(need, results, graph.name))

    # The rows further down take the longest: begun last, they would be waited for with nothing beside them.
    runs = {job: _config(need, graph, job.device) for job, need in reversed(planned.items())}
    there = {job: finished_there(job, config, graph) for job, config in runs.items()}
    for job, found in there.items():
        if found is not None:
            keep(job, found)
    waiting = {job: config for job, config in runs.items() if there[job] is None}
    if waiting:
        if note is not None:
            listed = _listed([need for job, need in planned.items() if job in waiting])
            note(f"{len(waiting)} of {of} runs are missing and will be trained: {listed}")
        make_folder(next(iter(waiting)).folder.parent)
        bring_to_end(waiting, graph, at_once, note, watch, keep)


def _artefact(name: str) -> Artefact:
    for artefact in ARTEFACTS:
        if artefact == name:
            return artefact
    offer = did_you_mean(name, ARTEFACTS) or f"; there are {', '.join(ARTEFACTS)}, and all"
    raise ConfigError(f"'{name}' cannot be reproduced{offer}")


def _once(needs: Iterable[Need]) -> list[Need]:
    # A run that stands in a table and is drawn as well is one run, and its ranks are kept.
    return list({need.name: need for need in sorted(needs, key=lambda need: need.drawn)}.values())


def _missing(needs: Iterable[Need], results: Path, dataset: str) -> list[Need]:
    found = load_results(results, MEASURED)
    return [
        need
        for need in needs
        if not any(need.met_by(result, dataset) for result in found)
        or (need.drawn and not _ranks_file(need, results, dataset).is_file())
    ]


def _ranks_file(need: Need, results: Path, dataset: str) -> Path:
    return results / dataset / "ranks" / f"{need.name}.parquet"


def _job(need: Need, dataset: str | Path, folder: Path, device: str, max_seconds: float | None) -> Job:
    return Job(
        folder=folder / need.name,
        dataset=str(dataset),
        model=need.model,
        seed=need.seed,
        protocol=need.protocol,
        preset=need.preset,
        overrides=need.overrides,
        device=device,
        max_seconds=max_seconds,
    )


def _config(need: Need, graph: TemporalGraph, device: str) -> Config:
    return configure(
        graph,
        need.model,
        resolve_device(device),
        protocol=need.protocol,
        preset=need.preset,
        seed=need.seed,
        overrides=need.overrides,
    )


def _listed(needs: Sequence[Need], most: int = 6) -> str:
    shown = [" ".join(part for part in (need.model, need.variant, need.protocol) if part) for need in needs]
    distinct = list(dict.fromkeys(shown))
    more = f" and {len(distinct) - most} more" if len(distinct) > most else ""
    return ", ".join(distinct[:most]) + more


def _sheets(
    artefact: Artefact, results: Sequence[Result], dataset: str, graph: TemporalGraph | None
) -> dict[str, Sheet]:
    if artefact == "table":
        return {
            "comparative": comparative_sheet(results, dataset),
            "errors": error_reduction_sheet(results, dataset),
            "cost": cost_sheet(results, dataset),
            "leak": leak_sheet([result for result in results if result["dataset"] == dataset]),
        }
    if artefact == "ablation":
        return {"ablation": ablation_sheet(results, dataset)}
    if artefact == "ted" and dataset in PAPER_TED_VALID:
        return {f"ted-{split}": ted_sheet(results, dataset, split) for split in ("valid", "test")}
    if artefact == "statistics" and graph is not None:
        return {"statistics": statistics_sheet([graph])}
    return {}


def _pictures(graph: TemporalGraph, results: Path, folder: Path, note: Note | None) -> tuple[Path, ...]:
    # Imported here: nobody else has to wait for the drawing library.
    from tempograph.findings import Findings
    from tempograph.page import pictures
    from tempograph.plots import save, statistics_figure

    drawn = {"statistics": statistics_figure(statistics(graph))}
    ranks = {}
    for file in sorted((results / graph.name / "ranks").glob("*.parquet")):
        ranked = kept_ranks(file)
        if are_of(ranked, graph.test):
            ranks[file.stem.removesuffix("-seed0")] = ranked
        elif note is not None:
            note(f"{file}: ranks of other facts than the test facts of these data; left out")
    if ranks:
        found = Findings(graph, "test", ranks, "the protocol stands in each name", WINDOW)
        drawn |= {picture.name: picture.figure for picture in pictures(found.blocks(""))}
    made = []
    for name, figure in drawn.items():
        save(figure, folder / f"{name}.svg")
        made.append(folder / f"{name}.svg")
    return tuple(made)


def _distinct(columns: Sequence[str]) -> list[str]:
    """Names of columns with those that come again numbered."""
    return [
        name if columns[:place].count(name) == 0 else f"{name} ({columns[:place].count(name) + 1})"
        for place, name in enumerate(map(str, columns))
    ]
