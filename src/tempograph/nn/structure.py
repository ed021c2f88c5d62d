"""Message passing inside snapshots, which form one graph whose nodes are (entity, step) pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

Norm = Literal["relation", "degree", "degree_squared"]
Composition = Literal["subtract", "multiply", "correlate"]


class Edges(NamedTuple):
    """Edges u -r-> v between nodes, [edges] each; an inverse edge has relation r + |R|."""

    source: Tensor
    relation: Tensor
    target: Tensor


def add_inverse_edges(edges: Edges, num_relations: int) -> Edges:
    """The edges, then each edge reversed with the inverse of its relation."""
    return Edges(
        torch.cat([edges.source, edges.target]),
        torch.cat([edges.relation, edges.relation + num_relations]),
        torch.cat([edges.target, edges.source]),
    )


def edge_weights(edges: Edges, num_relations: int, norm: Norm) -> Tensor:
    """1 / c of each edge u -r-> v, [edges]; c counts v's edges of relation r, or all of them."""
    key = edges.target * num_relations + edges.relation if norm == "relation" else edges.target
    _, index, count = torch.unique(key, return_inverse=True, return_counts=True)
    weights: Tensor = count[index].float().reciprocal()
    return weights.square() if norm == "degree_squared" else weights


class RGCN(nn.Module):
    """h'_v = W_self h_v + sum over edges u -r-> v of (1 / c) W_r h_u.

    W_r is block-diagonal with `blocks` blocks, a diagonal if blocks = dim. Costs
    O(nodes dim^2 + edges dim^2 / blocks); a diagonal stores no messages on a GPU.
    """

    def __init__(
        self, dim: int, num_relations: int, blocks: int, bias: bool = False, xavier: bool = False
    ) -> None:
        super().__init__()
        self.size = dim // blocks
        self.weight = nn.Parameter(torch.empty(num_relations, blocks, self.size, self.size))
        self.self_loop = _square(dim)
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None
        bound = 1 / math.sqrt(self.size)
        if xavier:
            nn.init.xavier_uniform_(self.self_loop.weight, gain=math.sqrt(2))
            bound = math.sqrt(2 * 6 / (num_relations + blocks * self.size**2))
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(
        self,
        x: Tensor,
        edges: Edges,
        weights: Tensor,
        self_dropout: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """x [nodes, dim], weights [edges] -> [nodes, dim]; self_dropout acts on W_self h."""
        own: Tensor = self.self_loop(x)
        if self_dropout is not None:
            own = self_dropout(own)
        if self.bias is not None:
            own = own + self.bias
        if self.size == 1:
            return add_messages(own, x, self.weight[:, :, 0, 0], edges, weights)
        messages = block_diagonal_product(
            x.index_select(0, edges.source), edges.relation, self.weight
        )
        return own.index_add(0, edges.target, (messages * weights[:, None]).to(own.dtype))


def add_messages(own: Tensor, x: Tensor, weight: Tensor, edges: Edges, weights: Tensor) -> Tensor:
    """own_v + sum over edges u -r-> v of (1 / c) w_r * x_u.

    own, x [nodes, dim], weight [relations, dim], weights 1 / c [edges] -> [nodes, dim].
    """
    if x.device.type == "cuda":
        from tempograph.nn.kernels.messages_kernel import AddMessages

        out: Tensor = AddMessages.apply(own, x, weight, weights, *edges)
        return out
    return add_messages_torch(own, x, weight, edges, weights)


def add_messages_torch(
    own: Tensor, x: Tensor, weight: Tensor, edges: Edges, weights: Tensor
) -> Tensor:
    """`add_messages` in plain PyTorch, with a tensor of all messages."""
    messages = x.index_select(0, edges.source) * weight.index_select(0, edges.relation)
    return own.index_add(0, edges.target, (messages * weights[:, None]).to(own.dtype))


def block_diagonal_product(x: Tensor, relation: Tensor, weight: Tensor, tile: int = 32) -> Tensor:
    """Row i of x [n, dim] times the block-diagonal matrix of its relation [n]: [n, dim].

    weight [relations, blocks, in, out]. Rows are sorted by relation and cut into tiles of one
    relation each, so that a tile shares one matrix: one batched product, without a loop over
    relations or a matrix for every row.
    """
    relations, blocks, size, _ = weight.shape
    order = torch.argsort(relation, stable=True)
    count = torch.bincount(relation, minlength=relations)
    tiles = (count + tile - 1) // tile
    # Row k of a relation goes to tile k // 32 of that relation, slot k % 32.
    within = torch.arange(len(x), device=x.device) - (count.cumsum(0) - count)[relation[order]]
    slot = (tiles.cumsum(0) - tiles)[relation[order]] * tile + within
    total = int(tiles.sum())
    padded = x.new_zeros(total * tile, blocks * size).index_copy(0, slot, x[order])
    tile_relation = torch.repeat_interleave(torch.arange(relations, device=x.device), tiles)
    tiled = padded.view(total, tile, blocks, size).transpose(1, 2)
    product = (tiled @ weight.index_select(0, tile_relation)).transpose(1, 2)
    product = product.reshape(total * tile, blocks * size)
    return torch.empty_like(product[: len(x)]).index_copy(0, order, product[slot])


class CompGCN(nn.Module):
    """h'_v = W_self h_v + sum over edges u -r-> v of (1 / c) W_direction phi(h_u, e_r).

    phi composes node and relation; W_direction is one matrix for edges and one for inverse edges,
    applied once to each node's sum: O(nodes dim^2 + edges dim).
    """

    def __init__(
        self, dim: int, num_relations: int, composition: Composition, inverse_from: int
    ) -> None:
        super().__init__()
        self.composition: Composition = composition
        self.inverse_from = inverse_from
        self.relation = nn.Parameter(torch.empty(num_relations, dim))
        nn.init.xavier_uniform_(self.relation)
        self.forward_edges = _square(dim)
        self.inverse_edges = _square(dim)
        self.self_loop = _square(dim)

    def forward(self, x: Tensor, edges: Edges, weights: Tensor) -> Tensor:
        """x [nodes, dim], weights [edges] -> [nodes, dim]."""
        inverse = edges.relation >= self.inverse_from
        nodes, relations = x, self.relation
        if self.composition == "correlate":
            # Circular correlation is a product of spectra, and sums of spectra are spectra of sums.
            nodes, relations = torch.fft.rfft(x).conj(), torch.fft.rfft(self.relation)
        node = nodes.index_select(0, edges.source)
        relation = relations.index_select(0, edges.relation)
        messages = node - relation if self.composition == "subtract" else node * relation
        # One sum for both directions: rows v for edges, rows v + nodes for inverse edges.
        row = edges.target + inverse * len(x)
        sums = messages.new_zeros(2 * len(x), messages.shape[1]).index_add(
            0, row, messages * weights[:, None]
        )
        if self.composition == "correlate":
            sums = torch.fft.irfft(sums, n=x.shape[1])
        forward, backward = sums.chunk(2)
        out: Tensor = self.self_loop(x) + self.forward_edges(forward) + self.inverse_edges(backward)
        return out


class RGAT(nn.Module):
    """h'_v = W_self h_v + sum over edges u -r-> v of a_uv g_u, with g_u = w_r * (W h_u).

    a is, for each head, the softmax over all edges of v of leaky_relu(q . W h_v + k . g_u). Costs
    O(nodes dim^2 + edges dim).
    """

    def __init__(self, dim: int, num_relations: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = _square(dim)
        self.self_loop = _square(dim)
        self.weight = nn.Parameter(torch.empty(num_relations, dim).uniform_(-1, 1))
        self.query = nn.Parameter(torch.empty(heads, dim // heads))
        self.key = nn.Parameter(torch.empty(heads, dim // heads))
        nn.init.xavier_uniform_(self.query)
        nn.init.xavier_uniform_(self.key)

    def forward(self, x: Tensor, edges: Edges, weights: Tensor) -> Tensor:
        """x [nodes, dim] -> [nodes, dim]; the edge weights are not used."""
        projected = self.project(x)
        values = (
            projected.index_select(0, edges.source) * self.weight.index_select(0, edges.relation)
        ).view(-1, self.heads, self.query.shape[1])
        query = (projected.view(-1, *self.query.shape) * self.query).sum(-1)
        logits = leaky_relu(query.index_select(0, edges.target) + (values * self.key).sum(-1), 0.2)
        attention = segment_softmax(logits, edges.target, len(x))
        messages = (values * attention[..., None]).flatten(1)
        own: Tensor = self.self_loop(x)
        return own.index_add(0, edges.target, messages.to(own.dtype))


def _square(dim: int) -> nn.Linear:
    """A linear map that starts orthogonal, so that it keeps norms."""
    layer = nn.Linear(dim, dim, bias=False)
    nn.init.orthogonal_(layer.weight)
    return layer


def segment_softmax(logits: Tensor, segment: Tensor, num_segments: int) -> Tensor:
    """Softmax over the rows of each segment for each head.   logits [n, heads], segment [n]."""
    index = segment[:, None].expand_as(logits)
    highest = logits.new_full((num_segments, logits.shape[1]), -math.inf)
    highest = highest.scatter_reduce(0, index, logits.detach(), "amax")
    weights = (logits - highest[segment]).exp()
    total = weights.new_zeros(num_segments, logits.shape[1]).index_add(0, segment, weights)
    return weights / total.index_select(0, segment)


class LayerShape(NamedTuple):
    """The sizes of a layer; `edge_types` counts relations once, or twice with inverse edges."""

    dim: int
    edge_types: int
    num_relations: int
    blocks: int
    heads: int
    composition: Composition
    bias: bool
    xavier: bool


STRUCTURES: Final[dict[str, Callable[[LayerShape], nn.Module]]] = {
    "rgcn": lambda shape: RGCN(shape.dim, shape.edge_types, shape.blocks, shape.bias, shape.xavier),
    "compgcn": lambda shape: CompGCN(
        shape.dim, shape.edge_types, shape.composition, shape.num_relations
    ),
    "rgat": lambda shape: RGAT(shape.dim, shape.edge_types, shape.heads),
}
"""Structural encoders by name; add your own. A layer maps (x [nodes, dim], edges, weights) to x."""
