"""Fill the tables of README.md and docs/ from results/: everything between `<!-- table: NAME -->` and `<!-- end -->`.

python scripts/update_tables.py           rewrite the tables
python scripts/update_tables.py --check   exit with 1 if one is out of date
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from tempograph.results import (
    headline_table,
    layers_table,
    load_results,
    model_table,
    preset_table,
    speed_table,
    ted_table,
)

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Every table by its name."""
    results = load_results(ROOT / "results")
    made = {
        "headline": headline_table(results),
        "models": model_table(),
        "temp-presets": preset_table(results, "icews14", ("srgcn", "temp-gru", "temp-sa")),
        "temp-speed": speed_table(json.loads((ROOT / "results" / "temp-speed.json").read_text(encoding="utf-8"))),
        "layers-speed": layers_table(json.loads((ROOT / "results" / "layers-speed.json").read_text(encoding="utf-8"))),
    }
    for dataset in ("icews14", "icews05-15"):
        for split in ("valid", "test"):
            made[f"ted-{dataset}-{split}"] = ted_table(results, dataset, split)
    return made


def main() -> int:
    """Rewrite or check every page."""
    made = tables()
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        filled = BLOCK.sub(lambda block: f"{block[1]}{made[block[2]]}\n{block[3]}", text)
        if filled != text:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(filled, encoding="utf-8")
    if stale:
        print(f"{'out of date' if '--check' in sys.argv else 'rewritten'}: {', '.join(stale)}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
