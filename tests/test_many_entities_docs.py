"""The table of costs with many entities, with and without measurements."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RESULT: dict[str, Any] = {
    "dataset": "world-s",
    "hardware": "2 CPU cores",
    "model": "pointer",
    "entities": 433_000,
    "train_facts": 3_800_000,
    "epochs": 2.5,
    "epoch_seconds": 41.26,
    "microseconds_per_fact": 10.86,
    "training_peak_bytes": 3 * 2**30,
    "ranking_peak_bytes": 2 * 2**30,
    "questions": 50_000,
    "ranking_seconds": 12.34,
    "metrics": {"mrr": 0.5},
    "commit": None,
}


def test_nothing_is_claimed_before_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    from update_tables import many_entities_block

    assert many_entities_block(tmp_path) == "Not measured yet."
    (tmp_path / "results").mkdir()
    measured = {"environment": {"hardware": "a GPU", "commit": None}, "results": [RESULT]}
    (tmp_path / "results" / "many-entities.json").write_text(json.dumps(measured))
    block = many_entities_block(tmp_path)
    row = [cell.strip() for cell in block.splitlines()[-1].strip("|").split("|")]
    assert row == [
        *("world-s", "pointer", "2 CPU cores", "433,000", "3,800,000"),
        *("2.5", "41.3", "10.9", "3.0"),
        *("50,000", "12.3", "0.500"),
    ]
    (tmp_path / "docs" / "images").mkdir(parents=True)
    (tmp_path / "docs" / "images" / "many-entities.svg").touch()
    assert many_entities_block(tmp_path).endswith("(images/many-entities.svg)")
