"""Weights of entities that no training has seen, from those of entities with similar facts."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tempograph.data.sorted_ranges import Ranges, key_range
from tempograph.data.timeline import Timeline, both_directions

_STRETCH: Final = 0.75
"""How much of the length that a mean loses it gets back, as an exponent."""


class EntityEstimates:
    """The vector of a new entity is a mean over its facts.

    A fact (e, r, p, t) stands for the known entities that have the relation r to the same partner
    p, at any time: the mean of their vectors. If there are none, it stands for all known entities
    that have the relation r to anyone. If r is new as well, it stands for all known entities.
    The relation of a fact in which e is the object is the inverse of r.

    A mean is shorter than what it is the mean of, and a short vector is hardly ever the answer. So
    it is stretched: its length is multiplied by (mean length / its length) ** 3/4.
    """

    def __init__(self, timeline: Timeline, num_known: int) -> None:
        self.num_known, self.num_new = num_known, timeline.num_entities - num_known
        entities, relations = timeline.num_entities, 2 * timeline.num_relations
        entity, relation, partner, _ = both_directions(
            timeline.facts, timeline.num_relations
        ).unbind(1)
        mine, theirs = (entity >= num_known).nonzero()[:, 0], (entity < num_known).nonzero()[:, 0]
        context = relation * entities + partner
        role_keys = torch.unique(relation[theirs] * entities + entity[theirs])
        shared = theirs[torch.isin(context[theirs], context[mine])]
        same_keys = torch.unique(context[shared] * entities + entity[shared])
        contexts, own_context = torch.unique(context[mine], return_inverse=True)
        same = _with_prefix(same_keys, contexts, entities)
        roles = _with_prefix(role_keys, torch.arange(relations, device=mine.device), entities)
        new = entity[mine] - num_known
        # Every fact has the same say.
        share = 1 / torch.bincount(new, minlength=self.num_new).clamp(min=1)[new].double()

        in_context = same.lengths[own_context] > 0
        self.of_context = _sparse(
            new[in_context], own_context[in_context], share[in_context], self.num_new, len(contexts)
        )
        """What the mean of a relation to a partner counts, [new, contexts]."""
        row, key = same.expand()
        self.context = _sparse(
            row, same_keys[key] % entities, 1 / same.lengths[row].double(), len(contexts), num_known
        )
        """The means of known entities with the same relation and partner, [contexts, known]."""
        other = (~in_context).nonzero()[:, 0]
        role = torch.where(
            roles.lengths[relation[mine[other]]] > 0, relation[mine[other]], relations
        )
        self.of_role = _sparse(new[other], role, share[other], self.num_new, relations + 1)
        """What the mean of a relation counts, and that of all entities, [new, relations + 1]."""
        row, key = roles.expand()
        everyone = torch.arange(num_known, device=mine.device)
        self.role = _sparse(
            torch.cat([row, torch.full_like(everyone, relations)]),
            torch.cat([role_keys[key] % entities, everyone]),
            1 / torch.cat([roles.lengths[row], torch.full_like(everyone, num_known)]).double(),
            relations + 1,
            num_known,
        )
        """The means of known entities by their relations, and of all, [relations + 1, known]."""

    def __call__(self, known: Tensor) -> Tensor:
        """Rows of known entities [known, ...] -> those of new entities, [new, ...]."""
        flat = known.detach().double().flatten(1)
        estimate, typical = self._mean(flat), self._mean(_lengths(flat))
        # An entity without a fact, and one like entities whose vectors are 0, have the vector 0.
        estimate *= (typical / _lengths(estimate).clamp(min=1e-30)).clamp(min=1) ** _STRETCH
        return estimate.to(known.dtype).view(self.num_new, *known.shape[1:])

    def _mean(self, rows: Tensor) -> Tensor:
        return self.of_context @ (self.context @ rows) + self.of_role @ (self.role @ rows)


def _lengths(rows: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return lengths


def _with_prefix(keys: Tensor, prefix: Tensor, size: int) -> Ranges:
    """Ranges of sorted keys prefix * size + rest, for prefixes [n]."""
    return key_range(keys, prefix * size, prefix * size + size - 1)


def _sparse(row: Tensor, column: Tensor, weight: Tensor, rows: int, columns: int) -> Tensor:
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        return torch.sparse_coo_tensor(
            torch.stack([row, column]), weight, (rows, columns)
        ).coalesce()
