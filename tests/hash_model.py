"""A model without weights, for tests of what is done with scores."""

from __future__ import annotations

import torch

from tempograph.data.timeline import Queries
from tempograph.models.base import Evidence, Model


class Hash(Model):
    """Arbitrary but repeatable scores of (entity, relation, time), with many ties."""

    name = "hash"
    bytes_per_candidate = 8
    device = torch.device("cpu")

    def __init__(self, num_entities: int) -> None:
        super().__init__()
        self.candidates = torch.arange(num_entities)
        self.batches: list[Queries] = []

    def scores(self, queries: Queries) -> torch.Tensor:
        self.batches.append(queries)
        seed = queries.entity * 31 + queries.relation * 17 + queries.time * 7
        return ((seed[:, None] * (self.candidates + 3)) % 5).double()

    def evidence(self, query: Queries, answer: int) -> Evidence:
        raise AssertionError("ranking asks for no evidence")
