"""The tables of the paper, with our measured results beside the published figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.experiments.published import (
    PAPER_ABLATION,
    PAPER_SIZES,
    PAPER_TED_VALID,
    PAPER_TEST,
    PROTOCOL_DEPENDENT,
    Published,
    protocols_of,
    published,
)
from tempograph.experiments.results import (
    SPREAD,
    EpochSeconds,
    best_settings,
    changes_of,
    explain_marks,
    figure_cells,
    figures,
    mean,
    metric,
    metrics_of,
    narrow_figures,
    row_label,
    seeds_cells,
    settings_of,
    without_copies,
)
from tempograph.models.registry import MODELS
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import Protocol, Split

FIGURE_COLUMNS: Final = ("MRR", "Hits@1", "Hits@3", "Hits@10")
BOTH_COLUMNS: Final = (*FIGURE_COLUMNS, "published: MRR", *FIGURE_COLUMNS[1:])
"""Our figures, then the published ones."""
BOTH_NAMES: Final = (*FIGURE_COLUMNS, *(f"published {name}" for name in FIGURE_COLUMNS))
"""The same with unique names, for programs."""
BOTH_PROTOCOLS: Final[tuple[Protocol, ...]] = ("paper", "strict")
_NO_FIGURES: Final = ["-"] * 4


def table_rows(protocols: Sequence[Protocol] = BOTH_PROTOCOLS) -> list[tuple[str, Protocol]]:
    """Return all models with their protocols, those of the paper first and in its order."""
    models = dict.fromkeys((*PAPER_TEST["icews14"], *MODELS))
    return [(model, protocol) for model in models for protocol in protocols_of(model, protocols)]


def comparative_table(
    results: Sequence[RunResults], dataset: str, protocols: Sequence[Protocol] = BOTH_PROTOCOLS
) -> TextTable:
    """Return the test figures of all models, each with its best settings on valid."""
    best, rows = best_settings(results), []
    for model, protocol in table_rows(protocols):
        measured = best.get((dataset, model, protocol), [])
        runs = metrics_of(measured, "test")
        theirs = figure_cells(published(dataset, model, protocol))
        if runs or theirs != _NO_FIGURES:
            ours = seeds_cells(runs) if runs else _NO_FIGURES
            label = row_label(measured, model)
            rows.append([label, protocol, str(len(runs) or "-"), *ours, *theirs])
    caption = (
        f"Test, filter by time, Hits in percent; {SPREAD}. "
        "A dash means not measured or not published."
    )
    if dataset == "gdelt":
        caption += " GDELT's facts may not be redistributed, so we publish no results on it."
    caption = f"{caption} {explain_marks(rows)}".rstrip()
    head, narrow = ("model", "protocol", "seeds"), (("model, protocol", [0, 1]), *narrow_figures(3))
    columns, names = (*head, *BOTH_COLUMNS), (*head, *BOTH_NAMES)
    return TextTable(f"Models on {dataset}", columns, rows, 2, caption, narrow, names, [3])


def ted_table(results: Sequence[RunResults], dataset: str, split: Split) -> TextTable:
    """Return the figures of TED for every sigma that is measured or published."""
    theirs: dict[float, Published] = {}
    theirs |= PAPER_TED_VALID[dataset] if split == "valid" else {1e-1: PAPER_TEST[dataset]["ted"]}
    runs = [run for run in results if (run.model, run.dataset) == ("ted", dataset)]
    # A preset may have the sigma of another run, and so its figures.
    ours = {
        sigma: metrics
        for run in runs
        if (sigma := settings_of(run).get("model.sigma")) is not None
        for metrics in metrics_of([run], split)
    }
    rows = [
        [
            f"{sigma:g}",
            *(figure_cells(figures(ours[sigma])) if sigma in ours else _NO_FIGURES),
            *figure_cells(theirs.get(sigma, (None,) * 4)),
        ]
        for sigma in sorted({*ours, *PAPER_TED_VALID[dataset]})
    ]
    columns = ("sigma", f"{dataset} {split}: MRR", *BOTH_COLUMNS[1:])
    caption = "Hits in percent; TED does not depend on the protocol."
    title, names = f"TED on {dataset}, {split}", ("sigma", *BOTH_NAMES)
    narrow = (("sigma", [0]), *narrow_figures(1))
    return TextTable(title, columns, rows, 0, caption, narrow, names)


def ablation_table(results: Sequence[RunResults], dataset: str) -> TextTable:
    """Return the valid MRR of the paper's presets without imputation or gate."""
    candidates = [
        run
        for run in without_copies(results)
        if (run.dataset, run.preset, run.protocol) == (dataset, "paper", "paper")
    ]
    rows = []
    for (model, imputation, gate), theirs in PAPER_ABLATION.items():
        parts = {"model.imputation": imputation, "model.gate": gate}
        runs = [
            run
            for run in candidates
            if run.model == model
            and changes_of(run).keys() <= parts.keys()
            and parts.items() <= settings_of(run).items()
        ]
        ours = seeds_cells(metrics_of(runs, "valid"))[0] if runs else "-"
        printed = figure_cells([theirs.get(dataset)])[0]
        if (ours, printed) != ("-", "-"):
            flags = ["yes" if part else "no" for part in parts.values()]
            rows.append([model, *flags, str(len(runs) or "-"), ours, printed])
    columns = ("model", "imputation", "gate", "seeds", "valid MRR", "published")
    caption = (
        f"The paper presets under the paper protocol, valid; {SPREAD}. TeMP-SA always imputes."
    )
    return TextTable(
        f"Imputation and gate on {dataset}", columns, rows, 3, caption, spread_columns=[4]
    )


