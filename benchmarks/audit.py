"""Do the figures of a run rest on what they should? One line for each property.

The run is built again from its stored weights: with test and valid replaced by random facts, and
without single train facts. Ranks are computed a second time from the raw files, in plain Python.
Exit code 0: all properties hold; 1: one does not; 2: the run cannot be audited.

PYTHONPATH=src python benchmarks/audit.py runs/mine --queries 500
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from tempograph.cli.console import note, out
from tempograph.device import resolve_device
from tempograph.errors import ConfigError, TempographError
from tempograph.evaluation.audit_checks import AuditCheck
from tempograph.experiments.run_audit import audit_run
from tempograph.io import write_json


def main() -> int:
    """Audit a run and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--queries", type=int, default=200, metavar="N", help="facts to ask about, on both sides"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the checks here")
    arguments = parser.parse_args()
    try:
        if arguments.queries < 1:
            raise ConfigError(f"--queries must be at least 1, found {arguments.queries}")
        checks = audit_run(
            arguments.run, arguments.queries, resolve_device(arguments.device), print_check
        )
        if arguments.json is not None:
            results = [asdict(check) for check in checks]
            write_json(arguments.json, {"run": str(arguments.run), "checks": results})
    except TempographError as error:
        note(f"error: {error}")
        return 2
    return 0 if all(check.holds for check in checks) else 1


def print_check(check: AuditCheck) -> None:
    """Print whether a property holds, and what was compared."""
    verdict = "holds" if check.holds else "FAILS"
    out.print(f"{verdict}  {check.name}: {check.detail}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
