"""How similar the names of entities are, by the tokens they share."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tempograph.data.sorted_ranges import Ranges
from tempograph.data.timeline import Timeline


class NameSimilarity:
    """The cosine of two names as bags of tokens, a token of k of n names weighing log(n / k)."""

    def __init__(self, timeline: Timeline) -> None:
        start, token, self.num_tokens = timeline.name_tokens
        self.num_entities = len(start) - 1
        owner = np.repeat(np.arange(self.num_entities), np.diff(start))
        names = np.bincount(token, minlength=self.num_tokens)
        weight = np.log(self.num_entities / np.maximum(1, names))[token]
        norm = np.sqrt(np.bincount(owner, weight**2, minlength=self.num_entities))
        weight = weight / np.maximum(norm, 1e-12)[owner]
        device = timeline.device
        self._start, self._token = (torch.from_numpy(ids).to(device) for ids in (start, token))
        self._weight = torch.from_numpy(weight.astype(np.float32)).to(device)

    def __call__(self, entity: Tensor) -> Tensor:
        """The similarity of entities [n] to all entities, [n, entities]."""
        if not self.num_tokens:
            return torch.zeros(len(entity), self.num_entities, device=entity.device)
        mine = torch.zeros(self.num_tokens, len(entity), device=entity.device)
        row, position = Ranges(self._start[entity], self._start[entity + 1]).expand()
        mine[self._token[position], row] = self._weight[position]
        sums = torch.nn.functional.embedding_bag(
            self._token, mine, self._start[:-1], mode="sum", per_sample_weights=self._weight
        )
        return sums.T
