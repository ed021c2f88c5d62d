"""Look-up, search and suggestions of names."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempograph.data import name_index, word_index
from tempograph.data.name_index import NameIndex
from tempograph.data.suggestions import closest_names, fold
from tempograph.data.word_index import WordIndex

NAMES = (
    "Angela Merkel",
    "Merkel",
    "Ángel Gurría",
    "México",
    "Police (Mexico)",
    "Amerkel",
    "merkel (town)",
    "ÅLAND",
)


def found(names: NameIndex, text: str, limit: int = 10) -> list[str]:
    return [match.name for match in names.search(text, limit)]


def test_search_orders_exact_then_prefix_then_word_matches_and_frequent_names_first() -> None:
    names = NameIndex(NAMES, np.array([5, 1, 0, 2, 7, 9, 3, 0]))
    assert found(names, "MERKEL") == ["Merkel", "merkel (town)", "Angela Merkel", "Amerkel"]
    assert found(names, "merke") == ["merkel (town)", "Merkel", "Angela Merkel", "Amerkel"]
    assert found(names, "merkel", 1) == ["Merkel"] and found(names, "merke", 1) == ["merkel (town)"]
    assert found(names, "mexico") == ["México", "Police (Mexico)"]
    assert found(names, "aland") == ["ÅLAND"]
    assert found(names, "gurria ang") == ["Ángel Gurría"]
    assert found(names, "nobody") == []
    assert found(names, "", 3) == ["Amerkel", "Police (Mexico)", "Angela Merkel"]


@given(
    st.lists(st.text("aAáb ñ", max_size=6), min_size=1, unique=True),
    st.text("aábn ", max_size=3),
    st.data(),
)
def test_search_finds_all_names_that_contain_every_word(
    names: list[str], text: str, data: st.DataObject
) -> None:
    counts = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=len(names), max_size=len(names)))
    )
    held = {name for name in names if all(word in fold(name) for word in fold(text).split())}
    every = found(NameIndex(names, counts), text, len(names))
    assert len(every) == len(set(every)) and (not held or set(every) == held)
    assert found(NameIndex(names, counts), text, 2) == every[:2]


PEOPLE = ("Barack Obama", "Michelle Obama", "Obama Foundation (Chicago)", "Angela_Merkel", "John")


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("barak obama", "Barack Obama"),
        ("BARRACK OBAMMA", "Barack Obama"),
        ("obma barck", "Barack Obama"),
        ("mihcelle o", "Michelle Obama"),
        ("merkle", "Angela_Merkel"),
        ("jhon", "John"),
        ("chikago", "Obama Foundation (Chicago)"),
    ],
)
def test_search_forgives_typos_if_no_name_contains_the_words(typed: str, first: str) -> None:
    names = NameIndex(PEOPLE, np.ones(len(PEOPLE), dtype=np.int64))
    assert found(names, typed)[0] == first


def test_search_bounds_the_typos() -> None:
    names = NameIndex(PEOPLE, np.ones(len(PEOPLE), dtype=np.int64))
    assert found(names, "xx") == found(names, "jxxn") == found(names, "bxrxk obama") == []
    assert found(names, "barak " * 500) == found(names, "\ud800 barakk obama " + "x" * 1000) == []
    assert found(names, "obma", 2) == ["Barack Obama", "Michelle Obama"]
    assert found(names, "barak obama", 1) == ["Barack Obama"]
    assert found(NameIndex((), np.zeros(0, np.int64)), "ann") == []
    assert found(NameIndex(("?",), np.zeros(1, np.int64)), "ann") == []


def edits_to_start(typed: str, word: str) -> int:
    """The fewest changes that make a text the start of a word."""
    rows = [list(range(len(word) + 1))]
    for i, letter in enumerate(typed, 1):
        row = [i]
        for j, other in enumerate(word, 1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != other)))
            if i > 1 and j > 1 and letter == word[j - 2] and typed[i - 2] == other:
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return min(rows[-1])


@given(
    st.lists(st.lists(st.text("abc", min_size=1, max_size=8), max_size=3), min_size=1),
    st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=2),
)
def test_edits_match_a_comparison_of_all_words(names: list[list[str]], typed: list[str]) -> None:
    edits = WordIndex([" ".join(words) for words in names]).edits(" ".join(typed))
    for words, found in zip(names, edits, strict=True):
        fewest = [min((edits_to_start(each, word) for word in words), default=9) for each in typed]
        allowed = [0 if len(each) < 3 else 1 if len(each) <= 5 else 2 for each in typed]
        if all(count <= most for count, most in zip(fewest, allowed, strict=True)):
            # Words without a common trigram are not compared.
            assert int(found) == sum(fewest) if np.isfinite(found) else sum(fewest) > 0
        else:
            assert np.isinf(found)


def test_case_and_accents_may_differ_if_the_match_is_unique() -> None:
    names = NameIndex(("Ann", "BOB", "Bob", "bob"), np.zeros(4, dtype=np.int64))
    assert (
        names.find("Ann"),
        names.find("ann"),
        names.find("Bob"),
        names.find("boB"),
        names.find("Cai"),
    ) == (0, 0, 2, None, None)
    names = NameIndex(("México", "Mexico", "Ángel"), np.zeros(3, dtype=np.int64))
    assert [names.find(name) for name in ("mexico", "MÉXICO", "angel", "Mexicó")] == [1, 0, 2, None]


def test_a_misspelt_name_gets_the_closest_names() -> None:
    names = NameIndex(NAMES, np.zeros(len(NAMES), dtype=np.int64))
    assert names.closest("Angela Merkle")[0] == "Angela Merkel"
    assert names.closest("Mexiko") == ["México"]
    assert names.closest("") == names.closest("zzzz") == []
    assert len(names.closest("merkel" * 10_000)) <= 3


@given(st.lists(st.text("abc d", min_size=1, max_size=8), min_size=1, unique=True), st.text("abcd"))
def test_the_index_suggests_what_a_comparison_with_every_name_does(
    names: list[str], name: str
) -> None:
    index = NameIndex(names, np.zeros(len(names), dtype=np.int64))
    assert set(index.closest(name)) <= set(names)
    if len(names) <= 30 and name.strip():
        expected = closest_names(name, names)
        assert len(index.closest(name)) <= 3
        if expected and any(fold(name) in fold(each) for each in names):
            assert fold(name) in fold(index.closest(name)[0])


def slow_search(names: list[str], counts: list[int], text: str) -> list[str]:
    """The order of a search, from a look at every name; no misspelled words."""
    start = " ".join(fold(text).split())
    words = list(dict.fromkeys(start.split()))
    ranked = []
    for number, name in enumerate(names):
        folded = fold(name)
        if all(word in folded for word in words):
            group = 0 if folded.startswith(start) else 1
            if group and not all(f" {word}" in f" {folded}" for word in words):
                group = 2
            group = -1 if " ".join(folded.split()) == start else group
            ranked.append((group, -counts[number], number, name))
    return [name for *_, name in sorted(ranked)]


NAME = st.text("aAáb ñ(_-&1", max_size=7)


@given(st.lists(NAME, min_size=1, unique=True, max_size=25), NAME, st.data())
def test_a_search_finds_what_a_look_at_every_name_does(
    names: list[str], text: str, data: st.DataObject
) -> None:
    size = len(names)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    few = data.draw(st.sampled_from([0, 5000]))
    expected = slow_search(names, counts, text)
    if expected:
        index = NameIndex(names, np.array(counts))
        with (
            patch.object(word_index, "_FEW", few),
            patch.object(word_index, "_MANY", few),
            patch.object(name_index, "_FREQUENT", few),
        ):
            assert found(index, text, size) == expected
            assert [found(index, text, limit) for limit in (1, 2)] == [expected[:1], expected[:2]]


def test_similar_names_share_the_largest_part_of_trigrams() -> None:
    index = WordIndex([fold(name) for name in (*PEOPLE, "Barack Obama Senior", "?")])
    assert index.similar("barak obama", 9)[:2] == [0, 5]
    assert index.similar("zz", 9) == index.similar("", 9) == index.similar("?", 9) == []
