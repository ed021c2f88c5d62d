"""Requests made from the OpenAPI description, good and bad: none breaks the service, all answers are as described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import CHECKS

from serving import STORED, Served


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with Served(str(STORED / "temp-gru"), str(STORED / "ted")) as service:
        yield service


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_whatever_is_sent(service: Served, mode: Any) -> None:
    api = schemathesis.openapi.from_url(f"{service.ready['url']}/openapi.json")
    asked = set()
    for found in api.get_all_operations():
        operation = found.ok()
        if mode.is_negative and not operation.body and not operation.query:
            continue
        asked.add(operation.path)

        @settings(max_examples=25, suppress_health_check=list(HealthCheck))
        @given(operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            # That two of three parts are given, and that names are known, is more than a schema can say.
            case.call_and_validate(excluded_checks=[CHECKS.get_one("positive_data_acceptance")])

        ask()
    assert {
        "/api/complete",
        "/api/score",
        "/api/evidence",
        "/api/timeline",
        "/api/snapshot",
        "/api/entities",
    } <= asked
    assert service.process.poll() is None
