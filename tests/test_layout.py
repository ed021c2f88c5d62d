"""The layout of the package: names are unique, and the root holds only a few small modules."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

import tempograph

PACKAGE = Path(tempograph.__file__).parent
MODULES = sorted(file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py")
ROOT = {
    "__main__",
    "cache",
    "device",
    "errors",
    "io",
    "progress",
    "provenance",
    "typing",
    "version",
}


def test_no_two_modules_have_the_same_name() -> None:
    packages = [file.parent for file in PACKAGE.rglob("*/__init__.py")]
    names = [file.stem for file in MODULES] + [folder.name for folder in packages]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_no_two_public_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in MODULES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(file.stem)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_root_holds_only_small_modules() -> None:
    assert {file.stem for file in PACKAGE.glob("*.py")} == ROOT | {"__init__"}


def test_every_data_file_is_packaged() -> None:
    project = Path(__file__).parents[1] / "pyproject.toml"
    settings = tomllib.loads(project.read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["tempograph"]
    packaged = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    others = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".py"}
    assert {path for path in others - packaged if "__pycache__" not in path.parts} == set()
