"""Slow, obvious twins of the layers: plain loops in doubles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tempograph.nn.structure import RGAT, RGCN, CompGCN
from tempograph.nn.temporal import Context, Decay, DecayedGRU, Imputation, TemporalAttention

Edge = tuple[int, int, int]
"""Source, relation, target."""


def edge_weights(edges: list[Edge], norm: str) -> list[float]:
    power = 2 if norm == "degree_squared" else 1
    return [
        1 / sum(w == v and (norm != "relation" or q == r) for _, q, w in edges) ** power
        for _, r, v in edges
    ]


def block_diagonal_product(x: Tensor, relation: list[int], weight: Tensor) -> Tensor:
    rows = [
        row @ torch.block_diag(*weight[number]) for row, number in zip(x, relation, strict=True)
    ]
    return torch.stack(rows) if rows else x


def rgcn(layer: RGCN, x: Tensor, edges: list[Edge], weights: list[float]) -> Tensor:
    bias = 0 if layer.bias is None else layer.bias
    out = [layer.self_loop.weight @ node + bias for node in x]
    for (source, relation, target), share in zip(edges, weights, strict=True):
        out[target] = out[target] + share * (x[source] @ torch.block_diag(*layer.weight[relation]))
    return torch.stack(out)


def compose(composition: str, node: Tensor, relation: Tensor) -> Tensor:
    if composition == "subtract":
        return node - relation
    if composition == "multiply":
        return node * relation
    a, b = node.tolist(), relation.tolist()
    dim = len(a)
    return node.new_tensor(
        [math.fsum(a[i] * b[(k + i) % dim] for i in range(dim)) for k in range(dim)]
    )


def compgcn(layer: CompGCN, x: Tensor, edges: list[Edge], weights: list[float]) -> Tensor:
    out = [layer.self_loop.weight @ node for node in x]
    for (source, relation, target), share in zip(edges, weights, strict=True):
        turned = layer.inverse_edges if relation >= layer.inverse_from else layer.forward_edges
        message = turned.weight @ compose(layer.composition, x[source], layer.relation[relation])
        out[target] = out[target] + share * message
    return torch.stack(out)


def rgat(layer: RGAT, x: Tensor, edges: list[Edge]) -> Tensor:
    out = []
    for number, node in enumerate(x):
        query = (layer.project.weight @ node).chunk(layer.heads)
        into = [
            (layer.weight[r] * (layer.project.weight @ x[u])).chunk(layer.heads)
            for u, r, v in edges
            if v == number
        ]
        heads = []
        for head in range(layer.heads):
            mixed = torch.zeros_like(query[head])
            logits = []
            for value in into:
                logit = (layer.query[head] @ query[head] + layer.key[head] @ value[head]).item()
                logits.append(logit if logit > 0 else 0.2 * logit)
            for share, value in zip(softmax(logits), into, strict=True):
                mixed = mixed + share * value[head]
            heads.append(mixed)
        out.append(layer.self_loop.weight @ node + torch.cat(heads))
    return torch.stack(out)


def softmax(logits: list[float]) -> list[float]:
    highest = max(logits, default=0.0)
    weights = [math.exp(logit - highest) for logit in logits]
    return [weight / math.fsum(weights) for weight in weights]


def exponent(decay: Decay, gap: float) -> float:
    return max(0.0, decay.rate.item() * gap + decay.shift.item())


def gru_cell(layer: DecayedGRU, side: int) -> nn.GRUCell:
    """Torch's cell with the weights of one side."""
    dim = layer.input_weight.shape[1]
    cell = nn.GRUCell(dim, dim, dtype=torch.float64)
    with torch.no_grad():
        cell.weight_ih.copy_(layer.input_weight[side].T)
        cell.weight_hh.copy_(layer.state_weight[side].T)
        cell.bias_ih.copy_(layer.input_bias[side, 0])
        cell.bias_hh.copy_(layer.state_bias[side, 0])
    return cell


def decayed_gru(
    layer: DecayedGRU,
    x: Tensor,
    time: int,
    past: list[int],
    future: list[int] | None,
    context: Context,
) -> Tensor:
    """One entity at one time; past and future are its rows of the context, oldest first."""
    total = torch.zeros_like(x)
    for side, rows in enumerate([past] if future is None else [past, future[::-1]]):
        cell, state, before = gru_cell(layer, side), torch.zeros_like(x), None
        for row in rows:
            now = int(context.time[row])
            if before is not None:
                state = state * math.exp(-exponent(layer.decay, abs(now - before)))
            state, before = cell(context.x[row], state), now
        if before is not None:
            state = state * math.exp(-exponent(layer.decay, abs(time - before)))
        total = total + cell(x, state)
    return total


