"""The fact that does not count for a query, for sources that only need to know its entities."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tempograph.data.timeline import Queries


class RemovedFacts(NamedTuple):
    """The entity of each query, and those of the fact that does not count, -1 for none, [n]."""

    entity: Tensor
    subject: Tensor
    object: Tensor

    @staticmethod
    def look_up(facts: Tensor, queries: Queries, left_out: Tensor | None) -> RemovedFacts:
        """The queries without the train facts [facts, 4] at the positions left_out [n]."""
        if left_out is None:
            none = torch.full_like(queries.entity, -1)
            return RemovedFacts(queries.entity, none, none)
        subject, _, object_, _ = facts[left_out].unbind(1)
        return RemovedFacts(queries.entity, subject, object_)

    def pack(self) -> Tensor:
        """All columns in one int32 tensor, [8, n], as high as what other sources look up."""
        return torch.stack([*self, *(torch.zeros_like(self.entity),) * 5]).int()

    @staticmethod
    def unpack(packed: Tensor) -> RemovedFacts:
        """The inverse of `pack`, also for a selection of columns."""
        return RemovedFacts(*packed[:3].long())
