"""Evidence for models that do not explain themselves: train facts near in time that share two parts with an answer."""

from __future__ import annotations

import torch

from tempograph.data.timeline import Queries, Timeline
from tempograph.models.base import Evidence


def nearest_facts(timeline: Timeline, query: Queries, answer: int) -> Evidence:
    """Train facts that share (s, r), (s, o) or (r, o) with the completed fact: more shared first, then nearer."""
    inverted = int(query.relation) >= timeline.num_relations
    given, relation = int(query.entity), int(query.relation) % timeline.num_relations
    subject, object_ = (answer, given) if inverted else (given, answer)
    wanted = torch.tensor([subject, relation, object_], device=timeline.device)
    shared = (timeline.facts[:, :3] == wanted).sum(1)
    near = (shared >= 2).nonzero()[:, 0]
    gap = (timeline.facts[near, 3] - query.time).abs()
    order = torch.argsort(-shared[near] * timeline.num_steps + gap, stable=True)
    return Evidence("two of three parts shared", timeline.facts[near[order]], None)
