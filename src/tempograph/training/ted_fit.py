"""Choosing the decay rate of TED on the validation split."""

from __future__ import annotations

from collections.abc import Callable

from tempograph.data.timeline import Timeline
from tempograph.models.ted import PAPER_SIGMAS, TED, TEDSettings


def choose_sigma(
    settings: TEDSettings,
    timeline: Timeline,
    validate: Callable[[TED], dict[str, float]],
    report: Callable[[dict[str, float]], None],
) -> TEDSettings:
    """The settings with sigma as given, or with the paper's sigma that has the highest MRR on valid."""
    if isinstance(settings.sigma, float | int):
        return settings
    reached: dict[float, float] = {}
    for sigma in PAPER_SIGMAS:
        found = validate(TED(timeline, sigma))
        reached[sigma] = found["mrr"]
        report({"sigma": sigma} | {f"valid/{name}": value for name, value in found.items()})
    return TEDSettings(sigma=max(reached, key=lambda sigma: reached[sigma]))
