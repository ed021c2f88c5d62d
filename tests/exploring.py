"""Helpers for tests of the explorer in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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


WIDTHS = (1440, 768, 390)
COLORS = (
    {"color_scheme": "light", "forced_colors": "none"},
    {"color_scheme": "dark", "forced_colors": "none"},
    {"color_scheme": "dark", "forced_colors": "active"},
)
COLOR_RULES = ("color-contrast", "link-in-text-block")
AXE = """async rules => {
  const found = await axe.run({resultTypes: ["violations"], ...(rules && {runOnly: rules})});
  return found.violations
    .filter(({impact}) => ["serious", "critical"].includes(impact))
    .map(({id, nodes}) => [id, nodes[0].html]);
}"""


def accessibility_problems(tab: Any) -> list[Any]:
    """The rules of accessibility that a page breaks, and widths at which it scrolls sideways.

    The page is loaded once and checked at all widths, the largest and the smallest with all
    colors. If other colors show the same text, only the rules about colors can have another
    outcome. The page must be opened with `bypass_csp`, because its security policy forbids the
    check that is injected.
    """
    package = pytest.importorskip(
        "axe_playwright_python", reason="needs the package axe-playwright-python"
    )
    (script,) = Path(package.__file__).parent.rglob("axe.min.js")
    tab.evaluate(script.read_text(encoding="utf-8"))
    problems: list[Any] = []
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 844})
        text = None
        for colors in COLORS if width != 768 else COLORS[:1]:
            tab.emulate_media(**colors)
            shown = tab.evaluate("document.body.innerText")
            rules = None if shown != text else COLOR_RULES
            problems += [[width, colors, *found] for found in tab.evaluate(AXE, rules)]
            text = shown
    for width in (*WIDTHS, 1000, 320):
        tab.set_viewport_size({"width": width, "height": 844})
        if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"scrolls sideways at {width} pixels")
    tab.set_viewport_size({"width": WIDTHS[0], "height": 844})
    return problems
