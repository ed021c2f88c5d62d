"""What fit and resume print about a fit."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from tempograph.cli.console import out, show

if TYPE_CHECKING:
    from tempograph.experiments.fit_result import FitResult
    from tempograph.report.trust_figures import TrustFigures


def print_fit(result: FitResult, folder: Path) -> None:
    """Print the data, the model and why, how far to trust its answers, and what to do next."""
    from tempograph.report.search_report import search_table
    from tempograph.report.trust_sections import figures_table
    from tempograph.training.run_card import describe_basis

    graph, imported, run = result.run.graph, result.imported, quote(str(folder))
    skipped = {"repeated": imported.duplicates, "skipped": sum(s.rows for s in imported.skipped)}
    left_out = ", ".join(f"{count:,} {what}" for what, count in skipped.items() if count)
    out.print(
        f"{len(graph.all_facts):,} facts from {imported.rows:,} rows"
        f"{f' ({left_out})' if left_out else ''}: {len(graph.entities):,} entities, "
        f"{len(graph.relations):,} relations, {len(graph.times):,} steps "
        f"from {graph.times[0]} to {graph.times[-1]}.",
        soft_wrap=True,
    )
    out.print(f"Model: {result.choice.model}, because {result.choice.why}.", soft_wrap=True)
    if result.search is not None:
        show(search_table(result.search))
    if result.trust is None:
        out.print(f"Stopped by --max-time; resume with: tempograph resume {run}", soft_wrap=True)
        return
    out.print(result.describe(), soft_wrap=True)
    show(figures_table(result.trust.figures, result.choice.model))
    _print_weakest(result.trust.figures)
    out.print(describe_basis(result.run.results, len(graph.train)), soft_wrap=True)
    out.print(f"Trust report: {result.report}", soft_wrap=True)
    forecasts = result.run.timeline.past_only
    time = "+1" if forecasts else graph.times[-1]
    subject, relation, time = map(quote, (graph.entities[0], graph.relations[0], time))
    out.print(
        f"Next: tempograph complete {run} --subject {subject} --relation {relation} --time {time}, "
        f"or tempograph {'forecast' if forecasts else 'missing'} {run}",
        soft_wrap=True,
    )


def _print_weakest(figures: TrustFigures) -> None:
    """Print where the model is weak, a line for each way to group the questions."""
    from tempograph.report.trust_figures import describe_group

    weakest = figures.weakest()
    if not weakest:
        return
    overall = figures.questions[0]["metrics"]["hits@10"]
    out.print(f"Who-questions with the right answer in the first ten, {overall:.0%} of all; least:")
    for each in weakest:
        line = f"  {each['hits@10']:4.0%} of {each['questions']:,}: {describe_group(each)}"
        out.print(line, soft_wrap=True)
