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
    """The settings with sigma as given; for `auto`, the paper's sigma with the best valid MRR."""
    if not isinstance(settings.sigma, str):
        return settings
    mrr: dict[float, float] = {}
    for sigma in PAPER_SIGMAS:
        metrics = validate(TED(timeline, sigma))
        mrr[sigma] = metrics["mrr"]
        report({"sigma": sigma} | {f"valid/{name}": value for name, value in metrics.items()})
    return TEDSettings(sigma=max(mrr, key=lambda sigma: mrr[sigma]))
