"""The README.md of a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.evaluation.calibration import Calibration
from tempograph.evaluation.ranking import Metrics
from tempograph.evaluation.reliability import reliability_cells
from tempograph.training.config import Config
from tempograph.training.run_results import GateSummary, RunResults

_HITS: Final = ("hits@1", "hits@3", "hits@10")


def run_card(
    config: Config, graph: TemporalGraph, results: RunResults, parts: Sequence[str]
) -> str:
    """The card as Markdown: model, metrics, calibration and data."""
    evaluated = {
        split: summary
        for split, summary in (("valid", results.valid), ("test", results.test))
        if summary is not None
    }
    rows = []
    for split, summary in evaluated.items():
        rows.append([split, *_figures(summary["metrics"])])
    columns = ["split", "MRR", "Hits@1", "Hits@3", "Hits@10"]
    figures = _markdown_table([columns, ["---"] * 5, *rows]) if rows else "Not evaluated.\n"
    notes = [f"{split}: {one['note']}" for split, one in evaluated.items() if "note" in one]
    if results.gate is not None:
        notes.append(_gate(results.gate))
    if parts:
        notes.append(f"combines {', '.join(f'[{name}](parts/{name})' for name in parts)}")
    remarks = "".join(f"{note[0].upper()}{note[1:]}.\n" for note in notes)
    remarks += "\n" if notes else ""
    if results.calibration is not None:
        remarks += f"{_reliability(results.calibration)}\n"
    what = config.kind.summary
    return (
        f"# {config.name} on {config.dataset}\n\n"
        f"{what[0].upper()}{what[1:]}. Protocol **{config.protocol}**, "
        f"seed {config.seed}, filter by time, ties by mean rank.\n\n"
        f"{figures}\n{_questions(results)}{remarks}"
        f"{len(graph.entities):,} entities, {len(graph.relations):,} relations, "
        f"{len(graph.times):,} steps from {graph.times[0]} to {graph.times[-1]}; "
        f"{len(graph.train):,} train facts.\n\n{describe_basis(results, len(graph.train))}\n\n"
        "Use this folder with `tempograph evaluate`, `complete`, `score`, `missing` or "
        "`surprising`.\n"
    )


def describe_basis(results: RunResults, train_facts: int) -> str:
    """What was measured, and what answers rest on, in two sentences."""
    measured = f"Figures are measured with the {train_facts:,} train facts alone."
    if results.answers is None:
        return f"{measured} Answers rest on the same facts."
    again = results.answers["refitted"]
    trained = f"; {', '.join(again)} was trained again on them" if again else ""
    facts = f"{results.answers['facts']:,}"
    return f"{measured} Answers rest on all {facts} facts, those held out included{trained}."


def _questions(results: RunResults) -> str:
    """The figures of questions for relations and times, beside their baselines."""
    rows = []
    for name, baseline, found in (
        ("relation", "counts of the pair", results.relation.get("test")),
        ("time", "activity of the pair", results.time.get("test")),
    ):
        if found is not None:
            shown = ((name, found["metrics"]), (f"baseline: {baseline}", found["baseline"]))
            rows += [[label, *_figures(metrics)] for label, metrics in shown]
    if not rows:
        return ""
    columns = ["asked for, on test", "MRR", "Hits@1", "Hits@3", "Hits@10"]
    return _markdown_table([columns, ["---"] * 5, *rows]) + "\n"


def _figures(metrics: Metrics) -> list[str]:
    hits = [f"{metrics[name]:.1%}" for name in _HITS]
    return [f"{metrics['mrr']:.3f}", *hits]


def _gate(gate: GateSummary) -> str:
    """What the gate of an ensemble is fitted on."""
    if gate.get("fitted_on", "valid") == "valid":
        number = f"{gate['facts']:,} " if "facts" in gate else ""
        return f"the gate is fitted on {number}valid facts"
    return (
        f"the gate is fitted on {gate['facts']:,} train facts, held out from copies of the parts; "
        "the parts are trained on all train facts"
    )


def _reliability(calibration: Calibration) -> str:
    """How far the probabilities can be trusted."""
    columns, cells = reliability_cells(calibration["reliability"])
    rule = ["---", *["---:"] * (len(columns) - 1)]
    error, error_before = calibration["calibration_error"], calibration["calibration_error_before"]
    loss, loss_before = calibration["log_loss"], calibration["log_loss_before"]
    return (
        f"Probabilities are a softmax with temperature {calibration['temperature']:.3f}, mixed "
        f"with a uniform share of {calibration.get('uniform', 0.0):.1%}. The table compares "
        f"the probability of the best answer with how often it is right, on "
        f"{calibration['facts']:,} {calibration['split']} facts in both query directions. The "
        f"expected calibration error is {error:.3f} ({error_before:.3f} before they were "
        f"fitted), the log loss {loss:.3f} ({loss_before:.3f} before).\n\n"
        f"{_markdown_table([columns, rule, *cells])}"
    )


def _markdown_table(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
