"""The figures of the TeMP paper, read from published.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Final

from tempograph.typing import Protocol

Figures = tuple[float, float, float, float]
"""MRR, then Hits@1, 3 and 10 in percent."""

Published = tuple[float | None, float | None, float | None, float | None]
"""The same in a printed table; None for a dash."""

NOT_PUBLISHED: Final[Published] = (None, None, None, None)
_FILE: Final = resources.files("tempograph") / "experiments" / "published.toml"
_PAPER: Final = tomllib.loads(_FILE.read_text(encoding="utf-8"))

PAPER_TEST: Final[dict[str, dict[str, Published]]] = {
    dataset: {
        model: tuple(None if figure == "-" else figure for figure in row)  # type: ignore[misc]
        for model, row in rows.items()
    }
    for dataset, rows in _PAPER["test"].items()
}
"""The comparative table, on test, by dataset and model."""

PAPER_TED_VALID: Final[dict[str, dict[float, Figures]]] = {
    dataset: {float(sigma): tuple(row) for sigma, row in rows.items()}
    for dataset, rows in _PAPER["ted_valid"].items()
}
"""The sensitivity table of TED, on valid, by dataset and sigma."""

PAPER_ABLATION: Final[dict[tuple[str, bool, bool], dict[str, float]]] = {
    (row["model"], row["imputation"], row["gate"]): row["mrr"] for row in _PAPER["ablation"]
}
"""The MRR on valid by dataset, for each model with and without imputation and gate."""

PAPER_SIZES: Final[dict[str, list[int]]] = _PAPER["sizes"]
"""Entities, relations and time steps of a dataset, then facts of train, valid and test."""

PROTOCOL_DEPENDENT: Final = ("srgcn", "temp-gru", "temp-sa")
"""Models that know which entities are active, so that their figures depend on the protocol."""


def protocols_of(model: str, protocols: Sequence[Protocol]) -> Sequence[Protocol]:
    """Return the protocols to measure a model under: strict alone if they do not differ."""
    return protocols if model in PROTOCOL_DEPENDENT else ("strict",)


def published(dataset: str, model: str, protocol: str, preset: str | None) -> Published:
    """Return the published test figures that may stand beside a result.

    Those of protocol-dependent models are of protocol paper, and stand beside the paper's settings
    only: what other settings reach says nothing about the published model.
    """
    if model in PROTOCOL_DEPENDENT and (protocol, preset) != ("paper", "paper"):
        return NOT_PUBLISHED
    return PAPER_TEST.get(dataset, {}).get(model, NOT_PUBLISHED)
