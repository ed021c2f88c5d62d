"""Facts that get their end, against a loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tempograph.data.closed_facts import close_facts, find_closers
from tempograph.data.spans import Bounds

NO_END = Bounds.OPEN_END | Bounds.UNKNOWN_END
ROWS = st.lists(
    st.tuples(
        *[st.integers(0, 1)] * 4, st.integers(2, 4), st.sampled_from([0, 0, 0, 1, 2, 8, 3, 9])
    ),
    max_size=12,
)


@given(ROWS, ROWS)
def test_ends_are_given_as_in_a_loop(
    known: list[tuple[int, ...]], new: list[tuple[int, ...]]
) -> None:
    expected, closing = [*known], []
    for row in new:
        waiting = [
            number
            for number, other in enumerate(expected)
            if other[5] & NO_END
            and (*other[:4], other[5] & ~NO_END) == (*row[:4], row[5] & ~NO_END)
        ]
        closes = bool(waiting) and not row[5] & NO_END
        closing.append(closes)
        if closes:
            expected[waiting[0]] = row
        else:
            expected.append(row)
    facts, added = (np.array(rows, np.int64).reshape(-1, 6) for rows in (known, new))
    before = facts.copy()
    result = close_facts(facts, added)
    assert result.facts.tolist() == [list(row) for row in expected]
    assert result.closing.tolist() == closing and np.array_equal(facts, before)
    closer = find_closers(facts, added)
    assert sorted(closer[closer >= 0].tolist()) == np.flatnonzero(result.closing).tolist()


def test_events_have_no_open_ends() -> None:
    facts = np.array([[0, 0, 1, 2], [0, 0, 1, 2]])
    result = close_facts(facts, facts[:1])
    assert result.facts.tolist() == [*facts.tolist(), facts[0].tolist()]
    assert not result.closing.any()
