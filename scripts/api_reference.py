"""The public names of the package as Markdown, from their signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import textwrap
from collections.abc import Sequence
from typing import Any, Final

import tempograph
from tempograph.answers import Answer, Completion, Evidence
from tempograph.comparison import Comparison
from tempograph.data.importing import Imported
from tempograph.data.options import ImportOptions
from tempograph.evaluation import Evaluation
from tempograph.fitting import Choice, Fitted
from tempograph.reproducing import Reproduction

_BESIDES: Final = (
    *(Completion, Answer, Evidence, Evaluation, Fitted, Choice),
    *(Imported, ImportOptions, Comparison, Reproduction),
)
"""What public functions take and return besides the public classes."""
_KINDS: Final = {
    "tempograph.data.graph": ("Name", "When", "Facts"),
    "tempograph.data.naming": ("Given",),
    "tempograph.choices": (
        *("Split", "Protocol", "Filter", "EventFormat", "Format", "Entity"),
        *("RelationLevel", "Granularity", "SplitRule", "Artefact"),
    ),
    "tempograph.listening": ("Progress", "Report"),
    "tempograph.batch": ("Note",),
    "tempograph.standing": ("Watch",),
}
"""Types with names, by the modules they are in."""


def api_reference() -> str:
    """A section for each name: functions, classes with what can be called on them, then what they take and return."""
    named = {name: getattr(tempograph, name) for name in tempograph.__all__ if name != "__version__"}
    functions = [_function(name, value, "##") for name, value in named.items() if not inspect.isclass(value)]
    classes = [_class(name, value) for name, value in named.items() if inspect.isclass(value)]
    besides = [_class(kind.__name__, kind) for kind in _BESIDES]
    return "\n\n".join([*functions, *classes, *besides, _kinds()])


def _kinds() -> str:
    rows = []
    for module, names in _KINDS.items():
        source = inspect.getsource(importlib.import_module(module))
        said, body = _said(source), ast.parse(source).body
        for name in names:
            (value,) = [ast.unparse(each.value) for each in body if _target(each) == name]  # type: ignore[attr-defined]
            rows.append(f"- **{name}** `{value}`: {said[name]}" if name in said else f"- **{name}** `{value}`")
    return "\n".join(["## Types with names", "", *rows])


def _said(source: str) -> dict[str, str]:
    """What stands as a docstring below each name of a module or a class."""
    body: Sequence[ast.stmt] = ast.parse(source).body
    if isinstance(body[0], ast.ClassDef):
        body = body[0].body
    found = {}
    for each, after in itertools.pairwise(body):
        name, said = _target(each), isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if name is not None and said:
            found[name] = " ".join(str(after.value.value).split())  # type: ignore[attr-defined]
    return found


def _target(statement: ast.stmt) -> str | None:
    """The name that a statement gives a value or a type to, if it does."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    return target.id if isinstance(target, ast.Name) else None


def _function(name: str, function: Any, level: str) -> str:
    return f"{level} {name}\n\n{_signature(name.rpartition('.')[2], function)}\n\n{inspect.getdoc(function)}"


def _signature(name: str, function: Any) -> str:
    parameters = ",\n    ".join(_parameters(function))
    returns = inspect.signature(function).return_annotation
    arrow = "" if returns in (inspect.Signature.empty, "None", None) else f" -> {returns}"
    return textwrap.indent(f"{name}(\n    {parameters},\n){arrow}" if parameters else f"{name}(){arrow}", "    ")


def _fields(kind: type) -> str:
    said, rows = _said(inspect.getsource(kind)), []
    for field in dataclasses.fields(kind):
        default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
        rows.append(
            f"- `{field.name}: {field.type}{default}`" + (f": {said[field.name]}" if field.name in said else "")
        )
    return "\n".join(rows)


def _parameters(function: Any) -> list[str]:
    found, starred = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name != "self":
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
                found.append("*")
                starred = True
            default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
            found.append(f"{parameter.name}: {parameter.annotation}{default}")
    return found


def _class(name: str, kind: type) -> str:
    parts = [f"## {name}\n\n{inspect.getdoc(kind)}"]
    if dataclasses.is_dataclass(kind):
        parts.append(_fields(kind))
    elif "__init__" in vars(kind):
        parts.append(_signature(name, kind))
    for attribute, value in vars(kind).items():
        if attribute.startswith("_") or not getattr(inspect.unwrap(_plain(value)), "__doc__", None):
            continue
        plain = _plain(value)
        if isinstance(plain, property):
            parts.append(f"### {name}.{attribute}\n\n{inspect.getdoc(plain)}")
        elif inspect.isfunction(plain):
            parts.append(_function(f"{name}.{attribute}", plain, "###"))
    return "\n\n".join(parts)


def _plain(value: Any) -> Any:
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value
