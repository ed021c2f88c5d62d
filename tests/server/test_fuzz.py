"""Requests generated from the OpenAPI description, valid and invalid: all responses conform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis.checks import CHECKS

from serving import STORED, Served

MAX_REQUEST = 10_000
"""Letters; encoded for a URL, each may take twelve."""


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with Served(str(STORED / "temp-gru"), str(STORED / "ted")) as service:
        yield service


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_responses_conform_to_the_api_description(service: Served, mode: Any) -> None:
    api = schemathesis.openapi.from_url(f"{service.ready['url']}/openapi.json")
    tested = set()
    for found in api.get_all_operations():
        operation = found.ok()
        if mode.is_negative and not operation.body and not operation.query:
            continue
        tested.add(operation.path)

        @settings(max_examples=15, suppress_health_check=list(HealthCheck))
        @given(operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            # The HTTP parser refuses longer requests before the service sees them.
            assume(len(str(case.as_transport_kwargs())) < MAX_REQUEST)
            # A schema cannot say that names are known, or that two of three parts are given.
            case.call_and_validate(excluded_checks=[CHECKS.get_one("positive_data_acceptance")])

        ask()
    assert {
        "/api/v1/complete",
        "/api/v1/complete/batch",
        "/api/v1/missing",
        "/api/v1/surprising",
        "/api/v1/forecast",
        "/api/v1/calibration",
        "/api/v1/score",
        "/api/v1/evidence",
        "/api/v1/timeline",
        "/api/v1/snapshot",
        "/api/v1/neighborhood",
        "/api/v1/entities",
    } <= tested
    assert service.process.poll() is None
