"""Random permutations that are computed index by index, from a key, and never stored.

The first k images of 0, 1, 2, ... are a random sample without replacement, at a cost that does not
depend on how many there are to draw from. The same key gives the same permutation everywhere.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

_ROUNDS: Final = 3
_MASK: Final = 2**32 - 1
_STEP: Final = 0x3C6EF372
# Below 2^31, so that products of 32-bit numbers fit into 64 bits with a sign.
_FACTOR: Final = 0x045D9F3B


def permute(index: Tensor, size: Tensor, key: Tensor) -> Tensor:
    """Where the permutations of keys [n] of 0 ... size - 1 [n] take indices [n, k]: [n, k].

    Numbers are written in two digits, each of which is shifted in turn by a hash of the other: a
    Feistel network. The digits cover slightly more than `size`; an image outside moves on.
    """
    first = size.double().sqrt().ceil().long().clamp(min=1)
    second = (size + first - 1) // first
    place = _shift(index, first[:, None], second[:, None], key[:, None])
    row, column = (place >= size[:, None]).nonzero(as_tuple=True)
    while len(row):
        moved = _shift(place[row, column], first[row], second[row], key[row])
        place[row, column] = moved
        outside = moved >= size[row]
        row, column = row[outside], column[outside]
    return place


def hash_key(seed: int, *parts: Tensor) -> Tensor:
    """A 32-bit key for each row of numbers, [n] each -> [n]."""
    key = _mix(torch.full_like(parts[0], seed & _MASK))
    for part in parts:
        key = _mix((31 * key + part + _STEP) & _MASK)
    return key


def _shift(place: Tensor, first: Tensor, second: Tensor, key: Tensor) -> Tensor:
    high, low = place // second, place % second
    for turn in range(0, 2 * _ROUNDS, 2):
        high = (high + _mix(((low + turn * _STEP) & _MASK) ^ key)) % first
        low = (low + _mix(((high + (turn + 1) * _STEP) & _MASK) ^ key)) % second
    return high * second + low


def _mix(value: Tensor) -> Tensor:
    """A hash of 32-bit numbers."""
    for _ in range(2):
        value = ((value >> 16 ^ value) * _FACTOR) & _MASK
    return value >> 16 ^ value
