"""One path from files of events to a model that can be asked, and what can be trusted of it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import torch

from tempograph.analysis import by_relation, group_figures, ranked_of
from tempograph.batch import Note
from tempograph.data.codings import guess_format
from tempograph.data.graph import COLUMNS, TemporalGraph, rows_in
from tempograph.data.importing import Imported, import_files
from tempograph.data.options import ImportOptions
from tempograph.data.sources import delimiter_of, find_files, is_parquet, readable, texts
from tempograph.environment import resolve_device
from tempograph.errors import DataError
from tempograph.evaluation import Evaluation
from tempograph.files import refuse_existing
from tempograph.listening import Progress, Report
from tempograph.models.registry import model_kind
from tempograph.runs import RUN_MARKER, Run
from tempograph.training import evaluate, train

_WORDS: Final = {
    "subject": ("subject", "actor", "actor1", "source", "from", "head", "sender", "src", "who", "initiator"),
    "relation": ("relation", "predicate", "action", "event", "type", "verb", "rel", "edge", "link", "activity", "what"),
    "object": ("object", "target", "actor2", "to", "tail", "receiver", "recipient", "dst", "whom", "counterpart"),
    "time": ("time", "date", "timestamp", "when", "datetime"),
}
"""What columns are called; one that is called as the part itself is it, whatever else there is."""
_PARTS_OF_DATES: Final = ("day", "month", "year")
"""What a column of times may be called where no other could hold them."""
_PAIRS: Final = {
    ("source", "target"),
    ("actor", "target"),
    ("actor", "recipient"),
    ("actor", "counterpart"),
    ("actor1", "actor2"),
    ("from", "to"),
    ("head", "tail"),
    ("sender", "receiver"),
    ("sender", "recipient"),
    ("src", "dst"),
    ("who", "whom"),
    ("initiator", "target"),
    ("initiator", "recipient"),
}
"""Words for subject and object that belong together."""
_HEAD: Final = 1 << 16
_MEETING: Final = 0.25
"""The share of held-out facts between two that meet in train from which on copying is worth most."""


@dataclass(frozen=True)
class Choice:
    """A model and why it was chosen."""

    model: str
    why: str


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained run, what its data came from, why it is this model, and how it does on facts that it never saw."""

    run: Run
    imported: Imported
    columns: dict[str, str]
    choice: Choice
    evaluation: Evaluation | None

    def summary(self) -> dict[str, Any]:
        """What `fit --json` prints."""
        graph, imported = self.run.graph, self.imported
        return {
            "run": str(self.run.path),
            "format": imported.format,
            "columns": self.columns,
            "rows": imported.rows,
            "duplicates": imported.duplicates,
            "skipped": [{"reason": str(skip), "rows": skip.rows} for skip in imported.skipped],
            "entities": len(graph.entities),
            "relations": len(graph.relations),
            "steps": len(graph.times),
            "facts": len(graph.all_facts),
            "model": self.choice.model,
            "why": self.choice.why,
            "finished": self.run.results["finished"],
            "held_out": None if self.evaluation is None else self.evaluation.summary(),
            "calibration": self.run.results.get("calibration"),
            "relations_held_out": [] if self.evaluation is None else relation_rows(self.evaluation, graph),
        }


def fit(
    patterns: Sequence[str | Path],
    *,
    out: str | Path,
    options: ImportOptions | None = None,
    model: str | None = None,
    overrides: Sequence[str] = (),
    seed: int = 0,
    device: str = "auto",
    overwrite: bool = False,
    max_seconds: float | None = None,
    importing: Progress | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
    note: Note | None = None,
) -> Fitted:
    """Import files of events, choose a model for them, train it, and try it on facts that were held out.

    Columns of a table that the options do not name are guessed by what they are called, and refused where two would
    do. The run folder holds everything, also the data. `note` hears what was guessed before training begins.
    """
    refuse_existing(Path(out), RUN_MARKER, overwrite)
    place = resolve_device(device)
    if model is not None:
        model_kind(model)
    paths = [Path(pattern) for pattern in patterns]
    options, columns = with_columns(paths, options or ImportOptions())
    if note and columns:
        note(columns_in_words(columns))
    imported = import_files(paths, options, Path(out).resolve().name, importing)
    if note:
        for line in imported.notes(guessed=options.format is None):
            note(f"note: {line}")
    graph = imported.graph
    if not len(graph.valid) or not len(graph.test):
        raise DataError(
            f"{', '.join(map(str, paths))}: too few facts, {len(graph.all_facts):,}, to hold some out to choose and to "
            "test on; bring more, or hold out a larger share with --valid and --test"
        )
    choice = choose_model(graph, place) if model is None else Choice(model, "it was asked for")
    run = train(
        graph,
        choice.model,
        out=out,
        seed=seed,
        overrides=overrides,
        device=device,
        overwrite=overwrite,
        max_seconds=max_seconds,
        report=report,
        progress=progress,
    )
    evaluation = evaluate(run, "test", progress=progress) if run.results["finished"] else None
    return Fitted(run, imported, columns, choice, evaluation)


def with_columns(patterns: Sequence[Path], options: ImportOptions) -> tuple[ImportOptions, dict[str, str]]:
    """The options with the columns of a table named, and these; coded events have columns of their own."""
    paths = find_files(patterns)
    if not paths:
        raise DataError("there is no file to fit; name at least one")
    coded = options.format not in (None, "table")
    if coded or (options.format is None and not options.described and guess_format(paths[0]) is not None):
        return options, {}
    if not options.header:
        return options, dict(zip(COLUMNS, options.columns, strict=True))
    guessed = guess_columns(paths[0], header_of(paths[0], options), options)
    return replace(options, format="table", **guessed), guessed  # type: ignore[arg-type]