def leak_table(results: Sequence[RunResults]) -> TextTable:
    """Return what a model gains when facts of valid and test show which entities are active."""
    best, rows = best_settings(results), []
    pairs = {(dataset, model) for dataset, model, _ in best if model in PROTOCOL_DEPENDENT}
    for dataset, model in sorted(pairs):
        cells = []
        for name, scale, digits in (("mrr", 1, 3), ("hits@10", 100, 1)):
            strict, paper = (
                mean(metric(best.get((dataset, model, protocol), []), "test", name))
                for protocol in ("strict", "paper")
            )
            cells += ["-" if x is None else f"{scale * x:.{digits}f}" for x in (strict, paper)]
            leak = None if strict is None or paper is None else paper - strict
            cells.append("-" if leak is None else f"{scale * leak:+.{digits}f}")
        rows.append([dataset, model, *cells])
    columns = ("dataset", "model", "MRR strict", "paper", "leak", "Hits@10 strict", "paper", "leak")
    kinds = [
        f"{name} {what}" for name in ("MRR", "Hits@10") for what in ("strict", "paper", "leak")
    ]
    caption = (
        "Test, Hits in percent; the best settings on valid under each protocol. "
        "The leak is the difference before rounding."
    )
    packed = (
        ("dataset, model", [0, 1]),
        ("MRR strict, paper, leak", [2, 3, 4]),
        ("Hits@10 strict, paper, leak", [5, 6, 7]),
    )
    names = ("dataset", "model", *kinds)
    return TextTable("What the leak is worth", columns, rows, 2, caption, packed, names)


def error_reduction_table(
    results: Sequence[RunResults], dataset: str, protocols: Sequence[Protocol] = BOTH_PROTOCOLS
) -> TextTable:
    """Return how much of TED's error in Hits@10 each model removes."""
    best, rows = best_settings(results), []

    def measured(model: str, protocol: str) -> float | None:
        return mean(metric(best.get((dataset, model, protocol), []), "test", "hits@10"))

    def printed(model: str, protocol: str) -> float | None:
        hits = published(dataset, model, protocol)[3]
        return None if hits is None else hits / 100

    for model, protocol in table_rows(protocols):
        pairs = (
            (measured(model, protocol), measured("ted", "strict")),
            (printed(model, protocol), printed("ted", protocol)),
        )
        cells = [
            "-" if hits is None or ted is None else f"{100 * (1 - (1 - hits) / (1 - ted)):+.1f}"
            for hits, ted in pairs
        ]
        if model != "ted" and cells != ["-", "-"]:
            label = row_label(best.get((dataset, model, protocol), []), model)
            rows.append([label, protocol, *cells])
    columns = ("model", "protocol", "error reduction, %", "published, %")
    caption = (
        "Relative reduction of 1 - Hits@10 on test; negative values mean more errors than TED."
    )
    caption = f"{caption} {explain_marks(rows)}".rstrip()
    names = (*columns[:2], "less error than TED, %", columns[3])
    title = f"Error reduction in Hits@10 on {dataset}, relative to TED"
    return TextTable(title, columns, rows, 2, caption, keys=names)


def cost_table(
    results: Sequence[RunResults],
    dataset: str,
    protocols: Sequence[Protocol] = BOTH_PROTOCOLS,
    unshared: EpochSeconds | None = None,
) -> TextTable:
    """Return parameters and times of the best settings of every model.

    An epoch that shared the GPU with no other replaces that of the runs, if it was measured with
    their preset and hardware.
    """
    best, rows, shared, replaced = best_settings(results), [], list[str](), False
    for model, protocol in table_rows(protocols):
        runs = best.get((dataset, model, protocol), [])
        if not runs:
            continue
        epoch = mean(run.epoch_seconds for run in runs)
        key = (dataset, model, runs[0].preset or "", runs[0].hardware)
        if unshared and key in unshared:
            epoch, replaced = unshared[key], True
        elif epoch is not None:
            shared.append(f"{model} ({protocol})" if model in PROTOCOL_DEPENDENT else model)
        figures = (
            (mean(run.parameters for run in runs), ",.0f"),
            (epoch, ".2f"),
            (mean(run.train_seconds for run in runs), ",.0f"),
        )
        cells = ["-" if value is None else format(value, digits) for value, digits in figures]
        rows.append([row_label(runs, model), protocol, runs[0].hardware, *cells])
    columns = ("model", "protocol", "hardware", "parameters", "s/epoch", "training s")
    caption = "Training times come from runs that shared a GPU, so they do not measure speed."
    if replaced:
        exceptions = f", except for {', '.join(shared)}" if shared else ""
        caption += f" Epochs were timed on an otherwise idle GPU{exceptions}."
    else:
        caption += " Neither do the epoch times."
    caption = f"{caption} {explain_marks(rows)}".rstrip()
    return TextTable(f"Cost of models on {dataset}", columns, rows, 3, caption)


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