def temporal_attention(
    layer: TemporalAttention,
    x: Tensor,
    time: int,
    past: list[int],
    future: list[int] | None,
    context: Context,
) -> Tensor:
    """One entity at one time."""
    steps = [
        (context.x[row], abs(int(context.time[row]) - time)) for row in [*past, *(future or [])]
    ]
    steps.append((x, 0))
    query = (layer.query.weight @ x).chunk(layer.heads)
    heads = []
    for head in range(layer.heads):
        logits, values = [], []
        for state, gap in steps:
            key = (layer.key.weight @ state).chunk(layer.heads)[head]
            values.append((layer.value.weight @ state).chunk(layer.heads)[head])
            logits.append(
                (query[head] @ key).item() / math.sqrt(len(key)) - exponent(layer.decay, gap)
            )
        mixed = torch.zeros_like(values[0])
        for share, value in zip(softmax(logits), values, strict=True):
            mixed = mixed + share * value
        heads.append(mixed)
    return torch.cat(heads)


def imputation(
    layer: Imputation,
    x: Tensor,
    time: int,
    past: list[int],
    future: list[int] | None,
    context: Context,
) -> Tensor:
    """One entity at one time."""
    nearest = [past[-1:]] if future is None else [past[-1:], future[:1]]
    out, rest = torch.zeros_like(x), 1.0
    for rows in nearest:
        for row in rows:
            share = math.exp(-exponent(layer.decay, abs(time - int(context.time[row])))) / len(
                nearest
            )
            out, rest = out + share * context.x[row], rest - share
    return out + rest * x


def softmax_loss(
    scores: list[list[float]], row: list[int], answer: list[int], known: set[tuple[int, int]]
) -> float:
    """Known holds (query, entity) pairs."""
    losses = []
    for query, (index, target) in enumerate(zip(row, answer, strict=True)):
        rivals = [
            score for e, score in enumerate(scores[index]) if e == target or (query, e) not in known
        ]
        losses.append(
            math.log(math.fsum(math.exp(score) for score in rivals)) - scores[index][target]
        )
    return math.fsum(losses) / len(losses)


def sampled_loss(
    positive: list[float], negative: list[list[float]], excluded: list[list[bool]]
) -> float:
    losses = []
    for score, row, out in zip(positive, negative, excluded, strict=True):
        rivals = [rival for rival, gone in zip(row, out, strict=True) if not gone]
        losses.append(
            -math.log(math.exp(score) / math.fsum(math.exp(value) for value in [score, *rivals]))
        )
    return math.fsum(losses) / len(losses)


def margin_loss(
    positive: list[float], negative: list[list[float]], excluded: list[list[bool]], margin: float
) -> float:
    lacking = [
        max(0.0, margin + rival - score)
        for score, row, out in zip(positive, negative, excluded, strict=True)
        for rival, gone in zip(row, out, strict=True)
        if not gone
    ]
    return math.fsum(lacking) / max(1, len(lacking))


def logistic_loss(
    positive: list[float], negative: list[list[float]], excluded: list[list[bool]], margin: float
) -> float:
    losses = []
    for score, row, out in zip(positive, negative, excluded, strict=True):
        rivals = [
            math.log(1 + math.exp(margin + rival))
            for rival, gone in zip(row, out, strict=True)
            if not gone
        ]
        losses.append(
            (math.log(1 + math.exp(-margin - score)) + math.fsum(rivals) / max(1, len(rivals))) / 2
        )
    return math.fsum(losses) / len(losses)


def gradients_hold(
    layer: nn.Module, arguments: Callable[..., tuple[object, ...]], inputs: Sequence[Tensor]
) -> bool:
    """Whether autograd equals finite differences in the inputs and in every parameter.

    `arguments` makes the arguments of the layer out of the inputs.
    """
    names = [name for name, _ in layer.named_parameters()]

    def call(*values: Tensor) -> Tensor:
        parameters = dict(zip(names, values[len(inputs) :], strict=True))
        return torch.func.functional_call(layer, parameters, arguments(*values[: len(inputs)]))

    values = [value.detach().clone().requires_grad_() for value in (*inputs, *layer.parameters())]
    return torch.autograd.gradcheck(call, values)
