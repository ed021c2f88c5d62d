"""The heads of a run: fitted when a relation or a time is first asked for, and kept."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch

from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.io import atomic_file
from tempograph.models.growth import grow_weights
from tempograph.models.heads.baseline_heads import PairActivity, RelationCounts
from tempograph.models.heads.cross_fitted_head import HALVES, CrossFittedHead, half_of
from tempograph.models.heads.question_head import QuestionHead
from tempograph.models.heads.relation_head import RelationHead
from tempograph.models.heads.time_head import TimeHead
from tempograph.training.head_fit import fit_head
from tempograph.typing import Asked, Progress


class Heads(NamedTuple):
    """What ranks relations and times beside a run's model, which ranks entities."""

    relation: CrossFittedHead
    time: CrossFittedHead | None
    """None if facts hold for a while: the answers are intervals then, and the model has them."""

    def head(self, asked: Asked) -> CrossFittedHead:
        """The head for a kind of question."""
        return self.relation if asked == "relation" else self.of_times

    @property
    def of_times(self) -> CrossFittedHead:
        """The head for times, which facts that are events have."""
        assert self.time is not None
        return self.time

    def by_name(self) -> dict[str, CrossFittedHead]:
        """Each head that there is."""
        return {name: head for name, head in self._asdict().items() if head is not None}

    def with_timeline(self, timeline: Timeline) -> Heads:
        """The same weights over other train facts; relations may come after the known ones."""
        before = self.relation.timeline
        if timeline.num_relations == before.num_relations:
            time = None if self.time is None else self.time.with_timeline(timeline)
            return Heads(self.relation.with_timeline(timeline), time)
        # The facts of training, as if the new relations had been there without a fact.
        larger = copy.copy(before)
        larger.num_relations = timeline.num_relations
        larger.sizes = (before.sizes[0], timeline.num_relations, *before.sizes[2:])
        grown = build_heads(larger, seed=0)
        both = zip(self.by_name().values(), grown.by_name().values(), strict=True)
        for old, new in both:
            grow_weights(old, new, before, timeline)
            new.requires_grad_(False)
        return grown.with_timeline(timeline)


def build_heads(timeline: Timeline, seed: int) -> Heads:
    """Heads with the weights they have before training."""
    torch.manual_seed(seed)
    relation = CrossFittedHead(*(RelationHead(timeline) for _ in HALVES))
    if timeline.has_intervals:
        return Heads(relation, None)
    return Heads(relation, CrossFittedHead(*(TimeHead(timeline) for _ in HALVES)))


# Heads are often fitted while a question is answered, which needs no gradients.
@torch.inference_mode(False)
@torch.enable_grad()
def fit_heads(
    timeline: Timeline, graph: TemporalGraph, seed: int, progress: Progress | None = None
) -> Heads:
    """Heads trained on the train facts of a timeline."""
    heads, half = build_heads(timeline, seed), half_of(timeline.facts)
    members = [
        (head, own)
        for each in heads.by_name().values()
        for own, head in zip(HALVES, each.heads, strict=True)
    ]
    for number, (head, own) in enumerate(members):

        def report(done: int, total: int, number: int = number) -> None:
            if progress is not None:
                progress(number * total + done, len(members) * total)

        fit_head(head, graph, seed, (half == own).nonzero()[:, 0], report)
    return heads


def save_heads(heads: Heads, file: Path) -> None:
    """Write the weights of the heads."""
    weights = {
        f"{name}.{key}": value.detach().cpu().contiguous()
        for name, head in heads.by_name().items()
        for key, value in head.state_dict().items()
    }
    with atomic_file(file) as temporary:
        safetensors.torch.save_file(weights, temporary)


def load_heads(timeline: Timeline, seed: int, file: Path) -> Heads:
    """Heads with the weights of a file."""
    weights: Mapping[str, torch.Tensor] = safetensors.torch.load_file(file)
    heads = build_heads(timeline, seed)
    for name, head in heads.by_name().items():
        prefix = f"{name}."
        own = {
            key.removeprefix(prefix): value
            for key, value in weights.items()
            if key.startswith(prefix)
        }
        head.load_state_dict(own)
        head.requires_grad_(False)
    return heads


def baseline_head(asked: Asked, timeline: Timeline) -> QuestionHead:
    """The plain baseline for a kind of question: counts of the pair."""
    return RelationCounts(timeline) if asked == "relation" else PairActivity(timeline)
