"""Questions that train facts say little about: a rare answer, an unseen one, or a new pair."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograph.data.graph import Facts, TemporalGraph, rows_in
from tempograph.evaluation.ranking import Metrics, StepMeans, metrics

RARE: Final = 5
"""An entity with fewer train facts is rare."""


class HardQuestions(TypedDict):
    """How many questions of a kind there are, and how well they are answered."""

    questions: int
    metrics: Metrics


def hard_questions(
    facts: Facts, rank: Tensor | StepMeans, graph: TemporalGraph, hits: Iterable[int]
) -> dict[str, HardQuestions]:
    """Figures of the hard questions about facts [n, 4 or 6], of those kinds that occur.

    `rank` [2 n] has the ranks of all objects, then those of all subjects. An answer is rare if it
    has fewer than five train facts, unseen if it has none; a pair is new if no train fact connects
    the two entities.
    """
    device = rank.device if isinstance(rank, Tensor) else rank.rank.device
    answer = np.concatenate([facts[:, 2], facts[:, 0]])
    count = facts_per_entity(graph)[answer]
    pairs, train = (np.sort(rows[:, [0, 2]], axis=1) for rows in (facts, graph.train))
    kinds = {
        "rare answer": count < RARE,
        "unseen answer": count == 0,
        "new pair": np.tile(~rows_in(pairs, train), 2),
    }
    return {
        name: {
            "questions": int(chosen.sum()),
            "metrics": metrics(rank[torch.from_numpy(chosen).to(device)], hits),
        }
        for name, chosen in kinds.items()
        if chosen.any()
    }


def facts_per_entity(graph: TemporalGraph) -> NDArray[np.int64]:
    """The number of train facts with each entity, as subject, object or both, [entities]."""
    subject, object_ = graph.train[:, 0], graph.train[:, 2]
    mentions = np.concatenate([subject, object_[object_ != subject]])
    return np.bincount(mentions, minlength=len(graph.entities))
