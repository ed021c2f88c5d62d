"""Fixture: a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium; skips the test if it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    with playwright.sync_playwright() as driver:
        program = shutil.which("chromium") or driver.chromium.executable_path
        if not Path(program).exists():
            pytest.skip("needs the browser chromium")
        chromium = driver.chromium.launch(
            executable_path=program, args=["--disable-background-networking"]
        )
        yield chromium
        chromium.close()
