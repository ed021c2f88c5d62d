"""What all figures share: colours, line styles, captions, and files in several formats."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from tempograph.errors import ConfigError
from tempograph.io import atomic_file

# The Okabe-Ito colours, which people with any common colour vision can tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#767676"
RED, PURPLE, SKY = "#D55E00", "#CC79A7", "#56B4E9"
GRID: Final = "#dddddd"
_COLOURS: Final = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
_MARKERS: Final = "os^DvP"
_LINES: Final = ("-", "--", ":", "-.")
_METADATA: Final[dict[str, dict[str, None]]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
"""Formats of pictures, and the metadata that would make equal pictures differ."""
_PAGE_COLOURS: Final = {"#000000": "text", GRID: "grid", GREY: "quiet", BLUE: "blue"}
"""Colours that would be hard to read on a dark page, and the variables of the page's style."""


class Style(NamedTuple):
    """How one run is drawn."""

    colour: str
    marker: str
    line: str


def styles() -> Iterator[Style]:
    """Styles that differ in colour, and in shape for print without colour."""
    for number in count():
        lap, index = divmod(number, len(_COLOURS))
        marker = _MARKERS[(index + lap) % len(_MARKERS)]
        yield Style(_COLOURS[index], marker, _LINES[lap % len(_LINES)])


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix decides the format."""
    suffix = path.suffix.lower()
    if suffix not in _METADATA:
        raise ConfigError(f"{path}: a picture ends in {', '.join(_METADATA)}")
    arranged = _arranged(figure) if suffix == ".svg" else nullcontext()
    with atomic_file(path) as temporary, _settings(), arranged:
        figure.savefig(temporary, format=suffix[1:], dpi=150, metadata=_METADATA[suffix])


def svg(figure: Figure, name: str) -> str:
    """A figure as an SVG element without background; `name` prefixes all ids in it.

    Coordinates are rounded, and colours that a dark page would hide become the page's own.
    """
    drawn = io.StringIO()
    with _settings(), _arranged(figure):
        figure.savefig(drawn, format="svg", transparent=True)

    def adapt(tag: re.Match[str]) -> str:
        text = re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0])
        for colour, variable in _PAGE_COLOURS.items():
            text = text.replace(colour.lower(), f"var(--{variable})")
        return re.sub(r'(id="|"#|url\(#)', rf"\g<1>{name}-", text)

    element = re.sub(r"<metadata>.*?</metadata>\s*", "", drawn.getvalue(), flags=re.DOTALL)
    return re.sub(r"<[^>]*>", adapt, element[element.index("<svg") :])


@contextmanager
def _arranged(figure: Figure) -> Iterator[None]:
    """Place the parts of a figure for SVG; left to savefig, it would draw everything once more."""
    engine = figure.get_layout_engine()
    if engine is None:
        yield
        return
    FigureCanvasSVG(figure)
    engine.execute(figure)
    figure.set_layout_engine(None)
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


@contextmanager
def _settings() -> Iterator[None]:
    """Keep text as text, make equal pictures equal files, do not warn of glyphs a font lacks."""
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tempograph"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def text_width(text: str, size: float) -> float:
    """The width in inches of text in the usual font, with letters of `size` points."""
    with _settings():
        width, _, _ = text_to_path.get_text_width_height_descent(
            text, FontProperties(size=size), ismath=False
        )
    return float(width) / 72


def escape_math(text: str) -> str:
    """Text whose dollar signs do not start a formula."""
    return text.replace("$", r"\$")


def add_footer(figure: Figure, text: str) -> None:
    """Write what readers must know beside a figure: dataset, split, filter, protocol."""
    figure.supxlabel(escape_math(text), fontsize=8, color=GREY, x=0.99, ha="right")


def clean_axes(axes: Axes, grid: bool = False) -> None:
    """Hide the frame's top and right side; add a grid behind the data."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if grid:
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
