"""tempograph: find the missing facts of a temporal knowledge graph, with evidence.

import tempograph

run = tempograph.train("demo", "ted", out="runs/demo")
print(tempograph.evaluate(run, "test").summary()["metrics"]["mrr"])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tempograph.version import __version__

if TYPE_CHECKING:
    from tempograph.data.catalog import load_dataset
    from tempograph.data.graph import TemporalGraph
    from tempograph.errors import TempographError
    from tempograph.experiments.autofit import fit
    from tempograph.experiments.comparison import compare
    from tempograph.experiments.paper.reproduction import reproduce
    from tempograph.prediction.predictor import Predictor
    from tempograph.training.runs import Run
    from tempograph.training.trainer import evaluate, resume, train

__all__ = [
    "Predictor",
    "Run",
    "TempographError",
    "TemporalGraph",
    "__version__",
    "compare",
    "evaluate",
    "fit",
    "load_dataset",
    "reproduce",
    "resume",
    "train",
]

_HOMES = {
    "Predictor": "tempograph.prediction.predictor",
    "Run": "tempograph.training.runs",
    "TemporalGraph": "tempograph.data.graph",
    "TempographError": "tempograph.errors",
    "compare": "tempograph.experiments.comparison",
    "evaluate": "tempograph.training.trainer",
    "fit": "tempograph.experiments.autofit",
    "load_dataset": "tempograph.data.catalog",
    "reproduce": "tempograph.experiments.paper.reproduction",
    "resume": "tempograph.training.trainer",
    "train": "tempograph.training.trainer",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `tempograph --help` must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tempograph' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
