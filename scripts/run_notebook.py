"""Run the cells of a notebook in this process and store what they print.

python scripts/run_notebook.py docs/analyst.ipynb

With --check, write nothing; exit with 1 if a cell prints something other than its stored output.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> int:
    """Run the notebook, then compare or store its outputs; return the exit code."""
    path = Path(sys.argv[1]).resolve()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code_cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    changed = []
    scope: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(code_cells, start=1):
            printed = run_cell("".join(cell["source"]), scope)
            lines = printed.splitlines(keepends=True)
            outputs = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
            if outputs != cell["outputs"]:
                changed.append(f"cell {number}:\n{printed}")
            cell |= {"outputs": outputs, "execution_count": number}
    if "--check" in sys.argv:
        sys.stdout.writelines(changed)
        return 1 if changed else 0
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def run_cell(source: str, scope: dict[str, Any]) -> str:
    """Return what a cell prints, including the value of a final expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), scope)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), scope)
            if value is not None:
                print(value)
    return printed.getvalue()


if __name__ == "__main__":
    sys.exit(main())
