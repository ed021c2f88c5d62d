"""Copies of modules that share their weights."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def copy_sharing_weights(module: M) -> M:
    """A copy with the same parameters; setting its attributes leaves the original unchanged."""
    twin = copy.copy(module)
    for name in ("_parameters", "_buffers", "_modules"):
        twin.__dict__[name] = dict(module.__dict__[name])
    return twin
