"""The tables of the paper, with our measured results beside the published figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tempograph.data.graph import TemporalGraph
from tempograph.experiments.configurations import has_settings_of, settings_of
from tempograph.experiments.measured_rows import (
    Runs,
    is_reproduction,
    is_shipped,
    preset_cell,
    remarks,
    settings_cell,
    with_sources,
)
from tempograph.experiments.published import (
    NOT_PUBLISHED,
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
    figure_cells,
    figures,
    mean,
    metric,
    metrics_of,
    narrow_figures,
    result_key,
    seeds_cells,
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
HEAD_COLUMNS: Final = ("model", "protocol", "preset", "remarks")
_NARROW_HEAD: Final = ", ".join(HEAD_COLUMNS[:3])
_NO_FIGURES: Final = ["-"] * 4


class TableRow(NamedTuple):
    """A model under a protocol: with the paper's settings, or with the best of all others."""

    model: str
    protocol: Protocol
    reproduction: bool
    """Whether it has the settings of the paper under protocol paper; see `is_reproduction`."""
    runs: Runs

    @property
    def preset(self) -> str:
        """The preset of its settings; a dash if there is none."""
        if self.runs:
            return preset_cell(self.runs)
        return "paper" if self.reproduction else "-"

    @property
    def head(self) -> list[str]:
        """Model, protocol, preset and remarks."""
        notes = remarks(self.runs) if self.runs else "-"
        return [self.model, self.protocol, self.preset, notes]

    @property
    def name(self) -> str:
        """What notes call the row."""
        if self.model not in PROTOCOL_DEPENDENT:
            return self.model
        return f"{self.model} ({self.protocol}, {self.preset})"

    def published(self, dataset: str) -> Published:
        """Return the published figures that may stand beside it."""
        preset = "paper" if self.reproduction else None
        return published(dataset, self.model, self.protocol, preset)


def table_rows(
    results: Sequence[RunResults], dataset: str, protocols: Sequence[Protocol] = BOTH_PROTOCOLS
) -> list[TableRow]:
    """Return a row for all models, protocols and kinds of settings, the paper's models first.

    Under protocol paper, the settings of the paper and those tuned for it are different kinds.
    Candidates for a row are all results of its kind.
    """
    here = [result for result in results if result.dataset == dataset]
    best = best_settings(here, lambda run: (run.model, run.protocol, is_reproduction(run)))
    return [
        TableRow(model, protocol, kind, best.get((model, protocol, kind), ()))
        for model in dict.fromkeys((*PAPER_TEST["icews14"], *MODELS))
        for protocol in protocols_of(model, protocols)
        for kind in (True, False)
        if not kind or (model in PROTOCOL_DEPENDENT and protocol == "paper")
    ]


def comparative_table(
    results: Sequence[RunResults], dataset: str, protocols: Sequence[Protocol] = BOTH_PROTOCOLS
) -> TextTable:
    """Return the test figures of all models, each with its best settings on valid."""
    shown = [
        row
        for row in table_rows(results, dataset, protocols)
        if row.runs or row.published(dataset) != NOT_PUBLISHED
    ]
    rows = []
    for row in shown:
        ours = seeds_cells(metrics_of(row.runs, "test")) if row.runs else _NO_FIGURES
        theirs = figure_cells(row.published(dataset))
        rows.append([*row.head, str(len(row.runs) or "-"), *ours, *theirs])
    caption = (
        f"Test, filter by time, Hits in percent; {SPREAD}. "
        "A dash means not measured or not published. Of all settings measured, each row shows "
        "those with the highest mean valid MRR; under protocol paper, the paper's settings have a "
        "row of their own, and only they stand beside published figures."
    )
    if dataset == "gdelt":
        caption += " GDELT's facts may not be redistributed, so we publish no results on it."
    head = (*HEAD_COLUMNS, "seeds")
    narrow = ((_NARROW_HEAD, [0, 1, 2]), *narrow_figures(5)[:2], ("published", [9]))
    columns, names = (*head, *BOTH_COLUMNS), (*head, *BOTH_NAMES)
    table = TextTable(f"Models on {dataset}", columns, rows, 4, caption, narrow, names, [5])
    return _with_sources(table, shown)


def _with_sources(table: TextTable, rows: Sequence[TableRow]) -> TextTable:
    return with_sources(table, [[row.runs] for row in rows], [row.name for row in rows])


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
            *(figure_cells(figures(metrics_of(run, split)[0])) if run else _NO_FIGURES),
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
            rows.append([model, *flags, str(len(runs) or "-"), ours, printed])
            measured.append([runs])
    columns = ("model", "imputation", "gate", "seeds", "valid MRR", "published")
    caption = (
        f"The paper presets under the paper protocol, valid; {SPREAD}. TeMP-SA always imputes."
    )
    table = TextTable(
        f"Imputation and gate on {dataset}", columns, rows, 3, caption, spread_columns=[4]
    )
    names = [f"{row[0]} (imputation {row[1]}, gate {row[2]})" for row in rows]
    return with_sources(table, measured, names)


