"""Seconds of our layers and of their usual implementations, forward and backward.

All snapshots of ICEWS14 form one graph of (entity, step) nodes; without the data, a demo world of
that size is used. RGCN is compared with torch_geometric's RGCNConv and FastRGCNConv with the same
weights, DecayedGRU with a loop over the snapshots of each window. Results are compared before
anything is timed. At dim 128 the layers of torch_geometric need about 16 GB, and on a CPU RGCNConv
with blocks takes minutes.

PYTHONPATH=src python benchmarks/layers.py --device auto --dim 128
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from speed_tables import layers_speed_table
from torch import Tensor, nn
from torch_geometric.nn import FastRGCNConv, RGCNConv

from tempograph.cli.console import out, show
from tempograph.data.catalog import load_dataset
from tempograph.data.graph import TemporalGraph
from tempograph.data.sorted_ranges import Ranges
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Timeline
from tempograph.device import environment, resolve_device
from tempograph.errors import DataError
from tempograph.io import write_json
from tempograph.models.temp.encoder import Encoded
from tempograph.nn.structure import RGCN, Edges, edge_weights
from tempograph.nn.temporal import Context, DecayedGRU, Windows

WINDOW = 8
QUERY_TIMES = 32

Work = Callable[[], list[Tensor]]
"""One forward and backward pass: the result and the gradients of the inputs."""


def main() -> None:
    """Compare, time, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    # Segments of pyg_lib, where it is installed, do not take the mean by relation.
    torch_geometric.backend.use_segment_matmul = False
    torch.manual_seed(0)
    graph = icews14()
    timeline = Timeline(graph, "strict", device)
    results = [
        *structure_rows(timeline, arguments.dim, blocks=1),
        *structure_rows(timeline, arguments.dim, blocks=arguments.dim),
        *recurrence_rows(timeline, arguments.dim),
    ]
    speeds = {
        "environment": environment(device),
        "dataset": graph.name,
        "dim": arguments.dim,
        "results": results,
    }
    about = (
        f"forward and backward over {graph.name}: {len(timeline.pair_keys):,} nodes, "
        f"{len(timeline.facts):,} edges, "
        f"{timeline.num_relations} relations, dim {arguments.dim}; torch {torch.__version__}; "
        "results and gradients agree to 1e-3 of each number or 1e-5 of the largest"
    )
    show(layers_speed_table(speeds, about))
    if arguments.json is not None:
        write_json(arguments.json, speeds)


def icews14() -> TemporalGraph:
    """ICEWS14, or a synthetic world of its size where it is not on this machine."""
    try:
        return load_dataset("icews14")
    except DataError:
        return make_world(
            entities=7000, relations=230, steps=365, facts=90_000, name="world of ICEWS14's size"
        ).graph


def structure_rows(timeline: Timeline, dim: int, blocks: int) -> list[dict[str, Any]]:
    """RGCN and its rivals over all snapshots, edge weights included."""
    device, relations = timeline.device, timeline.num_relations
    edges = Edges(timeline.subject_pair, timeline.facts[:, 1].contiguous(), timeline.object_pair)
    index = torch.stack([edges.source, edges.target])
    x = torch.randn(len(timeline.pair_keys), dim, device=device, requires_grad=True)
    upstream = torch.randn_like(x)
    ours = RGCN(dim, relations, blocks).to(device)

    def pass_of(layer: nn.Module, weight: Tensor, forward: Callable[[], Tensor]) -> Work:
        def work() -> list[Tensor]:
            layer.zero_grad()
            x.grad = None
            result = forward()
            torch.autograd.backward(result, upstream)
            by_x, by_weight = gradients(x, weight)
            return [result.detach(), by_x, by_weight.view_as(ours.weight)]

        return work

    works = {
        "ours": pass_of(
            ours, ours.weight, lambda: ours(x, edges, edge_weights(edges, relations, "relation"))
        )
    }
    for twin in (FastRGCNConv, RGCNConv):
        layer = twin(
            dim, dim, relations, num_blocks=None if blocks == 1 else blocks, bias=False
        ).to(device)
        with torch.no_grad():
            layer.weight.copy_(ours.weight.view_as(layer.weight))
            layer.root.copy_(ours.self_loop.weight.T)
        works[twin.__name__] = pass_of(
            layer, layer.weight, partial(layer, x, index, edges.relation)
        )
    return compared(f"RGCN, {'1 block' if blocks == 1 else f'{blocks} blocks'}", works, device)


