"""An entity in a period: its relations, its partners over time, and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tempograph.data.spans import spans_of
from tempograph.evaluation.rank_table import RankTable
from tempograph.server.fact_lookup import FactLookup, Positions
from tempograph.server.graph_browser import GraphBrowser
from tempograph.server.schema.lookups import (
    EntityFigures,
    EntityPartner,
    EntityRelation,
    EntityResponse,
    Period,
    SplitFact,
)
from tempograph.typing import SPLITS, Split

_MAX_PARTS: Final = 24
"""Parts of a period: as many as can be told apart in a small chart."""
_MAX_NEAR: Final = 100
Counts = NDArray[np.int64]


def summarize_entity(
    browser: GraphBrowser,
    ranks: Mapping[Split, RankTable],
    name: str,
    steps: range,
    time: str | None,
    limit: int,
) -> EntityResponse:
    """An entity in a period, with at most `limit` relations and partners."""
    entity, lookup, times = browser.entity_id(name), browser.facts, browser.graph.times
    positions = lookup.of_entity(entity, steps[0], steps[-1])
    splits = np.bincount(lookup.split[positions], minlength=len(SPLITS)).tolist()
    parts = np.array_split(np.array(steps), min(_MAX_PARTS, len(steps)))
    starts = np.array([part[0] for part in parts])
    facts = lookup.facts[positions]
    # A fact that began before the period counts in its first part.
    part_of = (np.searchsorted(starts, facts[:, 3], side="right") - 1).clip(min=0)
    relations, partners = _relations(lookup, entity, positions), _partners(facts, entity)
    step = None if time is None else browser.time_id(time)
    return EntityResponse(
        run=browser.run,
        entity=browser.graph.entities[entity],
        from_=times[steps[0]],
        to=times[steps[-1]],
        facts=dict(zip(SPLITS, splits, strict=True)),
        steps=len(lookup.step_counts(positions, steps)),
        relations=relations[:limit],
        total_relations=len(relations),
        partners=[
            _describe_partner(browser, facts[own], partner, part_of[own], len(parts))
            for partner, own in partners[:limit]
        ],
        total_partners=len(partners),
        parts=[Period(from_=times[part[0]], to=times[part[-1]]) for part in parts],
        counts=np.bincount(part_of, minlength=len(parts)).tolist(),
        near=[] if step is None else _near(lookup, entity, step),
        at_time=0 if step is None else len(lookup.of_entity(entity, step, step)),
        figures={
            split: figures
            for split, table in ranks.items()
            if (figures := _figures(table, entity)) is not None
        },
    )


def _relations(lookup: FactLookup, entity: int, positions: Positions) -> list[EntityRelation]:
    """The relations of an entity, those with the most facts first."""
    graph, facts = lookup.graph, lookup.facts[positions]
    relations, index = np.unique(facts[:, 1], return_inverse=True)
    as_subject = facts[:, 0] == entity
    count = [
        np.bincount(index[side], minlength=len(relations)) for side in (as_subject, ~as_subject)
    ]
    # The facts of an entity are in order of time.
    first = np.unique(index, return_index=True)[1]
    last = np.zeros(len(relations), np.int64)
    np.maximum.at(last, index, lookup.end[positions])
    return [
        EntityRelation(
            relation=graph.relations[relations[row]],
            as_subject=int(count[0][row]),
            as_object=int(count[1][row]),
            first=graph.times[facts[first[row], 3]],
            last=graph.times[last[row]],
        )
        for row in np.argsort(-(count[0] + count[1]), kind="stable").tolist()
    ]


def _partners(facts: Counts, entity: int) -> list[tuple[int, Positions]]:
    """(partner, rows of the facts with it) of an entity, most facts first."""
    others = np.where(facts[:, 0] == entity, facts[:, 2], facts[:, 0])
    order = np.argsort(others, kind="stable")
    partners, start = np.unique(others[order], return_index=True)
    rows = np.split(order, start[1:]) if len(order) else []
    found = [(int(one), own) for one, own in zip(partners, rows, strict=True) if one != entity]
    return sorted(found, key=lambda pair: -len(pair[1]))


def _describe_partner(
    browser: GraphBrowser, facts: Counts, partner: int, part_of: Counts, parts: int
) -> EntityPartner:
    times = browser.graph.times
    return EntityPartner(
        name=browser.graph.entities[partner],
        facts=len(facts),
        first=times[facts[0, 3]],
        last=times[spans_of(facts).end.max()],
        counts=np.bincount(part_of, minlength=parts).tolist(),
    )


def _near(lookup: FactLookup, entity: int, step: int) -> list[SplitFact]:
    """The facts of an entity at a step, or else at the nearest steps before and after."""
    here = lookup.of_entity(entity, step, step)
    if not len(here):
        before = lookup.of_entity(entity, 0, step)
        after = lookup.of_entity(entity, step, len(lookup.graph.times) - 1)
        ended, begins = lookup.end[before], lookup.facts[after, 3]
        nearest = [before[ended == ended.max(initial=-1)]]
        if len(after):
            nearest.append(after[begins == begins.min()])
        here = np.concatenate(nearest)
    return lookup.describe(here[:_MAX_NEAR])


def _figures(table: RankTable, entity: int) -> EntityFigures | None:
    """The figures of the queries about facts of an entity, if there are any."""
    own = (table.facts[:, 0] == entity) | (table.facts[:, 2] == entity)
    if not own.any():
        return None
    return EntityFigures(
        queries=int(own.sum()),
        mrr=float(table.values("mrr")[own].mean()),
        hits_at_10=float(table.values("hits@10")[own].mean()),
    )
