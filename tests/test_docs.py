"""The docs are true: tables match results/, examples print the output shown, commands run."""

from __future__ import annotations

import json
import re
import shlex
import sys
import zipfile
from pathlib import Path

import pytest

import forked
import tempograph
from coded import ICEWS_HEADER, gdelt_row, icews_row
from conftest import Call
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.version import __version__

ROOT = Path(__file__).parents[1]
GENERATED = ("analyst.md", "contributing.md", "changelog.md")
"""Pages that the site generates from a notebook and from files in the root."""
NAV = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / "docs" / name for name in NAV if name not in GENERATED),
    *sorted((ROOT / "results").glob("*.md")),
]
PYTHON = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
SMALL_DEMO = make_world(facts=1500).graph
"""The names of the demo world, and a tenth of its facts, for commands whose output is not shown."""


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def examples() -> list[tuple[str, str, str]]:
    """Return (page, program, expected output) of every Python example."""
    return [(page.name, *match) for page in PAGES for match in PYTHON.findall(read(page))]


def run_script(*arguments: str) -> None:
    done = forked.run([sys.executable, *arguments], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("page", "program", "expected"), examples(), ids=lambda value: value if len(value) < 30 else ""
)
def test_a_python_example_prints_the_output_shown(
    tmp_path: Path, page: str, program: str, expected: str
) -> None:
    if "import pandas" in program:
        pytest.importorskip("pandas", reason="pandas is not installed")
    done = forked.run([sys.executable, "-c", program], cwd=tmp_path)
    assert done.returncode == 0, f"{page}: {done.stderr}"
    assert done.stdout == expected


def test_every_python_example_shows_its_output() -> None:
    blocks = sum(read(page).count("```python") for page in PAGES)
    assert blocks == len(examples()) >= 6


