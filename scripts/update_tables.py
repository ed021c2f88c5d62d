"""Fill the tables of README.md, docs/ and results/ from the measured results.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.

python scripts/update_tables.py           rewrite the tables
python scripts/update_tables.py --check   exit with 1 if one is out of date
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from docs_tables import model_table, preset_table, tried_table

from tempograph.experiments.paper.paper_tables import (
    ablation_table,
    comparative_table,
    cost_table,
    error_reduction_table,
    leak_table,
    ted_table,
)
from tempograph.experiments.results import explain_marks, load_results, load_unshared_epochs
from tempograph.report.text_table import TextTable
from tempograph.typing import Split

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))

from speed_tables import (  # noqa: E402 - needs the path above
    layers_speed_table,
    methods_speed_table,
    pointer_speed_table,
    temp_speed_table,
)

SUMMARY = {
    "ted": ["strict"],
    "tntcomplex": ["strict"],
    "temp-gru": ["paper", "strict"],
    "pointer": ["strict"],
    "temp-pointer": ["strict"],
}
"""The rows of the table in README.md: models and protocols."""
SPLITS: tuple[Split, ...] = ("valid", "test")
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def markdown_tables() -> dict[str, str]:
    """Return every table as Markdown, by its name."""
    results = load_results(ROOT / "results", SPLITS)
    unshared = load_unshared_epochs(ROOT / "results")
    made = {
        "models": model_table(),
        "leak": leak_table(results),
        "temp-presets": preset_table(results, "icews14", ("srgcn", "temp-gru", "temp-sa")),
        "temp-speed": temp_speed_table(_measured("temp-speed")),
        "methods-speed": methods_speed_table(_measured("methods-speed")),
        "layers-speed": layers_speed_table(_measured("layers-speed")),
        "pointer-speed": pointer_speed_table(_measured("pointer-speed")),
    }
    tried = load_results(ROOT / "results" / "tried", ("valid",))
    for dataset, model in sorted({(run.dataset, run.model) for run in tried}):
        made[f"tried-{dataset}-{model}"] = tried_table(tried, dataset, model)
    for dataset in ("icews14", "icews05-15"):
        made[f"comparative-{dataset}"] = comparative_table(results, dataset)
        made[f"ablation-{dataset}"] = ablation_table(results, dataset)
        made[f"errors-{dataset}"] = error_reduction_table(results, dataset)
        made[f"cost-{dataset}"] = cost_table(results, dataset, unshared=unshared)
        for split in SPLITS:
            made[f"ted-{dataset}-{split}"] = ted_table(results, dataset, split)
    made["summary"] = summary_table(made["comparative-icews14"], made["comparative-icews05-15"])
    # The text around the other tables says what they show.
    captioned = [name for name in made if name.startswith("tried") or name.endswith("-speed")]
    texts = {name: table.markdown() + _footnote(table) for name, table in made.items()}
    texts |= {name: f"{_wrap(made[name].caption)}\n\n{texts[name]}" for name in captioned}
    return texts


def summary_table(icews14: TextTable, icews05_15: TextTable) -> TextTable:
    """Return MRR, Hits@10 and the published MRR of a few models on both datasets."""
    first, second = (
        {(row[0].rstrip("*"), row[1]): row for row in table.rows} for table in (icews14, icews05_15)
    )
    keys = [(model, protocol) for model, protocols in SUMMARY.items() for protocol in protocols]
    rows = [
        [
            *first[key][:2],
            *(row[column] for row in (first[key], second[key]) for column in (3, 6, 7)),
        ]
        for key in keys
    ]
    figures = ("Hits@10", "published MRR")
    columns = ("model", "protocol", "ICEWS14: MRR", *figures, "ICEWS05-15: MRR", *figures)
    return TextTable("Models on ICEWS14 and ICEWS05-15", columns, rows, 2)


def _footnote(table: TextTable) -> str:
    note = explain_marks(table.rows)
    return f"\n\n\\{note}" if note else ""


def _wrap(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _measured(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (ROOT / "results" / f"{name}.json").read_text(encoding="utf-8")
    )
    return found


def pages() -> list[Path]:
    """Return every page that may hold a table."""
    folders = ((ROOT / "docs").rglob("*.md"), (ROOT / "results").glob("*.md"))
    return [ROOT / "README.md", *(page for pages in folders for page in sorted(pages))]


def main() -> int:
    """Rewrite or check every page; return the exit code."""
    check, tables, stale = "--check" in sys.argv, markdown_tables(), []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        filled = BLOCK.sub(lambda block: f"{block[1]}{tables[block[2]]}\n{block[3]}", text)
        if filled != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(filled, encoding="utf-8")
    if stale:
        print(f"{'out of date' if check else 'rewritten'}: {', '.join(stale)}")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
