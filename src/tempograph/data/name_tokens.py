"""Tokens of names: the words, pairs of words and pieces of words that several names share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ids = NDArray[np.int64]

_MAX_LETTERS: Final = 32
"""Letters of a word that count, from its start."""
_PIECE: Final = 4
"""Letters of a piece of a word; a word is framed by marks, so its ends are told apart."""
_MIN_NAMES: Final = 2
"""Names that must share a token: one of a single name says no more than the name itself."""
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


class NameTokens(NamedTuple):
    """The distinct tokens of each name: those of name n are token[start[n]:start[n + 1]]."""

    start: Ids
    """[names + 1]"""
    token: Ids
    """[tokens of all names], rising within a name."""
    num_tokens: int
    """Different tokens."""


def name_tokens(
    names: Sequence[str],
    attributes: Iterable[Sequence[str]] = (),
    vocabulary_names: int | None = None,
) -> NameTokens:
    """Split names into words, pairs of neighboring words and pieces of words.

    Case is ignored. Each value of an attribute, one for each name or "", is a token as well. Only
    tokens that several names share are kept, so a name may have none. With `vocabulary_names`, so
    many names, the first ones, must share it: they and their tokens are numbered as if there were
    no others.
    """
    owner, word, words = _words(names)
    pieces_start, piece = _pieces(words)
    lengths = np.diff(pieces_start)[word]
    position = np.repeat(pieces_start[word] - np.cumsum(lengths) + lengths, lengths)
    neighbors = (owner[1:] == owner[:-1]).nonzero()[0]
    owners = [owner, owner[neighbors], np.repeat(owner, lengths)]
    keys = [
        word.astype(np.uint64),
        (word[neighbors] * len(words) + word[neighbors + 1]).astype(np.uint64),
        piece[position + np.arange(lengths.sum())],
    ]
    for values in attributes:
        filled = np.array([bool(value) for value in values], dtype=bool).nonzero()[0]
        each = pa.array(values, pa.string()).take(filled).dictionary_encode()
        owners.append(filled)
        keys.append(each.indices.to_numpy(zero_copy_only=False).astype(np.uint64))
    return _shared(owners, keys, len(names), vocabulary_names)


def share_words(names: Sequence[str]) -> bool:
    """Whether at least half of the names share a word with some others, but not with most."""
    owner, word, words = _words(names)
    owner, word = np.divmod(np.unique(owner * len(words) + word), max(1, len(words)))
    count = np.bincount(word, minlength=1)
    shared = (count > 1) & (2 * count <= len(names))
    return 2 * len(np.unique(owner[shared[word]])) >= len(names)


def _words(names: Sequence[str]) -> tuple[Ids, Ids, list[str]]:
    """The owner and the number of every word, in the order of the text, and the distinct words."""
    text = pc.utf8_lower(pc.utf8_normalize(pa.array(names, pa.string()), "NFKC"))
    split = pc.split_pattern_regex(text, r"[^\p{L}\p{N}]+")
    owner = pc.list_parent_indices(split).to_numpy(zero_copy_only=False).astype(np.int64)
    each = pc.utf8_slice_codeunits(pc.list_flatten(split), 0, _MAX_LETTERS).dictionary_encode()
    word = each.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    words = each.dictionary.to_pylist()
    filled = np.array([bool(one) for one in words], dtype=bool)[word]
    return owner[filled], word[filled], words


def _pieces(words: Sequence[str]) -> tuple[Ids, NDArray[np.uint64]]:
    """Hashes of the pieces of each word; those of word w are piece[start[w]:start[w + 1]]."""
    framed = [f"<{word}>" for word in words]
    width = max(map(len, framed), default=0) + _PIECE
    letters = np.array(framed, dtype=f"U{width}").view(np.uint32).reshape(len(framed), width)
    count = np.maximum(np.array([len(word) for word in framed], dtype=np.int64) - _PIECE + 1, 0)
    hashes = np.zeros((len(framed), width - _PIECE + 1), dtype=np.uint64)
    for offset in range(_PIECE):
        hashes = hashes * _FACTOR + letters[:, offset : offset + hashes.shape[1]]
    inside = np.arange(hashes.shape[1]) < count[:, None]
    return np.concatenate([[0], np.cumsum(count)]), hashes[inside]


def _shared(
    owners: Sequence[Ids],
    keys: Sequence[NDArray[np.uint64]],
    num_names: int,
    vocabulary_names: int | None,
) -> NameTokens:
    """Number the keys of each kind that several names have, of the first ones if so many count."""
    counting = num_names if vocabulary_names is None else vocabulary_names
    owner_parts, token_parts, num_tokens = [], [], 0
    for owner, key in zip(owners, keys, strict=True):
        distinct, token = np.unique(key, return_inverse=True)
        # Each token of a name counts once.
        owner, token = np.divmod(np.unique(owner * len(distinct) + token), max(1, len(distinct)))
        shared = np.bincount(token[owner < counting], minlength=len(distinct)) >= _MIN_NAMES
        kept = shared[token]
        owner_parts.append(owner[kept])
        token_parts.append(num_tokens + (np.cumsum(shared) - 1)[token[kept]])
        num_tokens += int(shared.sum())
    owner, token = np.concatenate(owner_parts), np.concatenate(token_parts)
    order = np.lexsort((token, owner))
    start = np.searchsorted(owner[order], np.arange(num_names + 1))
    return NameTokens(start, token[order], num_tokens)
