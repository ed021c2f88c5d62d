"""Modules that share their weights and differ in what they look at."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def sharing_weights(module: M) -> M:
    """A copy with the same weights, whose attributes may be changed without changing the original's."""
    twin = copy.copy(module)
    for held in ("_parameters", "_buffers", "_modules"):
        twin.__dict__[held] = dict(module.__dict__[held])
    return twin
