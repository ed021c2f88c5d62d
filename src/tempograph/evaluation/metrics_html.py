"""Metrics as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Mapping

from tempograph.data.html_table import Html, html_row, html_table
from tempograph.evaluation.ranking import Metrics


def html_metrics(heading: str, rows: Mapping[str, Metrics]) -> Html:
    """One row of metrics for each label: MRR and mean rank as numbers, Hits in percent."""
    names = list(next(iter(rows.values())))
    numbers = range(1, len(names) + 1)
    return html_table(
        [
            heading,
            *(name.upper() if name in ("mrr", "mr") else name.capitalize() for name in names),
        ],
        [
            html_row([label, *(_format(*item) for item in metrics.items())], numbers, header=0)
            for label, metrics in rows.items()
        ],
        numbers,
    )


def _format(name: str, value: float) -> str:
    return format(value, {"mrr": ".3f", "mr": ",.1f"}.get(name, ".1%"))
