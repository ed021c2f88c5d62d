"""The encoders of TeMP: message passing inside snapshots, then a GRU or attention across time."""

from __future__ import annotations

import math
from functools import partial
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from tempograph.data.sorted_ranges import equal_range, key_range
from tempograph.data.timeline import Timeline
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.nn.dropout import dropout
from tempograph.nn.name_vectors import NameVectors
from tempograph.nn.structure import STRUCTURES, Edges, LayerShape, add_inverse_edges, edge_weights
from tempograph.nn.temporal import Context, DecayedGRU, Imputation, TemporalAttention, Windows

_ACTIVATIONS: Final = {"none": nn.Identity(), "relu": nn.ReLU(), "tanh": nn.Tanh()}


class Encoded(NamedTuple):
    """All entities at some times: `rows` for the (time, entity) pairs in `keys`, `base` for others.

    A row is the structural vector x, the temporal vector z, or [x, z] when a gate combines them.
    """

    base: Tensor
    """[entities, width]"""
    keys: Tensor
    """[pairs] time index * entities + entity, rising."""
    rows: Tensor
    """[pairs, width]"""

    def tables(self, num_times: int) -> Tensor:
        """Every entity at every time, [times, entities, width]."""
        flat = self.base.repeat(num_times, 1)
        return flat.index_copy_(0, self.keys, self.rows.to(flat.dtype)).view(
            num_times, *self.base.shape
        )

    def take(self, time_index: Tensor, entity: Tensor) -> Tensor:
        """Entities [n] at times given by their index [n], [n, width]."""
        default = self.base.index_select(0, entity)
        if not len(self.rows):
            return default
        match = equal_range(self.keys, time_index * len(self.base) + entity)
        own = self.rows.index_select(0, match.start.clamp(max=len(self.rows) - 1))
        return torch.where(match.lengths[:, None] > 0, own, default)


class Nodes(NamedTuple):
    """Active (entity, step) pairs: keys entity * steps + step, rising, [nodes]; x [nodes, dim]."""

    keys: Tensor
    x: Tensor


class EncodedSnapshots(NamedTuple):
    """What message passing makes of the entities, before the temporal encoder."""

    current: Nodes
    """At the times that are encoded."""
    context: Nodes
    """In the windows around them; may hold the current nodes as well."""
    isolated: Tensor
    """[entities, dim] entities without an edge."""
    num_steps: int
    """Time steps that the keys of nodes are made with."""


class DropoutSample(NamedTuple):
    """Train facts that a training step keeps at its times, and around them, [train facts] each."""

    keep: Tensor
    context_keep: Tensor
    generator: torch.Generator

    def without(self, facts: Tensor) -> DropoutSample:
        """The sample without the train facts at positions [n] at any step."""
        keep, context_keep = (
            mask.index_fill(0, facts, False) for mask in (self.keep, self.context_keep)
        )
        return self._replace(keep=keep, context_keep=context_keep)


class _Snapshot(NamedTuple):
    keys: Tensor
    edges: Edges


