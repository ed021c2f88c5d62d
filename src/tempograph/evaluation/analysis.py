"""Where a model is right: the ranks of its questions against what train holds about them, without any retraining."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from tempograph.data.frequency import PATTERNS, PatternFrequencies
from tempograph.data.graph import Facts, TemporalGraph, row_ids, rows_in
from tempograph.data.timeline import Timeline
from tempograph.errors import RunError
from tempograph.evaluation.evaluator import Evaluation
from tempograph.io import atomic_file
from tempograph.typing import SPLITS, Filter, Split

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Side = Literal["subject", "object", "both"]
Measure = Literal["hits@1", "hits@3", "hits@10", "mrr"]

EFFECTS: Final[dict[str, tuple[tuple[Side, str], ...]]] = {
    "replication": (
        ("subject", "s"),
        ("subject", "sr"),
        ("object", "o"),
        ("object", "ro"),
        ("both", "so"),
        ("both", "sro"),
    ),
    "reference": (
        ("object", "s"),
        ("object", "sr"),
        ("subject", "o"),
        ("subject", "ro"),
        ("object", "r"),
        ("subject", "r"),
    ),
}
"""Pairs of what is asked and a pattern: one that holds the answer, or one that holds what is given.

They are the paper's, but for the relation alone, which makes the seven patterns complete.
"""

_CONFIDENCE: Final = 1.959964
"""Standard deviations on each side that hold 95% of a normal distribution."""
_BANDWIDTH: Final = 0.35
"""Of the smoothing kernel, in natural logarithms of a frequency: a factor of 1.4."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """The ranks of one split, one row for each question: its fact [n, 4], whether it asks the subject, its rank."""

    facts: Facts
    asks_subject: NDArray[np.bool_]
    rank: Floats

    @property
    def given(self) -> Integers:
        """The entity that each question gives, [n]."""
        return np.where(self.asks_subject, self.facts[:, 2], self.facts[:, 0])

    @property
    def answer(self) -> Integers:
        """The entity that each question asks for, [n]."""
        return np.where(self.asks_subject, self.facts[:, 0], self.facts[:, 2])

    def gains(self, measure: Measure) -> Floats:
        """What each question adds to a measure, which is their mean, [n]."""
        if measure == "mrr":
            return 1 / self.rank
        return (self.rank <= int(measure.removeprefix("hits@"))).astype(np.float64)

    def asking(self, side: Side) -> NDArray[np.bool_]:
        """Which questions ask for a side, [n]."""
        return (
            self.asks_subject == (side == "subject")
            if side != "both"
            else np.ones(len(self.rank), dtype=np.bool_)
        )


def in_order(ranked: Ranked) -> Ranked:
    """The same with questions for objects first, each side by fact, so that ranks of two runs lie side by side."""
    order = np.lexsort((*ranked.facts.T[::-1], ranked.asks_subject))
    return Ranked(ranked.facts[order], ranked.asks_subject[order], ranked.rank[order])


def are_of(ranked: Ranked, facts: Facts) -> bool:
    """Whether ranks in order are those of both questions of each of these facts, and of nothing else."""
    both = np.tile(facts[np.lexsort(facts.T[::-1])], (2, 1))
    return np.array_equal(ranked.facts, both) and np.array_equal(
        ranked.asks_subject, np.arange(len(both)) >= len(facts)
    )


def ranked_of(evaluation: Evaluation) -> Ranked:
    """The ranks of an evaluation, objects first."""
    count = len(evaluation.facts)
    asks_subject = np.arange(2 * count) >= count
    return Ranked(
        np.tile(evaluation.facts, (2, 1)), asks_subject, evaluation.ranks.realistic.cpu().numpy()
    )


def read_ranks(folder: Path, filter: Filter = "time") -> dict[Split, Ranked]:
    """The ranks that a run folder keeps, by split and in order; none where the run was never evaluated."""
    file = folder / "ranks.parquet"
    if not file.exists():
        return {}
    try:
        table = pq.read_table(file)
        table = table.filter(pc.equal(table["filter"], filter))
        facts = np.stack([table[name].to_numpy() for name in "srot"], axis=1)
        subject, rank = pc.equal(table["side"], "subject").to_numpy(), table["rank"].to_numpy()
        splits = {name: pc.equal(table["split"], name).to_numpy() for name in SPLITS}
    except (OSError, KeyError, pa.ArrowException) as error:
        raise RunError(f"{file}: not a table of ranks: {' '.join(str(error).split())}") from error
    return {
        name: in_order(Ranked(facts[here], subject[here], rank[here]))
        for name, here in splits.items()
        if here.any()
    }


def keep_ranks(ranked: Ranked, path: Path) -> None:
    """Write ranks as a small table of their own."""
    columns = {
        name: pa.array(ranked.facts[:, place], pa.int32()) for place, name in enumerate("srot")
    }
    asked = pa.array(ranked.asks_subject)
    table = pa.table(
        {**columns, "asks_subject": asked, "rank": pa.array(ranked.rank, pa.float32())}
    )
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def kept_ranks(path: Path) -> Ranked:
    """Read what `keep_ranks` wrote, in order."""
    try:
        table = pq.read_table(path)
        facts = np.stack([table[name].to_numpy().astype(np.int64) for name in "srot"], axis=1)
        return in_order(
            Ranked(
                facts, table["asks_subject"].to_numpy(), table["rank"].to_numpy().astype(np.float64)
            )
        )
    except (OSError, KeyError, pa.ArrowException) as error:
        raise RunError(f"{path}: not a table of ranks: {' '.join(str(error).split())}") from error


class Curve(NamedTuple):
    """A measure along an axis, [points] each: where, how many questions, their mean, and its bounds."""

    at: Floats
    questions: Floats
    mean: Floats
    low: Floats
    high: Floats


def pattern_frequencies(ranked: Ranked, graph: TemporalGraph, past: int, future: int) -> Integers:
    """The seven temporal pattern frequencies of each question's fact, in the order of PATTERNS, [n, 7]."""
    counts: Integers = (
        PatternFrequencies(Timeline(graph))
        .count(torch.from_numpy(ranked.facts), past, future)
        .numpy()
    )
    return counts


