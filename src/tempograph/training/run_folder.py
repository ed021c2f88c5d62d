"""The files of a run folder and how they are read; loading never unpickles."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import safetensors.torch
from safetensors import safe_open
from torch import Tensor, nn

from tempograph.data.folder import read_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.options import ImportOptions
from tempograph.data.stored_files import changed_files
from tempograph.errors import RunError, TempographError
from tempograph.io import atomic_file, lock_folder
from tempograph.training.config import Config
from tempograph.training.run_results import RunResults
from tempograph.training.setting_values import make_settings
from tempograph.typing import Filter, Split

RUN_MARKER: Final = "config.toml"
RESULTS: Final = "results.json"
WEIGHTS: Final = "model.safetensors"
HEADS: Final = "heads.safetensors"
"""The weights that rank relations and times, fitted when they are first needed."""
CLASSIFIER: Final = "classifier.safetensors"
"""The weights that tell whether a fact happened, fitted when they are first needed."""
OCCURRENCE: Final = "occurrence.safetensors"
"""The weights that tell whether a fact will happen, fitted when they are first needed."""
REFITTED: Final = "model-all-facts.safetensors"
"""The weights of a model that was trained again on the facts of all splits, to answer questions."""
CHECKPOINT: Final = "checkpoint.safetensors"
CHECKPOINT_ALL_FACTS: Final = "checkpoint-all-facts.safetensors"
"""The state of an interrupted training on the facts of all splits."""
PAPER_TARGETS: Final = "paper/"
"""What targets begin with that are for protocol paper, if the run was trained under another."""
RANKS: Final = "ranks.parquet"
CHECKSUMS: Final = "dataset.json"
"""The SHA-256 of each file of the dataset when the run was saved."""
IMPORT: Final = "import.json"
"""The options of the import that made the data, if the run was trained on a file or table."""
PARTS: Final = "parts"
"""The folder of an ensemble's parts, each a run folder without a dataset of its own."""
UPDATES: Final = "updates"
"""The folder with what updates added, one folder for each of the last two."""
HOLDOUT: Final = "holdout"
"""The folder of an unfinished ensemble with checkpoints of copies of its parts."""
FORMAT: Final = "1"
"""The format version of the weights; a change that breaks old folders needs a new one."""
_READABLE: Final = ("1",)
_OF_MODEL: Final = (
    *(RUN_MARKER, WEIGHTS, RESULTS, RANKS),
    *("metrics.jsonl", "environment.json", "README.md"),
)
"""Files that belong to the model of a run and not to its data."""
_SIZES: Final = ("dim", "hidden", "layers", "heads", "blocks")
"""Settings that bound the size of the weights."""


def read_config(folder: Path) -> Config:
    """The settings of a run folder."""
    if not (folder / RUN_MARKER).is_file():
        raise RunError(f"{folder}: no run here; `tempograph train ... --out {folder}` makes one")
    with explain_damage(folder):
        return Config.from_toml(_text(folder / RUN_MARKER), str(folder / RUN_MARKER))


def read_results(folder: Path) -> RunResults:
    """The results of a run folder."""
    with explain_damage(folder):
        return RunResults.from_json(json.loads(_text(folder / RESULTS)))


def read_history(folder: Path) -> list[dict[str, float]]:
    """The lines of metrics.jsonl, one for each epoch or choice."""
    with explain_damage(folder):
        return [json.loads(line) for line in _text(folder / "metrics.jsonl").splitlines()]


def read_environment(folder: Path) -> dict[str, str | int | None]:
    """The JSON object in environment.json: where the run was made."""
    with explain_damage(folder):
        environment: dict[str, str | int | None] = json.loads(_text(folder / "environment.json"))
        return environment


def read_import_options(folder: Path) -> ImportOptions | None:
    """The options of the import that made the data; None if they are not known."""
    path = folder / IMPORT
    if not path.is_file():
        return None
    with explain_damage(folder):
        values = json.loads(_text(path))
        if not isinstance(values, dict):
            raise ValueError(f"{IMPORT} must hold an object")
        known = {field.name for field in dataclasses.fields(ImportOptions)}
        # A later version may have more options.
        given = {name: value for name, value in values.items() if name in known}
        return make_settings(ImportOptions, given, str(path))


