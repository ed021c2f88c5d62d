"""The hostile requests of the benchmark cover every route that answers questions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from predicting import GRAPH
from tempograph.server.schema.request_models import CompletionRequest, EvidenceRequest

ROOT = Path(__file__).parents[1]


def test_every_kind_of_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from hostile_requests import QUESTIONS, HostileRequests

    routes = (ROOT / "src/tempograph/server/question_routes.py").read_text(encoding="utf-8")
    assert all(f'"/{path}"' in routes for path in QUESTIONS if path != "admin/reload")
    assert routes.count("@router.post(") == len(QUESTIONS) - 1
    each = [sent.partition(b"\r\n\r\n") for sent in HostileRequests(GRAPH, 0).each_kind()]
    asked = [(head.split(b" ")[1].decode(), json.loads(body)) for head, _, body in each]
    paths = {path.removeprefix("/api/v1/") for path, _ in asked}
    assert paths == {*QUESTIONS} - {"admin/reload"}
    bodies = [CompletionRequest(**body) for path, body in asked if path.endswith("/complete")]
    assert any(body.until is not None for body in bodies)
    for part in ("subject", "relation", "object", "time"):
        assert any(getattr(body, part) is None for body in bodies)
    evidence = [EvidenceRequest(**body) for path, body in asked if path.endswith("/evidence")]
    assert evidence and all(body.until is not None for body in evidence)
    sys.modules.pop("hostile_requests")