def effect_curves(
    ranked: Ranked,
    frequencies: Integers,
    side: Side,
    pattern: str,
    measure: Measure = "hits@10",
    bins: int = 12,
) -> tuple[Curve, Curve]:
    """A measure against one pattern's frequency for the questions of one side: in bins, and smoothed."""
    asked = ranked.asking(side)
    values, gains = frequencies[asked, PATTERNS.index(pattern)], ranked.gains(measure)[asked]
    return binned(values, gains, frequency_bins(values, bins)), smoothed(values, gains)


def frequency_bins(values: Integers, count: int = 12) -> Integers:
    """The bin of each value, [n]: 0 is a bin by itself, the others hold about equally many; no value is in two."""
    positive = values[values > 0]
    if not len(positive):
        return np.zeros_like(values)
    edges = np.unique(np.quantile(positive, np.linspace(0, 1, count + 1)[1:-1], method="higher"))
    return np.where(values > 0, 1 + np.searchsorted(edges, values, side="right"), 0)


def binned(values: Integers, gains: Floats, bins: Integers) -> Curve:
    """The mean of each bin that holds a question, at the mean logarithm of its values.   [n] each."""
    _, place = np.unique(bins, return_inverse=True)
    count = np.bincount(place).astype(np.float64)
    mean = np.bincount(place, gains) / count
    low, high = bounds(mean, count, np.bincount(place, gains**2) / count)
    return Curve(np.expm1(np.bincount(place, np.log1p(values)) / count), count, mean, low, high)


def smoothed(values: Integers, gains: Floats, points: int = 48, least: float = 10) -> Curve:
    """The mean around each point of a logarithmic grid, weighed by a normal kernel; values of 0 stay out.

    `questions` is how many of equal weight would be as certain: (sum of weights)^2 / sum of squared weights. Points
    whose weights add up to less than `least` are left out: hardly a question lies near them.
    """
    distinct, place = np.unique(values[values > 0], return_inverse=True)
    if len(distinct) < 2:
        return Curve(*(np.empty(0) for _ in Curve._fields))
    gains, where = gains[values > 0], np.log(distinct)
    grid = np.linspace(where[0], where[-1], points)
    weight = np.exp(-(((grid[:, None] - where) / _BANDWIDTH) ** 2) / 2)
    count = np.bincount(place)
    total = weight @ count
    mean, of_squares = (weight @ np.bincount(place, gains**power) / total for power in (1, 2))
    questions = total**2 / (weight**2 @ count)
    low, high = bounds(mean, questions, of_squares)
    near = total >= least
    return Curve(*(column[near] for column in (np.exp(grid), questions, mean, low, high)))


def bounds(mean: Floats, count: Floats, of_squares: Floats) -> tuple[Floats, Floats]:
    """Where the true mean lies at 95%: Wilson's bounds for shares, narrower by the spread where gains lie between.

    Gains of 0 and 1 have a mean square equal to their mean, and the largest variance that a mean allows. Other gains
    count as that many more questions as their variance is smaller.
    """
    largest, variance = mean * (1 - mean), of_squares - mean**2
    more = np.divide(largest, variance, out=np.ones_like(mean), where=variance > 1e-12)
    return wilson(mean, count * np.maximum(more, 1))