def dataset_folder(folder: Path) -> Path:
    """Where the dataset of a run folder is; a part of an ensemble uses that of the ensemble."""
    own, parent = folder / "dataset", folder.resolve().parent
    shared = not own.exists() and parent.name == PARTS
    return parent.parent / "dataset" if shared else own


def read_graph(folder: Path, name: str) -> TemporalGraph:
    """The dataset of a run folder; a file that changed since the run was saved is refused."""
    data = dataset_folder(folder)
    graph = read_folder(data, name)
    recorded = data.parent / CHECKSUMS
    if recorded.is_file():
        with explain_damage(folder):
            changed = changed_files(data, json.loads(_text(recorded)))
        if changed:
            raise RunError(
                f"the data of this run changed: {data / changed[0]}; restore the file, or train "
                "the run again"
            )
    return graph


def read_weights(folder: Path, config: Config) -> dict[str, Tensor]:
    """The weights of a run folder.

    Weights of a later version, and settings that ask for a far larger model, are refused.
    """
    with safe_open(folder / WEIGHTS, "pt") as file:
        version = (file.metadata() or {}).get("format")
        names = list(file.keys())
        sides = [side for name in names for side in file.get_slice(name).get_shape()]
    if version is None:
        raise RunError(f"{folder}: {WEIGHTS} holds no weights of tempograph; train the run again")
    if version not in _READABLE:
        raise RunError(
            f"{folder}: made by a later version (format {version}, here {FORMAT}); "
            "update tempograph"
        )
    largest = max([len(sides), *sides, 1])
    for name in _SIZES:
        if (size := getattr(config.model, name, 0)) > largest:
            raise RunError(
                f"{folder}: {RUN_MARKER} asks for {name} = {size}, which its weights do not have"
            )
    return safetensors.torch.load_file(folder / WEIGHTS)


def target_metrics(
    folder: Path, split: Split, filter: Filter, ends_only: bool = False
) -> dict[str, float]:
    """The figures that the preset of a run must reach on a split.

    With ends_only, those of facts that hold for a while under protocol paper, `paper/SPLIT/METRIC`.
    """
    every = read_config(folder).target
    targets = {
        name.removeprefix(PAPER_TARGETS): value
        for name, value in every.items()
        if name.startswith(PAPER_TARGETS) == ends_only
    }
    here = {
        name.partition("/")[2]: value
        for name, value in targets.items()
        if name.startswith(f"{split}/")
    }
    if not here or filter != "time":
        splits = dict.fromkeys(name.partition("/")[0] for name in targets)
        way_out = f"; pass --split {' or '.join(splits)}" if splits and not here else ""
        if every and not targets and not ends_only:
            way_out = "; pass --protocol paper"
        raise RunError(
            f"{folder}: its preset names no figure to reach on {split} with filter {filter}"
            f"{way_out}"
        )
    return here


@contextmanager
def explain_damage(folder: Path) -> Iterator[None]:
    """Turn any error of reading a file into a RunError that names the folder."""
    try:
        yield
    except TempographError:
        raise
    except (OSError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
        raise RunError(f"{folder}: the run is damaged: {' '.join(str(error).split())}") from error


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def replace_run(folder: Path, source: Path) -> None:
    """Make the model of another run on the same data that of a run folder.

    Data, the heads, which depend on no model, and what `fit` wrote stay. A call that was killed is
    repeated.
    """
    with lock_folder(folder):
        for name in (CLASSIFIER, OCCURRENCE, REFITTED, CHECKPOINT, CHECKPOINT_ALL_FACTS, RANKS):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / PARTS, ignore_errors=True)
        if (source / PARTS).is_dir():
            shutil.copytree(source / PARTS, folder / PARTS)
        for name in _OF_MODEL:
            if (source / name).is_file():
                with atomic_file(folder / name) as temporary:
                    shutil.copyfile(source / name, temporary)


def write_weights(module: nn.Module, file: Path) -> None:
    """Write the weights of a model, whole or not at all."""
    state = module.state_dict().items()
    weights = {name: value.detach().cpu().contiguous() for name, value in state}
    with atomic_file(file) as temporary:
        safetensors.torch.save_file(weights, temporary, {"format": FORMAT})
