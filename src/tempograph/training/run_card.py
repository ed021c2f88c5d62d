"""The README.md of a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

from tempograph.data.graph import TemporalGraph
from tempograph.data.protocol import task_of
from tempograph.evaluation.calibration import Calibration
from tempograph.evaluation.ranking import Metrics
from tempograph.evaluation.reliability import reliability_cells
from tempograph.io import write_json, write_text
from tempograph.training.config import Config
from tempograph.training.run_folder import RESULTS
from tempograph.training.run_results import GateSummary, RunResults

CARD: Final = "README.md"
_HITS: Final = ("hits@1", "hits@3", "hits@10")
_ADDED: Final[tuple[tuple[Literal["facts", "entities", "relations", "steps"], str, str], ...]] = (
    ("facts", "fact", "facts"),
    ("entities", "entity", "entities"),
    ("relations", "relation", "relations"),
    ("steps", "step", "steps"),
)
"""What updates add, and what to call one and several of it."""


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
    reasons = f"{' '.join(results.reasons)}\n\n" if results.reasons else ""
    what = config.kind.summary
    forecasts = task_of(config.protocol) == "forecast"
    commands = "`score`, `forecast`, `backtest`" if forecasts else "`score`, `missing`"
    return (
        f"# {config.name} on {config.dataset}\n\n"
        f"{what[0].upper()}{what[1:]}. Protocol **{config.protocol}**, "
        f"seed {config.seed}, filter by time, ties by mean rank.\n\n"
        f"{figures}\n{_questions(results)}{remarks}"
        f"{len(graph.entities):,} entities, {len(graph.relations):,} relations, "
        f"{len(graph.times):,} steps from {graph.times[0]} to {graph.times[-1]}; "
        f"{len(graph.train):,} train facts.\n\n{describe_basis(results, len(graph.train))}\n\n"
        f"{reasons}"
        f"Use this folder with `tempograph evaluate`, `complete`, {commands} or "
        "`surprising`.\n"
    )


def describe_basis(results: RunResults, train_facts: int) -> str:
    """What was measured, and what answers rest on, in a few sentences."""
    again = results.answers["refitted"] if results.answers else []
    if task_of(results.protocol) == "forecast":
        trained = f" {', '.join(again)} was trained again on all facts." if again else ""
        basis = (
            f"Figures are measured with weights learned from the {train_facts:,} train facts. "
            "Each question is answered from all facts before its time, those held out included."
            f"{trained}"
        )
    elif results.answers is None:
        basis = (
            f"Figures are measured with the {train_facts:,} train facts alone. "
            "Answers rest on the same facts."
        )
    else:
        trained = f"; {', '.join(again)} was trained again on them" if again else ""
        basis = (
            f"Figures are measured with the {train_facts:,} train facts alone. Answers rest on "
            f"all {results.answers['facts']:,} facts, those held out included{trained}."
        )
    return basis if results.updates is None else f"{basis} {describe_updates(results)}"


def describe_updates(results: RunResults) -> str:
    """What updates added since the figures were measured, in a sentence."""
    updates = results.updates
    if updates is None:
        return "The run has not been updated."
    number = "One update" if updates["number"] == 1 else f"{updates['number']:,} updates"
    added = [
        f"{updates[what]:,} {name if updates[what] == 1 else plural}"
        for what, name, plural in _ADDED
        if updates[what]
    ]
    listed = " and ".join(filter(None, (", ".join(added[:-1]), *added[-1:]))) or "nothing"
    trained = ""
    if updates["epochs"]:
        epochs = "an epoch" if updates["epochs"] == 1 else f"{updates['epochs']:,} epochs"
        trained = f", and weights that were trained for {epochs} more"
    return (
        f"{number} since the figures were measured added {listed}, up to {updates['last']}; "
        f"answers use them{trained}, the figures do not."
    )


def figures_note(note: str | None, results: RunResults) -> str | None:
    """A note beside figures of a run, which says so if the run was updated."""
    before = "measured with the data and weights from before the run was updated"
    updated = before if results.updates is not None else None
    return "; ".join(filter(None, (note, updated))) or None


def write_results(
    folder: Path, config: Config, graph: TemporalGraph, results: RunResults, parts: Sequence[str]
) -> None:
    """Write results.json of a run folder, then the card."""
    write_json(folder / RESULTS, results.to_json())
    write_card(folder, config, graph, results, parts)


def write_card(
    folder: Path, config: Config, graph: TemporalGraph, results: RunResults, parts: Sequence[str]
) -> None:
    """Write the card of a run folder."""
    write_text(folder / CARD, run_card(config, graph, results, parts))


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
