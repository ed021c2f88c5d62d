"""A report on finished runs, made to be sent on: figures, where the answers are found, training, settings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.data.statistics import statistics
from tempograph.data.timeline import Timeline
from tempograph.errors import ConfigError, RunError
from tempograph.evaluation.evaluator import METRIC_LABELS
from tempograph.evaluation.rank_table import RankTable, read_run_ranks
from tempograph.models.registry import model_kind
from tempograph.report import analysis_plots, plots
from tempograph.report.html import (
    Block,
    Fold,
    Heading,
    Listing,
    Picture,
    Words,
    write_html,
    write_markdown,
)
from tempograph.report.introspection import introspect, offers_introspection
from tempograph.report.sections import Findings
from tempograph.report.text_table import TextTable
from tempograph.training.config import Config
from tempograph.training.run_folder import (
    read_config,
    read_environment,
    read_graph,
    read_history,
    read_results,
)
from tempograph.training.run_results import RunResults
from tempograph.training.runs import Run
from tempograph.typing import Split

_WRITERS: Final = {".html": write_html, ".md": write_markdown}
_SPLITS: Final[tuple[Split, ...]] = ("test", "valid", "train")
_FIGURES: Final = ("MRR", "Hits@1", "Hits@3", "Hits@10", "MR")
_MEANING: Final = (
    "For each fact (s, r, o, t) that was hidden, two questions are asked: (s, r, ?, t) and (?, r, o, t). A model ranks "
    "every entity as the answer. Rank 1 means that the right answer came first. Other answers that are known to be "
    "true at the same time are taken out before ranking (filter time), and ties share their mean rank.",
    "MRR is the mean of 1 / rank, between 0 and 1: the higher, the better. Hits@k is the share of questions, in per "
    "cent, whose answer is among the first k. MR is the mean rank: the lower, the better; a few hopeless questions can "
    "dominate it. Ties won and ties lost say what the figures would be if every tie went for, or against, the right "
    "answer.",
    "The protocol says what a model could know. Strict: train facts and nothing else. Paper: facts of valid and test "
    "also decide which entities count as active at a time, as in the program behind the published figures of TeMP; "
    "that is a leak, and figures of the two protocols must not be compared. Models were chosen on valid; test is the "
    "figure to quote.",
)


@dataclass(frozen=True, eq=False)
class Entry:
    """One run of the report, with a label that no other one has."""

    label: str
    folder: Path
    config: Config
    results: RunResults
    graph: TemporalGraph

    @cached_property
    def ranks(self) -> dict[Split, RankTable]:
        """Its ranks by split."""
        found = read_run_ranks(self.folder)
        for split, ranked in found.items():
            if not ranked.covers(self.graph.facts(split)):
                raise RunError(
                    f"{self.folder / 'ranks.parquet'}: ranks of other facts than those of {split}; "
                    f"`tempograph evaluate {_quoted(self.folder)} --split {split}` makes them anew"
                )
        return found


def write_report(folders: Sequence[str | Path], out: str | Path, window: int = 8) -> None:
    """Write a report on run folders; frequencies are counted so many steps before and after a question.

    The suffix of `out` decides: .html is one page that needs nothing else, .md has its pictures in a folder beside it.
    """
    path = Path(out)
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise ConfigError(f"{path}: a report ends in {' or '.join(_WRITERS)}")
    if not folders or window < 1:
        raise ConfigError(
            f"a report needs a run and a window of at least 1; found {len(folders)} and {window}"
        )
    entries = _entries([Path(folder) for folder in folders])
    datasets = ", ".join(dict.fromkeys(entry.graph.name for entry in entries))
    title = (
        f"{entries[0].config.name if len(entries) == 1 else f'{len(entries)} runs'} on {datasets}"
    )
    write(path, title, _document(entries, window))


def _entries(folders: Sequence[Path]) -> list[Entry]:
    records = [
        (folder, read_config(folder), read_results(folder)) for folder in dict.fromkeys(folders)
    ]
    entries: list[Entry] = []
    for label, (folder, config, results) in zip(_labels(records), records, strict=True):
        graph = read_graph(folder, config.dataset)
        # Runs on the same data are set side by side.
        known = (
            entry.graph
            for entry in entries
            if entry.graph.name == graph.name and entry.graph.same_as(graph)
        )
        entries.append(Entry(label, folder, config, results, next(known, graph)))
    return entries


def _labels(records: Sequence[tuple[Path, Config, RunResults]]) -> list[str]:
    """The shortest way to name the runs that tells all of them apart, and their protocols where they differ."""
    ways: list[Callable[[Path, Config], str]] = [
        lambda _, config: config.name,
        lambda _, config: f"{config.name} on {config.dataset}",
        lambda _, config: f"{config.name}, seed {config.seed}",
        lambda folder, _: folder.name,
        lambda folder, _: str(folder),
    ]
    mixed = len({config.protocol for _, config, _ in records}) > 1
    named = [
        [
            way(folder, config) + (f", {config.protocol}" if mixed else "")
            for folder, config, _ in records
        ]
        for way in ways
    ]
    return next((labels for labels in named if len(set(labels)) == len(labels)), named[-1])


def _document(entries: Sequence[Entry], window: int) -> list[Block]:
    blocks: list[Block] = [
        *_headline(entries),
        *_not_evaluated(entries),
        Heading("What the figures mean"),
    ]
    blocks += [Words(text) for text in _MEANING]
    for number, graph in enumerate(dict.fromkeys(entry.graph for entry in entries), 1):
        blocks += _dataset(
            graph, [entry for entry in entries if entry.graph is graph], window, f"data{number}-"
        )
    for number, entry in enumerate(entries, 1):
        blocks += _run(entry, f"run{number}-")
    return blocks


def _headline(entries: Sequence[Entry]) -> list[Block]:
    """One table of all runs; what they have in common stands below its title, what differs in a column."""
    told: dict[str, list[str]] = {
        "dataset": [entry.graph.name for entry in entries],
        "protocol": [entry.config.protocol for entry in entries],
    }
    common = [f"{name} {values[0]}" for name, values in told.items() if len(set(values)) == 1]
    columns = [name for name, values in told.items() if len(set(values)) > 1]
    rows = [
        [
            entry.label,
            split,
            *(told[name][place] for name in columns),
            *_cells(entry.results.evaluations[split]["metrics"]),
        ]
        for split in _SPLITS
        for place, entry in enumerate(entries)
        if split in entry.results.evaluations
    ]
    if not rows:
        return []
    caption = f"Both sides together, {', '.join([*common, 'filter time'])}; Hits in per cent."
    return [
        TextTable("Figures", ("run", "split", *columns, *_FIGURES), rows, 2 + len(columns), caption)
    ]


def _cells(metrics: Mapping[str, float]) -> list[str]:
    hits = (f"{100 * metrics[f'hits@{k}']:.1f}" for k in (1, 3, 10))
    return [f"{metrics['mrr']:.3f}", *hits, f"{metrics['mr']:,.1f}"]


def _not_evaluated(entries: Sequence[Entry]) -> list[Block]:
    missing = [entry for entry in entries if "test" not in entry.ranks]
    if not missing:
        return []
    names = ", ".join(entry.label for entry in missing)
    commands = "\n".join(
        f"tempograph evaluate {_quoted(entry.folder)} --split test" for entry in missing
    )
    return [
        Words(f"Not evaluated on test: {names}. To have these figures and their analysis:"),
        Listing(commands),
    ]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _dataset(
    graph: TemporalGraph, entries: Sequence[Entry], window: int, prefix: str
) -> list[Block]:
    found = statistics(graph)
    words = (
        f"{found.entities:,} entities, {found.relations:,} relations, {found.steps:,} steps from {found.first_step} "
        f"to {found.last_step}; {found.train:,} facts to learn from, {found.valid:,} to choose by and "
        f"{found.test:,} to test."
    )
    alt = (
        f"{graph.name}: how many entities have a train fact at each step, how many of these had one recently, how many "
        "recent facts name them, and how many facts name an entity at all."
    )
    picture = Picture(f"{prefix}activity", plots.statistics_figure(found, graph), alt)
    blocks: list[Block] = [Heading(f"The data: {graph.name}"), Words(words), picture]
    for split in _SPLITS:
        there = [entry for entry in entries if split in entry.ranks]
        if there:
            protocols = " and ".join(
                dict.fromkeys(f"protocol {entry.config.protocol}" for entry in there)
            )
            ranks = {entry.label: entry.ranks[split] for entry in there}
            blocks += Findings(graph, split, ranks, protocols, window).blocks(f"{prefix}{split}-")
    return blocks


def _run(entry: Entry, prefix: str) -> list[Block]:
    config, results = entry.config, entry.results
    seconds = results.train_seconds
    took = "" if seconds is None else f" in {seconds:,.0f} s"
    words = (
        f"{config.name} on {config.dataset}: {model_kind(config.name).summary}. Protocol {config.protocol}, seed "
        f"{config.seed}, {f'preset {config.preset}' if config.preset else 'no preset'}; {results.parameters:,} "
        f"parameters, trained{took} on {results.hardware}."
    )
    blocks: list[Block] = [Heading(f"Run: {entry.label}"), Words(words)]
    if not results.finished:
        command = f"tempograph resume {_quoted(entry.folder)}"
        blocks += [Words("The training is not finished. To go on with it:"), Listing(command)]
    evaluations = {
        split: results.evaluations[split] for split in _SPLITS if split in results.evaluations
    }
    rows = [
        [split, said, *_cells(summary[key])]
        for split, summary in evaluations.items()
        for key, said in METRIC_LABELS.items()
    ]
    if rows:
        caption = (
            f"Dataset {config.dataset}, protocol {config.protocol}, filter time; Hits in per cent."
        )
        blocks.append(
            TextTable(f"Figures of {entry.label}", ("split", "ranked", *_FIGURES), rows, 2, caption)
        )
    blocks += [
        Words(f"On {split}, {summary['note']}.")
        for split, summary in evaluations.items()
        if "note" in summary
    ]
    blocks += _training(entry, prefix) + _learned(entry, prefix)
    told = [[name, str(value)] for name, value in read_environment(entry.folder).items()]
    blocks.append(Fold("Settings (config.toml)", [Listing(config.to_toml())], printed=True))
    blocks.append(
        Fold(
            "Environment",
            [TextTable("Where it was trained", ("what", "value"), told, 2)],
            printed=True,
        )
    )
    return blocks


def _training(entry: Entry, prefix: str) -> list[Block]:
    history = [line for line in read_history(entry.folder) if "epoch" in line and "loss" in line]
    if len(history) < 2:
        return []
    figure = analysis_plots.training_figure(history, entry.results.best_epoch, entry.config.about)
    alt = f"Training of {entry.label}: the loss and the MRR on valid after each of {len(history)} epochs."
    return [Heading(f"Training of {entry.label}", 3), Picture(f"{prefix}training", figure, alt)]


def _learned(entry: Entry, prefix: str) -> list[Block]:
    """What the parts of a model have learned; nothing for models without introspection."""
    graph = entry.graph
    if not offers_introspection(entry.config.model):
        return []
    model = Run.load_with(entry.folder, graph, Timeline(graph, entry.config.protocol)).model
    split: Split = "valid" if len(graph.valid) else "train"
    learned = introspect(model, graph.facts(split))
    words = ""
    if learned.gate:
        words += (
            "Gate: how much of an entity is its snapshot rather than its past and future, by how often the question's "
            "entity and relation occur together in the window, for the entity that is given and for the candidates; "
            f"over the questions of {split}. "
        )
    words += "Decay: how much of what an entity was is left after some steps."
    if learned.attention is not None:
        words += " Attention: how much an active step counts, by its distance; 0 is the time asked about."
    figure = analysis_plots.learned_figure(learned, entry.config.about)
    return [
        Heading(f"What {entry.label} has learned", 3),
        Picture(f"{prefix}learned", figure, words),
    ]