def header_of(path: Path, options: ImportOptions) -> list[str]:
    """The names of the columns of a table."""
    with readable(path):
        if is_parquet(path):
            return list(pq.read_schema(path).names)
        with closing(texts(path)) as found:
            head = next(found).content.read(_HEAD)
    lines = head.decode("utf-8-sig", errors="replace").splitlines()
    delimiter = options.delimiter or delimiter_of(path) or ","
    return next((record for record in csv.reader(lines, delimiter=delimiter) if record), [])


def guess_columns(path: Path, names: Sequence[str], options: ImportOptions) -> dict[str, str]:
    """Which column holds each part of a fact: as told, or by what columns are called; refused where that is unclear."""
    fitting: dict[str, list[str]] = {part: [getattr(options, part)] for part in COLUMNS if part in options.described}

    def free() -> list[str]:
        return [name for name in names if not any(name in columns for columns in fitting.values())]

    # What is called after an event may hold its date or its actors; these are told apart first.
    if "time" not in fitting:
        fitting["time"] = _fitting("time", free()) or _fitting("time", free(), _PARTS_OF_DATES)
    ends = {part: fitting.get(part) or _fitting(part, free()) for part in ("subject", "object")}
    fitting |= _belonging(ends)
    if "relation" not in fitting:
        fitting["relation"] = _fitting("relation", free())
    lacking = [part for part in COLUMNS if not fitting[part]]
    if lacking:
        part = f"{'an' if lacking[0] == 'object' else 'a'} {lacking[0]}"
        known = ", ".join(map(repr, names))
        raise DataError(f"{path}: no column is called like {part}; there are {known}: name it with --{lacking[0]}")
    unclear = [part for part in COLUMNS if len(fitting[part]) > 1]
    if unclear:
        raise DataError(f"{path}: {'; '.join(_question(part, fitting[part]) for part in unclear)}")
    return {part: fitting[part][0] for part in COLUMNS}


def columns_in_words(columns: Mapping[str, str]) -> str:
    """Which column each part of a fact was taken from."""
    named = ", ".join(f"{part} from '{column}'" for part, column in columns.items())
    return f"columns: {named}; if that is wrong, name them with --subject, --relation, --object and --time"


def _fitting(part: str, names: Sequence[str], words: Sequence[str] | None = None) -> list[str]:
    """The columns called as the part is, or else by any word for it, or else those that hold one as a word."""
    words = words or _WORDS[part]
    exact = [name for name in names if "".join(_plain(name)) in words]
    named = [name for name in exact if "".join(_plain(name)) == part]
    return named or exact or [name for name in names if set(_plain(name)) & set(words)]


def _belonging(ends: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The columns of subject and object, fewer where some of them are called by words that belong together."""

    def paired(subject: str, object_: str) -> bool:
        left, right = ({"".join(_plain(name)), *_plain(name)} for name in (subject, object_))
        return any(one in left and other in right for one, other in _PAIRS)

    pairs = [(one, other) for one in ends["subject"] for other in ends["object"] if paired(one, other)]
    if not pairs:
        return dict(ends)
    subjects, objects = zip(*pairs, strict=True)
    return {"subject": list(dict.fromkeys(subjects)), "object": list(dict.fromkeys(objects))}


def _plain(name: str) -> list[str]:
    """The words of a column's name."""
    return "".join(sign if sign.isalnum() else " " for sign in name.lower()).split()


def _question(part: str, columns: Sequence[str]) -> str:
    return f"{' and '.join(map(repr, columns))} fit the {part} equally well; say which it is with --{part}"


def choose_model(graph: TemporalGraph, device: torch.device) -> Choice:
    """By how much of what is held out happens between two that meet in train as well, and by the machine."""
    share = meeting_share(graph)
    said = f"{share:.0%} of held-out facts are between two that meet in train as well"
    if share < _MEETING:
        return Choice("tntcomplex", f"{said}: little to copy, so vectors that generalise to new pairs")
    if device.type == "cuda":
        return Choice("temp-pointer", f"{said}: copying what happened goes far, and a GPU affords models beside it")
    return Choice("pointer", f"{said}: copying what happened goes far, and tells which facts it copies")


def meeting_share(graph: TemporalGraph) -> float:
    """The share of valid facts whose subject and object stand together in some train fact, either way round."""
    held_out, train = (np.sort(facts[:, [0, 2]], axis=1) for facts in (graph.valid, graph.train))
    return float(rows_in(held_out, train).mean()) if len(held_out) else 0.0


def in_words(evaluation: Evaluation, candidates: int) -> str:
    """What the figures mean."""
    figures = evaluation.summary()["metrics"]
    return (
        f"Asked about {len(evaluation.facts):,} facts that it never saw, once for the object and once for the subject, "
        f"it put the right one of {candidates:,} first in {figures['hits@1']:.0%} of the questions, "
        f"and among the first ten in {figures['hits@10']:.0%}."
    )


def relation_rows(evaluation: Evaluation, graph: TemporalGraph, most: int = 15) -> list[dict[str, Any]]:
    """Each of the most frequent relations: its questions, and how often the right answer is first or in ten."""
    ranked = ranked_of(evaluation)
    found = group_figures(ranked, by_relation(ranked, graph))
    order = np.argsort(-found.questions, kind="stable")[:most]
    return [
        {
            "relation": found.labels[place],
            "questions": int(found.questions[place]),
            "hits@1": float(found.hits_1[place]),
            "hits@10": float(found.hits_10[place]),
        }
        for place in order
    ]
