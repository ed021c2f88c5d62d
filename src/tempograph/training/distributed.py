"""Which of several processes this is, when a launcher such as torchrun started them to train one model together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """The place of this process among all, as the launcher's environment tells; alone without a launcher."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @staticmethod
    def here() -> Processes:
        """Read the launcher's variables."""
        rank, size, local_rank, local_size = (
            int(os.environ.get(name, default))
            for name, default in (
                ("RANK", 0),
                ("WORLD_SIZE", 1),
                ("LOCAL_RANK", 0),
                ("LOCAL_WORLD_SIZE", 1),
            )
        )
        return Processes(rank, size, local_rank, local_size)

    @property
    def leads(self) -> bool:
        """Whether this process writes files and talks; the others only compute."""
        return self.rank == 0

    def share(self, batches: Sequence[T]) -> list[T]:
        """Every size-th batch; all processes get as many, so that none waits for a step that another has not."""
        rounds = -(-len(batches) // self.size)
        return [
            batches[(number * self.size + self.rank) % len(batches)] for number in range(rounds)
        ]
