"""A report on finished runs: figures, where the answers are found, training, settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.data.protocol import task_of
from tempograph.data.statistics import statistics
from tempograph.data.timeline import Timeline
from tempograph.errors import ConfigError
from tempograph.evaluation.evaluations import METRIC_LABELS
from tempograph.models.registry import model_kind
from tempograph.report.dataset_plots import statistics_figure
from tempograph.report.document import Block, Code, Details, Heading, Paragraph, Picture
from tempograph.report.html import write_html
from tempograph.report.introspection import introspect, offers_introspection
from tempograph.report.markdown import write_markdown
from tempograph.report.model_plots import introspection_figure, training_figure
from tempograph.report.reported_runs import ReportedRun, read_runs
from tempograph.report.sections import RankAnalysis
from tempograph.report.stored_figures import METRIC_COLUMNS, metric_cells, stored_figures
from tempograph.report.text_table import TextTable
from tempograph.training.run_card import describe_updates
from tempograph.training.run_folder import read_environment, read_history
from tempograph.training.runs import Run
from tempograph.typing import Split, Task

_WRITERS: Final = {".html": write_html, ".md": write_markdown}
_SPLITS: Final[tuple[Split, ...]] = ("test", "valid", "train")
_EXPLANATION: Final = (
    "For each held-out fact (s, r, o, t), there are two queries: (s, r, ?, t) and (?, r, o, t). A "
    "model ranks every entity as the answer. Rank 1 means that the right answer came first. Other "
    "answers that are known to be true at the same time are removed before ranking (filter time), "
    "and ties share their mean rank.",
    "MRR is the mean of 1 / rank, between 0 and 1; higher is better. Hits@k is the percentage of "
    "queries whose right answer is among the first k. MR is the mean rank; lower is better, but a "
    "few very high ranks can dominate it. Ties won and ties lost are the metrics if every tie "
    "were decided for, or against, the right answer.",
)
_PROTOCOLS: Final[dict[Task, str]] = {
    "complete": "The protocol states which facts a model can use. Strict: train facts only. Paper: "
    "validation and test facts also decide which entities are active at a time step, as in the "
    "code behind the published results of TeMP. That is a leak, and results under the two "
    "protocols must not be compared.",
    "forecast": "A forecast rests on facts before the query and on nothing else. Under the "
    "protocol forecast-single, these are all facts of earlier steps, those of validation and test "
    "included; under forecast-multi, the history ends with the split before. Weights were learned "
    "from the train split in both.",
}
_CHOICE: Final = "Settings were chosen on the validation split; quote the test results."


def write_report(folders: Sequence[str | Path], out: str | Path, window: int = 8) -> None:
    """Write a report on run folders; frequencies are counted `window` steps around a query.

    The suffix of `out` decides the format: .html is one self-contained page, .md has its pictures
    in a folder beside it.
    """
    path = Path(out)
    write = writer_for(path)
    if not folders or window < 1:
        raise ConfigError(
            f"a report needs a run and a window of at least 1; found {len(folders)} and {window}"
        )
    runs = read_runs([Path(folder) for folder in folders])
    datasets = ", ".join(dict.fromkeys(run.graph.name for run in runs))
    subject = runs[0].config.name if len(runs) == 1 else f"{len(runs)} runs"
    write(path, f"{subject} on {datasets}", _document(runs, window))


def writer_for(path: Path) -> Callable[[Path, str, Sequence[Block]], None]:
    """What writes a report; the suffix of its file decides."""
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise ConfigError(f"{path}: a report ends in {' or '.join(_WRITERS)}")
    return write


def _document(runs: Sequence[ReportedRun], window: int) -> list[Block]:
    blocks = [*_summary(runs), *_not_evaluated(runs), Heading("What the metrics mean")]
    tasks = dict.fromkeys(task_of(run.config.protocol) for run in runs)
    explanation = (*_EXPLANATION, *(_PROTOCOLS[task] for task in tasks), _CHOICE)
    blocks += [Paragraph(text) for text in explanation]
    for number, graph in enumerate(dict.fromkeys(run.graph for run in runs), 1):
        same_data = [run for run in runs if run.graph is graph]
        blocks += _dataset_section(graph, same_data, window, f"data{number}-")
    for number, run in enumerate(runs, 1):
        blocks += _run_section(run, f"run{number}-")
    return blocks


def _summary(runs: Sequence[ReportedRun]) -> list[Block]:
    """One table of all runs; what they share is in its caption, what differs in a column."""
    settings: dict[str, list[str]] = {
        "dataset": [run.graph.name for run in runs],
        "protocol": [run.config.protocol for run in runs],
    }
    shared = [f"{name} {values[0]}" for name, values in settings.items() if len(set(values)) == 1]
    columns = [name for name, values in settings.items() if len(set(values)) > 1]
    rows = [
        [
            run.label,
            split,
            *(settings[name][index] for name in columns),
            *metric_cells(run.results.evaluations[split]["metrics"]),
        ]
        for split in _SPLITS
        for index, run in enumerate(runs)
        if split in run.results.evaluations
    ]
    if not rows:
        return []
    caption = f"Both query directions, {', '.join([*shared, 'filter time'])}; Hits in percent."
    headings = ("run", "split", *columns, *METRIC_COLUMNS)
    return [TextTable("Results", headings, rows, 2 + len(columns), caption)]


def _not_evaluated(runs: Sequence[ReportedRun]) -> list[Block]:
    missing = [run for run in runs if "test" not in run.ranks]
    if not missing:
        return []
    labels = ", ".join(run.label for run in missing)
    commands = "\n".join(f"{run.command('evaluate')} --split test" for run in missing)
    return [
        Paragraph(f"Not evaluated on test: {labels}. To evaluate and analyze them, run:"),
        Code(commands),
    ]


def _dataset_section(
    graph: TemporalGraph, runs: Sequence[ReportedRun], window: int, prefix: str
) -> list[Block]:
    stats = statistics(graph)
    text = (
        f"{stats.entities:,} entities, {stats.relations:,} relations, {stats.steps:,} steps from "
        f"{stats.first_step} to {stats.last_step}; {stats.train:,} facts for training, "
        f"{stats.valid:,} for validation and {stats.test:,} for testing."
    )
    alt = (
        f"{graph.name}: how many entities have a train fact at each step, how many of these had "
        "one recently, how many recent facts mention them, and how many facts an entity has in all."
    )
    picture = Picture(f"{prefix}activity", statistics_figure(stats, graph), alt)
    blocks: list[Block] = [Heading(f"The data: {graph.name}"), Paragraph(text), picture]
    for split in _SPLITS:
        ranked = [run for run in runs if split in run.ranks]
        if ranked:
            protocols = dict.fromkeys(f"protocol {run.config.protocol}" for run in ranked)
            ranks = {run.label: run.ranks[split] for run in ranked}
            analysis = RankAnalysis(graph, split, ranks, " and ".join(protocols), window)
            blocks += analysis.blocks(f"{prefix}{split}-")
    return blocks


def _run_section(run: ReportedRun, prefix: str) -> list[Block]:
    config, results = run.config, run.results
    seconds = results.train_seconds
    duration = "" if seconds is None else f" in {seconds:,.0f} s"
    text = (
        f"{config.name} on {config.dataset}: {model_kind(config.name).summary}. Protocol "
        f"{config.protocol}, seed {config.seed}, "
        f"{f'preset {config.preset}' if config.preset else 'no preset'}; "
        f"{results.parameters:,} parameters, trained{duration} on {results.hardware}."
    )
    blocks: list[Block] = [Heading(f"Run: {run.label}"), Paragraph(text)]
    if not results.finished:
        blocks.append(Paragraph("Training is not finished. To continue, run:"))
        blocks.append(Code(run.command("resume")))
    if results.updates is not None:
        blocks.append(Paragraph(describe_updates(results)))
    evaluated = results.evaluations
    splits = [split for split in _SPLITS if split in evaluated]
    rows = [
        [split, label, *metric_cells(evaluated[split][key])]
        for split in splits
        for key, label in METRIC_LABELS.items()
    ]
    if rows:
        caption = (
            f"Dataset {config.dataset}, protocol {config.protocol}, filter time; Hits in percent."
        )
        title, columns = f"Results of {run.label}", ("split", "ranked", *METRIC_COLUMNS)
        blocks.append(TextTable(title, columns, rows, 2, caption))
    blocks += [
        Paragraph(f"On {split}, {evaluated[split]['note']}.")
        for split in splits
        if "note" in evaluated[split]
    ]
    blocks += stored_figures(results, run.label, _SPLITS)
    environment = [[name, str(value)] for name, value in read_environment(run.folder).items()]
    table = TextTable("Training environment", ("name", "value"), environment, 2)
    return [
        *blocks,
        *_training(run, prefix),
        *_introspection(run, prefix),
        Details("Settings (config.toml)", [Code(config.to_toml())], printed=True),
        Details("Environment", [table], printed=True),
    ]


def _training(run: ReportedRun, prefix: str) -> list[Block]:
    history = [line for line in read_history(run.folder) if "epoch" in line and "loss" in line]
    if len(history) < 2:
        return []
    figure = training_figure(history, run.results.best_epoch, run.config.about)
    alt = (
        f"Training of {run.label}: the loss and the MRR on valid after each of {len(history)} "
        "epochs."
    )
    return [Heading(f"Training of {run.label}", 3), Picture(f"{prefix}training", figure, alt)]


def _introspection(run: ReportedRun, prefix: str) -> list[Block]:
    """What a model has learned; nothing for models that cannot be introspected."""
    graph = run.graph
    if not offers_introspection(run.config.model):
        return []
    model = Run.load_with(run.folder, graph, Timeline(graph, run.config.protocol)).model
    split: Split = "valid" if len(graph.valid) else "train"
    parts = introspect(model, graph.facts(split))
    text = ""
    if parts.gate:
        text += (
            "Gate: how much of an entity's embedding comes from its snapshot rather than from its "
            "past and future, by how often the query's entity and relation occur together in the "
            f"window, for the given entity and for the candidates, over the queries of {split}. "
        )
    text += "Decay: how much of an embedding remains after a number of steps."
    if parts.attention is not None:
        text += (
            " Attention: the mean weight of an active step by its distance; 0 is the time of the "
            "query."
        )
    figure = introspection_figure(parts, run.config.about)
    title = Heading(f"What {run.label} has learned", 3)
    return [title, Picture(f"{prefix}learned", figure, text)]
