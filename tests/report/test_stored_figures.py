"""Figures of results.json beside those of a run's own protocol, in reports."""

from __future__ import annotations

from typing import Any

from tempograph.report.document import Paragraph
from tempograph.report.stored_figures import stored_figures
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults


def metrics(mrr: float) -> dict[str, float]:
    return {"mrr": mrr, "mr": 1234.5, "hits@1": 0.1, "hits@3": 0.2, "hits@10": 0.3}


def summary(protocol: str, mrr: float, **more: Any) -> dict[str, Any]:
    sides = {"subject": metrics(mrr - 0.1), "object": metrics(mrr + 0.1)}
    return {"protocol": protocol, "metrics": metrics(mrr), **sides, **more}


def tables_and_notes(results: RunResults) -> tuple[list[TextTable], list[str]]:
    blocks = stored_figures(results, "my run", ("test", "valid"))
    tables = [block for block in blocks if isinstance(block, TextTable)]
    return tables, [block.text for block in blocks if isinstance(block, Paragraph)]


def test_entities_under_other_protocols_have_a_row_each_side() -> None:
    results = RunResults("d", "m", "forecast-single", 0, None, {})
    assert stored_figures(results, "my run", ("test",)) == []
    results.multi_step = {
        "valid": summary("forecast-multi", 0.3),  # type: ignore[dict-item]
        "test": summary("forecast-multi", 0.2, note="careful"),  # type: ignore[dict-item]
    }
    results.tgb = {
        "test": summary("forecast-single", 0.4, rules="tgb", negatives=1000)  # type: ignore[dict-item]
    }
    (table,), notes = tables_and_notes(results)
    rest = ["10.0", "20.0", "30.0", "1,234.5"]
    assert list(table.rows)[:3] == [
        ["test", "forecast-multi", "both sides", "0.200", *rest],
        ["test", "forecast-multi", "subjects (?, r, o, t)", "0.100", *rest],
        ["test", "forecast-multi", "objects (s, r, ?, t)", "0.300", *rest],
    ]
    rules = "forecast-single, rules tgb, among 1,000 sampled entities"
    assert [row[:2] for row in table.rows[3::3]] == [["valid", "forecast-multi"], ["test", rules]]
    assert "TGB 2.0" in table.caption and "start and end" not in table.caption
    assert notes == ["On test, protocol forecast-multi: careful."]


def test_intervals_and_questions_have_tables_of_their_own() -> None:
    results = RunResults("d", "m", "strict", 0, None, {})
    near = {"aeiou@1": 0.25, "giou@1": -0.125, "tac": 0.5}
    results.paper = {"test": summary("paper", 0.2)}  # type: ignore[dict-item]
    results.intervals = {
        "test": {  # type: ignore[typeddict-item]
            "split": "test",
            "protocol": "strict",
            "metrics": near,
            "kinds": {"closed": {"facts": 1200, "metrics": near}},
            "facts": 1200,
            "left_out": 7,
        }
    }
    results.relation = {
        "test": summary(  # type: ignore[dict-item]
            "strict", 0.6, split="test", asked="relation", baseline=metrics(0.5)
        )
    }
    (ends, relations, intervals), notes = tables_and_notes(results)
    assert "only the start and the end" in ends.caption and len(ends.rows) == 3
    assert [row[:4] for row in relations.rows] == [
        ["test", "strict", "relations", "0.600"],
        ["test", "strict", "baseline: counts of the pair", "0.500"],
    ]
    assert list(intervals.rows) == [
        ["test", "strict", name, "1,200", "25.0", "-12.5", "50.0"] for name in ("all", "closed")
    ]
    assert notes == ["7 test facts with an unknown bound are left out."]
