"""Forecasters of every kind with random weights, in doubles where that is possible."""

from __future__ import annotations

import torch

from tempograph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.models.base import Model
from tempograph.models.ensemble.ensemble_model import Ensemble
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.registry import model_kind
from tempograph.models.ted import TED
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.training.config import make_config

SMALL = {"dim": 4, "heads": 2, "window": 3, "initial_scale": 1.0, "bidirectional": False}
TEMP = {
    "gru": {},
    "attention": {"temporal": "attention"},
    "structure alone": {"temporal": "none", "gate": False, "imputation": False},
}
BASELINES = ("recurrency", "edgebank", "history-frequency")
KINDS = (
    *TEMP,
    "pointer",
    "few votes",
    "names",
    "ted",
    "ensemble",
    "tntcomplex",
    "complex",
    *BASELINES,
)


def build(kind: str, graph: TemporalGraph) -> Model:
    """A forecaster over the train facts of a graph."""
    torch.manual_seed(0)
    timeline = Timeline(graph, "forecast-single")
    if kind == "ted":
        return TED(timeline, 0.5)
    if kind in ("pointer", "few votes", "names"):
        votes = (4, 5, 3, 0, 6) if kind == "few votes" else (100, 100, 100, 0, 100)
        hops = 3 if kind == "few votes" else 100
        settings = PointerSettings(*votes, max_facts_per_hop=hops, names=kind == "names")
        model: Model = Pointer(timeline, settings)
    elif kind == "ensemble":
        parts = [build(part, graph) for part in ("pointer", "gru", "complex")]
        of_ensemble = EnsembleSettings(
            parts=("pointer", "temp-gru", "complex"), window=2, candidate_hidden=4
        )
        model = Ensemble(timeline, of_ensemble, "ensemble", *parts)
    elif kind in TEMP:
        model = TeMP(timeline, TeMPSettings(**{**SMALL, **TEMP[kind]}))  # type: ignore[arg-type]
    else:
        sizes = [] if kind in BASELINES else ["model.dim=8"]
        config = make_config(kind, graph.name, overrides=sizes)
        model = model_kind(kind).build(config.model, timeline)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval() if kind == "ensemble" else model.double().eval()
