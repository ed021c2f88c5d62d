"""Fill the tables of README.md, docs/ and results/ from the measured results.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.

python scripts/update_tables.py           rewrite the tables
python scripts/update_tables.py --check   exit with 1 if one is out of date, or if a result does
                                          not come from the commit that it names
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docs_tables import (
    lost_table,
    measurement_table,
    model_table,
    names_table,
    preset_table,
    question_table,
    tried_table,
)
from result_sources import check_results, lost_commits

from tempograph.experiments.forecast_tables import (
    FORECAST_DATASETS,
    forecast_summary,
    forecast_table,
)
from tempograph.experiments.interval_tables import INTERVAL_DATASETS, interval_table
from tempograph.experiments.measured_rows import settings_cell, with_sources
from tempograph.experiments.paper.detail_tables import ablation_table, ted_table
from tempograph.experiments.paper.deviations import DEVIATIONS_DATASET, deviation_table
from tempograph.experiments.paper.paper_tables import (
    comparative_table,
    cost_table,
    error_reduction_table,
    leak_table,
)
from tempograph.experiments.paper.table_rows import table_rows
from tempograph.experiments.results import (
    figure_cells,
    load_results,
    load_unshared_epochs,
    metrics_of,
    seeds_cells,
)
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import Protocol, Split

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))

from speed_tables import (  # noqa: E402 - needs the path above
    defaults_table,
    fit_speed_table,
    forecast_speed_table,
    import_speed_table,
    interval_training_table,
    layers_speed_table,
    many_entities_table,
    methods_speed_table,
    missing_facts_table,
    pointer_speed_table,
    serve_speed_table,
    temp_speed_table,
    will_it_happen_table,
)

SUMMARY: dict[str, list[Protocol]] = {
    "ted": ["strict"],
    "tntcomplex": ["strict"],
    "temp-gru": ["paper", "strict"],
    "pointer": ["strict"],
    "temp-pointer": ["strict"],
}
"""The rows of the table in README.md: models and protocols; under paper, its own settings."""
SPLITS: tuple[Split, ...] = ("valid", "test")
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def markdown_tables() -> dict[str, str]:
    """Return every table as Markdown, by its name."""
    results = load_results(ROOT / "results", SPLITS)
    unshared = load_unshared_epochs(ROOT / "results")
    made = {
        "models": model_table(),
        "leak": leak_table(results),
        "deviations": deviation_table(results, DEVIATIONS_DATASET),
        "test-measurements": measurement_table(_measured("test-measurements")["measurements"]),
        "temp-presets": preset_table(results, "icews14", ("srgcn", "temp-gru", "temp-sa")),
        "questions": question_table(results),
        "names": names_table(results),
        "lost-commits": lost_table(results, lost_commits(ROOT)),
        "temp-speed": temp_speed_table(_measured("temp-speed")),
        "methods-speed": methods_speed_table(_measured("methods-speed")),
        "defaults": defaults_table(_measured("defaults")),
        "fit-speed": fit_speed_table(_measured("fit-speed")),
        "import-speed": import_speed_table(_measured("import-speed")),
        "forecast-speed": forecast_speed_table(_measured("forecast-speed")),
        "interval-training": interval_training_table(_measured("interval-training")),
        "will-it-happen": will_it_happen_table(_measured("will-it-happen")),
        "missing-facts": missing_facts_table(_measured("missing-facts")),
        "layers-speed": layers_speed_table(_measured("layers-speed")),
        "pointer-speed": pointer_speed_table(_measured("pointer-speed")),
        "serve-speed": serve_speed_table(_measured("serve-speed")),
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
    for dataset in FORECAST_DATASETS:
        made[f"forecasts-{dataset}"] = forecast_table(results, dataset)
    for dataset in INTERVAL_DATASETS:
        made[f"intervals-{dataset}"] = interval_table(results, dataset)
    made["forecasts-summary"] = forecast_summary(results)
    made["summary"] = summary_table(results)
    tables = {name: _markdown(name, table) for name, table in made.items()}
    return tables | {"many-entities": many_entities_block(ROOT)}


def many_entities_block(root: Path) -> str:
    """Return what models cost with many entities and, if it is drawn, a picture of it."""
    if not (root / "results" / "many-entities.json").exists():
        return "Not measured yet."
    table = many_entities_table(_measured("many-entities", root))
    parts = [_wrap(table.caption), table.markdown()]
    if (root / "docs" / "images" / "many-entities.svg").exists():
        parts.append("![Time for a fact and peak memory by entities](images/many-entities.svg)")
    return "\n\n".join(parts)


def _markdown(name: str, table: TextTable) -> str:
    """Return a table with the notes below it, and its caption if no text around it has the same."""
    captioned = name.startswith("tried") or name.endswith(
        ("-speed", "-facts", "-happen", "-training", "defaults")
    )
    caption = f"{_wrap(table.caption)}\n\n" if captioned else ""
    # The tables of README.md have one line below them.
    notes = [" ".join(table.notes)] if name.endswith("summary") else table.notes
    below = "".join(f"\n\n{_wrap(note)}" for note in notes if note)
    return f"{caption}{table.markdown()}{below}"


def summary_table(results: Sequence[RunResults]) -> TextTable:
    """Return MRR, Hits@10 and the published MRR of a few models on both datasets."""
    datasets = ("icews14", "icews05-15")
    found = {
        (dataset, row.model, row.protocol): row
        for dataset in datasets
        # A gate fitted on valid is shown until one fitted on train is measured.
        for row in reversed(table_rows(results, dataset))
        if (row.protocol == "strict" and row.runs) or row.kind == "paper's settings"
    }
    rows, measured, names = [], [], []
    for model, protocols in SUMMARY.items():
        for protocol in protocols:
            both = [found[dataset, model, protocol] for dataset in datasets]
            cells = []
            for dataset, row in zip(datasets, both, strict=True):
                figures = seeds_cells(metrics_of(row.runs, "test")) if row.runs else ["-"] * 4
                theirs = figure_cells(row.published(dataset))
                cells += [figures[0], figures[3], theirs[0]]
            one, other = (
                settings_cell(row.runs) if row.runs else f"{row.preset} (not measured)"
                for row in both
            )
            settings = one if one == other else f"ICEWS14: {one}; ICEWS05-15: {other}"
            rows.append([model, protocol, settings, *cells])
            measured.append([row.runs for row in both])
            names.append(f"{model} ({protocol})" if len(protocols) > 1 else model)
    figures = ["Hits@10", "published MRR"]
    columns = (
        "model",
        "protocol",
        "settings",
        "ICEWS14: MRR",
        *figures,
        "ICEWS05-15: MRR",
        *figures,
    )
    table = TextTable("Models on ICEWS14 and ICEWS05-15", columns, rows, 3)
    return with_sources(table, measured, names)


def _wrap(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _measured(name: str, root: Path = ROOT) -> Any:
    return json.loads((root / "results" / f"{name}.json").read_text(encoding="utf-8"))


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
    if not check:
        return 0
    problems, notes = check_results(ROOT)
    print(*problems, *notes, sep="\n")
    return 1 if stale or problems else 0


if __name__ == "__main__":
    sys.exit(main())
