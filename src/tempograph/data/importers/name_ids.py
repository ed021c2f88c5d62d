"""Number the names of an import in order of appearance, and join spellings of one name.

Names that differ only in surrounding blanks or in the Unicode form of their letters look the same
to a reader. They become one name, trimmed and in the form NFC, unless names are kept as written.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tempograph.data.importers.option_words import COMMAND_LINE, OptionWords
from tempograph.data.importers.time_parsing import to_mask

Ids = NDArray[np.int64]

_EXAMPLES: Final = 3
_MAX_LENGTH: Final = 40


class NameIds:
    """Names and their ids, in order of appearance."""

    def __init__(self, keep_names: bool = False) -> None:
        self.ids: dict[str, int] = {}
        self.changed: dict[str, str] = {}
        """The names that were trimmed or normalized, as written, and what became of them."""
        self._keep_names = keep_names
        self._only_changed: set[str] = set()

    def encode(self, names: pa.Array | pa.ChunkedArray) -> Ids:
        """The id of each name; a new name gets the next id."""
        # Arrow lists the distinct names in order of appearance.
        codes, distinct = _distinct(names)
        return self._number(distinct)[codes]

    def encode_pairs(self, left: pa.ChunkedArray, right: pa.ChunkedArray) -> tuple[Ids, Ids]:
        """The ids of two columns, numbered row by row: the left name of a row before the right."""
        codes, distinct = _distinct(pa.chunked_array([*left.chunks, *right.chunks], left.type))
        by_row = codes.reshape(2, -1).T.ravel()
        first = np.empty(len(distinct), np.int64)
        # Of several assignments to one element, NumPy keeps the last.
        first[by_row[::-1]] = np.arange(len(by_row))[::-1]
        order = np.argsort(first)
        ids = np.empty(len(distinct), np.int64)
        ids[order] = self._number(distinct.take(pa.array(order)))
        return ids[codes[: len(left)]], ids[codes[len(left) :]]

    def _number(self, distinct: pa.Array) -> Ids:
        """The ids of distinct names, in order of appearance."""
        if not self._keep_names:
            distinct = self._clean(distinct)
        ids = [self.ids.setdefault(name, len(self.ids)) for name in distinct.to_pylist()]
        return np.array(ids, np.int64)

    def joined(self) -> dict[str, str]:
        """The spellings that were joined with another one, and the name they became.

        Of a name that is never written as it is kept, the first spelling is not joined.
        """
        firsts = {clean: name for name, clean in reversed(self.changed.items())}
        return {
            name: clean
            for name, clean in self.changed.items()
            if clean not in self._only_changed or firsts[clean] != name
        }

    def _clean(self, names: pa.Array) -> pa.Array:
        """Names without surrounding blanks and in the form NFC; changes are recorded."""
        clean = clean_names(names)
        changed = to_mask(pc.not_equal(clean, names))
        if self._only_changed:
            self._only_changed.difference_update(names.filter(pa.array(~changed)).to_pylist())
        if changed.any():
            rows = pa.array(changed)
            written = set(names.filter(pa.array(~changed)).to_pylist())
            for name, new in zip(
                names.filter(rows).to_pylist(), clean.filter(rows).to_pylist(), strict=True
            ):
                if name not in self.changed:
                    self.changed[name] = new
                    if new not in self.ids and new not in written:
                        self._only_changed.add(new)
        return clean


def _distinct(names: pa.Array | pa.ChunkedArray) -> tuple[Ids, pa.Array]:
    """The distinct names in order of appearance, and the index of each name among them."""
    if isinstance(names, pa.Array):
        names = pa.chunked_array([names])
    # All chunks have the same dictionary.
    chunks = names.dictionary_encode().chunks
    if not chunks:
        return np.empty(0, np.int64), pa.array([], pa.string())
    codes: Ids = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
    return codes, chunks[0].dictionary


def by_row(left: pa.Array, right: pa.Array) -> pa.Array:
    """The values of two columns row by row: left, right, left, right, ..."""
    order = np.arange(2 * len(left)).reshape(2, -1).T.ravel()
    return pa.concat_arrays([left, right]).take(pa.array(order))


def clean_names(names: pa.Array) -> pa.Array:
    """Names without surrounding blanks and in the Unicode form NFC."""
    if not pc.all(pc.string_is_ascii(names)).as_py():
        names = pc.utf8_normalize(names, "NFC")
    return pc.utf8_trim_whitespace(names)


def describe_changed_names(
    names: NameIds, kind: str, words: OptionWords = COMMAND_LINE
) -> str | None:
    """A note on the names that were trimmed or normalized; None if there are none."""
    if not names.changed:
        return None
    joined = names.joined()
    shown = list((joined or names.changed).items())[:_EXAMPLES]
    examples = ", ".join(_change(name, clean) for name, clean in shown)
    count = f"{len(names.changed):,} {kind} {'name' if len(names.changed) == 1 else 'names'}"
    return (
        f"{count} trimmed or normalized, {len(joined):,} joined with another: {examples}; "
        f"{words.keep_names} keeps names as written"
    )


def _change(name: str, clean: str) -> str:
    """How a name changed; letters are escaped if only their Unicode form differs."""
    show = ascii if name.strip() == name else repr
    return f"{show(name[:_MAX_LENGTH])} -> {show(clean[:_MAX_LENGTH])}"
