"""The OpenAPI description as a plain page that needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any


def docs_page(api: dict[str, Any]) -> str:
    """One section for each route: what it does, its parameters or body, its answer."""
    body = "".join(
        _section(path, method, route)
        for path, methods in api["paths"].items()
        for method, route in methods.items()
    )
    schemas = "".join(
        _schema(name, schema) for name, schema in sorted(api["components"]["schemas"].items())
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(api["info"]["title"])} API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" '
        'href="/static/docs.css">'
        f"<h1>{escape(api['info']['title'])} {escape(api['info']['version'])}</h1>"
        f"<p>{escape(api['info']['description'])}"
        ' The same for programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{body}<h2>Objects</h2>{schemas}</html>"
    )


def _section(path: str, method: str, route: dict[str, Any]) -> str:
    parameters = "".join(
        f"<tr><td><code>{escape(given['name'])}</code><td>{_type(given['schema'])}"
        f"<td>{escape(given.get('description', ''))}</tr>"
        for given in route.get("parameters", ())
    )
    takes = "".join(_types(route.get("requestBody", {})))
    gives = "".join(_types(route["responses"]["200"]))
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(route.get('description', ''))}</p>"
        + (f"<table>{parameters}</table>" if parameters else "")
        + (f"<p>Takes {takes}.</p>" if takes else "")
        + (f"<p>Gives {gives}.</p>" if gives else "")
    )


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(member)}</code><td>{_type(of)}<td>{escape(of.get('description', ''))}</tr>"
        for member, of in schema.get("properties", {}).items()
    )
    words = escape(schema.get("description", ""))
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{words}</p><table>{rows}</table>'


def _types(holder: dict[str, Any]) -> Iterator[str]:
    return (_type(content["schema"]) for content in holder.get("content", {}).values())


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[1])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    return escape(str(schema.get("type", "anything")))
