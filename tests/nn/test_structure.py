"""Message passing against loops, against PyTorch Geometric and by hand."""

from __future__ import annotations

import math
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

import oracle_layers as oracle
from tempograph.nn.structure import (
    RGAT,
    RGCN,
    CompGCN,
    Edges,
    add_inverse_edges,
    block_diagonal_product,
    edge_weights,
    segment_softmax,
)

COMPOSITIONS = ("subtract", "multiply", "correlate")
NORMS = ("relation", "degree", "degree_squared")
EXACT = {"rtol": 1e-11, "atol": 1e-11}


class Case(NamedTuple):
    """A graph, its edges also as tuples; relations from inverse_from on are inverse."""

    nodes: int
    relations: int
    inverse_from: int
    edges: Edges
    tuples: list[oracle.Edge]
    seed: int

    def x(self, dim: int) -> Tensor:
        torch.manual_seed(self.seed)
        return torch.randn(self.nodes, dim, dtype=torch.float64)


@st.composite
def cases(draw: st.DrawFn, most_edges: int = 40) -> Case:
    """Few nodes and relations: many repeated edges, self-loops and nodes without edges."""
    nodes, relations = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    some = torch.from_numpy(
        rng.integers(0, [nodes, relations, nodes], (draw(st.integers(0, most_edges)), 3))
    )
    edges, inverse_from = Edges(*some.unbind(1)), relations
    if draw(st.booleans()):
        edges, relations = add_inverse_edges(edges, relations), 2 * relations
    return Case(
        nodes,
        relations,
        inverse_from,
        edges,
        [tuple(edge) for edge in torch.stack(edges, dim=1).tolist()],
        seed,
    )


def edges_of(*rows: oracle.Edge) -> Edges:
    return Edges(*torch.tensor(rows, dtype=torch.int64).reshape(-1, 3).unbind(1))


# A repeated edge, a self-loop, a relation and a node that no edge has.
SMALL = edges_of((0, 0, 1), (0, 0, 1), (2, 1, 1), (2, 1, 2), (1, 0, 2), (1, 3, 0))
NO_EDGES = edges_of()


def test_inverse_edges_by_hand() -> None:
    edges = add_inverse_edges(edges_of((0, 1, 2), (3, 0, 3)), 2)
    assert [column.tolist() for column in edges] == [[0, 3, 2, 3], [1, 0, 3, 2], [2, 3, 0, 3]]


def test_edge_weights_by_hand() -> None:
    assert edge_weights(SMALL, 4, "relation").tolist() == [0.5, 0.5, 1, 1, 1, 1]
    assert edge_weights(SMALL, 4, "degree").tolist() == pytest.approx(
        [1 / 3] * 3 + [1 / 2] * 2 + [1]
    )
    assert edge_weights(SMALL, 4, "degree_squared").tolist() == pytest.approx(
        [1 / 9] * 3 + [1 / 4] * 2 + [1]
    )


@settings(max_examples=200)
@given(cases(), st.sampled_from(NORMS))
def test_edge_weights_equal_a_loop(case: Case, norm: str) -> None:
    actual = edge_weights(case.edges, case.relations, norm)  # type: ignore[arg-type]
    assert_close(
        actual,
        torch.tensor(oracle.edge_weights(case.tuples, norm), dtype=torch.float32),
        rtol=0,
        atol=1e-7,
    )


@settings(max_examples=30)
@given(cases(), st.sampled_from([1, 2, 3, 6]), st.sampled_from(NORMS), st.booleans())
def test_rgcn_equals_a_loop_over_edges(case: Case, blocks: int, norm: str, bias: bool) -> None:
    x, layer = case.x(6), RGCN(6, case.relations, blocks, bias).double()
    if layer.bias is not None:
        torch.nn.init.normal_(layer.bias)
    weights = oracle.edge_weights(case.tuples, norm)
    actual = layer(x, case.edges, torch.tensor(weights, dtype=torch.float64))
    assert_close(actual, oracle.rgcn(layer, x, case.tuples, weights), **EXACT)
    # The weights that models use are rounded to single precision.
    rounded = layer(x, case.edges, edge_weights(case.edges, case.relations, norm))  # type: ignore[arg-type]
    assert_close(rounded, actual, rtol=1e-6, atol=1e-6)


def test_dropout_on_the_self_loop_leaves_messages_and_bias() -> None:
    layer, edges = RGCN(6, 4, 6, bias=True).double(), SMALL
    x, weights = torch.randn(6, 6, dtype=torch.float64), edge_weights(SMALL, 4, "degree").double()
    assert layer.bias is not None
    torch.nn.init.normal_(layer.bias)
    dropped = layer(x, edges, weights, torch.zeros_like)
    assert_close(dropped, layer(x, edges, weights) - layer.self_loop(x))


