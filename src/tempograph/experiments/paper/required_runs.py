"""The runs behind the tables and pictures of the paper: find those missing, and train them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.errors import DataError
from tempograph.evaluation.rank_table import read_run_ranks
from tempograph.experiments.configurations import preset_configuration
from tempograph.experiments.interval_tables import INTERVAL_MODELS
from tempograph.experiments.paper.deviations import deviation_runs
from tempograph.experiments.published import (
    PAPER_ABLATION,
    PAPER_TED_VALID,
    PAPER_TEST,
    protocols_of,
)
from tempograph.experiments.results import load_results, save_result
from tempograph.experiments.scheduler import initial_status, train_missing
from tempograph.experiments.slurm import SlurmArray
from tempograph.experiments.specs import RunSpec, has_preset
from tempograph.experiments.status import Notify, RunStatus, Watch
from tempograph.io import make_folder
from tempograph.typing import Artefact, Protocol, Split

MEASURED: Final[tuple[Split, ...]] = ("valid", "test")
"""The splits that every table is made from."""
OUR_MODELS: Final = ("tcomplex", "pointer", "temp-pointer")
"""The rows below the paper's."""
NAMED_MODELS: Final = ("pointer", "temp-gru", "temp-pointer")
"""The models that have a row with names."""
_PLOTTED: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "DE-SimplE": ("de-simple", ()),
    "SRGCN": ("srgcn", ()),
    "TeMP-GRU without gate": ("temp-gru", ("model.gate=false",)),
    "TeMP-GRU": ("temp-gru", ()),
    "pointer": ("pointer", ()),
}
"""Models and overrides whose ranks are plotted by frequency: the paper's, and the pointer."""


def required_runs(
    artefact: Artefact, dataset: str, protocols: Sequence[Protocol], seeds: Sequence[int]
) -> list[RunSpec]:
    """Return the runs of an artefact, without models that have no preset for the dataset."""
    specs: list[RunSpec] = []
    if artefact == "table":
        for model in (*PAPER_TEST["icews14"], *OUR_MODELS):
            for protocol in protocols_of(model, protocols):
                # Under protocol paper, the paper's settings have a row of their own.
                leak = protocol == "paper"
                rows = (("paper",), ("tuned-leak", "tuned")) if leak else (("tuned", "paper"),)
                for presets in rows:
                    found = [name for name in presets if has_preset(model, dataset, name)]
                    for preset in found[:1]:
                        specs += [RunSpec(dataset, model, protocol, seed, preset) for seed in seeds]
    elif artefact == "ablation" and "paper" in protocols:
        for model, imputation, gate in PAPER_ABLATION:
            if has_preset(model, dataset, "paper"):
                # A variant that is the preset itself is a run of the comparative table.
                shipped = preset_configuration(model, dataset, "paper", {})
                parts = {"model.imputation": imputation, "model.gate": gate}
                off = tuple(
                    f"{name}={str(on).lower()}" for name, on in parts.items() if shipped[name] != on
                )
                specs += [RunSpec(dataset, model, "paper", seed, "paper", off) for seed in seeds]
    elif artefact == "deviations" and "paper" in protocols:
        specs = deviation_runs(dataset, seeds)
    elif artefact == "figures":
        specs = [
            spec
            for spec in plotted_runs(dataset).values()
            if "strict" in protocols_of(spec.model, protocols)
            and has_preset(spec.model, dataset, "tuned")
        ]
    elif artefact == "ted":
        sigmas = PAPER_TED_VALID.get(dataset, ())
        specs = [RunSpec(dataset, "ted", overrides=(f"model.sigma={s:g}",)) for s in sigmas]
    return specs


def named_runs(dataset: str, seeds: Sequence[int]) -> list[RunSpec]:
    """Return the runs of the rows with names, which no table of the paper needs.

    Among them is the part that an ensemble takes without names, so that it is trained beside the
    others.
    """
    wanted = [("tntcomplex", ()), *((model, ("model.names=true",)) for model in NAMED_MODELS)]
    return [
        RunSpec(dataset, model, "strict", seed, "tuned", overrides)
        for model, overrides in wanted
        if has_preset(model, dataset, "tuned")
        for seed in seeds
    ]


