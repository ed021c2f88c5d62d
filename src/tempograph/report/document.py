"""A document as a list of blocks, which the HTML and Markdown writers render."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from tempograph.report.text_table import TextTable


@dataclass(frozen=True, eq=False)
class Heading:
    """A heading of a section (level 2) or a subsection (level 3)."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines shown as they are, such as a command."""

    text: str


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with the name of its file and a description for readers who cannot see it."""

    name: str
    figure: Figure
    alt: str


@dataclass(frozen=True)
class Details:
    """Blocks that a reader can unfold; on paper they are left out unless `printed`."""

    title: str
    blocks: Sequence[Block]
    printed: bool = False


Block = Heading | Paragraph | Code | TextTable | Picture | Details


def find_pictures(blocks: Sequence[Block]) -> list[Picture]:
    """All pictures of a document, also those in details."""
    pictures = []
    for block in blocks:
        if isinstance(block, Details):
            pictures += find_pictures(block.blocks)
        elif isinstance(block, Picture):
            pictures.append(block)
    return pictures