def test_xavier_initialization_follows_its_bounds() -> None:
    torch.manual_seed(0)
    layer = RGCN(64, 40, 64, xavier=True)
    for weight, bound in (
        (layer.weight, math.sqrt(2 * 6 / (40 + 64))),
        (layer.self_loop.weight, math.sqrt(2 * 6 / 128)),
    ):
        assert 0.99 * bound < weight.abs().max() <= bound


def test_rgcn_by_hand() -> None:
    layer = RGCN(2, 2, 2).double()
    with torch.no_grad():
        layer.self_loop.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        layer.weight.copy_(torch.tensor([[2.0, 3.0], [-1.0, 10.0]])[:, :, None, None])
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64)
    edges = edges_of((0, 0, 2), (1, 0, 2), (1, 1, 2), (2, 1, 2))
    # Node 2: (6, 5) + ((2, 6) + (6, 12)) / 2 + ((-3, 40) + (-5, 60)) / 2.
    assert layer(x, edges, edge_weights(edges, 2, "relation")).tolist() == [[2, 1], [4, 3], [6, 64]]
    # Node 2: (6, 5) + ((2, 6) + (6, 12) + (-3, 40) + (-5, 60)) / 4.
    assert layer(x, edges, edge_weights(edges, 2, "degree")).tolist() == [[2, 1], [4, 3], [6, 34.5]]