def wilson(share: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Wilson's bounds of a share among so many questions, at 95%."""
    z2 = _CONFIDENCE**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    reach = (
        _CONFIDENCE / (1 + z2 / count) * np.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    )
    return np.clip(centre - reach, 0, share), np.clip(centre + reach, share, 1)


class Groups(NamedTuple):
    """Labels, and for each question the place of its label, [n]; `along` says that the labels follow an axis."""

    labels: tuple[str, ...]
    of: Integers
    along: bool = False


class GroupFigures(NamedTuple):
    """The figures of groups, [groups] each, NaN where one has no question; `low` and `high` bound Hits@10."""

    labels: tuple[str, ...]
    questions: Integers
    mrr: Floats
    hits_1: Floats
    hits_10: Floats
    low: Floats
    high: Floats


def group_figures(ranked: Ranked, groups: Groups) -> GroupFigures:
    """MRR, Hits@1 and Hits@10 of each group of questions, in the order of the labels.

    A group without a question is left out, unless it lies between others along an axis: there it keeps its place.
    """
    there = np.unique(groups.of)
    there = np.arange(there[0], there[-1] + 1) if groups.along and len(there) else there
    place = np.searchsorted(there, groups.of)
    count = np.bincount(place, minlength=len(there))
    some = np.where(count > 0, count, np.nan)
    mrr, hits_1, hits_10 = (
        np.bincount(place, ranked.gains(measure), len(there)) / some
        for measure in ("mrr", "hits@1", "hits@10")
    )
    labels = tuple(groups.labels[group] for group in there)
    return GroupFigures(labels, count, mrr, hits_1, hits_10, *wilson(hits_10, some))


def by_side(ranked: Ranked) -> Groups:
    """Questions for objects, questions for subjects."""
    return Groups(
        ("object (s, r, ?, t)", "subject (?, r, o, t)"), ranked.asks_subject.astype(np.int64)
    )


def by_relation(ranked: Ranked, graph: TemporalGraph) -> Groups:
    """The relation of each question."""
    return Groups(graph.relations, ranked.facts[:, 1])


def by_degree(ranked: Ranked, graph: TemporalGraph, whose: Literal["answer", "given"]) -> Groups:
    """How many train facts name the answer, or the entity that is given: 0, 1, 2-3, 4-7 and so on."""
    return _doubling(facts_per_entity(graph)[ranked.answer if whose == "answer" else ranked.given])


def facts_per_entity(graph: TemporalGraph) -> Integers:
    """How many train facts name each entity, as subject, object or both, [entities]."""
    subject, object_ = graph.train[:, 0], graph.train[:, 2]
    return np.bincount(
        np.concatenate([subject, object_[object_ != subject]]), minlength=len(graph.entities)
    )


def shares_with_at_least(counts: Integers) -> tuple[Integers, Floats]:
    """The distinct counts above 0, and the share of all that have at least so many.   [n] -> [distinct] each."""
    distinct, times = np.unique(counts[counts > 0], return_counts=True)
    return distinct, times[::-1].cumsum()[::-1] / max(1, len(counts))


def rolling_mean(values: NDArray[Any], width: int) -> Floats:
    """The mean of the values at most width // 2 places away from each, [n]."""
    total, places = (
        np.concatenate([[0], np.cumsum(values, dtype=np.float64)]),
        np.arange(len(values)),
    )
    low, high = (places - width // 2).clip(min=0), (places + width // 2 + 1).clip(max=len(values))
    mean: Floats = (total[high] - total[low]) / (high - low)
    return mean


def by_acquaintance(ranked: Ranked, graph: TemporalGraph) -> Groups:
    """Whether a train fact of any time joins the answer with the given entity: by the question's relation and
    direction, by another relation or the other way round, or not at all.
    """
    train, asked = graph.train[:, :3], ranked.facts[:, :3]
    pairs, turned = train[:, [0, 2]], train[:, [2, 0]]
    joined = rows_in(asked[:, [0, 2]], np.concatenate([pairs, turned]))
    level = np.where(rows_in(asked, train), 0, np.where(joined, 1, 2))
    return Groups(("same relation", "only otherwise", "never"), level)


def by_distance(ranked: Ranked, graph: TemporalGraph) -> Groups:
    """Steps to the nearest train fact of the same subject, relation and object: 0, 1, 2-3, 4-7 and so on, or none."""
    distance = nearest_same(ranked.facts, graph.train, len(graph.times))
    labels, of, along = _doubling(distance)
    return Groups((*labels, "none"), np.where(distance < 0, len(labels), of), along)


def nearest_same(facts: Facts, train: Facts, steps: int) -> Integers:
    """Steps from each fact to the nearest train fact with its subject, relation and object; -1 if there is none."""
    number = row_ids(np.concatenate([train[:, :3], facts[:, :3]]))
    keys = np.sort(number[: len(train)] * steps + train[:, 3])
    wanted = number[len(train) :] * steps + facts[:, 3]
    place, nothing = np.searchsorted(keys, wanted), 2 * steps
    nearest = np.full(len(facts), nothing)
    for neighbour in (place - 1, place):
        key = keys[neighbour.clip(0, len(keys) - 1)]
        same = (key // steps == wanted // steps) & (neighbour >= 0) & (neighbour < len(keys))
        nearest = np.minimum(nearest, np.where(same, np.abs(key - wanted), nothing))
    return np.where(nearest == nothing, -1, nearest)


def _doubling(values: Integers) -> Groups:
    """0, 1, 2-3, 4-7, ...: groups whose width doubles; negative values are nowhere and get 0."""
    of = np.frexp(values.clip(min=0).astype(np.float64))[1].astype(np.int64)
    widths = [(2 ** (group - 1), 2**group - 1) for group in range(1, int(of.max(initial=0)) + 1)]
    return Groups(
        ("0", *(f"{low}-{high}" if low < high else f"{low}" for low, high in widths)), of, True
    )
