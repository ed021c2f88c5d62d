"""Steps after the last one of a time grid: their labels, and graphs that have them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Final

import numpy as np

from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.time_grid import step_labels, steps_since_1970
from tempograph.errors import QueryError
from tempograph.typing import Granularity

MAX_NEW_STEPS: Final = 10_000
"""How many steps a grid is continued after its last one at most."""
_LATER: Final = re.compile(r"\+0*[1-9]\d{0,17}", re.ASCII)
"""A step that is counted from the last one."""
_LABEL_PATTERNS: Final[dict[Granularity | None, str]] = {
    None: r"-?\d{1,18}",
    "year": r"-?\d{4}",
    "month": r"\d{4}-\d\d",
    "week": r"\d{4}-W\d\d",
    "day": r"\d{4}-\d\d-\d\d",
    "hour": r"\d{4}-\d\d-\d\dT([01]\d|2[0-3])",
}


def extend_times(
    graph: TemporalGraph, labels: Iterable[str]
) -> tuple[TemporalGraph, dict[str, str]]:
    """The graph with further time steps, up to the latest of the labels; why some have no step.

    Labels of steps before the last one are not added, and no reason is given for them.
    """
    new = sorted({label for label in labels if not graph.has_time(label)})
    if not new:
        return graph, {}
    grid = find_grid(graph)
    if grid is None and all(_LATER.fullmatch(label) for label in new):
        more = max(int(label) for label in new)
        return graph.with_later_times(later_labels(graph, more)), {}
    if grid is None:
        first, end = graph.times[0], graph.times[-1]
        why = (
            f"is not on the time grid of {graph.name}, whose labels, {first} to {end}, are neither "
            "consecutive dates nor consecutive integers, so it cannot be extended"
        )
        return graph, {label: f"'{label}' {why}" for label in new}
    granularity, last = grid
    steps = {label: step for label in new if (step := _step(label, granularity)) is not None}
    far = {
        label: _explain_far(label, step - last, graph)
        for label, step in steps.items()
        if step - last > MAX_NEW_STEPS
    }
    latest = max([last, *(step for label, step in steps.items() if label not in far)])
    if latest == last:
        return graph, far
    return graph.with_later_times(step_labels(last + 1, latest, granularity)), far


def later_label(graph: TemporalGraph, when: str) -> str | None:
    """The label of a step that is counted from the last one, such as +3; None for other texts.

    On a grid that cannot be continued, the count itself is the label.
    """
    if graph.has_time(when) or not _LATER.fullmatch(when):
        return None
    if int(when) > MAX_NEW_STEPS:
        raise QueryError(_explain_far(when, int(when), graph))
    grid = find_grid(graph)
    if grid is None:
        return f"+{int(when)}"
    granularity, last = grid
    return step_labels(last + int(when), last + int(when), granularity)[0]


def later_labels(graph: TemporalGraph, count: int) -> tuple[str, ...]:
    """The labels of so many steps after the last one."""
    grid = find_grid(graph)
    if grid is None:
        return tuple(f"+{step + 1}" for step in range(count))
    granularity, last = grid
    return step_labels(last + 1, last + count, granularity)


def describe_steps(graph: TemporalGraph, count: int) -> str:
    """A number of steps in words: "3 days" or, if the labels are no dates, "3 steps"."""
    grid = find_grid(graph)
    unit = (grid and (grid[0] or ("year" if graph.has_dates else None))) or "step"
    return f"{count:,} {unit if count == 1 else f'{unit}s'}"


def _explain_far(label: str, count: int, graph: TemporalGraph) -> str:
    return f"'{label}' is {count:,} steps after the last one, {graph.times[-1]}; is it a typo?"


def find_grid(graph: TemporalGraph) -> tuple[Granularity | None, int] | None:
    """The granularity of a grid, from its labels, and its last step; None if it is irregular."""
    first, last = graph.times[0], graph.times[-1]
    for granularity in _LABEL_PATTERNS:
        start, end = _step(first, granularity), _step(last, granularity)
        if start is None or end is None:
            continue
        if step_labels(start, end, granularity) == graph.times:
            return granularity, end
    return None


def _step(label: str, granularity: Granularity | None) -> int | None:
    """The step of a label, counted from 1970, or the integer that it is; None for no label."""
    if not re.fullmatch(_LABEL_PATTERNS[granularity], label, re.ASCII):
        return None
    if granularity is None:
        return int(label)
    if granularity == "year":
        return int(label) - 1970
    first_day = {"month": "-01", "week": "-1"}.get(granularity, "")
    with suppress(ValueError):
        moment = np.array([datetime.fromisoformat(label + first_day)], dtype="M8[s]")
        return int(steps_since_1970(moment, granularity)[0])
    return None