def recurrence_rows(timeline: Timeline, dim: int) -> list[dict[str, Any]]:
    """DecayedGRU and a plain loop, for every entity at some query times, in both directions."""
    device, entities = timeline.device, timeline.num_entities
    times = torch.unique(
        torch.linspace(0, timeline.num_steps - 1, QUERY_TIMES, device=device).long()
    )
    entity = torch.randn(entities, dim, device=device, requires_grad=True)
    context = torch.randn(len(timeline.pair_keys), dim, device=device, requires_grad=True)
    upstream = torch.randn(len(times), entities, dim, device=device)
    gru = DecayedGRU(dim, bidirectional=True).to(device)
    cells = gru_cells(gru)
    active = [(timeline.pair_time == step).nonzero()[:, 0] for step in range(timeline.num_steps)]

    def ours() -> list[Tensor]:
        entity.grad = context.grad = None
        query_time, who = (
            times.repeat_interleave(entities),
            torch.arange(entities, device=device).repeat(len(times)),
        )
        past, future = (
            timeline.window(who, query_time - WINDOW, query_time - 1),
            timeline.window(who, query_time + 1, query_time + WINDOW),
        )
        keys = (past.lengths + future.lengths).nonzero()[:, 0]
        windows = Windows(
            query_time[keys],
            *(Ranges(side.start[keys], side.stop[keys]) for side in (past, future)),
        )
        z = gru(entity[who[keys]], windows, Context(context, timeline.pair_time))
        result = Encoded(gru.without_context(entity), keys, z).tables(len(times))
        torch.autograd.backward(result, upstream)
        return [result.detach(), *gradients(entity, context)]

    def chain(cell: nn.GRUCell, query_time: int, steps: list[int]) -> Tensor:
        """One direction of one query time: a cell over all entities for each snapshot."""
        state = torch.zeros_like(entity)
        moment = torch.full((entities,), query_time, device=device)
        for step in steps:
            row = active[step]
            who = timeline.pair_entity[row]
            there = torch.zeros(entities, dtype=torch.bool, device=device).index_fill(0, who, True)
            decayed = state * gru.decay((step - moment).abs())[:, None]
            new = cell(entity.index_copy(0, who, context[row]), decayed)
            state = torch.where(there[:, None], new, state)
            moment = torch.where(there, step, moment)
        last: Tensor = cell(entity, state * gru.decay((query_time - moment).abs())[:, None])
        return last

    def plain() -> list[Tensor]:
        entity.grad = context.grad = None
        results = []
        for index, query_time in enumerate(times.tolist()):
            before = range(max(0, query_time - WINDOW), query_time)
            after = range(query_time + 1, min(timeline.num_steps, query_time + WINDOW + 1))
            result = chain(cells[0], query_time, [*before])
            result = result + chain(cells[1], query_time, [*reversed(after)])
            # One query time after the other: the cells of all would not fit in memory.
            torch.autograd.backward(result, upstream[index])
            results.append(result.detach())
        return [torch.stack(results), *gradients(entity, context)]

    return compared(
        f"GRU, {len(times)} times, window {WINDOW}",
        {"ours": ours, "snapshot by snapshot": plain},
        device,
    )


def gru_cells(gru: DecayedGRU) -> list[nn.GRUCell]:
    """A cell of torch for each side, with the same weights."""
    cells = []
    for side, (dim, _) in enumerate(weight.shape for weight in gru.input_weight):
        cell = nn.GRUCell(dim, dim, device=gru.input_weight.device)
        with torch.no_grad():
            cell.weight_ih.copy_(gru.input_weight[side].T)
            cell.weight_hh.copy_(gru.state_weight[side].T)
            cell.bias_ih.copy_(gru.input_bias[side, 0])
            cell.bias_hh.copy_(gru.state_bias[side, 0])
        cells.append(cell)
    return cells


def gradients(*inputs: Tensor) -> list[Tensor]:
    """The gradients that a backward pass left."""
    return [value.grad for value in inputs if value.grad is not None]


def compared(what: str, works: dict[str, Work], device: torch.device) -> list[dict[str, Any]]:
    """A row for each way to do the same work, after a check that results and gradients agree."""
    expected = works["ours"]()
    taken = {}
    for who, work in works.items():
        for value, wanted in zip(work(), expected, strict=True):
            # Thousands of terms may cancel in a gradient: rounding goes with the largest.
            torch.testing.assert_close(
                value, wanted, rtol=1e-3, atol=1e-5 * float(wanted.abs().max())
            )
        taken[who] = seconds(work, device)
        out.print(f"{what}: {who} agrees, {taken[who]:.4g} s")
    ours = taken["ours"]
    return [
        {"what": what, "who": who, "seconds": taken[who], "times_ours": taken[who] / ours}
        for who in works
    ]


def seconds(work: Work, device: torch.device) -> float:
    """The median of several runs, of fewer when they are slow; the check before was the warm-up."""
    measured: list[float] = []
    while (len(measured) < 20 and sum(measured) < 2) or (len(measured) < 3 and sum(measured) < 10):
        synchronize(device)
        begin = time.perf_counter()
        work()
        synchronize(device)
        measured.append(time.perf_counter() - begin)
    return statistics.median(measured)


def synchronize(device: torch.device) -> None:
    """Wait for the GPU, where there is one."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
