"""The tables of single questions: TED's sigma, imputation and gate, and the sizes of datasets."""

from __future__ import annotations

from collections.abc import Sequence

from tempograph.data.graph import TemporalGraph
from tempograph.experiments.configurations import has_settings_of, settings_of
from tempograph.experiments.measured_rows import with_sources
from tempograph.experiments.paper.table_rows import BOTH_COLUMNS, BOTH_NAMES, NO_FIGURES
from tempograph.experiments.published import (
    NOT_PUBLISHED,
    PAPER_ABLATION,
    PAPER_SIZES,
    PAPER_TED_VALID,
    PAPER_TEST,
    Published,
)
from tempograph.experiments.results import (
    SPREAD,
    figure_cells,
    figures,
    metrics_of,
    narrow_figures,
    seeds_cells,
    without_copies,
)
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import Split


def ted_table(results: Sequence[RunResults], dataset: str, split: Split) -> TextTable:
    """Return the figures of TED for every sigma that is measured or published."""
    theirs: dict[float, Published] = {}
    theirs |= PAPER_TED_VALID[dataset] if split == "valid" else {1e-1: PAPER_TEST[dataset]["ted"]}
    runs = [run for run in results if (run.model, run.dataset) == ("ted", dataset)]
    # A preset may have the sigma of another run, and so its figures.
    ours = {
        sigma: run
        for run in runs
        if (sigma := settings_of(run).get("model.sigma")) is not None
        and run.evaluation(split) is not None
    }
    sigmas = sorted({*ours, *PAPER_TED_VALID[dataset]})
    measured = [[ours[sigma]] if sigma in ours else [] for sigma in sigmas]
    rows = [
        [
            f"{sigma:g}",
            *(figure_cells(figures(metrics_of(run, split)[0])) if run else NO_FIGURES),
            *figure_cells(theirs.get(sigma, NOT_PUBLISHED)),
        ]
        for sigma, run in zip(sigmas, measured, strict=True)
    ]
    columns = ("sigma", f"{dataset} {split}: MRR", *BOTH_COLUMNS[1:])
    caption = "Hits in percent; TED does not depend on the protocol."
    title, names = f"TED on {dataset}, {split}", ("sigma", *BOTH_NAMES)
    narrow = (("sigma", [0]), *narrow_figures(1))
    table = TextTable(title, columns, rows, 0, caption, narrow, names)
    return with_sources(table, [[run] for run in measured], [f"sigma {row[0]}" for row in rows])


def ablation_table(results: Sequence[RunResults], dataset: str) -> TextTable:
    """Return the valid MRR of the paper's presets without imputation or gate."""
    candidates = [
        run
        for run in without_copies(results)
        if (run.dataset, run.preset, run.protocol) == (dataset, "paper", "paper")
    ]
    rows, measured = [], []
    for (model, imputation, gate), theirs in PAPER_ABLATION.items():
        parts = {"model.imputation": imputation, "model.gate": gate}
        runs = [
            run for run in candidates if run.model == model and has_settings_of(run, "paper", parts)
        ]
        ours = seeds_cells(metrics_of(runs, "valid"))[0] if runs else "-"
        printed = figure_cells([theirs.get(dataset)])[0]
        if (ours, printed) != ("-", "-"):
            flags = ["yes" if part else "no" for part in parts.values()]
            if model == "temp-sa" and not imputation:
                flags[0] = "by attention"
            rows.append([model, *flags, str(len(runs) or "-"), ours, printed])
            measured.append([runs])
    columns = ("model", "imputation", "gate", "seeds", "valid MRR", "published")
    caption = (
        f"The paper presets under the paper protocol, valid; {SPREAD}. "
        "Attention imputes by itself, without the formula."
    )
    table = TextTable(
        f"Imputation and gate on {dataset}", columns, rows, 3, caption, spread_columns=[4]
    )
    names = [f"{row[0]} (imputation {row[1]}, gate {row[2]})" for row in rows]
    return with_sources(table, measured, names)


def statistics_table(dataset: str, graph: TemporalGraph | None) -> TextTable:
    """Return the sizes of a dataset as counted here, if there is data, and as published."""
    counts: dict[str, Sequence[int]] = {}
    if graph is not None:
        parts = (graph.entities, graph.relations, graph.times, graph.train, graph.valid, graph.test)
        counts["here"] = [len(part) for part in parts]
    if dataset in PAPER_SIZES:
        counts["published"] = PAPER_SIZES[dataset]
    rows = [
        [dataset, source, *(f"{size:,}" for size in (*sizes, sum(sizes[3:])))]
        for source, sizes in counts.items()
    ]
    sizes = ("entities", "relations", "time steps", "train", "valid", "test")
    columns = ("dataset", "counted", *sizes, "total")
    narrow = ("counted", "entities", "relations", "steps", *sizes[3:])
    packed = [(name, [index]) for index, name in enumerate(narrow, start=1)]
    caption = (
        "Two digits of the published train count are swapped, which also affects the total: "
        "the data has 368,962 train facts."
    )
    shown = caption if dataset == "icews05-15" else ""
    return TextTable(f"Sizes of {dataset}", columns, rows, 2, shown, packed)
