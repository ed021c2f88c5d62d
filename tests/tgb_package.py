"""The package py-tgb, where it is installed, to compare our rules with."""

from __future__ import annotations

import warnings
from typing import Any

import pytest


def import_tgb(module: str) -> Any:
    """A module of py-tgb; the test is skipped where it is not installed."""
    with warnings.catch_warnings():
        # It imports packages that warn of their own future.
        warnings.simplefilter("ignore")
        return pytest.importorskip(f"tgb.linkproppred.{module}", reason="py-tgb is not installed")
