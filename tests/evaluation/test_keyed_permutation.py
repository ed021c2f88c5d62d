"""Permutations from a key: each is one, all are different, and none prefers an image."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tempograph.evaluation.keyed_permutation import hash_key, permute


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(0, 2**32 - 1)), min_size=1, max_size=8))
def test_every_index_has_an_image_of_its_own(rows: list[tuple[int, int]]) -> None:
    size, key = torch.tensor(rows).unbind(1)
    index = torch.arange(int(size.max())).expand(len(rows), -1)
    images = permute(index.clamp(max=size[:, None] - 1), size, key)
    for number, (count, _) in enumerate(rows):
        assert sorted(images[number, :count].tolist()) == list(range(count))
    # What a row gets does not depend on the other rows or on how many images are asked for.
    alone = permute(torch.arange(1)[None], size[:1], key[:1])
    assert alone.tolist() == images[:1, :1].tolist()


def test_large_ranges_have_no_repetitions() -> None:
    size = torch.tensor([1_226_440, 2**40])
    images = permute(torch.arange(5_000).expand(2, -1), size, torch.tensor([1, 1]))
    for row, count in zip(images.tolist(), size.tolist(), strict=True):
        assert len(set(row)) == 5_000 and min(row) >= 0 and max(row) < count
        assert abs(sum(row) / 5_000 / count - 0.5) < 0.02


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_finds_the_same_images() -> None:
    size = torch.tensor([3, 1_000, 1_226_440, 2**40])
    index = torch.arange(3).expand(4, -1)
    keys = hash_key(42, size, size)
    on_gpu = permute(index.cuda(), size.cuda(), hash_key(42, size.cuda(), size.cuda()))
    assert torch.equal(on_gpu.cpu(), permute(index, size, keys))


def test_no_image_is_preferred() -> None:
    for size in (3, 10, 37):
        keys = hash_key(7, torch.arange(20_000), torch.zeros(20_000, dtype=torch.int64))
        first, second = permute(
            torch.arange(2).expand(20_000, -1), torch.full((20_000,), size), keys
        ).unbind(1)
        expected = 20_000 / size
        for images in (first, second):
            counts = torch.bincount(images, minlength=size)
            # Five standard deviations of a count.
            assert (counts - expected).abs().max() < 5 * expected**0.5
        # The second image is any other one, wherever the first is.
        shares = torch.bincount((second - first) % size, minlength=size)
        assert shares[0] == 0
        assert (shares[1:] - 20_000 / (size - 1)).abs().max() < 5 * (20_000 / (size - 1)) ** 0.5


def test_keys_depend_on_every_part_and_on_the_seed() -> None:
    number, zero = torch.arange(1_000), torch.zeros(1_000, dtype=torch.int64)
    keys = [
        hash_key(seed, *parts)
        for seed in (0, 1)
        for parts in ((number, zero, zero), (zero, number, zero), (zero, zero, number))
    ]
    # The three keys of zeros are one.
    assert len(torch.cat(keys).unique()) >= 6 * 1_000 - 4 - 2
    assert all(((key >= 0) & (key < 2**32)).all() for key in keys)
