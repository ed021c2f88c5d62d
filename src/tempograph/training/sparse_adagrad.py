"""Adagrad for tables of which a step needs a few rows only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class SparseAdagrad(torch.optim.Adagrad):
    """Adagrad that reads and changes only the rows that a sparse gradient holds.

    A row without a gradient does not change in Adagrad, so the weights are those of dense training.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step, row by row where the gradient is sparse."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None and weight.grad.is_sparse:
                    self._step_rows(weight, weight.grad.coalesce(), group)
                    weight.grad = None
        return super().step(closure)

    def _step_rows(self, weight: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        row, values = grad.indices()[0], grad.values()
        total = self.state[weight]["sum"]
        squares = total.index_select(0, row) + values.square()
        total.index_copy_(0, row, squares)
        weight.index_add_(0, row, values / (squares.sqrt() + group["eps"]), alpha=-group["lr"])
