"""The public names, their types, and what importing them takes."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import tempograph


def test_every_public_name_is_there() -> None:
    for name in tempograph.__all__:
        assert getattr(tempograph, name) is not None
    assert set(tempograph.__all__) <= set(dir(tempograph))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tempograph.nothing  # type: ignore[attr-defined]


INTERNAL = {
    "tempograph.cache",
    "tempograph.data.fact_ids",
    "tempograph.data.held_facts",
    "tempograph.data.importers.event_formats",
    "tempograph.data.importers.bad_rows",
    "tempograph.data.importers.interval_grid",
    "tempograph.data.importers.option_words",
    "tempograph.data.importers.time_grid",
    "tempograph.data.name_tokens",
    "tempograph.data.sorted_ranges",
    "tempograph.data.span_lookup",
    "tempograph.models.sparse_scores",
    "tempograph.training.question_models",
    "tempograph.training.recipes",
    "tempograph.training.settings",
    "tempograph.training.updates",
}
"""Modules whose types only appear in attributes and methods for those who extend the package."""


def signatures(exported: object) -> Iterator[Callable[..., Any]]:
    """A function itself; the constructor, public methods and properties of a class."""
    if inspect.isfunction(exported):
        yield exported
    if not isinstance(exported, type):
        return
    for name, member in vars(exported).items():
        if not name.startswith("_") or name == "__init__":
            function = next(
                (
                    getattr(member, attribute)
                    for attribute in ("fget", "func", "__func__")
                    if hasattr(member, attribute)
                ),
                member,
            )
            if inspect.isfunction(function):
                yield function


def own_classes(hint: Any) -> Iterator[type]:
    """The classes of this package in an annotation."""
    if isinstance(hint, list | tuple) or get_args(hint):
        for argument in get_args(hint) or hint:
            yield from own_classes(argument)
    elif isinstance(hint, type) and hint.__module__.startswith("tempograph."):
        yield hint


def test_every_type_in_a_public_signature_is_public() -> None:
    hidden = {
        f"{reached.__module__}.{reached.__name__} (in {function.__qualname__})"
        for name in tempograph.__all__
        for function in signatures(getattr(tempograph, name))
        for hint in get_type_hints(function).values()
        for reached in own_classes(hint)
        if reached.__name__ not in tempograph.__all__ and reached.__module__ not in INTERNAL
    }
    assert not hidden


def test_type_checkers_see_every_public_name() -> None:
    source = Path(tempograph.__file__).read_text(encoding="utf-8")
    for name in set(tempograph.__all__) - {"__version__"}:
        home = tempograph._HOMES[name]
        assert f"    from {home} import {name} as {name}\n" in source


def python(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


def test_help_does_not_wait_for_torch() -> None:
    slow = ("torch", "pyarrow", "matplotlib")
    program = f"import sys, tempograph.cli; print([m for m in {slow} if m in sys.modules])"
    assert python(program).strip() == "[]"


def test_the_core_imports_without_extras() -> None:
    # fcntl and resource do not exist on Windows.
    hidden = (
        "fcntl",
        "resource",
        "fastapi",
        "httpx2",
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
        "client",
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
