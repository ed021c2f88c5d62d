"""Ranks query by query, as a table: from an evaluation, a run folder, or a file of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tempograph.data.graph import Facts
from tempograph.errors import RunError
from tempograph.evaluation.evaluations import Evaluation, QuestionEvaluation
from tempograph.evaluation.step_columns import MEASURES, STEP_COLUMNS, fact_columns, step_columns
from tempograph.io import atomic_file
from tempograph.typing import SPLITS, Asked, Filter, Split

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Side = Literal["subject", "object", "both"]
Measure = Literal["hits@1", "hits@3", "hits@10", "mrr"]


@dataclass(frozen=True, eq=False)
class RankTable:
    """The fact of each query [n, 4], whether it asks for the subject [n], and its rank [n].

    Facts that hold for a while are rows [n, 6] with one rank for all their steps, their mean.
    """

    facts: Facts
    asks_subject: NDArray[np.bool_]
    rank: Floats
    means: Mapping[Measure, Floats] = field(default_factory=dict)
    """The mean over steps of each measure, if queries are asked at several steps, [n] each."""

    @staticmethod
    def from_evaluation(evaluation: Evaluation) -> RankTable:
        """The ranks of an evaluation, objects first."""
        count = len(evaluation.facts)
        asks_subject = np.arange(2 * count) >= count
        facts, rank = np.tile(evaluation.facts, (2, 1)), evaluation.ranks.realistic.cpu().numpy()
        if evaluation.step_ranks is None:
            return RankTable(facts, asks_subject, rank)
        columns = step_columns(facts, evaluation.step_ranks)
        return RankTable(facts, asks_subject, rank, _means(pa.table(columns)))

    @property
    def given(self) -> Integers:
        """The entity that each query gives, [n]."""
        return np.where(self.asks_subject, self.facts[:, 2], self.facts[:, 0])

    @property
    def answer(self) -> Integers:
        """The entity that each query asks for, [n]."""
        return np.where(self.asks_subject, self.facts[:, 0], self.facts[:, 2])

    def values(self, measure: Measure) -> Floats:
        """The value of a measure for each query, [n]; their mean is the metric."""
        if self.means:
            return self.means[measure]
        if measure == "mrr":
            return 1 / self.rank
        return (self.rank <= int(measure.removeprefix("hits@"))).astype(np.float64)

    def on_side(self, side: Side) -> NDArray[np.bool_]:
        """Which queries ask for a side, [n]."""
        every = np.ones(len(self.rank), dtype=np.bool_)
        return {"both": every, "subject": self.asks_subject, "object": ~self.asks_subject}[side]

    def sorted(self) -> RankTable:
        """The same with objects first and each side ordered by fact, to compare two runs."""
        order = np.lexsort((*self.facts.T[::-1], self.asks_subject))
        means = {measure: values[order] for measure, values in self.means.items()}
        return RankTable(self.facts[order], self.asks_subject[order], self.rank[order], means)

    def covers(self, facts: Facts) -> bool:
        """Whether a sorted table holds both queries of each of these facts, and no others."""
        both = np.tile(facts[np.lexsort(facts.T[::-1])], (2, 1))
        return np.array_equal(self.facts, both) and np.array_equal(
            self.asks_subject, np.arange(len(both)) >= len(facts)
        )

    def write(self, path: Path) -> None:
        """Write the table to a small file."""
        names = [*"srot", "end", "bounds"][: self.facts.shape[1]]
        columns = {name: pa.array(self.facts[:, i], pa.int32()) for i, name in enumerate(names)}
        columns |= {MEASURES[measure]: pa.array(each) for measure, each in self.means.items()}
        rank = pa.array(self.rank, pa.float32())
        table = pa.table({**columns, "asks_subject": pa.array(self.asks_subject), "rank": rank})
        with atomic_file(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    @staticmethod
    def read(path: Path) -> RankTable:
        """Read what `write` wrote, sorted."""
        table = _read_parquet(path, "asks_subject")
        return _from_arrow(table, table["asks_subject"].to_numpy())


def read_run_ranks(
    folder: Path, filter: Filter = "time", asked: Asked = "entity"
) -> dict[Split, RankTable]:
    """The ranks of a kind of question in a run folder by split, sorted; empty without any."""
    file = folder / "ranks.parquet"
    if not file.exists():
        return {}
    table = _read_parquet(file, "side", "split", "filter")
    sides = ["object", "subject"] if asked == "entity" else [asked]
    is_asked = pc.is_in(table["side"].cast(pa.string()), pa.array(sides))
    table = table.filter(pc.and_(is_asked, pc.equal(table["filter"], filter)))
    tables = {split: table.filter(pc.equal(table["split"], split)) for split in SPLITS}
    return {
        split: _from_arrow(rows, pc.equal(rows["side"], "subject").to_numpy())
        for split, rows in tables.items()
        if len(rows)
    }


def add_ranks(evaluation: Evaluation | QuestionEvaluation, file: Path) -> None:
    """Add the ranks of an evaluation to those of a run folder; they replace earlier ones."""
    table = evaluation.table()
    if file.exists():
        old = pq.read_table(file, read_dictionary=["side", "split", "filter"])
        sides = pc.unique(table["side"].cast(pa.string()))
        same = pc.and_(
            pc.and_(
                pc.equal(old["split"], evaluation.split), pc.equal(old["filter"], evaluation.filter)
            ),
            pc.is_in(old["side"].cast(pa.string()), sides),
        )
        others = old.filter(pc.invert(same))
        table = pa.concat_tables([others, table.cast(old.schema)]).unify_dictionaries()
    with atomic_file(file) as temporary:
        pq.write_table(table, temporary)


def _read_parquet(file: Path, *columns: str) -> pa.Table:
    try:
        table = pq.read_table(file)
        steps = [name for name in STEP_COLUMNS if name in table.column_names]
        return table.select([*"srot", "rank", *columns, *steps])
    except (OSError, KeyError, pa.ArrowException) as error:
        raise RunError(f"{file}: not a table of ranks: {' '.join(str(error).split())}") from error


def _from_arrow(table: pa.Table, asks_subject: NDArray[np.bool_]) -> RankTable:
    rank = table["rank"].to_numpy().astype(np.float64)
    return RankTable(fact_columns(table), asks_subject, rank, _means(table)).sorted()


def _means(table: pa.Table) -> dict[Measure, Floats]:
    """The means over steps that a table of ranks has."""
    measures: tuple[Measure, ...] = get_args(Measure)
    return {
        measure: table[MEASURES[measure]].to_numpy()
        for measure in measures
        if MEASURES[measure] in table.column_names
    }
