"""Give a model for more names, steps and facts the weights of a trained one.

Weights of known names stay as they are, number by number. New entities get estimates from similar
ones, new relations the mean of all others, and steps after the last the weights of the last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor, nn

from tempograph.data.fact_index import FactIndex
from tempograph.data.timeline import Timeline
from tempograph.errors import QueryError
from tempograph.models.embedding.embedding_model import Embedding
from tempograph.models.entity_estimates import EntityEstimates
from tempograph.models.heads.relation_head import RelationHead
from tempograph.models.pointer.copying import Copying
from tempograph.models.pointer.pointer_model import Pointer
from tempograph.models.weight_axes import weight_axes
from tempograph.nn.entities import AdditiveTimeSeries

_GROUP: Final = re.compile(r"\(([^)]*)\)|(\S+)")


@torch.no_grad()
def grow_weights(old: nn.Module, new: nn.Module, before: Timeline, after: Timeline) -> None:
    """Set the weights of a model that was built for more data from those of a trained model.

    `before` holds the data that the old model was trained on, `after` those with the facts of new
    names. Raises QueryError if the model has weights with unknown axes, or other tables for more
    relations.
    """
    growth = Growth(before, after)
    for trained, built in zip(old.parameters(), new.parameters(), strict=False):
        built.data = built.data.to(trained.dtype)
    axes, wanted = weight_axes(old), new.state_dict()
    for name, value in old.state_dict().items():
        if name not in wanted:
            raise QueryError(
                f"its tables for {before.num_relations:,} relations do not fit "
                f"{after.num_relations:,}"
            )
        path, _, weight = name.rpartition(".")
        pair = old.get_submodule(path), new.get_submodule(path)
        if (type(pair[0]), weight) in _SPECIAL:
            grown = _SPECIAL[type(pair[0]), weight](*pair, growth)
        elif name in axes:
            grown = _rescale(growth.grow(value, axes[name], wanted[name].shape), weight, *pair)
        else:
            grown = value
        if grown.shape != wanted[name].shape:
            raise QueryError(
                f"it does not say which axes of its weight '{name}' count entities, relations or "
                "time steps (`weight_axes`)"
            )
        wanted[name].copy_(grown)
    if isinstance(old, Embedding) and isinstance(new, Embedding):
        # Steps that no training has seen use the last one that it has.
        new.last_known_step = old.last_known_step


class Growth:
    """How weights change from a timeline to one with more names, steps and facts."""

    def __init__(self, before: Timeline, after: Timeline) -> None:
        self.before, self.after = before, after

    @cached_property
    def _estimates(self) -> EntityEstimates:
        return EntityEstimates(self.after, self.before.num_entities)

    def grow(self, value: Tensor, axes: str, wanted: Sequence[int]) -> Tensor:
        """A weight with the given axes, in its new shape if these say all about it."""
        groups = [
            self._factors((one or other).split(), size)
            for (one, other), size in zip(_GROUP.findall(axes), value.shape, strict=True)
        ]
        owner = [number for number, group in enumerate(groups) for _ in group]
        letters = [letter for group in groups for letter, _ in group]
        value = value.reshape([size for group in groups for _, size in group])
        value = self._add_relations(value, [n for n, each in enumerate(letters) if each == "r"])
        for axis, letter in enumerate(letters):
            rows = value.movedim(axis, 0)
            if letter == "e":
                value = self._add_entities(rows).movedim(0, axis)
            elif letter in _PADDINGS and wanted[owner[axis]] > len(rows):
                more = wanted[owner[axis]] - len(rows)
                value = _PADDINGS[letter](rows, more).movedim(0, axis)
        for number, group in enumerate(groups):
            value = value.flatten(number, number + len(group) - 1)
        return value

    def _factors(self, letters: list[str], size: int) -> list[tuple[str, int]]:
        """An axis of some letters as axes of one letter each, and their sizes.

        Directed relations are two axes, of which the first is the direction.
        """
        relations, entities = self.before.num_relations, self.before.num_entities
        known = {
            "e": [("e", entities)],
            "r": [("r", relations)],
            "d": [("", 2), ("r", relations)],
            "q": [("", size // relations), ("r", relations)],
        }
        factors = [known.get(letter, [(letter, 0)]) for letter in letters]
        flat = [factor for each in factors for factor in each]
        rest = size // max(1, math.prod(count for _, count in flat if count))
        return [(letter, count or rest) for letter, count in flat]

    def _add_entities(self, known: Tensor) -> Tensor:
        if self.after.num_entities == self.before.num_entities:
            return known
        return torch.cat([known, self._estimates(known)])

    def _add_relations(self, value: Tensor, axes: list[int]) -> Tensor:
        """Rows of new relations: the mean of the others; of pairs, that of such pairs."""
        count = self.after.num_relations
        if count == self.before.num_relations or not axes:
            return value
        if len(axes) == 1:
            rows = value.movedim(axes[0], 0)
            return _repeat_mean(rows, count - len(rows)).movedim(0, axes[0])
        first, second = axes
        return _grow_pairs(value.movedim((first, second), (0, 1)), count).movedim(
            (0, 1), (first, second)
        )

    def directed(self, relation: Tensor) -> Tensor:
        """The ids that directed relations have with more relations, [n]."""
        added = self.after.num_relations - self.before.num_relations
        return relation + added * (relation >= self.before.num_relations)


def _repeat_mean(rows: Tensor, more: int) -> Tensor:
    return torch.cat([rows, rows.mean(0, keepdim=True).expand(more, *rows.shape[1:])])


def _repeat_last(rows: Tensor, more: int) -> Tensor:
    return torch.cat([rows, rows[-1:].expand(more, *rows.shape[1:])])


def _repeat_ends(rows: Tensor, more: int) -> Tensor:
    before, after = (rows[end].expand(more // 2, *rows.shape[1:]) for end in (0, -1))
    return torch.cat([before, rows, after])


_PADDINGS: Final[dict[str, Callable[[Tensor, int], Tensor]]] = {
    "s": _repeat_last,
    "b": _repeat_ends,
    "t": _repeat_mean,
}
"""How axes that grow with the time steps are filled."""


def _grow_pairs(value: Tensor, count: int) -> Tensor:
    """Weights of pairs of relations [known, known, ...] -> [count, count, ...].

    A new relation is to itself what relations are to themselves in the mean, and likewise to
    others.
    """
    known = len(value)
    same = value.diagonal(dim1=0, dim2=1).movedim(-1, 0)
    others = max(1, known - 1)
    to_each, of_each = ((value.sum(axis) - same) / others for axis in (0, 1))
    between = to_each.mean(0)
    grown = between.expand(count, count, *between.shape).clone()
    grown[:known, :known] = value
    grown[known:, :known] = to_each
    grown[:known, known:] = of_each[:, None]
    new = torch.arange(known, count, device=value.device)
    grown[new, new] = same.mean(0)
    return grown


def _grow_entity_bias(old: Pointer, _: Pointer, growth: Growth) -> Tensor:
    """P0 of new entities: that of a known one with as many facts."""
    if not old.entity.requires_grad:
        return torch.nn.functional.pad(old.entity, (0, growth.after.num_entities - len(old.entity)))
    before, after = (each.facts[:, [0, 2]].flatten() for each in (growth.before, growth.after))
    return _by_frequency(old.entity, 0.3, before, after, growth.after.num_entities)


def _grow_relation_bias(old: RelationHead, _: RelationHead, growth: Growth) -> Tensor:
    """b of new relations: that of a known one with as many facts."""
    before, after = (each.facts[:, 1] for each in (growth.before, growth.after))
    return _by_frequency(old.bias, 1.0, before, after, growth.after.num_relations)


def _by_frequency(known: Tensor, scale: float, before: Tensor, after: Tensor, count: int) -> Tensor:
    """Weights [known] that began as scale * log(facts + 1/2), for more ids, [count].

    before, after: the ids in the facts of both moments. Training has moved the weights; a new one
    is moved by the mean.
    """
    facts_before = torch.bincount(before, minlength=len(known))
    facts_after = torch.bincount(after, minlength=count)[len(known) :]
    moved = (known - scale * torch.log(facts_before + 0.5)).mean()
    return torch.cat([known, (scale * torch.log(facts_after + 0.5) + moved).to(known.dtype)])


def _carry_prior(old: Copying, new: Copying, growth: Growth) -> Tensor:
    """P[r, o] of pairs that still have facts; 0 for new ones."""
    entities, index = growth.after.num_entities, new.fact_index
    known = _pair_keys(growth.directed(old.fact_index.values), old.fact_index, entities)
    pairs = _pair_keys(index.values, index, entities)
    assert old.prior is not None
    position = torch.searchsorted(pairs, known).clamp(max=max(0, len(pairs) - 1))
    kept = (pairs[position] == known).nonzero()[:, 0]
    return old.prior.new_zeros(len(pairs)).index_copy(0, position[kept], old.prior[kept])


def _pair_keys(relation: Tensor, index: FactIndex, entities: int) -> Tensor:
    """The (relation, candidate) pairs of an index as integers, ascending, [pairs]."""
    of_pair = torch.repeat_interleave(relation, index.candidate_start.diff()[:-1])
    keys: Tensor = of_pair * entities + index.candidates
    return keys


_SPECIAL: Final[dict[tuple[type[nn.Module], str], Callable[[Any, Any, Growth], Tensor]]] = {
    (Pointer, "entity"): _grow_entity_bias,
    (RelationHead, "bias"): _grow_relation_bias,
    (Copying, "prior"): _carry_prior,
}
"""Weights that follow from counts of facts, or belong to pairs that have facts."""


def _rescale(grown: Tensor, weight: str, old: nn.Module, new: nn.Module) -> Tensor:
    """Weights per share of all time, for a longer time."""
    if not isinstance(old, AdditiveTimeSeries) or not isinstance(new, AdditiveTimeSeries):
        return grown
    longer = new.options.steps / old.options.steps
    return grown * longer if weight in ("slope", "frequency") else grown
