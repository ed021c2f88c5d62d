"""The public names of the package as Markdown, from their signatures and docstrings."""

from __future__ import annotations

import inspect
from typing import Any

import tempograph


def api_reference() -> str:
    """A section for each name, functions first, then classes with what can be called on them."""
    named = {name: getattr(tempograph, name) for name in tempograph.__all__ if name != "__version__"}
    functions = [_function(name, value, "##") for name, value in named.items() if not inspect.isclass(value)]
    classes = [_class(name, value) for name, value in named.items() if inspect.isclass(value)]
    return "\n\n".join([*functions, *classes])


def _function(name: str, function: Any, level: str) -> str:
    parameters = ",\n    ".join(_parameters(function))
    returns = inspect.signature(function).return_annotation
    arrow = "" if returns in (inspect.Signature.empty, "None", None) else f" -> {returns}"
    signature = f"{name.rpartition('.')[2]}(\n    {parameters},\n){arrow}" if parameters else f"{name}(){arrow}"
    return f"{level} {name}\n\n    " + signature.replace("\n", "\n    ") + f"\n\n{inspect.getdoc(function)}"


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
