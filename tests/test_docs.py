"""The pages are true: their tables come from results/, their programs print what they say, their commands run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def programs() -> list[tuple[str, str, str]]:
    return [(page.name, *found) for page in PAGES for found in PROGRAM.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("page", "program", "expected"), programs(), ids=lambda value: value if len(value) < 30 else ""
)
def test_a_program_prints_what_the_page_says(tmp_path: Path, page: str, program: str, expected: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, f"{page}: {done.stderr}"
    assert done.stdout == expected


def test_every_program_has_its_output() -> None:
    assert sum(page.read_text(encoding="utf-8").count("```python") for page in PAGES) == len(programs()) == 5


def test_the_commands_run(tmp_path: Path) -> None:
    days = [f"2024-01-{day:02d}" for day in range(1, 29)]
    rows = [row for day in days for row in (f"Ann,meets,Bob,{day}", f"Bob,calls,Cai,{day}")]
    (tmp_path / "events.csv").write_text("\n".join(["actor,action,target,date", *rows]) + "\n")
    commands = [
        line
        for page in PAGES
        for block in COMMANDS.findall(page.read_text(encoding="utf-8"))
        for line in block.splitlines()
    ]
    ran = 0
    for command in dict.fromkeys(commands):
        program, *arguments = shlex.split(command, comments=True)
        assert program in ("tempograph", "torchrun", "make"), command
        if program != "make":
            module = "torch.distributed.run" if program == "torchrun" else program
            done = subprocess.run(
                [sys.executable, "-m", module, *arguments], cwd=tmp_path, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{command}: {done.stderr}"
            ran += 1
        else:
            assert f"\n{arguments[0]}:" in (ROOT / "Makefile").read_text(), f"{command}: no such target"
    assert ran == 12


def test_the_tables_are_made_from_the_results() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/update_tables.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
