"""Evidence for models that do not explain themselves: the nearest similar facts."""

from __future__ import annotations

import torch

from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Evidence


def nearest_facts(timeline: Timeline, query: Queries, answer: int) -> Evidence:
    """Train facts that share (s, r), (s, o) or (r, o) with the completed fact.

    Facts that share all three come first, then the nearest in time.
    """
    inverted = int(query.relation) >= timeline.num_relations
    given, relation = int(query.entity), int(query.relation) % timeline.num_relations
    subject, object_ = (answer, given) if inverted else (given, answer)
    completed = torch.tensor([subject, relation, object_], device=timeline.device)
    num_shared = (timeline.facts[:, :3] == completed).sum(1)
    similar = (num_shared >= 2).nonzero()[:, 0]
    gap = (timeline.facts[similar, 3] - query.time).abs()
    order = torch.argsort(-num_shared[similar] * timeline.num_steps + gap, stable=True)
    return Evidence("two of three parts shared", timeline.facts[similar[order]])
