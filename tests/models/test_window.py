"""The window of a model: the steps around a query that its scores depend on."""

from __future__ import annotations

from serving import STORED
from tempograph import Predictor
from tempograph.models.ensemble.ensemble_model import Ensemble
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings


def test_the_window_of_an_ensemble_is_the_widest_of_its_parts() -> None:
    """One unbounded part makes it unbounded; a model that reads its own step has (0, 0)."""
    timeline = Predictor(STORED / "temp-gru", "cpu").run.timeline
    near, wide = (TeMP(timeline, TeMPSettings(dim=4, window=window)) for window in (2, 5))
    alone = TeMP(
        timeline, TeMPSettings(dim=4, window=5, temporal="none", gate=False, imputation=False)
    )
    pointer = Predictor(STORED / "pointer", "cpu").run.model
    assert alone.window == (0, 0) and pointer.window is None
    settings = EnsembleSettings(parts=("a", "b"))
    for parts, window in (((near, wide), (5, 5)), ((near, alone), (2, 2)), ((near, pointer), None)):
        assert Ensemble(timeline, settings, "ensemble", *parts).window == window
