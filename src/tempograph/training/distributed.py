"""Training in several processes that a launcher such as torchrun started."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch
    from lightning.fabric import Fabric
    from lightning.fabric.strategies.strategy import Strategy

    from tempograph.training.settings import TrainSettings

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """The rank of this process and the number of processes, in all and on this machine."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @staticmethod
    def from_environment() -> Processes:
        """Read the launcher's variables; without a launcher there is one process."""
        return Processes(
            int(os.environ.get("RANK", 0)),
            int(os.environ.get("WORLD_SIZE", 1)),
            int(os.environ.get("LOCAL_RANK", 0)),
            int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        )

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports; the others only compute."""
        return self.rank == 0

    def shard(self, batches: Sequence[T]) -> Sequence[T]:
        """Every size-th batch, equally many in each process so that none waits for another."""
        if self.size == 1:
            return batches
        rounds = -(-len(batches) // self.size)
        return [
            batches[(number * self.size + self.rank) % len(batches)] for number in range(rounds)
        ]


def launch_fabric(
    device: torch.device, settings: TrainSettings, processes: Processes, sharded: bool = False
) -> Fabric:
    """Lightning Fabric for one or several processes on this kind of device.

    With sharded tables, the processes compute the loss of a batch together.
    """
    # Imported here because ranking, and fitting without a gradient, need not wait for it.
    from lightning.fabric import Fabric

    # Lightning would repeat the chosen precision, or recommend another.
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    strategy: str | Strategy = "auto"
    if sharded:
        from tempograph.training.sharded_strategy import ShardedStrategy

        strategy = ShardedStrategy()
    elif processes.size > 1:
        # A step whose snapshots have no target facts leaves some weights without a gradient.
        strategy = "ddp_find_unused_parameters_true"
    fabric = Fabric(
        accelerator=device.type,
        devices=processes.local_size,
        num_nodes=processes.size // processes.local_size,
        strategy=strategy,
        precision="32-true" if settings.precision == "tf32" else settings.precision,
    )
    fabric.launch()
    if processes.size > 1:
        # Lightning does so for GPUs only, and a process that exits with open connections may abort.
        atexit.register(_disconnect)
    return fabric


def _disconnect() -> None:
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
