"""Encoders across time against torch's own layers, loops over one entity at a time, and by hand."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

import oracle_layers as oracle
from tempograph.data.sorted_ranges import Ranges
from tempograph.nn.packed_gru import batch_sizes
from tempograph.nn.temporal import (
    Context,
    Decay,
    DecayedGRU,
    Imputation,
    TemporalAttention,
    Windows,
)

DIM = 4
EXACT = {"rtol": 1e-11, "atol": 1e-11}
BOTH = pytest.mark.parametrize("bidirectional", [False, True])


class Situation(NamedTuple):
    """(entity, time) pairs with their windows in a context, also as lists of rows, oldest first."""

    x: Tensor
    windows: Windows
    context: Context
    past: list[list[int]]
    future: list[list[int]] | None

    def loop(self, twin: object, layer: nn.Module) -> Tensor:
        """What the slow twin makes of the pairs, one by one."""
        rows = []
        for index, time in enumerate(self.windows.time.tolist()):
            future = None if self.future is None else self.future[index]
            rows.append(twin(layer, self.x[index], time, self.past[index], future, self.context))  # type: ignore[operator]
        return torch.stack(rows) if rows else self.x


def ranges_of(rows: list[list[int]], rng: np.random.Generator, end: int) -> Ranges:
    """The lists of consecutive rows as ranges; an empty one may lie anywhere, the end included."""
    starts = [row[0] if row else int(rng.integers(0, end + 1)) for row in rows]
    stops = [start + len(row) for start, row in zip(starts, rows, strict=True)]
    return Ranges(torch.tensor(starts, dtype=torch.int64), torch.tensor(stops, dtype=torch.int64))


def situation(
    seed: int,
    bidirectional: bool,
    entities: int,
    steps: int,
    window: int,
    pairs: int,
    density: float,
    dim: int = DIM,
) -> Situation:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    active = np.argwhere(rng.random((entities, steps)) < density).tolist()
    targets = rng.integers(0, [entities, steps], (pairs, 2)).tolist()

    def rows_from(first: int, last: int) -> list[list[int]]:
        return [
            [
                row
                for row, (e, t) in enumerate(active)
                if e == entity and time + first <= t <= time + last
            ]
            for entity, time in targets
        ]

    past, future = rows_from(-window, -1), rows_from(1, window) if bidirectional else None
    windows = Windows(
        torch.tensor([time for _, time in targets], dtype=torch.int64),
        ranges_of(past, rng, len(active)),
        None if future is None else ranges_of(future, rng, len(active)),
    )
    times = torch.tensor([time for _, time in active], dtype=torch.int64)
    context = Context(torch.randn(len(active), dim, dtype=torch.float64), times)
    return Situation(torch.randn(pairs, dim, dtype=torch.float64), windows, context, past, future)


@st.composite
def situations(draw: st.DrawFn, bidirectional: bool) -> Situation:
    """Gaps, empty windows, directions of different lengths; also no pairs or no active steps."""
    return situation(
        draw(st.integers(0, 2**32 - 1)),
        bidirectional,
        entities=draw(st.integers(1, 4)),
        steps=draw(st.integers(1, 9)),
        window=draw(st.integers(1, 5)),
        pairs=draw(st.integers(0, 8)),
        density=draw(st.sampled_from([0.0, 0.3, 0.6, 1.0])),
    )


RATES = st.sampled_from([-0.2, 0.0, 0.1, 0.7])
SHIFTS = st.sampled_from([-0.5, 0.0, 0.3])


def set_decay(layer: nn.Module, rate: float, shift: float) -> None:
    with torch.no_grad():
        layer.decay.rate.fill_(rate)
        layer.decay.shift.fill_(shift)


def with_empty_windows(rows: int, bidirectional: bool) -> Windows:
    """Three pairs with empty ranges at the start, inside and at the end of a context."""
    empty = Ranges(*[torch.arange(3).clamp(max=rows)] * 2)
    return Windows(torch.arange(3), empty, empty if bidirectional else None)


def test_decay_by_hand() -> None:
    decay = Decay()
    assert decay(torch.tensor([0, 1, 10])).tolist() == pytest.approx(
        [1, math.exp(-0.1), math.exp(-1)]
    )
    gaps = torch.tensor([[0, 1], [2, 4]])
    with torch.no_grad():
        decay.rate.fill_(0.5)
        decay.shift.fill_(-1)
    assert decay.exponent(gaps).tolist() == [[0, 0], [0, 1]]
    assert decay(gaps)[1].tolist() == pytest.approx([1, 1 / math.e])
    with torch.no_grad():
        decay.shift.fill_(0.5)
    assert decay.exponent(gaps).tolist() == [[0.5, 1], [1.5, 2.5]]
    with torch.no_grad():
        decay.rate.fill_(-1)
    assert decay(gaps).tolist() == [[pytest.approx(math.exp(-0.5)), 1], [1, 1]], "never more than 1"


def test_batch_sizes_by_hand() -> None:
    assert batch_sizes(torch.tensor([[3, 1, 1, 0]])) == [3, 1, 1]
    assert batch_sizes(torch.tensor([[3, 0, 0, 0], [2, 2, 1, 0]])) == [3, 2, 1]
    assert batch_sizes(torch.tensor([[0, 0], [0, 0]])) == []
    assert batch_sizes(torch.empty(2, 0, dtype=torch.int64)) == []


@BOTH
def test_gru_without_decay_or_gaps_equals_torch(bidirectional: bool) -> None:
    at = situation(0, bidirectional, entities=3, steps=8, window=4, pairs=20, density=1.0)
    layer = DecayedGRU(DIM, bidirectional).double()
    set_decay(layer, 0, 0)
    expected = []
    for index, x in enumerate(at.x):
        chains = [at.past[index]] if at.future is None else [at.past[index], at.future[index][::-1]]
        total = torch.zeros(DIM, dtype=torch.float64)
        for side, rows in enumerate(chains):
            gru = nn.GRU(DIM, DIM, batch_first=True, dtype=torch.float64)
            gru.load_state_dict(
                {
                    "weight_ih_l0": layer.input_weight[side].T,
                    "weight_hh_l0": layer.state_weight[side].T,
                    "bias_ih_l0": layer.input_bias[side, 0],
                    "bias_hh_l0": layer.state_bias[side, 0],
                }
            )
            _, last = gru(torch.cat([at.context.x[rows], x[None]])[None])
            total = total + last[0, 0]
        expected.append(total)
    assert_close(layer(at.x, at.windows, at.context), torch.stack(expected), **EXACT)


@BOTH
@settings(max_examples=30)
@given(data=st.data(), rate=RATES, shift=SHIFTS)
def test_gru_equals_a_loop_over_entities(
    bidirectional: bool, data: st.DataObject, rate: float, shift: float
) -> None:
    at = data.draw(situations(bidirectional))
    layer = DecayedGRU(DIM, bidirectional).double()
    set_decay(layer, rate, shift)
    assert_close(layer(at.x, at.windows, at.context), at.loop(oracle.decayed_gru, layer), **EXACT)


def test_attention_without_decay_equals_torch() -> None:
    at = situation(1, True, entities=3, steps=9, window=3, pairs=20, density=0.5, dim=6)
    layer = TemporalAttention(6, 3).double()
    set_decay(layer, 0, 0)
    twin = nn.MultiheadAttention(6, 3, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        twin.in_proj_weight.copy_(
            torch.cat([layer.query.weight, layer.key.weight, layer.value.weight])
        )
        twin.out_proj.weight.copy_(torch.eye(6))
    # The pair itself stands first; what is not in a window is masked noise.
    states, hidden = torch.randn(20, 7, 6, dtype=torch.float64), torch.ones(20, 7, dtype=torch.bool)
    for index, (past, future) in enumerate(zip(at.past, at.future or [], strict=True)):
        rows = torch.cat([at.x[index : index + 1], at.context.x[past + future]])
        states[index, : len(rows)] = rows
        hidden[index, : len(rows)] = False
    expected, _ = twin(at.x[:, None], states, states, key_padding_mask=hidden, need_weights=False)
    assert_close(layer(at.x, at.windows, at.context), expected[:, 0], **EXACT)


@BOTH
@settings(max_examples=30)
@given(data=st.data(), heads=st.sampled_from([1, 2, 4]), rate=RATES, shift=SHIFTS)
def test_attention_equals_a_loop_over_entities(
    bidirectional: bool, data: st.DataObject, heads: int, rate: float, shift: float
) -> None:
    at = data.draw(situations(bidirectional))
    layer = TemporalAttention(DIM, heads).double()
    set_decay(layer, rate, shift)
    assert_close(
        layer(at.x, at.windows, at.context), at.loop(oracle.temporal_attention, layer), **EXACT
    )


def encoders(bidirectional: bool) -> dict[str, DecayedGRU | TemporalAttention]:
    torch.manual_seed(0)
    return {
        "gru": DecayedGRU(DIM, bidirectional).double(),
        "attention": TemporalAttention(DIM, 2).double(),
    }


@BOTH
@pytest.mark.parametrize("kind", ["gru", "attention"])
@pytest.mark.parametrize("rows", [0, 2])
def test_without_context_equals_empty_windows(bidirectional: bool, kind: str, rows: int) -> None:
    layer = encoders(bidirectional)[kind]
    set_decay(layer, 0.5, 0.5)
    context = Context(torch.randn(rows, DIM, dtype=torch.float64), torch.arange(rows))
    x = torch.randn(3, DIM, dtype=torch.float64)
    assert_close(
        layer(x, with_empty_windows(rows, bidirectional), context),
        layer.without_context(x),
        **EXACT,
    )


@BOTH
@pytest.mark.parametrize("kind", ["gru", "attention"])
def test_pairs_without_context_among_others(bidirectional: bool, kind: str) -> None:
    at = situation(3, bidirectional, entities=4, steps=9, window=2, pairs=30, density=0.3)
    alone = [i for i in range(30) if not at.past[i] and not (at.future and at.future[i])]
    assert 0 < len(alone) < 30
    layer = encoders(bidirectional)[kind]
    assert_close(
        layer(at.x, at.windows, at.context)[alone], layer.without_context(at.x[alone]), **EXACT
    )


@BOTH
@pytest.mark.parametrize("kind", ["gru", "attention"])
@pytest.mark.parametrize("density", [0.0, 1.0])
def test_no_pairs(bidirectional: bool, kind: str, density: float) -> None:
    at = situation(0, bidirectional, entities=2, steps=3, window=1, pairs=0, density=density)
    layer = encoders(bidirectional)[kind]
    assert layer(at.x, at.windows, at.context).shape == (0, DIM)
    assert layer.without_context(at.x).shape == (0, DIM)


@BOTH
@pytest.mark.parametrize("kind", ["gru", "attention"])
def test_only_the_window_matters(bidirectional: bool, kind: str) -> None:
    at = situation(4, bidirectional, entities=3, steps=9, window=2, pairs=10, density=0.6)
    layer = encoders(bidirectional)[kind]
    before = layer(at.x, at.windows, at.context)
    noise = at.context._replace(x=torch.randn_like(at.context.x))
    for index in range(10):
        inside = at.past[index] + (at.future[index] if at.future else [])
        changed = noise._replace(
            x=noise.x.index_copy(0, torch.tensor(inside, dtype=torch.int64), at.context.x[inside])
        )
        assert_close(layer(at.x, at.windows, changed)[index], before[index], **EXACT)


@BOTH
@pytest.mark.parametrize("kind", ["gru", "attention"])
def test_gradients(bidirectional: bool, kind: str) -> None:
    torch.manual_seed(0)
    layer = (DecayedGRU(2, bidirectional) if kind == "gru" else TemporalAttention(2, 2)).double()
    # Away from the corner of the decay at 0.
    set_decay(layer, 0.2, 0.05)
    at = situation(22, bidirectional, entities=2, steps=6, window=3, pairs=4, density=0.6, dim=2)
    # PackedSequences of different lengths, an empty one among them.
    assert len({len(rows) for rows in at.past}) > 2 and [] in at.past
    assert oracle.gradients_hold(
        layer,
        lambda x, states: (x, at.windows, at.context._replace(x=states)),
        [at.x, at.context.x],
    )


@pytest.mark.parametrize("kind", ["gru", "attention"])
def test_mixed_precision(kind: str) -> None:
    at = situation(5, True, entities=3, steps=9, window=3, pairs=20, density=0.5)
    layer, x, context = (
        encoders(True)[kind].float(),
        at.x.float(),
        at.context._replace(x=at.context.x.float()),
    )
    with torch.autocast("cpu", torch.bfloat16):
        actual, alone = layer(x, at.windows, context), layer.without_context(x)
    assert_close(actual.float(), layer(x, at.windows, context), rtol=0.05, atol=0.05)
    assert_close(alone.float(), layer.without_context(x), rtol=0.05, atol=0.05)


def halving() -> Imputation:
    """What is left after a gap is 2 to the power of minus the gap."""
    layer = Imputation().double()
    set_decay(layer, 0, 0)
    with torch.no_grad():
        layer.decay.rate.copy_(torch.tensor(math.log(2), dtype=torch.float64))
    return layer


def ranges(*pairs: tuple[int, int]) -> Ranges:
    return Ranges(*torch.tensor(pairs).unbind(1))


CONTEXT = Context(
    torch.tensor([[100.0, 100.0], [0.0, 16.0], [16.0, 0.0]], dtype=torch.float64),
    torch.tensor([0, 1, 4]),
)


def test_imputation_from_the_past_by_hand() -> None:
    # The nearest of two steps, a step and two; a window without a step.
    windows = Windows(torch.tensor([2, 3, 3]), ranges((0, 2), (1, 2), (3, 3)), None)
    x = torch.tensor([[8.0, 0.0]] * 3, dtype=torch.float64)
    expected = torch.tensor([[4.0, 8.0], [6.0, 4.0], [8.0, 0.0]], dtype=torch.float64)
    assert_close(halving()(x, windows, CONTEXT), expected, **EXACT)


def test_imputation_from_both_sides_by_hand() -> None:
    windows = Windows(
        torch.tensor([2, 2, 2, 5]),
        ranges((0, 2), (0, 2), (0, 0), (3, 3)),
        ranges((2, 3), (3, 3), (2, 3), (3, 3)),
    )
    x = torch.tensor([[8.0, 0.0]] * 4, dtype=torch.float64)
    # Shares 1/4 before and 1/8 after; before only; after only; neither.
    expected = torch.tensor([[7.0, 4.0], [6.0, 4.0], [9.0, 0.0], [8.0, 0.0]], dtype=torch.float64)
    assert_close(halving()(x, windows, CONTEXT), expected, **EXACT)


@BOTH
@pytest.mark.parametrize("rows", [0, 2])
def test_imputation_leaves_x_when_nothing_is_near(bidirectional: bool, rows: int) -> None:
    x = torch.randn(3, DIM)
    context = Context(torch.randn(rows, DIM), torch.arange(rows))
    assert torch.equal(Imputation()(x, with_empty_windows(rows, bidirectional), context), x)


@BOTH
@settings(max_examples=25)
@given(data=st.data(), rate=RATES, shift=SHIFTS)
def test_imputation_equals_a_loop_over_entities(
    bidirectional: bool, data: st.DataObject, rate: float, shift: float
) -> None:
    at = data.draw(situations(bidirectional))
    layer = Imputation().double()
    set_decay(layer, rate, shift)
    assert_close(layer(at.x, at.windows, at.context), at.loop(oracle.imputation, layer), **EXACT)
