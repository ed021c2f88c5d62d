"""The pages are true: their tables come from results/, their programs print what they say, their commands run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from coded import ICEWS_HEADER, gdelt_row, icews_row
from conftest import Call
from tempograph.version import __version__

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def programs() -> list[tuple[str, str, str]]:
    return [
        (page.name, *found)
        for page in PAGES
        for found in PROGRAM.findall(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(
    ("page", "program", "expected"), programs(), ids=lambda value: value if len(value) < 30 else ""
)
def test_a_program_prints_what_the_page_says(
    tmp_path: Path, page: str, program: str, expected: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{page}: {done.stderr}"
    assert done.stdout == expected


def test_a_script_is_a_command_line_that_knows_its_decoder(tmp_path: Path) -> None:
    (program,) = (
        program for page, program, _ in programs() if page == "extending.md" and "main()" in program
    )
    (tmp_path / "mine.py").write_text(program)
    settings = ["model.decoder=rotate", "model.dim=8", "train.epochs=1"]
    for command in (
        ["train", "demo", "--model", "temp-gru", *settings, "--out", "run", "--device", "cpu"],
        ["complete", "run", "--subject", "Talenne", "--relation", "visits", "--time", "2030-03-01"],
    ):
        done = subprocess.run(
            [sys.executable, "mine.py", *command], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_the_citation_names_the_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_program_has_its_output() -> None:
    assert (
        sum(page.read_text(encoding="utf-8").count("```python") for page in PAGES)
        == len(programs())
        == 5
    )


def test_the_commands_run(call: Call) -> None:
    days = [f"2024-01-{day:02d}" for day in range(1, 29)]
    rows = [row for day in days for row in (f"Ann,meets,Bob,{day}", f"Bob,calls,Cai,{day}")]
    Path("events.csv").write_text("\n".join(["actor,action,target,date", *rows]) + "\n")
    for packed, name, lines in (
        (
            "icews",
            "events.2014.tab",
            [ICEWS_HEADER, icews_row("Ann", "Make a visit", "Bob", "2014-01-31")],
        ),
        ("gdelt", "20150218.export.CSV", [gdelt_row("ANN", "042", "BOB", "20150218")]),
    ):
        Path(packed).mkdir()
        with zipfile.ZipFile(f"{packed}/{name}.zip", "w") as archive:
            archive.writestr(name, "\n".join(lines))
    commands = [
        line
        for page in PAGES
        for block in COMMANDS.findall(page.read_text(encoding="utf-8"))
        for line in block.splitlines()
    ]
    ran = 0
    for command in dict.fromkeys(commands):
        program, *arguments = shlex.split(command, comments=True)
        if program == "make":
            assert f"\n{arguments[0]}:" in (ROOT / "Makefile").read_text(), (
                f"{command}: no such target"
            )
        elif program == "torchrun":
            launched = [sys.executable, "-m", "torch.distributed.run", *arguments]
            done = subprocess.run(launched, capture_output=True, text=True)
            assert done.returncode == 0, f"{command}: {done.stderr}"
        else:
            assert program == "tempograph", command
            code, _, error = call(*arguments)
            assert code == 0, f"{command}: {error}"
            ran += 1
    assert ran >= 12


def test_the_tables_are_made_from_the_results() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/update_tables.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_notebook_prints_what_it_shows() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/run_notebook.py", "docs/analyst.ipynb", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
