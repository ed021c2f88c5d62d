"""Run the cells of a notebook in this process and keep what they print.

python scripts/run_notebook.py docs/analyst.ipynb

With --check nothing is written, and the exit code is 1 if a cell prints something else than what is kept.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> int:
    """Run, compare or keep."""
    path = Path(sys.argv[1]).resolve()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    changed = []
    scope: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, cell in enumerate(
            cell for cell in notebook["cells"] if cell["cell_type"] == "code"
        ):
            printed = run("".join(cell["source"]), scope)
            lines = printed.splitlines(keepends=True)
            outputs = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
            if outputs != cell["outputs"]:
                changed.append(f"cell {number + 1}:\n{printed}")
            cell |= {"outputs": outputs, "execution_count": number + 1}
        os.chdir("/")
    if "--check" in sys.argv:
        sys.stdout.writelines(changed)
        return 1 if changed else 0
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def run(source: str, scope: dict[str, Any]) -> str:
    """What a cell prints, and the value of its last line if that is an expression."""
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
