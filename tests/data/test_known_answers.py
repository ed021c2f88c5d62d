"""Known answers and train entities are found as a scan of all facts would."""

from __future__ import annotations

from hypothesis import given

from graphs import graphs
from tempograph import TemporalGraph
from tempograph.typing import SPLITS


@given(graphs())
def test_known_answers_match_a_scan_of_all_facts(graph: TemporalGraph) -> None:
    rows = [(fact, split) for split in SPLITS for fact in graph.facts(split).tolist()]
    facts = [*graph.all_facts.tolist(), [0, 0, 0, 0], [0, 0, 0, len(graph.times)]]
    for fact in facts:
        for column in range(4):
            wanted: dict[int, str] = {}
            for other, split in rows:
                if all(other[c] == fact[c] for c in range(4) if c != column):
                    wanted.setdefault(other[column], split)
            assert graph.known_answers(tuple(fact), column) == wanted


@given(graphs())
def test_train_entities_match_a_scan_of_all_facts(graph: TemporalGraph) -> None:
    train = graph.train.tolist()
    wanted = [any(e in (fact[0], fact[2]) for fact in train) for e in range(len(graph.entities))]
    assert graph.in_train.tolist() == wanted