def leak_table(results: Sequence[RunResults]) -> TextTable:
    """Return what a model gains when facts of valid and test show which entities are active."""
    best, rows, measured = best_settings(results, result_key), [], []
    pairs = {(dataset, model) for dataset, model, _ in best if model in PROTOCOL_DEPENDENT}
    for dataset, model in sorted(pairs):
        both = [best.get((dataset, model, protocol), []) for protocol in ("strict", "paper")]
        cells = [settings_cell(runs) for runs in both]
        for name, scale, digits in (("mrr", 1, 3), ("hits@10", 100, 1)):
            strict, paper = (mean(metric(runs, "test", name)) for runs in both)
            cells += ["-" if x is None else f"{scale * x:.{digits}f}" for x in (strict, paper)]
            leak = None if strict is None or paper is None else paper - strict
            cells.append("-" if leak is None else f"{scale * leak:+.{digits}f}")
        rows.append([dataset, model, *cells])
        measured.append(both)
    columns = (
        *("dataset", "model", "strict settings", "paper settings"),
        *("MRR strict", "paper", "leak", "Hits@10 strict", "paper", "leak"),
    )
    kinds = [
        f"{name} {what}" for name in ("MRR", "Hits@10") for what in ("strict", "paper", "leak")
    ]
    caption = (
        "Test, Hits in percent; the best settings on valid under each protocol. "
        "The leak is the difference before rounding."
    )
    packed = (
        ("dataset, model", [0, 1]),
        ("MRR strict, paper, leak", [4, 5, 6]),
        ("Hits@10 strict, paper, leak", [7, 8, 9]),
    )
    names = (*columns[:4], *kinds)
    table = TextTable("What the leak is worth", columns, rows, 4, caption, packed, names)
    return with_sources(table, measured, [f"{row[1]} on {row[0]}" for row in rows])


def error_reduction_table(
    results: Sequence[RunResults], dataset: str, protocols: Sequence[Protocol] = BOTH_PROTOCOLS
) -> TextTable:
    """Return how much of TED's error in Hits@10 each model removes."""
    candidates = table_rows(results, dataset, protocols)
    (ted,) = (row for row in candidates if row.model == "ted")

    def hits(row: TableRow) -> tuple[float | None, float | None]:
        """Our Hits@10 and the published one."""
        printed = row.published(dataset)[3]
        ours = mean(metric(row.runs, "test", "hits@10"))
        return ours, None if printed is None else printed / 100

    rows, shown = [], []
    for row in candidates:
        cells = [
            "-" if one is None or base is None else f"{100 * (1 - (1 - one) / (1 - base)):+.1f}"
            for one, base in zip(hits(row), hits(ted), strict=True)
        ]
        if row.model != "ted" and cells != ["-", "-"]:
            rows.append([*row.head, *cells])
            shown.append(row)
    columns = (*HEAD_COLUMNS, "error reduction, %", "published, %")
    caption = (
        "Relative reduction of 1 - Hits@10 on test; negative values mean more errors than TED."
    )
    names = (*HEAD_COLUMNS, "less error than TED, %", columns[5])
    title = f"Error reduction in Hits@10 on {dataset}, relative to TED"
    narrow = ((_NARROW_HEAD, [0, 1, 2]), (columns[4], [4]), (columns[5], [5]))
    return _with_sources(TextTable(title, columns, rows, 4, caption, narrow, names), shown)


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
    shown = [row for row in table_rows(results, dataset, protocols) if row.runs]
    rows, shared, replaced = [], list[str](), False
    for row in shown:
        runs = row.runs
        epoch = mean(run.epoch_seconds for run in runs)
        key = (dataset, row.model, row.preset, runs[0].hardware)
        if unshared and key in unshared and is_shipped(runs):
            epoch, replaced = unshared[key], True
        elif epoch is not None:
            shared.append(row.name)
        figures = (
            (mean(run.parameters for run in runs), ",.0f"),
            (epoch, ".2f"),
            (mean(run.train_seconds for run in runs), ",.0f"),
        )
        cells = ["-" if value is None else format(value, digits) for value, digits in figures]
        rows.append([*row.head, runs[0].hardware, *cells])
    columns = (*HEAD_COLUMNS, "hardware", "parameters", "s/epoch", "training s")
    caption = "Training times come from runs that shared a GPU, so they do not measure speed."
    if replaced:
        exceptions = f", except for {', '.join(shared)}" if shared else ""
        caption += f" Epochs were timed on an otherwise idle GPU{exceptions}."
    else:
        caption += " Neither do the epoch times."
    narrow = ((_NARROW_HEAD, [0, 1, 2]), *((columns[index], [index]) for index in (5, 6, 7)))
    table = TextTable(f"Cost of models on {dataset}", columns, rows, 5, caption, narrow)
    return _with_sources(table, shown)


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