class TeMPEncoder(nn.Module):
    """Structural encoder, imputation and temporal encoder over one timeline.

    Message passing runs over all snapshots as one graph (`nn.structure`). Inactive entities are
    imputed from their nearest active steps (`nn.temporal.Imputation`). A GRU with decay or
    attention (`nn.temporal`) then runs over the active steps in the window of each (entity, time).
    """

    def __init__(self, timeline: Timeline, settings: TeMPSettings) -> None:
        super().__init__()
        self.timeline = timeline
        self.settings = settings
        dim = settings.dim
        self.edge_types = timeline.num_relations * (1 + settings.inverse_edges)
        self.entity = nn.Parameter(torch.empty(timeline.num_entities, dim))
        if settings.initialization == "xavier":
            nn.init.xavier_uniform_(self.entity, gain=math.sqrt(2))
        else:
            nn.init.normal_(self.entity, std=settings.initial_scale)
        self.names = NameVectors(timeline, dim, settings.initial_scale) if settings.names else None
        self.structure = nn.ModuleList() if settings.structure == "none" else self._structure()
        self.temporal: DecayedGRU | TemporalAttention | None = None
        if settings.temporal == "gru":
            self.temporal = DecayedGRU(dim, self.bidirectional)
        elif settings.temporal == "attention":
            self.temporal = TemporalAttention(dim, settings.heads)
        self.imputation = Imputation() if settings.imputation else None

    def _structure(self) -> nn.ModuleList:
        s, relations = self.settings, self.timeline.num_relations
        shape = LayerShape(
            s.dim,
            self.edge_types,
            relations,
            s.blocks or s.dim,
            s.heads,
            s.composition,
            s.bias,
            s.initialization == "xavier",
        )
        return nn.ModuleList(STRUCTURES[s.structure](shape) for _ in range(s.layers))

    @property
    def bidirectional(self) -> bool:
        """Whether steps after a query are encoded."""
        return self.settings.bidirectional and not self.timeline.past_only

    @property
    def window(self) -> tuple[int, int]:
        """Steps before and after a query that are encoded; none without a temporal encoder."""
        if self.temporal is None:
            return 0, 0
        return self.settings.window, self.settings.window if self.bidirectional else 0

    def encode(self, times: Tensor, sample: DropoutSample | None = None) -> Encoded:
        """All entities at distinct times [n]; with a sample, as a training step sees them."""
        t, (past, future) = self.timeline, self.window
        before, after = (
            torch.arange(*ends, device=times.device) for ends in ((-past, 0), (1, future + 1))
        )
        # A forecast knows nothing of its own step.
        now = torch.zeros_like(times[:0] if t.past_only else times[:1])
        current = self._snapshot(self._step_mask(times, now), sample.keep if sample else None)
        context = self._snapshot(
            self._step_mask(times, torch.cat([before, after])),
            sample.context_keep if sample else None,
        )
        everyone = torch.arange(t.num_entities, device=t.device)
        snapshots = self._encode_snapshots(current, context, sample, everyone)
        return self.encode_pairs(*all_pairs(times, t.num_entities), snapshots)

    def encode_some(
        self, time: Tensor, entity: Tensor, sample: DropoutSample | None = None
    ) -> Tensor:
        """Some (time, entity) pairs [n], with the facts around them alone, [n, width].

        An entity needs its active steps in the window, and a node of a snapshot the facts within as
        many steps of message passing as there are layers.
        """
        t, (past, future) = self.timeline, self.window
        times = torch.unique(time)
        offsets = torch.arange(-past, future + 1, device=time.device)
        now = torch.zeros_like(times[:0] if t.past_only else times[:1])
        snapshots = []
        for mask, window, keep in (
            (self._step_mask(times, now), (0, 0), sample.keep if sample else None),
            (
                self._step_mask(times, offsets[offsets != 0]),
                (past, future),
                sample.context_keep if sample else None,
            ),
        ):
            wanted = torch.zeros(len(t.pair_keys), dtype=torch.bool, device=t.device)
            wanted[t.window(entity, time - window[0], time + window[1]).expand()[1]] = True
            snapshots.append(self._snapshot(mask, keep, wanted))
        entities, row = torch.unique(entity, return_inverse=True)
        now_around, context_around = snapshots
        current, context, isolated, steps = self._encode_snapshots(
            now_around, context_around, sample, entities
        )
        around = EncodedSnapshots(
            _nodes_of(current, entities, steps),
            _nodes_of(context, entities, steps),
            isolated,
            steps,
        )
        encoded = self.encode_pairs(time, row, around)
        base = encoded.base.index_select(0, row)
        return base.index_copy(0, encoded.keys, encoded.rows.to(base.dtype))

    def encode_pairs(
        self, time: Tensor, entity: Tensor, snapshots: EncodedSnapshots, base: Tensor | None = None
    ) -> Encoded:
        """The temporal encoder: (time, entity) pairs [n] from the snapshots in their windows.

        Entities are rows of `snapshots.isolated`; keys of the result are positions of pairs.
        """
        s, (current, context, isolated, num_steps) = self.settings, snapshots
        first = entity * num_steps
        active = equal_range(current.keys, first + time)
        if self.temporal is None:
            keys = active.lengths.nonzero()[:, 0]
            return Encoded(isolated, keys, current.x[active.start[keys]])

        past = key_range(context.keys, first + (time - s.window).clamp(min=0), first + time - 1)
        future = None
        touched = active.lengths + past.lengths
        if self.bidirectional:
            last = (time + s.window).clamp(max=num_steps - 1)
            future = key_range(context.keys, first + time + 1, first + last)
            touched = touched + future.lengths
        keys = touched.nonzero()[:, 0]
        windows = Windows(
            time[keys], past.take(keys), None if future is None else future.take(keys)
        )
        active_steps = Context(context.x, context.keys % num_steps)
        x = isolated.index_select(0, entity[keys])
        if self.imputation is not None:
            x = self.imputation(x, windows, active_steps)
        is_active = (active.lengths[keys] > 0).nonzero()[:, 0]
        x = x.index_copy(0, is_active, current.x[active.start[keys[is_active]]].to(x.dtype))
        z = self.temporal(x, windows, active_steps)
        base = self.encode_inactive(isolated) if base is None else base
        return Encoded(base, keys, torch.cat([x, z], dim=1) if s.gate else z)

    def encode_inactive(self, isolated: Tensor) -> Tensor:
        """Entities without an active step in their window, [entities, width]."""
        if self.temporal is None:
            return isolated
        z = self.temporal.without_context(isolated)
        return torch.cat([isolated, z], dim=1) if self.settings.gate else z

    def pass_messages(
        self,
        entity: Tensor,
        edges: Edges,
        sample: DropoutSample | None = None,
        num_isolated: int = 0,
    ) -> Tensor:
        """The structural encoder: nodes of entities [nodes] and their edges -> [nodes, dim].

        The last `num_isolated` nodes are those of inactive entities.
        """
        s = self.settings
        x = self.embeddings(entity)
        residual = None
        if s.inactive == "residual" and num_isolated:
            residual = (torch.arange(len(x), device=x.device) >= len(x) - num_isolated)[:, None]
        if s.inverse_edges:
            edges = add_inverse_edges(edges, self.timeline.num_relations)
        weights = edge_weights(edges, self.edge_types, s.norm)
        for index, layer in enumerate(self.structure):
            last = index == len(self.structure) - 1
            if sample is not None and s.feature_dropout and s.dropout_on == "self_loop":
                own = partial(dropout, rate=s.feature_dropout, generator=sample.generator)
                out = layer(x, edges, weights, own)
            else:
                out = layer(x, edges, weights)
            if residual is not None:
                out = out + x * residual
            x = _ACTIVATIONS[s.last_activation if last else s.inner_activation](out)
            if sample is not None and s.feature_dropout and s.dropout_on == "output":
                x = dropout(x, s.feature_dropout, sample.generator)
        return x

    def embeddings(self, entity: Tensor) -> Tensor:
        """The embeddings of entities, before any message, [n] -> [n, dim]."""
        if self.names is not None and len(entity) >= len(self.entity):
            return self.all_embeddings().index_select(0, entity)
        own = self.entity.index_select(0, entity)
        return own if self.names is None else own + self.names(entity)

    def all_embeddings(self) -> Tensor:
        """The embeddings of all entities, [entities, dim]."""
        return self.entity if self.names is None else self.entity + self.names.table()

    def isolated(self) -> Tensor:
        """Every entity without any edge, [entities, dim]."""
        if self.settings.inactive == "embedding":
            return self.all_embeddings()
        everyone = torch.arange(self.timeline.num_entities, device=self.entity.device)
        no_edges = Edges(*(everyone[:0] for _ in Edges._fields))
        return self.pass_messages(everyone, no_edges, num_isolated=len(everyone))

    def _encode_snapshots(
        self, current: _Snapshot, context: _Snapshot, sample: DropoutSample | None, everyone: Tensor
    ) -> EncodedSnapshots:
        """Pass messages in both snapshots, and with isolated entities, as one graph."""
        t, shift = self.timeline, len(current.keys)
        entity = torch.cat([current.keys // t.num_steps, context.keys // t.num_steps, everyone])
        edges = Edges(
            torch.cat([current.edges.source, context.edges.source + shift]),
            torch.cat([current.edges.relation, context.edges.relation]),
            torch.cat([current.edges.target, context.edges.target + shift]),
        )
        x = self.pass_messages(entity, edges, sample, len(everyone))
        current_x, context_x, isolated = torch.split(x, [shift, len(context.keys), len(everyone)])
        if self.settings.inactive == "embedding":
            isolated = self.embeddings(everyone)
        return EncodedSnapshots(
            Nodes(current.keys, current_x), Nodes(context.keys, context_x), isolated, t.num_steps
        )

    def _step_mask(self, times: Tensor, offsets: Tensor) -> Tensor:
        """Which steps are at one of the offsets from one of the times, [steps]."""
        margin, steps = self.settings.window, self.timeline.num_steps
        # The margins take the steps before the first and after the last.
        mask = torch.zeros(margin + steps + margin, dtype=torch.bool, device=times.device)
        mask[(margin + times[:, None] + offsets).flatten()] = True
        return mask[margin : margin + steps]

    def _snapshot(
        self, steps: Tensor, keep: Tensor | None, wanted: Tensor | None = None
    ) -> _Snapshot:
        """The active entities and the kept facts of the steps in a mask [steps], as one graph.

        With a mask of wanted active pairs, [pairs], only what their encoding depends on.
        """
        t = self.timeline
        if t.has_intervals:
            return self._held_snapshot(steps.nonzero()[:, 0], keep)
        inside = steps[t.facts[:, 3]]
        facts = (inside if keep is None else inside & keep).nonzero()[:, 0]
        subject, object_ = t.subject_pair[facts], t.object_pair[facts]
        if wanted is not None:
            for _ in self.structure or [None]:
                near = wanted[subject] | wanted[object_]
                wanted = wanted.index_fill(0, torch.cat([subject[near], object_[near]]), True)
            facts, subject, object_ = facts[near], subject[near], object_[near]
        if t.protocol != "paper":
            active = torch.zeros(len(t.pair_keys), dtype=torch.bool, device=t.device)
            active[subject] = True
            active[object_] = True
        else:
            active = steps[t.pair_time] if wanted is None else steps[t.pair_time] & wanted
        node = active.cumsum(0) - 1
        edges = Edges(node[subject], t.facts[facts, 1], node[object_])
        return _Snapshot(t.pair_keys[active], edges)

    def _held_snapshot(self, steps: Tensor, keep: Tensor | None) -> _Snapshot:
        """The same for the facts that hold at steps [n]: only these are laid out step by step."""
        t = self.timeline
        row, facts = t.edges(steps)
        if keep is not None:
            kept = keep[facts]
            row, facts = row[kept], facts[kept]
        subject, relation, object_, _ = t.facts[facts].unbind(1)
        keys, node = torch.unique(
            torch.cat([subject, object_]) * t.num_steps + steps[row].repeat(2), return_inverse=True
        )
        return _Snapshot(keys, Edges(node[: len(row)], relation, node[len(row) :]))


def _nodes_of(nodes: Nodes, entities: Tensor, num_steps: int) -> Nodes:
    """The nodes of some entities, ascending, with their index among them in the keys."""
    match = equal_range(entities, nodes.keys // num_steps)
    kept = match.lengths.nonzero()[:, 0]
    keys = match.start[kept] * num_steps + nodes.keys[kept] % num_steps
    return Nodes(keys, nodes.x.index_select(0, kept))


def all_pairs(times: Tensor, num_entities: int) -> tuple[Tensor, Tensor]:
    """All pairs of times [n] and entities, time by time, [n * entities] each."""
    entities = torch.arange(num_entities, device=times.device)
    return times.repeat_interleave(num_entities), entities.repeat(len(times))
