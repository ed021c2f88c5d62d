"""Which axes of a model's weights count entities, relations or time steps.

A string names the axes of a weight in order, such as "e k" for a vector of each entity:

    e  entities            s  time steps
    r  relations           b  signed bins of distances in time, with 0 in the middle
    d  directed relations  t  tokens of dates
    q  relations, or directed relations if there are twice as many rows

Any other letter is an axis that does not depend on the data. "(d g)" is an axis of all pairs. A
module of another package declares the axes of its own weights as `weight_axes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from torch import nn

from tempograph.models.pointer.candidate_facts import CandidateFacts
from tempograph.models.pointer.copying import Copying, PairTable
from tempograph.models.pointer.entity_counts import EntityCounts
from tempograph.models.pointer.names import Names
from tempograph.models.pointer.paths import Paths
from tempograph.models.pointer.recent_paths import RecentPaths
from tempograph.models.pointer.similar_entities import SimilarEntities
from tempograph.models.recurrency import Recurrency
from tempograph.models.temp.encoder import TeMPEncoder
from tempograph.nn.entities import (
    AdditiveTimeSeries,
    DiachronicEntities,
    FixedEntities,
    Hyperplanes,
)
from tempograph.nn.relation_votes import RelationVotes
from tempograph.nn.relations import (
    FactoredRelations,
    FixedRelations,
    GaussianRelations,
    ShiftedRelations,
    TokenRelations,
)
from tempograph.nn.structure import RGAT, RGCN, CompGCN
from tempograph.nn.time_votes import TimeVotes

Axes = Mapping[str, str]
"""The axes of weights by name, relative to their module."""
_NONE: Final[Axes] = MappingProxyType({})
_SERIES: Final = ("constant", "spread", "trend", "slope", "season", "frequency")

_AXES: Final[Mapping[type[nn.Module], Axes]] = {
    FixedEntities: {"entity": "e k"},
    DiachronicEntities: {
        "still": "e p k",
        **dict.fromkeys(("amplitude", "frequency", "phase"), "u e p k"),
    },
    AdditiveTimeSeries: dict.fromkeys(_SERIES, "e k"),
    Hyperplanes: {"normal": "s k"},
    FixedRelations: {"relation": "q k"},
    ShiftedRelations: {"time": "s k"},
    FactoredRelations: {"relation": "q k", "constant": "q k", "time": "s k"},
    TokenRelations: {"relation": "q k", "token": "t k"},
    GaussianRelations: {f"series.{name}": "q k" for name in _SERIES},
    TeMPEncoder: {"entity": "e k", "time": "s k"},
    RGCN: {"weight": "q m i j"},
    CompGCN: {"relation": "q k"},
    RGAT: {"weight": "q k"},
    Copying: {"shared_time": "b", "by_time": "d b", "by_count": "d k", "gain": "d k"},
    PairTable: {"own": "d d g", "left": "d k", "right": "k (d g)"},
    EntityCounts: {"by_relation": "d k"},
    Names: dict.fromkeys(("own", "partners", "preference"), "d k"),
    Paths: {"gain": "d k"},
    RecentPaths: {
        "shared_relation": "n d",
        "by_relation": "n d d",
        "shared_time": "n b",
        "by_time": "n d b",
        "gain": "d k",
    },
    CandidateFacts: {"weight": "d d g"},
    SimilarEntities: {
        "shared_relation": "d",
        "by_relation": "d d",
        "shared_time": "b",
        "by_time": "d b",
        "gain": "d k",
    },
    Recurrency: {"decay": "d", "share_weight": "d"},
    RelationVotes: {
        "own": "(d g) r",
        "left": "(d g) k",
        "right": "k r",
        "by_phase": "d p",
        "gain": "r k",
    },
    TimeVotes: {"own": "(r d) k", "left": "r k", "right": "d k w", "gain": "r k"},
}


def weight_axes(model: nn.Module) -> dict[str, str]:
    """The axes of all weights of a model that depend on its data, by name.

    What a module says of the weights of its submodules counts more than what these say.
    """
    axes: dict[str, str] = {}
    for prefix, module in model.named_modules():
        for name, each in _declared(module).items():
            axes.setdefault(f"{prefix}.{name}" if prefix else name, each)
    return axes


def _declared(module: nn.Module) -> Axes:
    own: Axes = getattr(module, "weight_axes", _NONE)
    for kind in reversed(type(module).__mro__):
        own = {**_AXES.get(kind, _NONE), **own}
    return own
