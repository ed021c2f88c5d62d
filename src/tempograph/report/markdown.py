"""A document as Markdown, with its pictures as SVG files in a folder beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tempograph.io import make_folder, write_text
from tempograph.report.document import (
    Block,
    Code,
    Details,
    Heading,
    Paragraph,
    Picture,
    find_pictures,
)
from tempograph.report.drawing import save
from tempograph.report.text_table import TextTable


def write_markdown(path: Path, title: str, blocks: Sequence[Block]) -> None:
    """Write a Markdown file and the folder of its pictures."""
    folder = path.with_name(f"{path.stem}-pictures")
    for picture in find_pictures(blocks):
        make_folder(folder)
        save(picture.figure, folder / f"{picture.name}.svg")
    parts = [f"# {_escape(title)}", *(_render(block, folder.name) for block in blocks)]
    write_text(path, "\n\n".join(parts) + "\n")


def _render(block: Block, folder: str) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_escape(text)}"
        case Paragraph(text):
            return _escape(text)
        case Code(text):
            return "\n".join(f"    {line}" for line in text.splitlines())
        case Details(title, blocks):
            inner = (_render(part, folder) for part in blocks)
            return "\n\n".join([f"**{_escape(title)}**", *inner])
        case Picture(name, _, alt):
            return f"![{_escape(alt)}](<{folder}/{name}.svg>)\n\n*{_escape(alt)}*"
        case TextTable(title, columns, rows, text_columns, caption):
            table = TextTable(
                title,
                [_escape(name) for name in columns],
                [[_escape(cell) for cell in row] for row in rows],
                text_columns,
            )
            text = f"**{_escape(title)}.** {_escape(caption)}".strip()
            return f"{text}\n\n{table.markdown()}"


def _escape(text: str) -> str:
    """Text without characters that Markdown or HTML interpret; tables escape bars themselves."""
    return re.sub(r"([\\`*_\[\]<>&#~$])", r"\\\1", " ".join(text.split()))
