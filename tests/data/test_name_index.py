"""Look-up, search and suggestions of names."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tempograph.data.name_index import NameIndex
from tempograph.data.suggestions import closest_names, fold

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
    assert set(every) == held and len(every) == len(held)
    assert found(NameIndex(names, counts), text, 2) == every[:2]


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
