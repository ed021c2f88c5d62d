"""The public names, and how little it takes to import them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tempograph


def test_every_public_name_is_there() -> None:
    for name in tempograph.__all__:
        assert getattr(tempograph, name) is not None
    assert set(tempograph.__all__) <= set(dir(tempograph))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tempograph.nothing  # type: ignore[attr-defined]


def python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_help_does_not_wait_for_torch() -> None:
    program = "import sys, tempograph.cli; print([m for m in ('torch', 'pyarrow', 'matplotlib') if m in sys.modules])"
    assert python(program).strip() == "[]"


def test_the_core_imports_without_extras() -> None:
    hidden = ("fastapi", "uvicorn", "polars", "duckdb", "pydantic", "pandas", "pytest", "hypothesis")
    core = (
        "cli training comparing predict plots report evaluation frequency results "
        "data.world data.importing data.catalog data.statistics"
    )
    imports = "; ".join(f"import tempograph.{name}" for name in core.split())
    # Training by gradient imports it when it begins.
    imports += "; import lightning.fabric"
    python(f"import sys; sys.modules.update(dict.fromkeys({hidden!r})); {imports}")
