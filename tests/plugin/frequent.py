"""log p(o | r): how often each entity is the object, or the subject, of a relation in train."""

from dataclasses import dataclass

import torch

from tempograph import Model, ModelKind
from tempograph.data.timeline import both_directions
from tempograph.training.recipes import Recipe, register_recipe


@dataclass(frozen=True)
class FrequentSettings:
    smoothing: float = 1.0


class Frequent(Model):
    name = "frequent"
    bytes_per_candidate = 16
    probabilistic = True

    def __init__(self, timeline, settings):
        super().__init__()
        self.timeline, self.settings = timeline, settings
        entities, relations, _, _ = timeline.sizes
        _, relation, answer, _ = both_directions(timeline.facts, relations).unbind(1)
        counts = (relation * entities + answer).bincount(minlength=2 * relations * entities)
        self.log_probs = torch.log(counts.view(-1, entities) + settings.smoothing).log_softmax(1)

    def scores(self, queries):
        return self.log_probs[queries.relation]

    def entity_vectors(self, times):
        return self.log_probs.T[None]

    def with_timeline(self, timeline, cache_bytes=0):
        return Frequent(timeline, self.settings)


KIND = ModelKind(
    name="frequent",
    summary="ranks entities by how often they occur with the relation",
    formula="log p(o | r)",
    time_dependent="nothing",
    reference="https://example.org/frequent",
    settings=FrequentSettings,
    build=lambda settings, timeline: Frequent(timeline, settings),
)
register_recipe(FrequentSettings, Recipe(choose=lambda settings, *_: settings))
