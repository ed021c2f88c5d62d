"""The Fabric strategy of processes that share out the rows of tables and copy other weights."""

from __future__ import annotations

from typing import Any

import torch
from lightning.fabric.strategies.ddp import DDPStrategy
from torch import Tensor, distributed, nn
from torch.optim import Optimizer
from typing_extensions import override

from tempograph.nn.sharded_entities import sharded_weights


class ShardedStrategy(DDPStrategy):
    """Each process computes its part of a loss; gradients of copied weights are summed.

    A table that is shared out gets its gradients from all processes in backward.
    """

    @override
    def setup_module(self, module: nn.Module) -> nn.Module:  # type: ignore[override]
        sharded = {id(each.entity) for each in sharded_weights(module).values()}
        self._sharded = [each for each in module.parameters() if id(each) in sharded]
        self._copied = [each for each in module.parameters() if id(each) not in sharded]
        return module

    @override
    def backward(self, tensor: Tensor, module: nn.Module | None, *args: Any, **kwargs: Any) -> None:
        super().backward(tensor, module, *args, **kwargs)
        gradients = [each.grad for each in self._copied if each.grad is not None]
        summed = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(summed)
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, summed.split(sizes), strict=True):
            gradient.copy_(part.view_as(gradient))

    @override
    def clip_gradients_norm(
        self,
        module: nn.Module,
        optimizer: Optimizer,
        max_norm: float,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = True,
    ) -> Tensor:
        """Clip by the norm of the gradients of all processes."""
        own, copied = (
            [each.grad for each in weights if each.grad is not None]
            for weights in (self._sharded, self._copied)
        )
        squared = torch.stack([gradient.square().sum() for gradient in own]).sum()
        distributed.all_reduce(squared)
        norm = torch.stack([squared, *(each.square().sum() for each in copied)]).sum().sqrt()
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(own + copied, scale)
        return norm
