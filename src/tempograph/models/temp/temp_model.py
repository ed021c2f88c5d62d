"""TeMP as a model: the network behind the contract of `models.base`."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.timeline import Queries, Timeline
from tempograph.device import memory_budget
from tempograph.models.base import Model
from tempograph.models.temp.cached_temp import CachedTeMP
from tempograph.models.temp.gated_decoder import TeMPNetwork
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.nn.padded_groups import chunk_groups


class TeMP(TeMPNetwork, Model):
    """Temporal message passing.

    Wu, Cao, Cheung, Hamilton: TeMP: Temporal Message Passing for Temporal Knowledge Graph
    Completion. EMNLP 2020.

    ```text
    encoder.py         x_et  = RGCN over the facts at t
                       x^_et = x at the nearest active steps, decayed, if e is inactive (imputation)
                       z_et  = GRU with decay, or attention, over x in the window around t
    gated_decoder.py   h_et  = alpha x^_et + (1 - alpha) z_et (frequency gate)
                       score(s, r, o, t) = Re <h_st, r, conj(h_ot)> (ComplEx)
    ```

    Every part is a setting (`temp_settings.py`); the layers are in `tempograph.nn`.
    """

    bytes_per_candidate = 24
    probabilistic = True

    def __init__(self, timeline: Timeline, settings: TeMPSettings, name: str = "temp-gru") -> None:
        super().__init__(timeline, settings)
        self.name = name

    def scores(self, queries: Queries) -> Tensor:
        width = self.settings.dim * (2 if self.gate is not None else 1)
        slots = memory_budget("temp_tables", self.device) // (4 * self.timeline.num_entities)
        scores = torch.empty(len(queries.time), self.timeline.num_entities, device=self.device)
        for times, index, time_index in chunk_groups(queries.time, max(1, slots // width), slots):
            encoded, part = self.encode(times), queries.take(index)
            vectors = self.query_vectors(part, encoded.take(time_index, part.entity))
            every, row = self.score_all(vectors, time_index, encoded, len(times))
            scores[index] = every[row].float()
        return scores

    def entity_vectors(self, times: Tensor) -> Tensor:
        """[x, z] of every entity, or z without a gate, [times, entities, width]."""
        return self.encode(times).tables(len(times))

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> CachedTeMP:
        """The same weights over other facts, with a cache of encoded snapshots."""
        return CachedTeMP(self, self.name, timeline, cache_bytes)