def forecast_runs(dataset: str, seeds: Sequence[int]) -> list[RunSpec]:
    """Return the runs of the table of forecasts; models without randomness are measured once.

    The pointer has a row with names and one without. The parts of temp-pointer that have no row of
    their own are trained beside the others.
    """
    plain = [
        RunSpec(dataset, model, "forecast-single", seed)
        for model in ("edgebank", "history-frequency", "recurrency", "ted")
        for seed in seeds[:1]
    ]
    trained = [
        RunSpec(dataset, model, "forecast-single", seed, "tuned", overrides)
        for model in ("tntcomplex", "temp-gru", "temp-sa", "pointer", "temp-pointer")
        if has_preset(model, dataset, "tuned")
        for overrides in _name_variants(model, dataset)
        for seed in seeds
    ]
    return [replace(spec, audit=True) for spec in plain + trained]


def interval_runs(dataset: str, seeds: Sequence[int]) -> list[RunSpec]:
    """Return the runs of the table of facts that hold for a while.

    TED, and the pointer with names, are measured once.
    """
    plain = [RunSpec(dataset, "ted", "strict", seed) for seed in seeds[:1]]
    if has_preset("pointer", dataset, "tuned"):
        named = ("model.names=true",)
        plain += [RunSpec(dataset, "pointer", "strict", seed, "tuned", named) for seed in seeds[:1]]
    trained = [
        RunSpec(dataset, model, "strict", seed, "tuned")
        for model in INTERVAL_MODELS
        if has_preset(model, dataset, "tuned")
        for seed in seeds
    ]
    return plain + trained


def _name_variants(model: str, dataset: str) -> list[tuple[str, ...]]:
    """Return the overrides of a model's rows: with names if temp-pointer takes the model so."""
    joined = has_preset("temp-pointer", dataset, "tuned")
    names = joined and preset_configuration("temp-pointer", dataset, "tuned", {})["model.names"]
    if not names or model in ("tntcomplex", "temp-pointer"):
        return [()]
    return [(), ("model.names=true",)] if model == "pointer" else [("model.names=true",)]


def plotted_runs(dataset: str) -> dict[str, RunSpec]:
    """Return the runs whose ranks are plotted, by their labels."""
    return {
        label: RunSpec(dataset, model, preset="tuned", overrides=overrides, save_ranks=True)
        for label, (model, overrides) in _PLOTTED.items()
    }


def without_duplicates(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Return each run once; its ranks are saved if one of the duplicates asks for them."""
    ordered = sorted(specs, key=lambda spec: spec.save_ranks)
    return list({spec.name: spec for spec in ordered}.values())


def missing_runs(specs: Iterable[RunSpec], results: Path) -> list[RunSpec]:
    """Return the runs without a measured result, or without the ranks to plot."""
    measured = load_results(results, MEASURED)
    return [
        spec
        for spec in specs
        if not any(spec.matches(result) for result in measured)
        or (spec.save_ranks and not _ranks_file(spec, results).is_file())
    ]


def _ranks_file(spec: RunSpec, results: Path) -> Path:
    return results / spec.dataset / "ranks" / f"{spec.name}.parquet"


def train_required(
    required: Sequence[RunSpec],
    graph: TemporalGraph,
    results: Path,
    jobs: int,
    notify: Notify,
    watch: Watch | None,
    slurm: SlurmArray | None = None,
) -> list[RunStatus]:
    """Train the missing runs, save the result of each once it is finished; return what failed."""
    missing = missing_runs(required, results)
    for split in MEASURED:
        if missing and not len(graph.facts(split)):
            raise DataError(
                f"{graph.name}: the {split} split has no facts, "
                "so there is nothing to measure models by"
            )

    def save(run: RunStatus) -> None:
        assert run.results is not None
        save_result(run.results, results, run.spec.variant)
        if run.spec.save_ranks:
            ranks_file = _ranks_file(run.spec, results)
            make_folder(ranks_file.parent)
            read_run_ranks(run.spec.folder)["test"].write(ranks_file)

    waiting = []
    for run in (initial_status(spec, graph) for spec in missing):
        if run.state == "finished":
            save(run)
        else:
            waiting.append(run.spec)
    if not waiting:
        return []
    count = f"{len(waiting)} of {len(required)} runs"
    notify(f"{count} are missing and will be trained: {_listed(waiting)}")
    make_folder(waiting[0].folder.parent)
    # The rows further down take the longest; started last, they would run alone at the end.
    runs = train_missing(waiting[::-1], graph, jobs, notify, watch, save, slurm)
    return [run for run in runs if run.state == "failed"]


def _listed(specs: Sequence[RunSpec], limit: int = 6) -> str:
    parts = [(spec.model, spec.variant, spec.protocol) for spec in specs]
    names = list(dict.fromkeys(" ".join(filter(None, part)) for part in parts))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
