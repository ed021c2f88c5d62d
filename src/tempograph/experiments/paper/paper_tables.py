"""The tables of models, with our measured results beside the published figures."""

from __future__ import annotations

from collections.abc import Sequence

from tempograph.experiments.measured_rows import is_shipped, row_kind, settings_cell, with_sources
from tempograph.experiments.paper.table_rows import (
    BOTH_COLUMNS,
    BOTH_NAMES,
    BOTH_PROTOCOLS,
    HEAD_COLUMNS,
    NARROW_HEAD,
    NO_FIGURES,
    TableRow,
    table_rows,
    with_row_sources,
)
from tempograph.experiments.published import NOT_PUBLISHED, PROTOCOL_DEPENDENT
from tempograph.experiments.results import (
    SPREAD,
    EpochSeconds,
    best_settings,
    figure_cells,
    mean,
    metric,
    metrics_of,
    narrow_figures,
    result_key,
    seeds_cells,
)
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import Protocol


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
        ours = seeds_cells(metrics_of(row.runs, "test")) if row.runs else NO_FIGURES
        theirs = figure_cells(row.published(dataset))
        rows.append([*row.head, str(len(row.runs) or "-"), *ours, *theirs])
    caption = (
        f"Test, filter by time, Hits in percent; {SPREAD}. "
        "A dash means not measured or not published. Of all settings measured, each row shows "
        "those with the highest mean valid MRR; under protocol paper, the paper's settings have a "
        "row of their own, and only they stand beside the published figures of SRGCN and TeMP."
    )
    if dataset == "gdelt":
        caption += " GDELT's facts may not be redistributed, so we publish no results on it."
    head = (*HEAD_COLUMNS, "seeds")
    narrow = ((NARROW_HEAD, [0, 1, 2]), *narrow_figures(5)[:2], ("published", [9]))
    columns, names = (*head, *BOTH_COLUMNS), (*head, *BOTH_NAMES)
    table = TextTable(f"Models on {dataset}", columns, rows, 4, caption, narrow, names, [5])
    return with_row_sources(table, shown)


def leak_table(results: Sequence[RunResults]) -> TextTable:
    """Return what a model gains when facts of valid and test show which entities are active."""
    by_facts = [
        result
        for result in results
        if row_kind(result) != "with names"
        and result.protocol in BOTH_PROTOCOLS
        and not result.intervals
    ]
    best, rows, measured = best_settings(by_facts, result_key), [], []
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
    narrow = ((NARROW_HEAD, [0, 1, 2]), (columns[4], [4]), (columns[5], [5]))
    return with_row_sources(TextTable(title, columns, rows, 4, caption, narrow, names), shown)


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
    narrow = ((NARROW_HEAD, [0, 1, 2]), *((columns[index], [index]) for index in (5, 6, 7)))
    table = TextTable(f"Cost of models on {dataset}", columns, rows, 5, caption, narrow)
    return with_row_sources(table, shown)
