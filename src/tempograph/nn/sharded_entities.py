"""Entity vectors whose rows are shared out over processes."""

from __future__ import annotations

from torch import Tensor, nn

from tempograph.nn.entities import Entities
from tempograph.nn.row_shards import RowShards, draw_rows


class ShardedEntities(Entities):
    """e: one vector for each entity, held by one of several processes."""

    time_dependent = False
    sparse = False
    """Whether gradients hold only the rows that a step touches, as Adagrad can use them."""

    def __init__(self, count: int, width: int, scale: float, shards: RowShards) -> None:
        super().__init__()
        self.count, self.shards = count, shards
        self.entity = nn.Parameter(draw_rows(count, width, scale, shards))

    def forward(self, entity: Tensor, time: Tensor) -> Tensor:
        """Embeddings of entities [n], from whoever holds them: [n, width]."""
        return self.shards.look_up(self.entity, entity, self.sparse)

    def tables(self, times: Tensor) -> Tensor:
        """The vectors that this process holds, [1, own entities, width]."""
        return self.entity[None]

    def use_sparse_gradients(self) -> None:
        self.sparse = True


def sharded_weights(module: nn.Module) -> dict[str, ShardedEntities]:
    """The weights that are shared out, by their names in the state of the module."""
    return {
        f"{prefix}.entity" if prefix else "entity": each
        for prefix, each in module.named_modules()
        if isinstance(each, ShardedEntities)
    }
