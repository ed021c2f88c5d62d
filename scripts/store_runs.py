"""Write small run folders of this version to tests/stored/; later versions must load them.

Run it once, when the format of run folders changes: python scripts/store_runs.py
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

import tempograph
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import fact_queries
from tempograph.training.run_folder import FORMAT

STORED = Path(__file__).parents[1] / "tests" / "stored" / f"format-{FORMAT}"
RUNS = {
    "ted": [],
    "temp-gru": ["model.dim=8", "train.epochs=2"],
    "pointer": ["train.epochs=2", "model.max_facts=16"],
    "tntcomplex": ["model.dim=8", "train.epochs=2"],
    "atise-ee": ["model.dim=4", "train.epochs=2"],
    "atise-er": ["model.dim=4", "train.epochs=2"],
    "ensemble": ['model.parts=["complex", "temp-sa"]', "model.steps=40"],
}


def main() -> None:
    """Train and save each run, and write some of its scores."""
    torch.set_num_threads(1)
    graph = make_world(seed=3, entities=12, relations=4, steps=10, facts=150).graph
    shutil.rmtree(STORED, ignore_errors=True)
    for model, overrides in RUNS.items():
        run = tempograph.train(graph, model, overrides=overrides, device="cpu")
        run.save_pretrained(STORED / model)
        queries, _ = fact_queries(torch.from_numpy(graph.test[:3]), len(graph.relations))
        with torch.inference_mode():
            scores = run.model.scores(queries).double().clamp(min=-1e9)
        (STORED / f"{model}.json").write_text(json.dumps(scores.tolist()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
