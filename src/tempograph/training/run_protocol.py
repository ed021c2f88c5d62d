"""Which protocols a run may be evaluated under; a forecaster needs splits by time."""

from __future__ import annotations

from tempograph.data.protocol import task_of
from tempograph.data.suggestions import refuse_unknown
from tempograph.errors import RunError
from tempograph.evaluation.history import require_chronological
from tempograph.training.runs import Run
from tempograph.typing import PROTOCOLS, Protocol


def evaluation_protocol(run: Run, protocol: Protocol | None = None) -> Protocol:
    """The protocol to evaluate a run under: its own, or the other one of forecasts.

    If facts hold for a while, `paper` also says when they are asked about, so a run that was
    trained under `strict` can be evaluated under it.

    Raises RunError if the run was trained for another task, and DataError if it forecasts and its
    splits are not by time.
    """
    own, trained = run.config.protocol, run.results.protocol
    if own != trained:
        raise RunError(
            f"{run.config.about}: it was trained under protocol {trained}, but its config.toml "
            f"says {own}; restore config.toml, or train it again with protocol {own}"
        )
    if protocol not in (None, own):
        refuse_unknown("protocol", protocol, PROTOCOLS)
        both_forecast = task_of(protocol) == task_of(own) == "forecast"
        asks_ends = run.graph.has_intervals and (own, protocol) == ("strict", "paper")
        if not both_forecast and not asks_ends:
            raise RunError(
                f"{run.config.about}: it cannot be evaluated under protocol {protocol}, because it "
                f"was trained under {own}; train it again with protocol {protocol}, on a split "
                "that fits it"
            )
    if task_of(own) == "forecast":
        if run.graph.has_intervals:
            raise RunError(
                f"{run.config.about}: forecasts of facts that hold for a while are not evaluated; "
                "train a run with task complete"
            )
        require_chronological(run.graph)
    return protocol or own
