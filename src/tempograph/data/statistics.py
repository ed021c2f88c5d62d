"""Statistics of a dataset: counts, and how sparse its entities are over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tempograph.data.graph import TemporalGraph, sort_by_time
from tempograph.data.interval_statistics import Activity, activity
from tempograph.data.sorted_ranges import key_range
from tempograph.data.spans import kinds_of_spans
from tempograph.data.timeline import Timeline
from tempograph.typing import SPLITS, Protocol


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts of a dataset and three curves over its steps, 0 where no entity is active."""

    name: str
    entities: int
    relations: int
    steps: int
    first_step: str
    last_step: str
    train: int
    valid: int
    test: int
    repeated: int
    unseen: dict[str, int]
    protocol: Protocol
    window: int
    active: NDArray[np.int64]
    active_recently: NDArray[np.int64]
    facts_per_active: NDArray[np.float64]
    spans: dict[str, int] = field(default_factory=dict)
    """How many facts are closed, hold for one step, or have an open or unknown bound."""

    @property
    def total(self) -> int:
        """Facts of the three splits together."""
        return self.train + self.valid + self.test

    def summary(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {**self.__dict__, "total": self.total} | {
            name: self.__dict__[name].tolist()
            for name in ("active", "active_recently", "facts_per_active")
        }


def statistics(graph: TemporalGraph, protocol: Protocol = "strict", window: int = 15) -> Statistics:
    """Statistics of a dataset.

    active: entities active at t. active_recently: those also active in t - window .. t - 1.
    facts_per_active: mean number of train facts in t - window .. t - 1 per entity active at t.
    repeated: facts that occur again, in any split. unseen: facts with an entity not in train.
    """
    curves = _interval_curves if graph.has_intervals else _event_curves
    active, active_recently, facts = curves(graph, protocol, window)
    in_train = np.zeros(len(graph.entities), dtype=bool)
    in_train[graph.train[:, [0, 2]]] = True
    return Statistics(
        name=graph.name,
        entities=len(graph.entities),
        relations=len(graph.relations),
        steps=len(graph.times),
        first_step=graph.times[0],
        last_step=graph.times[-1],
        **{split: len(graph.facts(split)) for split in SPLITS},
        repeated=len(graph.all_facts) - len(np.unique(graph.all_facts, axis=0)),
        unseen={
            split: int((~in_train[graph.facts(split)[:, [0, 2]]]).any(axis=1).sum())
            for split in SPLITS[1:]
        },
        protocol=protocol,
        window=window,
        active=active,
        active_recently=active_recently,
        facts_per_active=facts / np.maximum(active, 1),
        spans=kinds_of_spans(graph.all_facts) if graph.has_intervals else {},
    )


def _event_curves(graph: TemporalGraph, protocol: Protocol, window: int) -> Activity:
    timeline = Timeline(graph, protocol)
    steps = timeline.num_steps
    entity, time = timeline.pair_entity, timeline.pair_time
    recent = timeline.window(entity, time - window, time - 1).lengths > 0
    mentions = _mentions(timeline)
    base = entity * steps
    before = key_range(mentions, base + (time - window).clamp(min=0), base + time - 1).lengths
    return Activity(
        torch.bincount(time, minlength=steps).numpy(),
        torch.bincount(time[recent], minlength=steps).numpy(),
        torch.bincount(time, weights=before.double(), minlength=steps).long().numpy(),
    )


def _interval_curves(graph: TemporalGraph, protocol: Protocol, window: int) -> Activity:
    held_out = np.concatenate([graph.valid, graph.test])
    others = held_out if protocol == "paper" else held_out[:0]
    return activity(sort_by_time(graph.train), others, len(graph.times), window)


def _mentions(timeline: Timeline) -> torch.Tensor:
    """The sorted keys (entity, step) of subjects and objects of train facts, once for loops."""
    subject, _, object_, time = timeline.facts.unbind(1)
    apart = subject != object_
    keys = [subject * timeline.num_steps + time, (object_ * timeline.num_steps + time)[apart]]
    return torch.cat(keys).sort().values
