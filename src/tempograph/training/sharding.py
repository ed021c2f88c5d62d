"""When entity tables are sharded over the processes of a training."""

from __future__ import annotations

import warnings

from tempograph.data.timeline import Timeline
from tempograph.errors import TempographWarning
from tempograph.models.base import Model
from tempograph.nn.row_shards import RowShards
from tempograph.training.config import Config
from tempograph.training.distributed import Processes
from tempograph.training.settings import FactTrainSettings


def build_sharded_or_whole(config: Config, timeline: Timeline, *parts: Model) -> Model:
    """The untrained model: this process's share of it if tables are sharded, else all of it."""
    shards = row_shards(config)
    if shards is None:
        return config.kind.build(config.model, timeline, *parts)
    return config.kind.build(config.model, timeline, shards=shards)


def row_shards(config: Config) -> RowShards | None:
    """How the processes of the launcher share out entities; None if each has all of them.

    Where the settings ask for sharded tables and the model has none, a warning says so.
    """
    processes, settings = Processes.from_environment(), config.train
    if processes.size == 1 or settings is None or settings.tables == "copied":
        return None
    kind = config.kind
    if kind.can_shard is None or not kind.can_shard(config.model):
        reason = "only embedding methods whose entities have one fixed vector each are sharded"
    elif not isinstance(settings, FactTrainSettings) or settings.batch != "facts":
        reason = "sharded tables need train.batch=facts"
    elif settings.loss != "softmax":
        reason = "sharded tables need train.loss=softmax"
    else:
        return RowShards(processes.rank, processes.size)
    if processes.is_main:
        warnings.warn(
            f"{config.name}: every process holds all tables; {reason}",
            TempographWarning,
            stacklevel=2,
        )
    return None