def test_a_script_can_add_a_decoder_to_the_command_line(tmp_path: Path) -> None:
    (program,) = (
        program for page, program, _ in examples() if page == "extend.md" and "main()" in program
    )
    (tmp_path / "mine.py").write_text(program)
    write_folder(SMALL_DEMO, tmp_path / "demo")
    settings = ["model.decoder=rotate", "model.dim=8", "train.epochs=1"]
    for command in (
        ["train", "demo", "--model", "temp-gru", *settings, "--out", "run", "--device", "cpu"],
        ["complete", "run", "--subject", "Talenne", "--relation", "visits", "--time", "2030-03-01"],
    ):
        done = forked.run([sys.executable, "mine.py", *command], cwd=tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("no_drawings")
def test_the_commands_run(call: Call) -> None:
    write_event_files()
    write_folder(SMALL_DEMO, Path("demo"))
    commands = [
        line
        for page in PAGES
        for block in SHELL.findall(read(page))
        for line in block.replace("\\\n", " ").splitlines()
        if line
    ]
    ran = 0
    for command in dict.fromkeys(commands):
        program, *arguments = shlex.split(command, comments=True)
        if program == "make":
            assert f"\n{arguments[0]}:" in read(ROOT / "Makefile"), f"{command}: no such target"
        else:
            if program == "torchrun":
                # Launched as shown by tests/training/test_distributed.py.
                program, *arguments = arguments[arguments.index("tempograph") :]
            assert program == "tempograph", command
            code, _, error = call(*arguments)
            assert code == 0, f"{command}: {error}"
            ran += 1
    assert ran >= 16


def write_event_files() -> None:
    """Write the files that the commands of the docs import, into the current folder."""
    days = [f"2024-01-{day:02d}" for day in range(1, 29)]
    rows = [row for day in days for row in (f"Ann,meets,Bob,{day}", f"Bob,calls,Cai,{day}")]
    header = "actor,action,target,date"
    Path("events.csv").write_text("\n".join([header, *rows]) + "\n")
    tomorrow = ["Ann,meets,Bob,2024-01-29", "Zoe,meets,Bob,2024-01-29"]
    Path("tomorrow.csv").write_text("\n".join([header, *tomorrow]) + "\n")
    Path("entities.csv").write_text("entity,type\nAnn,person\nBob,person\n")
    Path("mayors.csv").write_text(
        "subject,relation,object,start,end\nAnn,mayor of,Bern,1926,1929\n"
        "Bob,mayor of,Bern,1929-05,1940-03-31\nCai,mayor of,Bern,1940,\n"
    )
    Path("splits").mkdir()
    folds = []
    for split, part in (("train", rows[:40]), ("valid", rows[40:48]), ("test", rows[48:])):
        Path(f"{split}.csv").write_text("\n".join([header, *part]) + "\n")
        text = "\n".join(part).replace(",", "\t")
        Path(f"splits/{split}.txt").write_text(text + "\n")
        folds += [f"{row},{split}" for row in part]
    Path("folds.csv").write_text("\n".join([f"{header},fold", *folds]) + "\n")
    for folder, name, lines in (
        (
            "icews",
            "events.2014.tab",
            [ICEWS_HEADER, icews_row("Ann", "Make a visit", "Bob", "2014-01-31")],
        ),
        ("gdelt", "20150218.export.CSV", [gdelt_row("ANN", "042", "BOB", "20150218")]),
    ):
        Path(folder).mkdir()
        with zipfile.ZipFile(f"{folder}/{name}.zip", "w") as archive:
            archive.writestr(name, "\n".join(lines))


def test_console_examples_print_the_output_shown(call: Call) -> None:
    assert call("train", "demo", "--model", "ted", "--out", "runs/ted")[0] == 0
    shown = [match for page in PAGES for match in CONSOLE.findall(read(page))]
    assert shown
    for command, expected in shown:
        code, output, error = call(*shlex.split(command)[1:])
        assert code == 0, f"{command}: {error}"
        lines = [line.rstrip() for line in output.splitlines()]
        assert "\n".join(lines).strip() == expected.strip()


def test_the_tables_match_the_results() -> None:
    run_script("scripts/update_tables.py", "--check")


def test_the_notebook_has_the_output_shown() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    run_script("scripts/run_notebook.py", "docs/analyst.ipynb", "--check")


def test_a_changed_output_of_the_notebook_is_found(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["import tempograph\n", "print('a')"], "outputs": []},
        {
            "cell_type": "code",
            "source": ["tempograph.ResultTable(__import__('pyarrow').table({'b': [1]}))"],
            "outputs": [],
        },
    ]
    notebook = tmp_path / "small.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    check = [sys.executable, "scripts/run_notebook.py", str(notebook), "--check"]
    assert forked.run(check, cwd=ROOT).returncode == 1
    run_script("scripts/run_notebook.py", str(notebook))
    run_script("scripts/run_notebook.py", str(notebook), "--check")
    _, printed, shown = json.loads(notebook.read_text())["cells"]
    assert printed["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["a\n"]}]
    (result,) = shown["outputs"]
    assert result["output_type"] == "execute_result" and result["execution_count"] == 2
    assert result["data"]["text/plain"] == ["ResultTable(1 row: b)"]
    html = "".join(result["data"]["text/html"])
    assert '<td class="number">1</td>' in html
    site_pages = pytest.importorskip("site_pages", reason="mkdocs is not installed")
    page = site_pages.notebook_page(notebook)
    assert "\n\n```text\na\n```\n\n" in page
    assert page.endswith(f'```\n\n<div class="notebook-output">{html}</div>\n')


def test_the_notebook_shows_answers_with_a_timeline() -> None:
    notebook = json.loads(read(ROOT / "docs/analyst.ipynb"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    pages = ["".join(output["data"]["text/html"]) for output in outputs if "data" in output]
    assert sum("Evidence over time" in page for page in pages) == 2
    assert sum("Answers over time" in page for page in pages) == 1
    assert sum("dataframe" in page for page in pages) >= 2


def test_every_page_is_in_the_navigation() -> None:
    assert {*PAGES} >= {*(ROOT / "docs").rglob("*.md")}


def test_links_between_pages_resolve() -> None:
    for page in PAGES:
        for target in LINK.findall(read(page)):
            exists = (page.parent / target).exists() or target in GENERATED
            assert exists or target.startswith("https://"), f"{page.name}: {target}"


def test_the_modules_named_in_the_contributing_guide_exist() -> None:
    modules = re.findall(r"`([\w/]+\.py)`", read(ROOT / "CONTRIBUTING.md"))
    assert len(modules) >= 20
    for module in modules:
        assert (ROOT / "src/tempograph" / module).exists() or (ROOT / module).exists(), module


def test_the_reference_lists_everything_exported() -> None:
    documented = set(re.findall(r"^::: tempograph\.(\w+)$", read(ROOT / "docs/reference.md"), re.M))
    assert documented >= {name for name in tempograph.__all__ if name != "__version__"}


def test_the_citation_names_the_version() -> None:
    assert f"\nversion: {__version__}\n" in read(ROOT / "CITATION.cff")