def test_a_full_matrix_is_applied_from_the_right() -> None:
    layer = RGCN(2, 1, 1).double()
    with torch.no_grad():
        layer.self_loop.weight.zero_()
        layer.weight.copy_(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
    x = torch.tensor([[1.0, 10.0], [0.0, 0.0]], dtype=torch.float64)
    assert layer(x, edges_of((0, 0, 1)), torch.ones(1)).tolist() == [[0, 0], [31, 42]]


@pytest.fixture(scope="module")
def pyg() -> ModuleType:
    return pytest.importorskip(
        "torch_geometric.nn", reason="compares with PyTorch Geometric where it is installed"
    )


def geometric_twin(
    kind: type[nn.Module], layer: RGCN, relations: int, blocks: int | None
) -> nn.Module:
    """Their layer with our weights, [relations, in, out] or [relations, blocks, in, out]."""
    dim = layer.self_loop.in_features
    twin = kind(dim, dim, relations, num_blocks=blocks, aggr="mean", bias=False).double()
    with torch.no_grad():
        twin.root.copy_(layer.self_loop.weight.T)
        twin.weight.copy_(layer.weight[:, 0] if blocks is None else layer.weight)
    return twin


@pytest.mark.parametrize("kind", ["RGCNConv", "FastRGCNConv"])
@pytest.mark.parametrize("blocks", [None, 1, 2, 3, 6])
@settings(max_examples=15)
@given(cases().filter(lambda case: case.tuples))
def test_rgcn_equals_pytorch_geometric(
    pyg: ModuleType, kind: str, blocks: int | None, case: Case
) -> None:
    x, layer = case.x(6), RGCN(6, case.relations, blocks or 1).double()
    twin = geometric_twin(getattr(pyg, kind), layer, case.relations, blocks)
    expected = twin(x, torch.stack([case.edges.source, case.edges.target]), case.edges.relation)
    actual = layer(x, case.edges, edge_weights(case.edges, case.relations, "relation"))
    assert_close(actual, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=100)
@given(
    st.integers(0, 150),
    st.integers(1, 5),
    st.sampled_from([(1, 4), (2, 3), (4, 2), (5, 1)]),
    st.sampled_from([1, 3, 32]),
    st.integers(0, 2**32 - 1),
)
def test_block_diagonal_product_equals_a_loop_over_rows(
    rows: int, relations: int, shape: tuple[int, int], tile: int, seed: int
) -> None:
    torch.manual_seed(seed)
    blocks, size = shape
    x = torch.randn(rows, blocks * size, dtype=torch.float64)
    # Of three times as many relations most do not occur, the first and the last among them.
    relation = torch.randint(relations, (rows,)) * 3 + 1
    weight = torch.randn(3 * relations, blocks, size, size, dtype=torch.float64)
    actual = block_diagonal_product(x, relation, weight, tile)
    assert_close(actual, oracle.block_diagonal_product(x, relation.tolist(), weight), **EXACT)


def test_block_diagonal_product_with_more_rows_than_a_tile() -> None:
    torch.manual_seed(0)
    # Exactly one tile, one row more, one row less, none.
    relation = torch.tensor([0] * 32 + [2] * 33 + [3] * 31)[torch.randperm(96)]
    x, weight = (
        torch.randn(96, 4, dtype=torch.float64),
        torch.randn(5, 2, 2, 2, dtype=torch.float64),
    )
    assert_close(
        block_diagonal_product(x, relation, weight),
        oracle.block_diagonal_product(x, relation.tolist(), weight),
        **EXACT,
    )


@settings(max_examples=30)
@given(cases(), st.sampled_from(COMPOSITIONS), st.integers(1, 7), st.sampled_from(NORMS))
def test_compgcn_equals_a_loop_over_edges(
    case: Case, composition: str, dim: int, norm: str
) -> None:
    x = case.x(dim)
    layer = CompGCN(dim, case.relations, composition, case.inverse_from).double()  # type: ignore[arg-type]
    weights = oracle.edge_weights(case.tuples, norm)
    actual = layer(x, case.edges, torch.tensor(weights, dtype=torch.float64))
    assert_close(actual, oracle.compgcn(layer, x, case.tuples, weights), **EXACT)


def test_circular_correlation_by_hand() -> None:
    layer = CompGCN(3, 2, "correlate", 1).double()
    with torch.no_grad():
        layer.self_loop.weight.zero_()
        layer.forward_edges.weight.copy_(torch.eye(3))
        layer.inverse_edges.weight.copy_(10 * torch.eye(3))
        layer.relation.copy_(torch.tensor([[4.0, 5.0, 6.0], [1.0, 0.0, 0.0]]))
    x = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    # 1*4 + 2*5 + 3*6, 1*5 + 2*6 + 3*4, 1*6 + 2*4 + 3*5;
    # and 1*1, 3*1, 2*1 times 10 for the inverse edge.
    expected = torch.tensor([[10.0, 30.0, 20.0], [32.0, 29.0, 29.0]], dtype=torch.float64)
    assert_close(layer(x, edges_of((0, 0, 1), (0, 1, 0)), torch.ones(2)), expected, **EXACT)


@settings(max_examples=30)
@given(cases(), st.sampled_from([1, 2, 3, 6]))
def test_rgat_equals_a_loop_over_nodes(case: Case, heads: int) -> None:
    x, layer = case.x(6), RGAT(6, case.relations, heads).double()
    # The weights of other layers must not matter.
    actual = layer(x, case.edges, torch.full((len(case.tuples),), math.nan))
    assert_close(actual, oracle.rgat(layer, x, case.tuples), **EXACT)


@settings(max_examples=100)
@given(
    st.integers(0, 30), st.integers(1, 6), st.sampled_from([1.0, 1000.0]), st.integers(0, 2**32 - 1)
)
def test_segment_softmax_equals_softmax_of_each_segment(
    rows: int, segments: int, scale: float, seed: int
) -> None:
    torch.manual_seed(seed)
    logits = scale * torch.randn(rows, 3, dtype=torch.float64)
    segment = torch.randint(segments, (rows,))
    actual = segment_softmax(logits, segment, segments)
    for number in range(segments):
        assert_close(
            actual[segment == number], torch.softmax(logits[segment == number], dim=0), **EXACT
        )


def layers(dim: int, relations: int) -> dict[str, nn.Module]:
    """Every structural layer; the relations from 2 on are inverse ones."""
    torch.manual_seed(0)
    return {
        **{f"rgcn, {blocks} blocks": RGCN(dim, relations, blocks) for blocks in (1, 2, dim)},
        **{f"compgcn, {name}": CompGCN(dim, relations, name, 2) for name in COMPOSITIONS},  # type: ignore[arg-type]
        **{f"rgat, {heads} heads": RGAT(dim, relations, heads) for heads in (1, 2)},
    }


LAYERS = sorted(layers(4, 4))


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name: str) -> None:
    layer = layers(4, 4)[name].double()
    weights = edge_weights(SMALL, 4, "degree").double()
    x = torch.randn(4, 4, dtype=torch.float64)
    assert oracle.gradients_hold(layer, lambda x: (x, SMALL, weights), [x])


@pytest.mark.parametrize("name", LAYERS)
def test_without_an_edge_only_the_self_loop_is_left(name: str) -> None:
    layer = layers(4, 4)[name].double()
    x = torch.randn(3, 4, dtype=torch.float64)
    assert_close(layer(x, NO_EDGES, torch.empty(0)), x @ layer.self_loop.weight.T, **EXACT)


@pytest.mark.parametrize("name", LAYERS)
def test_mixed_precision(name: str) -> None:
    layer, weights = layers(4, 4)[name], edge_weights(SMALL, 4, "relation")
    x = torch.randn(4, 4)
    # Twice, as in an encoder: the second layer takes what the first one gives.
    with torch.autocast("cpu", torch.bfloat16):
        actual = layer(layer(x, SMALL, weights), SMALL, weights)
    assert_close(
        actual.float(), layer(layer(x, SMALL, weights), SMALL, weights), rtol=0.05, atol=0.1
    )
