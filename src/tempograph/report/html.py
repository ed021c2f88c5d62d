"""A document as one self-contained HTML page, made from the templates beside this module."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tempograph.io import write_text
from tempograph.report.document import Block, Heading, Picture
from tempograph.report.drawing import svg

_LOWEST_IS_BEST: Final = ("MR",)
"""Columns that are sorted in ascending order first."""


def write_html(path: Path, title: str, blocks: Sequence[Block]) -> None:
    """Write a page with style, script and pictures inside."""
    environment = Environment(
        loader=PackageLoader("tempograph.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"kind": lambda block: type(block).__name__, "inline_svg": _inline_svg}
    sections = [block for block in blocks if isinstance(block, Heading) and block.level == 2]
    page = environment.get_template("report.html").render(
        title=title,
        blocks=blocks,
        anchors={heading: f"part-{number}" for number, heading in enumerate(sections, 1)},
        next_number=count(1).__next__,
        lowest_is_best=_LOWEST_IS_BEST,
    )
    write_text(path, page)


def _inline_svg(picture: Picture, name: str) -> Markup:
    width = round(72 * picture.figure.get_figwidth())
    attributes = f'role="img" aria-labelledby="{name}" style="max-width:{width}pt"'
    return Markup(svg(picture.figure, name).replace("<svg", f"<svg {attributes}", 1))
