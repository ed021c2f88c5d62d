"""MkDocs hook: add the pages of the site whose source is not a Markdown file in docs/.

CONTRIBUTING.md and CHANGELOG.md are in the root of the repository, and the tutorial is a notebook.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    pages = {
        "contributing.md": root_page(ROOT / "CONTRIBUTING.md"),
        "changelog.md": root_page(ROOT / "CHANGELOG.md"),
        "analyst.md": notebook_page(ROOT / "docs" / "analyst.ipynb"),
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def root_page(path: Path) -> str:
    """Return a page of the repository's root with its links relative to docs/."""
    return re.sub(r"\]\(docs/", "](", path.read_text(encoding="utf-8"))


def notebook_page(path: Path) -> str:
    """Return a notebook as Markdown: each code cell is followed by what it printed and showed."""
    blocks = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
            continue
        blocks.append(f"```python\n{source}\n```")
        blocks += map(_output_block, cell["outputs"])
    return "\n\n".join(blocks) + "\n"


def _output_block(output: dict[str, Any]) -> str:
    """Return an output as HTML if it has that form, or else as text."""
    data = output.get("data", {"text/plain": output.get("text")})
    if "text/html" in data:
        return f'<div class="notebook-output">{"".join(data["text/html"])}</div>'
    text = "".join(data["text/plain"]).rstrip("\n")
    return f"```text\n{text}\n```"
