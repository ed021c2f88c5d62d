"""TeMP as a model: the network behind the contract of `models.base`."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.timeline import Queries, Timeline
from tempograph.device import memory_budget
from tempograph.models.base import Evidence, Model
from tempograph.models.evidence import nearest_facts
from tempograph.models.temp.cached_temp import CachedTeMP
from tempograph.models.temp.gated_decoder import TeMPNetwork
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.nn.padded_groups import chunk_groups


class TeMP(TeMPNetwork, Model):
    """Temporal message passing (Wu, Cao, Cheung and Hamilton, "TeMP: Temporal Message Passing for Temporal
    Knowledge Graph Completion", EMNLP 2020).

    x_{e,t} = RGCN over the facts at t             message passing inside each snapshot     `encoder.py`
    x^_{e,t} = decayed mean of near active steps   imputation of inactive entities          `encoder.py`
    z_{e,t} = GRU or attention over the window     memory across snapshots                  `encoder.py`
    h_{e,t} = alpha x + (1 - alpha) z              frequency gate                           `gated_decoder.py`
    score(s, r, o, t) = Re <h_s, r, conj(h_o)>     ComplEx, or another decoder              `gated_decoder.py`

    Every part is a setting (`temp_settings.py`); the layers themselves are in `tempograph.nn`.
    """

    bytes_per_candidate = 24
    probabilistic = True

    def __init__(self, timeline: Timeline, settings: TeMPSettings, name: str = "temp-gru") -> None:
        super().__init__(timeline, settings)
        self.name = name

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each query, [queries, entities]."""
        width = self.settings.dim * (2 if self.gate is not None else 1)
        slots = memory_budget("temp_tables", self.device) // (4 * self.timeline.num_entities)
        scores = torch.empty(len(queries.time), self.timeline.num_entities, device=self.device)
        for times, index, time_index in chunk_groups(queries.time, max(1, slots // width), slots):
            encoded, part = self.encode(times), queries.take(index)
            vectors = self.query_vectors(part, encoded.take(time_index, part.entity))
            every, row = self.score_all(vectors, time_index, encoded, len(times))
            scores[index] = every[row].float()
        return scores

    def relation_scores(self, subject: int, object_: int, time: int) -> Tensor:
        """Scores of every relation for (subject, ?, object, time), [relations]."""
        encoded = self.encode(torch.tensor([time], device=self.device))
        return self.score_relations(subject, object_, time, encoded)

    def entity_vectors(self, times: Tensor) -> Tensor:
        """Encoded entities, [times, entities, width]; with a gate the structural vector, then the temporal one."""
        return self.encode(times).tables(len(times))

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The train facts nearest in time that share two parts with the completed fact."""
        return nearest_facts(self.timeline, query, answer)

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> CachedTeMP:
        """The same weights over other facts, with a cache of encoded snapshots."""
        return CachedTeMP(self, self.name, timeline, cache_bytes)
