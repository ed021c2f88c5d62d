"""Tables whose rows are shared out over processes, and the exchange of rows between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class RowShards:
    """Row r of a table is with process r % size, at position r // size.

    Every process must call the functions that exchange something, all in the same order.
    """

    rank: int
    size: int

    def count(self, rows: int) -> int:
        """How many of the rows of a table this process holds."""
        return len(range(self.rank, rows, self.size))

    def owned(self, rows: Tensor) -> Tensor:
        """Whether this process holds each row [n], [n]."""
        return rows % self.size == self.rank

    def look_up(self, table: Tensor, rows: Tensor, sparse: bool = False) -> Tensor:
        """Rows [n] of the table whose own part is `table` [own rows, width]: [n, width].

        Each process asks for rows of its own choice; a distinct row is sent to it once. Backward
        sends gradients to the processes that hold the rows, where they are summed for each row. A
        sparse gradient holds only the rows that were asked for.
        """
        # Distinct rows, sorted by the process that holds them.
        step = torch.iinfo(torch.int64).max // self.size
        key = (rows % self.size) * step + rows // self.size
        distinct, index = torch.unique(key, return_inverse=True)
        counts = torch.bincount(distinct // step, minlength=self.size)
        asked = self.exchange_counts(counts)
        receive, send = torch.stack([counts, asked]).tolist()
        positions = exchange(distinct % step, receive, send)
        held = torch.nn.functional.embedding(positions, table, sparse=sparse)
        return exchange(held, send, receive).index_select(0, index)

    def gather(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all processes, counts [size] of them from each: [sum of counts, ...].

        Backward sums the gradients of all processes.
        """
        copies = rows.repeat(self.size, *(1 for _ in rows.shape[1:]))
        return exchange(copies, [len(rows)] * self.size, counts)

    def exchange_counts(self, counts: Tensor) -> Tensor:
        """Send the k-th number [size] to process k; returns what each process sent, [size]."""
        return exchange(counts, [1] * self.size, [1] * self.size)

    def total(self, values: Tensor) -> Tensor:
        """The sum over processes of equally shaped values; has no gradient."""
        values = values.detach().clone()
        if self.size > 1:
            distributed.all_reduce(values)
        return values


def exchange(rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
    """Send the first send[0] rows to process 0, the next to process 1, and so on.

    Returns the rows that arrive, receive[k] of them from process k, in the order of processes.
    Backward sends the gradients back.
    """
    if len(send) == 1:
        return rows
    exchanged: Tensor = _Exchange.apply(rows, send, receive)
    return exchanged


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        ctx.send, ctx.receive = send, receive
        return _all_to_all(rows, send, receive)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _all_to_all(grad, ctx.receive, ctx.send), None, None


def _all_to_all(rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
    arrived = rows.new_empty(sum(receive), *rows.shape[1:])
    distributed.all_to_all_single(arrived, rows.contiguous(), list(receive), list(send))
    return arrived


def draw_rows(
    count: int, width: int, scale: float, shards: RowShards, block_numbers: int = 2**24
) -> Tensor:
    """The own rows of `torch.randn(count, width) * scale`, drawn in blocks.

    The numbers are those that a single process draws, and no process holds more than a block of
    them beside its own rows.
    """
    own = torch.empty(shards.count(count), width)
    # torch draws in groups of 16 numbers, and the last group anew if it is not full.
    block = max(16, block_numbers // width // 16 * 16)
    start = 0
    while start < count:
        end = count if count - start < block + 16 else start + block
        drawn = torch.randn(end - start, width)[(shards.rank - start) % shards.size :: shards.size]
        first = shards.count(start)
        own[first : first + len(drawn)] = drawn * scale
        start = end
    return own
