"""Tokens of names against a slow version that works with strings."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tempograph.data.name_tokens import NameTokens, name_tokens

NAMES = st.lists(
    st.text(alphabet="abcdeéßŒ日1 ()_-", max_size=12)
    | st.sampled_from(["Police (India)", "Citizen (India)", "South Korea", "", "x" * 100]),
    max_size=8,
)


def slow_tokens(name: str) -> set[tuple[str, ...]]:
    """Words, pairs of neighboring words and pieces of four letters, as strings."""
    text = unicodedata.normalize("NFKC", name).lower()
    words = [word[:32] for word in re.split(r"[\W_]+", text) if word]
    pieces = {
        ("piece", framed[at : at + 4])
        for framed in (f"<{word}>" for word in words)
        for at in range(len(framed) - 3)
    }
    return {("word", word) for word in words} | {*pairwise(words)} | pieces


def names_of_tokens(tokens: NameTokens) -> Counter[frozenset[int]]:
    """The set of names behind each token."""
    owner = np.repeat(np.arange(len(tokens.start) - 1), np.diff(tokens.start))
    return Counter(
        frozenset(owner[tokens.token == token].tolist()) for token in range(tokens.num_tokens)
    )


@given(NAMES)
def test_every_token_has_the_names_of_the_slow_version(names: list[str]) -> None:
    owners: dict[tuple[str, ...], set[int]] = {}
    for number, name in enumerate(names):
        for token in slow_tokens(name):
            # A word and a pair of words never clash: the pair has no kind in front.
            owners.setdefault(token, set()).add(number)
    expected = Counter(frozenset(group) for group in owners.values() if len(group) > 1)
    assert names_of_tokens(name_tokens(names)) == expected


def test_names_share_words_whatever_their_case() -> None:
    tokens = name_tokens(["Police (India)", "citizen (INDIA)", "Zebra"])
    first, second, third = (
        set(tokens.token[start:stop])
        for start, stop in zip(tokens.start[:-1], tokens.start[1:], strict=True)
    )
    assert first == second
    assert len(first) == len({"india", "<ind", "indi", "ndia", "dia>"})
    assert not third


def test_tokens_of_a_name_rise() -> None:
    tokens = name_tokens(["b a b", "a b", "b a"])
    for start, stop in zip(tokens.start[:-1], tokens.start[1:], strict=True):
        assert (np.diff(tokens.token[start:stop]) > 0).all()


def test_no_names_have_no_tokens() -> None:
    tokens = name_tokens([])
    assert tokens.start.tolist() == [0]
    assert tokens.num_tokens == 0
