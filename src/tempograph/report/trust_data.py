"""The section of a trust report on the data: what it is, and how it was read."""

from __future__ import annotations

from tempograph.data.statistics import statistics
from tempograph.report.dataset_plots import statistics_figure
from tempograph.report.document import Block, Heading, Paragraph, Picture
from tempograph.report.text_table import TextTable
from tempograph.training.fit_record import FitRecord
from tempograph.training.runs import Run


def data_blocks(run: Run) -> list[Block]:
    graph, found = run.graph, statistics(run.graph)
    text = (
        f"{len(graph.all_facts):,} facts: {found.entities:,} entities, {found.relations:,} "
        f"relations, {found.steps:,} steps from {found.first_step} to {found.last_step}; "
        f"{found.train:,} facts for training, {found.valid:,} for validation and {found.test:,} "
        "for the test."
    )
    blocks: list[Block] = [Heading("The data"), Paragraph(text)]
    if run.fit is not None:
        blocks += _import(run, run.fit)
    alt = (
        f"{graph.name}: how many entities have a train fact at each step, how many of these had "
        "one recently, how many recent facts mention them, and how many facts an entity has in all."
    )
    return [*blocks, Picture("activity", statistics_figure(found, graph), alt)]


def _import(run: Run, record: FitRecord) -> list[Block]:
    """How the data was read, row by row and column by column."""
    blocks: list[Block] = []
    account = record.imported(run.graph, run.import_options).account()
    blocks.append(Paragraph(f"Every row is accounted for: {account}."))
    if record.table.columns:
        rows = [[part, column] for part, column in record.table.columns.items()]
        unused = ", ".join(record.table.unused)
        caption = f"Not used: {unused}." if unused else "All columns are used."
        blocks.append(TextTable("Columns", ("part of a fact", "column"), rows, 2, caption))
    if record.skipped:
        skipped = [
            [skip.reason, ", ".join(map(str, skip.examples)) or skip.first, f"{skip.rows:,}"]
            for skip in record.skipped
        ]
        blocks.append(TextTable("Rows skipped", ("reason", "such as", "rows"), skipped, 2))
    remarks = [remark.removeprefix("warning: ") for remark in record.remarks]
    return [*blocks, *(Paragraph(f"{text[0].upper()}{text[1:]}.") for text in remarks if text)]
