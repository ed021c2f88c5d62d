"""Ranks query by query, as a table: from an evaluation, a run folder, or a file of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tempograph.data.graph import Facts
from tempograph.errors import RunError
from tempograph.evaluation.evaluations import Evaluation, QuestionEvaluation
from tempograph.io import atomic_file
from tempograph.typing import SPLITS, Asked, Filter, Split

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Side = Literal["subject", "object", "both"]
Measure = Literal["hits@1", "hits@3", "hits@10", "mrr"]


@dataclass(frozen=True, eq=False)
class RankTable:
    """The fact of each query [n, 4], whether it asks for the subject [n], and its rank [n]."""

    facts: Facts
    asks_subject: NDArray[np.bool_]
    rank: Floats

    @staticmethod
    def from_evaluation(evaluation: Evaluation) -> RankTable:
        """The ranks of an evaluation, objects first."""
        count = len(evaluation.facts)
        asks_subject = np.arange(2 * count) >= count
        facts, rank = np.tile(evaluation.facts, (2, 1)), evaluation.ranks.realistic.cpu().numpy()
        return RankTable(facts, asks_subject, rank)

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
        return RankTable(self.facts[order], self.asks_subject[order], self.rank[order])

    def covers(self, facts: Facts) -> bool:
        """Whether a sorted table holds both queries of each of these facts, and no others."""
        both = np.tile(facts[np.lexsort(facts.T[::-1])], (2, 1))
        return np.array_equal(self.facts, both) and np.array_equal(
            self.asks_subject, np.arange(len(both)) >= len(facts)
        )

    def write(self, path: Path) -> None:
        """Write the table to a small file."""
        columns = {name: pa.array(self.facts[:, i], pa.int32()) for i, name in enumerate("srot")}
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
        return pq.read_table(file).select([*"srot", "rank", *columns])
    except (OSError, KeyError, pa.ArrowException) as error:
        raise RunError(f"{file}: not a table of ranks: {' '.join(str(error).split())}") from error


def _from_arrow(table: pa.Table, asks_subject: NDArray[np.bool_]) -> RankTable:
    facts = np.stack([table[name].to_numpy().astype(np.int64) for name in "srot"], axis=1)
    return RankTable(facts, asks_subject, table["rank"].to_numpy().astype(np.float64)).sorted()
