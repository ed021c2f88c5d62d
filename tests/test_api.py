"""The public names, and how little it takes to import them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tempograph


def test_every_public_name_is_there() -> None:
    for name in tempograph.__all__:
        assert getattr(tempograph, name) is not None
    assert set(tempograph.__all__) <= set(dir(tempograph))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tempograph.nothing  # type: ignore[attr-defined]


def python(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


def test_help_does_not_wait_for_torch() -> None:
    program = "import sys, tempograph.cli; print([m for m in ('torch', 'pyarrow', 'matplotlib') if m in sys.modules])"
    assert python(program).strip() == "[]"


def test_the_core_imports_without_extras() -> None:
    hidden = (
        "fastapi",
        "uvicorn",
        "polars",
        "duckdb",
        "pydantic",
        "pandas",
        "pytest",
        "hypothesis",
    )
    rooms = (
        "data",
        "nn",
        "models",
        "evaluation",
        "training",
        "prediction",
        "report",
        "experiments",
        "cli",
    )
    package = Path(tempograph.__file__).parent
    files = [
        file
        for room in rooms
        for file in sorted((package / room).rglob("*.py"))
        if "kernels" not in file.parts
    ]
    names = [".".join(file.relative_to(package.parent).with_suffix("").parts) for file in files]
    imports = "; ".join(f"import {name.removesuffix('.__init__')}" for name in names)
    # Training by gradient imports it when it begins.
    imports += "; import lightning.fabric"
    python(f"import sys; sys.modules.update(dict.fromkeys({hidden!r})); {imports}")
