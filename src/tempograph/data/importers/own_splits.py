"""Splits that the data brings along: a column, files, or tables for train, valid and test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from tempograph.data.importers.sources import is_table, readable, suffix_of
from tempograph.data.importers.time_parsing import Integers, Mask
from tempograph.errors import DataError
from tempograph.typing import SPLITS, Split

_SPELLINGS: Final[Mapping[Split, str]] = {
    "train": "train training",
    "valid": "valid validation val dev development",
    "test": "test testing",
}
_SPLIT_OF: Final = {word: split for split, words in _SPELLINGS.items() for word in words.split()}


def find_split(text: str) -> Split | None:
    """The split that a text names, in any case and any common spelling; None if it names none."""
    return _SPLIT_OF.get(text.strip().casefold())


def parse_splits(texts: pa.Array) -> tuple[Integers, Mask]:
    """The split of each text, as an index of `SPLITS`, and which texts name one."""
    encoded = texts.cast(pa.string()).dictionary_encode(null_encoding="encode")
    splits = [find_split(text or "") for text in encoded.dictionary.to_pylist()]
    indices = np.array([SPLITS.index(split) if split else -1 for split in splits], np.int64)
    found: Integers = indices[encoded.indices.to_numpy()]
    return found, found >= 0


def explain_split(text: str | None) -> str:
    """What is wrong with a text that names no split."""
    if text and text.strip():
        return f"the split {text[:60]!r} is not train, valid or test; correct it"
    return "the split is empty; write train, valid or test, or remove the row"


def find_split_files(folder: Path) -> dict[Split, Path]:
    """The tables in a folder that are named after splits, such as train.csv and test.csv.gz."""
    found: dict[Split, Path] = {}
    with readable(folder):
        paths = sorted(path for path in folder.iterdir() if is_table(path) and path.is_file())
    for path in paths:
        split = find_split(path.name[: path.name.lower().rindex(suffix_of(path))])
        if split is None:
            continue
        if split in found:
            raise DataError(
                f"{path}: {found[split].name} holds the {split} facts too; remove one of the two"
            )
        found[split] = path
    return {split: found[split] for split in SPLITS if split in found}
