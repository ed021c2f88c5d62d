"""The hostile requests of the benchmark cover every route that answers questions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from predicting import GRAPH
from tempograph.server.schema.request_models import CompletionRequest, EvidenceRequest

ROOT = Path(__file__).parents[1]


def test_heavy_requests_ask_every_kind_of_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from hostile_requests import QUESTIONS, HostileRequests

    routes = (ROOT / "src/tempograph/server/question_routes.py").read_text(encoding="utf-8")
    assert all(f'"/{path}"' in routes for path in QUESTIONS if path != "admin/reload")
    assert routes.count("@router.post(") == len(QUESTIONS) - 1
    requests = HostileRequests(GRAPH, 0)
    heavy = [requests._heavy().partition(b"\r\n\r\n") for _ in range(200)]
    asked = [(head.split(b" ")[1].decode(), json.loads(body)) for head, _, body in heavy]
    paths = {path.removeprefix("/api/v1/") for path, _ in asked}
    assert paths == {*QUESTIONS} - {"admin/reload"}
    bodies = [CompletionRequest(**body) for path, body in asked if path.endswith("/complete")]
    assert any(each.until is not None for each in bodies)
    for part in ("subject", "relation", "object", "time"):
        assert any(getattr(each, part) is None and each.evidence for each in bodies)
    evidence = [EvidenceRequest(**body) for path, body in asked if path.endswith("/evidence")]
    assert evidence and all(each.until is not None for each in evidence)
    sys.modules.pop("hostile_requests")
