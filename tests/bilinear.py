"""A model of another package that is trained by gradient: <e_s, r + w_t, e_o>."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Embedding
from torch.nn.functional import cross_entropy

from tempograph import Model, ModelKind, Queries, Timeline
from tempograph.data.timeline import fact_queries
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.recipes import GradientTraining, Recipe, register_recipe
from tempograph.training.settings import TrainSettings


@dataclass(frozen=True)
class BilinearSettings:
    dim: int = 8


class Bilinear(Model):
    name = "bilinear"
    bytes_per_candidate = 16
    probabilistic = True

    def __init__(self, timeline: Timeline, settings: BilinearSettings) -> None:
        super().__init__()
        self.timeline = timeline
        self.entity = Embedding(timeline.num_entities, settings.dim)
        self.relation = Embedding(2 * timeline.num_relations, settings.dim)
        self.step = Embedding(timeline.num_steps, settings.dim)

    def scores(self, queries: Queries) -> Tensor:
        relation = self.relation(queries.relation) + self.step(queries.time)
        return (self.entity(queries.entity) * relation) @ self.entity.weight.T


class BilinearLoss(TrainingLoss):
    def __init__(self, model: Bilinear, settings: TrainSettings) -> None:
        super().__init__(model.timeline)
        self.model = model

    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        return self.shuffled_facts(100, generator)

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        queries, answer = fact_queries(self.timeline.facts[batch], self.timeline.num_relations)
        return cross_entropy(self.model.scores(queries), answer)


KIND = ModelKind(
    name="bilinear",
    summary="DistMult with shifted relations",
    formula="<e_s, r + w_t, e_o>",
    time_dependent="relations",
    reference="a test",
    settings=BilinearSettings,
    build=lambda settings, timeline: Bilinear(timeline, settings),
)
TRAINING = GradientTraining(BilinearLoss, TrainSettings, lambda *_: {"train": {"epochs": 3}})
register_recipe(BilinearSettings, Recipe(TRAINING))
