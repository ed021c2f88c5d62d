"""List every test measurement of our models that the history of results/ holds.

Each version of a result file is one measurement of a run on the test split; copies count once. The
list grows: a measurement stays on it when its file is replaced.

python scripts/count_test_measurements.py   add to results/test-measurements.json
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tempograph.experiments.configurations import configuration_key
from tempograph.experiments.published import PROTOCOL_DEPENDENT
from tempograph.io import write_json
from tempograph.training.run_results import RunResults

ROOT = Path(__file__).parents[1]
FILE = ROOT / "results" / "test-measurements.json"
MODELS = (*PROTOCOL_DEPENDENT, "pointer", "tntcomplex", "temp-pointer")
"""Models whose design or settings are ours, and the parts of temp-pointer."""
Measurement = dict[str, Any]


def result_versions(root: Path) -> Iterator[str]:
    """Yield the text of every version of every result file, in the history and in the folder."""
    names = ["log", "--no-renames", "--diff-filter=AM", "--format=", "--raw", "--no-abbrev"]
    log = _git(root, *names, "--", "results").decode()
    lines = [line.partition("\t") for line in log.splitlines()]
    blobs = dict.fromkeys(head.split()[3] for head, _, path in lines if path.endswith(".json"))
    for blob in blobs:
        yield _git(root, "cat-file", "blob", blob).decode()
    for path in sorted((root / "results").rglob("*.json")):
        yield path.read_text(encoding="utf-8")


def measurements(root: Path) -> list[Measurement]:
    """Return the test measurements of our models, each once."""
    found: dict[str, Measurement] = {}
    for text in result_versions(root):
        try:
            run = RunResults.from_json(json.loads(text))
        except ValueError:
            continue
        if run.model in MODELS and run.test is not None:
            settings = hashlib.sha256(configuration_key(run).encode()).hexdigest()
            one = {
                "dataset": run.dataset,
                "model": run.model,
                "protocol": run.protocol,
                "preset": run.preset,
                "seed": run.seed,
                "settings": settings[:12],
                "commit": (run.commit or "unknown")[:7],
                "valid_mrr": round(run.valid["metrics"]["mrr"], 6) if run.valid else None,
                "test_mrr": round(run.test["metrics"]["mrr"], 6),
            }
            found[_key(one)] = one
    return list(found.values())


def _key(one: Measurement) -> str:
    """Return what makes a measurement another one; settings may gain names in later versions."""
    return json.dumps([value for name, value in one.items() if name != "settings"])


def _git(root: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout


def main() -> int:
    """Write the list; return the exit code."""
    known: list[Measurement] = []
    if FILE.is_file():
        known = json.loads(FILE.read_text(encoding="utf-8"))["measurements"]
    found = {_key(one): one for one in (*known, *measurements(ROOT))}
    order = ("dataset", "model", "protocol", "preset", "seed", "commit", "test_mrr")
    listed = sorted(found.values(), key=lambda one: [str(one[name]) for name in order])
    write_json(FILE, {"measurements": listed})
    print(f"{len(listed)} measurements, {len(listed) - len(known)} of them new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
