"""The run folder: a model with its data, settings, ranks and figures; self-contained, loaded without pickle."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import safetensors.torch
import torch
from safetensors import safe_open

from tempograph.data.folder import read_folder, write_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.device import environment
from tempograph.errors import RunError, TempographError
from tempograph.evaluation.evaluator import Evaluation
from tempograph.io import atomic_file, atomic_folder, locked, write_json, write_text
from tempograph.models.base import Model
from tempograph.models.ensemble.ensemble_settings import part_names
from tempograph.models.registry import model_kind
from tempograph.training.config import Config
from tempograph.training.run_card import reliability_page
from tempograph.typing import SPLITS, Filter, Split

RUN_MARKER: Final = "config.toml"
CHECKPOINT: Final = "checkpoint.safetensors"
RANKS: Final = "ranks.parquet"
PARTS: Final = "parts"
"""The folder of the runs that a model is made of, each in a run folder that has no data of its own."""
FORMAT: Final = "1"
"""Of the weights; a change that old folders cannot be read after makes a new one."""
_READABLE: Final = ("1",)
_SIZES: Final = ("dim", "hidden", "layers", "heads", "blocks")
"""Settings that weights are as large as."""


@dataclass(frozen=True, eq=False)
class Run:
    """A trained model and everything that belongs to it. `path` is None until the run is saved.

    `parts` holds the runs of the models that it is made of, by name.
    """

    config: Config
    graph: TemporalGraph
    model: Model
    timeline: Timeline
    history: list[dict[str, float]]
    results: dict[str, Any]
    path: Path | None = None
    parts: Mapping[str, Run] = field(default_factory=dict)

    @staticmethod
    def load(path: str | Path, device: torch.device | str = "cpu") -> Run:
        """Read a run folder."""
        folder = Path(path)
        with _whole(folder):
            config, _ = read_record(folder)
            graph = read_data(folder, config.dataset)
            return Run.load_with(folder, graph, Timeline(graph, config.protocol, device))

    @staticmethod
    def load_with(folder: Path, graph: TemporalGraph, timeline: Timeline) -> Run:
        """Read a run folder whose data are there already."""
        with _whole(folder):
            config, results = read_record(folder)
            kind = model_kind(config.name)
            _check_weights(folder, config)
            names = part_names(config.model.parts) if kind.has_parts else ()
            parts = {name: Run.load_with(folder / PARTS / name, graph, timeline) for name in names}
            model = kind.build(config.model, timeline, *(part.model for part in parts.values()))
            model.load_state_dict(safetensors.torch.load_file(folder / "model.safetensors"))
            model.eval()
        return Run(config, graph, model, timeline, read_history(folder), results, folder, parts)

    def save(self, path: Path, overwrite: bool = False) -> Run:
        """Write the run folder, whole or not at all."""
        with atomic_folder(path, RUN_MARKER, overwrite) as folder:
            write_folder(self.graph, folder / "dataset")
            self._write(folder)
        return self._moved(path)

    def save_pretrained(self, path: str | Path, overwrite: bool = False) -> Run:
        """Write all that a colleague needs to ask this run: settings, weights, names, facts, figures and card."""
        return self.save(Path(path), overwrite)

    @staticmethod
    def from_pretrained(path: str | Path, device: torch.device | str = "cpu") -> Run:
        """Read a folder that `save_pretrained` or `tempograph train` wrote, on this machine or another."""
        return Run.load(path, device)

    def _write(self, folder: Path) -> None:
        """Write all but the data."""
        saved = dataclasses.replace(self, path=folder)
        write_text(folder / RUN_MARKER, self.config.to_toml())
        saved.keep_history()
        saved.keep_weights()
        where = environment(self.model.device)
        write_json(
            folder / "environment.json",
            where | {"seed": self.config.seed, "protocol": self.config.protocol},
        )
        saved.keep_results()
        for name, part in self.parts.items():
            if part.path is None:
                part._write(folder / PARTS / name)
            else:
                left = shutil.ignore_patterns("dataset", CHECKPOINT, RANKS, "tensorboard")
                shutil.copytree(part.path, folder / PARTS / name, ignore=left)

    def _moved(self, path: Path) -> Run:
        parts = {name: part._moved(path / PARTS / name) for name, part in self.parts.items()}
        return dataclasses.replace(self, path=path, parts=parts)

    @property
    def checkpoint(self) -> Path | None:
        """Where an unfinished training keeps what it needs to go on."""
        return None if self.path is None else self.path / CHECKPOINT

    def keep_history(self) -> None:
        """Write metrics.jsonl anew."""
        if self.path is not None:
            write_text(
                self.path / "metrics.jsonl",
                "".join(json.dumps(line) + "\n" for line in self.history),
            )

    def keep_weights(self) -> None:
        """Write model.safetensors anew."""
        if self.path is not None:
            state = {
                name: value.detach().cpu().contiguous()
                for name, value in self.model.state_dict().items()
            }
            with atomic_file(self.path / "model.safetensors") as temporary:
                safetensors.torch.save_file(state, temporary, {"format": FORMAT})

    def keep_results(self) -> None:
        """Write results.json and the card anew."""
        if self.path is not None:
            write_json(self.path / "results.json", self.results)
            write_text(self.path / "README.md", self._card())

    def add_results(self, **found: Any) -> None:
        """Add to results.json and the card; what others have added since these were read stays."""
        self.results.update(found)
        if self.path is not None:
            with locked(self.path):
                self.results.update(read_record(self.path)[1] | found)
                self.keep_results()

    def forget_figures(self) -> None:
        """Drop what was measured with weights that will not stay: figures, ranks and the temperature."""
        for name in (*SPLITS, "calibration"):
            self.results.pop(name, None)
        if self.path is not None:
            with locked(self.path):
                self.keep_results()
                (self.path / RANKS).unlink(missing_ok=True)

    def record(self, evaluation: Evaluation) -> None:
        """Keep an evaluation: its ranks in ranks.parquet, its figures in results.json and on the card."""
        if self.path is not None:
            with locked(self.path), _whole(self.path):
                _keep_ranks(evaluation, self.path / RANKS)
        self.add_results(
            **({evaluation.split: evaluation.summary()} if evaluation.filter == "time" else {})
        )

    def _card(self) -> str:
        rows = "".join(
            f"| {split} | {m['mrr']:.3f} | {m['hits@1']:.1%} | {m['hits@3']:.1%} | {m['hits@10']:.1%} |\n"
            for split in ("valid", "test")
            if (m := self.results.get(split, {}).get("metrics"))
        )
        figures = (
            f"| split | MRR | Hits@1 | Hits@3 | Hits@10 |\n|---|---|---|---|---|\n{rows}"
            if rows
            else "Not evaluated.\n"
        )
        notes = [
            f"{split} {note}"
            for split in ("valid", "test")
            if (note := self.results.get(split, {}).get("note"))
        ]
        notes += (
            [f"made of {', '.join(f'[{name}]({PARTS}/{name})' for name in self.parts)}"]
            if self.parts
            else []
        )
        told = "".join(f"{note[0].upper()}{note[1:]}.\n" for note in notes) + (
            "\n" if notes else ""
        )
        if "calibration" in self.results:
            told += reliability_page(self.results["calibration"]) + "\n"
        return (
            f"# {self.config.name} on {self.config.dataset}\n\n"
            f"{model_kind(self.config.name).summary.capitalize()}. Protocol **{self.config.protocol}**, "
            f"seed {self.config.seed}, filter by time, ties by mean rank.\n\n{figures}\n{told}"
            f"{len(self.graph.entities):,} entities, {len(self.graph.relations):,} relations, "
            f"{len(self.graph.times):,} steps from {self.graph.times[0]} to {self.graph.times[-1]}; "
            f"{len(self.graph.train):,} train facts.\n\n"
            "`tempograph evaluate`, `complete`, `score`, `missing` and `surprising` take this folder.\n"
        )


def _keep_ranks(evaluation: Evaluation, file: Path) -> None:
    table = evaluation.table()
    if file.exists():
        kept = pq.read_table(file, read_dictionary=["side", "split", "filter"])
        same = pc.and_(
            pc.equal(kept["split"], evaluation.split), pc.equal(kept["filter"], evaluation.filter)
        )
        table = pa.concat_tables(
            [kept.filter(pc.invert(same)), table.cast(kept.schema)]
        ).unify_dictionaries()
    with atomic_file(file) as temporary:
        pq.write_table(table, temporary)


def read_record(folder: Path) -> tuple[Config, dict[str, Any]]:
    """The settings and the figures of a run folder, without its data and weights."""
    if not (folder / RUN_MARKER).is_file():
        raise RunError(f"{folder}: no run here; `tempograph train ... --out {folder}` makes one")
    with _whole(folder):
        config = Config.from_toml(
            (folder / RUN_MARKER).read_text(encoding="utf-8"), str(folder / RUN_MARKER)
        )
        return config, json.loads((folder / "results.json").read_text(encoding="utf-8"))


def to_reach(folder: Path, split: Split, filter: Filter) -> dict[str, float]:
    """The figures that the preset of a run names for a split."""
    config, _ = read_record(folder)
    found = {
        name.partition("/")[2]: value
        for name, value in config.target.items()
        if name.startswith(f"{split}/")
    }
    if not found or filter != "time":
        raise RunError(
            f"{folder}: its preset names no figure to reach on {split} with filter {filter}"
        )
    return found


def read_history(folder: Path) -> list[dict[str, Any]]:
    """What a run folder tells of its training, a line for each epoch or choice."""
    with _whole(folder):
        return [
            json.loads(line)
            for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        ]


def read_environment(folder: Path) -> dict[str, Any]:
    """Where the run of a folder was made."""
    with _whole(folder):
        found: dict[str, Any] = json.loads(
            (folder / "environment.json").read_text(encoding="utf-8")
        )
        return found


def read_data(folder: Path, name: str) -> TemporalGraph:
    """The data of a run folder; those of a part are its parent's."""
    own, of_parent = folder / "dataset", folder.resolve().parent.parent / "dataset"
    inside = not own.exists() and folder.resolve().parent.name == PARTS
    return read_folder(of_parent if inside else own, name)


def _check_weights(folder: Path, config: Config) -> None:
    """Refuse weights of a later version, and settings that would make a model far larger than its weights."""
    with safe_open(folder / "model.safetensors", "pt") as file:
        made_by = (file.metadata() or {}).get("format")
        sides = [side for name in file.keys() for side in file.get_slice(name).get_shape()]  # noqa: SIM118
    if made_by is None:
        raise RunError(
            f"{folder}: model.safetensors holds no weights of tempograph; train the run anew"
        )
    if made_by not in _READABLE:
        raise RunError(
            f"{folder}: made by a later version (format {made_by}, here {FORMAT}); update tempograph"
        )
    largest = max([len(sides), *sides, 1])
    for name in _SIZES:
        asked = getattr(config.model, name, 0)
        if asked > largest:
            raise RunError(
                f"{folder}: {RUN_MARKER} asks for {name} = {asked}, which its weights do not have"
            )


@contextmanager
def _whole(folder: Path) -> Iterator[None]:
    try:
        yield
    except TempographError:
        raise
    except (OSError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
        raise RunError(f"{folder}: the run is damaged: {' '.join(str(error).split())}") from error
