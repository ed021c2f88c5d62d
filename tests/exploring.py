"""Helpers for tests of the explorer in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from serving import Served

expect = pytest.importorskip("playwright.sync_api", reason="needs the package playwright").expect
# A machine that runs many tests may be slow.
expect.set_options(timeout=20_000)

EVIL = "<img src=x onerror=alert(1)>"
FACT = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05"}
LONG = tuple(f"{name} {'of the Ministry of ' * 20}{'x' * 600}"[:900] for name in "ABC")
HOURS = tuple(f"2024-01-01T{hour}:00" for hour in (10, 11, 12))
Open = Callable[..., Any]


def answers(tab: Any, column: str = "#first") -> Any:
    return tab.locator(f"{column} .choose")


def url_query(tab: Any) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(tab.url).query).items()}


def complete(service: Served, **request: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.http.post("/api/v1/complete", json=request).json()[
        "answers"
    ]
    return found


def found_names(tab: Any, name: str = "") -> Any:
    return tab.locator("[role=option]:visible", has_text=name)


def choose(tab: Any, label: str, typed: str, name: str) -> None:
    """Type into a field and choose a suggested name."""
    tab.get_by_label(label, exact=True).fill(typed)
    found_names(tab, name).first.click()


def serious_violations(tab: Any) -> list[tuple[str, str]]:
    """The rules of accessibility that a page breaks, each with an element that does."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs the package axe-playwright-python"
    )
    return [
        (each["id"], each["nodes"][0]["html"])
        for each in axe.Axe().run(tab).response["violations"]
        if each["impact"] in ("serious", "critical")
    ]
