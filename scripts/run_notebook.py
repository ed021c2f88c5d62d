"""Run the cells of a notebook in this process and store what they print and show.

python scripts/run_notebook.py docs/analyst.ipynb

With --check, write nothing; exit with 1 if a cell has an output other than the stored one. Last
digits may differ a little: processors round sums differently.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

_DECIMAL: Final = re.compile(r"-?\d+\.\d+")
_LARGEST_DIFFERENCE: Final = 2
"""Of two numbers, in units of their last digit."""


def main() -> int:
    """Run the notebook, then compare or store its outputs; return the exit code."""
    path = Path(sys.argv[1]).resolve()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code_cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    changed = []
    # DataFrames are printed as wide as the terminal.
    os.environ["COLUMNS"] = "100"
    scope: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(code_cells, start=1):
            outputs = run_cell("".join(cell["source"]), scope, number)
            if not alike(json.dumps(outputs), json.dumps(cell["outputs"])):
                changed.append(f"cell {number}:\n{json.dumps(outputs, indent=1)}\n")
            cell |= {"outputs": outputs, "execution_count": number}
    if "--check" in sys.argv:
        sys.stdout.writelines(changed)
        return 1 if changed else 0
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def alike(text: str, stored: str) -> bool:
    """Whether two texts are the same apart from the last digits of numbers."""
    if _DECIMAL.split(text) != _DECIMAL.split(stored):
        return False
    pairs = zip(_DECIMAL.findall(text), _DECIMAL.findall(stored), strict=True)
    return all(_close(*pair) for pair in pairs)


def _close(number: str, stored: str) -> bool:
    digits = len(number.partition(".")[2])
    if len(stored.partition(".")[2]) != digits:
        return False
    return abs(float(number) - float(stored)) < (_LARGEST_DIFFERENCE + 0.5) * 0.1**digits


def run_cell(source: str, scope: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return the outputs of a cell: what it prints, and the value of a final expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), scope)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), scope)
    outputs: list[dict[str, Any]] = []
    if text := split_lines(printed.getvalue()):
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": split_lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": split_lines(value._repr_html_()), **data}
        result = {"data": data, "execution_count": number, "metadata": {}}
        outputs.append({"output_type": "execute_result", **result})
    return outputs


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, as a notebook stores them."""
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    sys.exit(main())
