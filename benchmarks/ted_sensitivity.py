"""TED for the paper's seven sigmas, valid and test, kept under results/: the paper's sensitivity table.

python benchmarks/ted_sensitivity.py icews14 icews05-15
"""

from __future__ import annotations

import sys
from pathlib import Path

import tempograph
from tempograph.models.ted import PAPER_SIGMAS
from tempograph.results import keep_result

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    """Measure each dataset named on the command line."""
    for dataset in sys.argv[1:]:
        graph = tempograph.load_dataset(dataset)
        for sigma in PAPER_SIGMAS:
            run = tempograph.train(graph, "ted", overrides=[f"model.sigma={sigma}"])
            found = tempograph.evaluate(run, "test").summary()
            path = keep_result(run.results, RESULTS, f"sigma{sigma:g}")
            print(f"{path.name}: test MRR {found['metrics']['mrr']:.3f}, {found['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
