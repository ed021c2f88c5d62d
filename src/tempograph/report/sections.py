"""The sections of a report about one split: where a model finds the answers, and where not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.evaluation.frequency_curves import EFFECTS, effect_curves, pattern_frequencies
from tempograph.evaluation.query_groups import (
    GroupMetrics,
    QueryGroups,
    by_degree,
    by_distance,
    by_pair_history,
    by_relation,
    by_side,
    group_metrics,
)
from tempograph.evaluation.rank_table import Integers, Measure, RankTable
from tempograph.report.document import Block, Details, Heading, Paragraph, Picture
from tempograph.report.rank_plots import Panel, effect_figure, groups_figure, relations_figure
from tempograph.report.text_table import TextTable
from tempograph.typing import Split

_DRAWN_GROUPS: Final[dict[str, Callable[[RankTable, TemporalGraph], QueryGroups]]] = {
    "answer and given entity in train": by_pair_history,
    "steps to the nearest repetition in train": by_distance,
    "train facts of the answer": lambda ranked, graph: by_degree(ranked, graph, "answer"),
    "train facts of the given entity": lambda ranked, graph: by_degree(ranked, graph, "given"),
}
_GROUPS: Final = {**_DRAWN_GROUPS, "query direction": lambda ranked, _: by_side(ranked)}
_EFFECTS: Final = {
    "replication": (
        "The pattern contains the answer: the more often it occurred near the query, the more "
        "there is to copy. The curve of a model that uses time well rises to the right."
    ),
    "reference": (
        "The pattern contains the given entity, not the answer. A few such facts help; very many "
        "mean many candidates to choose from, and a curve may fall again."
    ),
}
_METRICS: Final = ("queries", "MRR", "Hits@1", "Hits@10", "from", "to")


@dataclass(frozen=True, eq=False)
class RankAnalysis:
    """The ranks of some runs, by label, on one split of one dataset."""

    graph: TemporalGraph
    split: Split
    ranks: Mapping[str, RankTable]
    protocols: str
    """The protocols of the runs, shown beside every figure."""
    window: int
    """Frequencies are counted this many steps before and after a query."""

    @property
    def about(self) -> str:
        """The dataset, split, filter and protocols, to print beside the figures."""
        return f"{self.graph.name}, {self.split}, filter time; {self.protocols}"

    def blocks(self, prefix: str) -> list[Block]:
        """All analyses; `prefix` starts the names of pictures."""
        blocks: list[Block] = [
            Heading(f"Where models are right: {self.graph.name}, {self.split}"),
            Paragraph(
                "A frequency counts the train facts that share a pattern with the query's "
                f"fact, such as its subject and relation, within {self.window} steps before and "
                "after it, excluding its own step."
            ),
        ]
        frequencies = pattern_frequencies(self._queries, self.graph, self.window, self.window)
        for effect, meaning in _EFFECTS.items():
            hits, hits_bins = self._effect(effect, "hits@10", frequencies, prefix)
            mrr, mrr_bins = self._effect(effect, "mrr", frequencies, prefix)
            blocks += [
                Heading(f"{effect.capitalize()} effect, {self.split}", 3),
                Paragraph(meaning),
                hits,
                Details("The same for MRR", [mrr]),
                Details("The bins as tables", [hits_bins, mrr_bins]),
            ]
        groups = Heading(f"What train says about a query, {self.split}", 3)
        relations = Heading(f"Relations, {self.split}", 3)
        return [*blocks, groups, *self._groups(prefix), relations, *self._relations(prefix)]

    def _effect(
        self, effect: str, measure: Measure, frequencies: Integers, prefix: str
    ) -> tuple[Picture, TextTable]:
        panels, rows = [], []
        shown, scale, digits = ("MRR", 1, 3) if measure == "mrr" else ("Hits@10", 100, 1)
        for side, pattern in EFFECTS[effect]:
            curves = {
                label: effect_curves(ranked, frequencies, side, pattern, measure)
                for label, ranked in self.ranks.items()
            }
            panels.append(Panel(side, pattern, curves))
            for label, (bins, _) in curves.items():
                for value, questions, *figures in zip(*bins, strict=True):
                    cells = [f"{scale * figure:.{digits}f}" for figure in figures]
                    first = [side, f"f({', '.join(pattern)})", label, _round(value)]
                    rows.append([*first, f"{questions:,.0f}", *cells])
        title = f"{effect.capitalize()} effect"
        alt = (
            f"{title}: {shown} against the frequency of {len(panels)} patterns. Dots are means of "
            "queries with similar frequencies: 0 by itself, the others in up to twelve bins of "
            "roughly equal size; queries with equal frequencies share a bin. Lines are smoothed, "
            "bands are 95% intervals; the tables below list the bins."
        )
        columns = ("query", "frequency", "run", "value", "queries", shown, "from", "to")
        caption = f"{self.about}. Value: the mean of the bin, on a logarithmic scale. "
        caption += _interval(shown)
        figure = effect_figure(title, panels, self.window, self.about, shown)
        name = f"{prefix}{effect}-{shown.lower().replace('@', '')}"
        return Picture(name, figure, alt), TextTable(f"{title}: {shown}", columns, rows, 3, caption)

    def _groups(self, prefix: str) -> list[Block]:
        figures = {title: self._figures(groups) for title, groups in _GROUPS.items()}
        drawn = {title: figures[title] for title in _DRAWN_GROUPS}
        rows = [[title, *row] for title, runs in figures.items() for row in _rows(runs)]
        alt = (
            "Hits@10 of queries grouped by what train says about them: whether the answer and the "
            "given entity occur together, with the same relation or only with others; the "
            "distance to the nearest fact with the same subject, relation and object; and how "
            "many facts mention the answer and the given entity. Bars are 95% intervals."
        )
        columns = ("by", "group", "run", *_METRICS)
        table = TextTable("Groups of queries", columns, rows, 3, self._hits_caption)
        return [
            Picture(f"{prefix}groups", groups_figure(drawn, self.about), alt),
            Details("The results as a table", [table]),
        ]

    def _relations(self, prefix: str) -> list[Block]:
        figures = self._figures(by_relation)
        alt = (
            "Hits@10 of the relations with the most queries, with 95% intervals; the table below "
            "lists all relations."
        )
        columns = ("relation", "run", *_METRICS)
        table = TextTable("Relations", columns, _rows(figures), 2, self._hits_caption)
        return [
            Picture(f"{prefix}relations", relations_figure(figures, self.about), alt),
            Details("All relations as a table", [table]),
        ]

    @property
    def _hits_caption(self) -> str:
        return f"{self.about}. Hits in percent. {_interval('Hits@10')}"

    def _figures(
        self, groups: Callable[[RankTable, TemporalGraph], QueryGroups]
    ) -> dict[str, GroupMetrics]:
        grouped = groups(self._queries, self.graph)
        return {label: group_metrics(ranked, grouped) for label, ranked in self.ranks.items()}

    @property
    def _queries(self) -> RankTable:
        """Any run: on the same data, all runs have ranked the same queries in the same order."""
        return next(iter(self.ranks.values()))


def _interval(measure: str) -> str:
    return f"From, to: the 95% interval of {measure}."


def _rows(runs: Mapping[str, GroupMetrics]) -> list[list[str]]:
    """Label, run and metrics of each group with queries; the runs of one group stay together."""
    rows = []
    for run, figures in runs.items():
        for index, (label, questions, mrr, *shares) in enumerate(zip(*figures, strict=True)):
            if questions:
                percents = (f"{100 * share:.1f}" for share in shares)
                rows.append((index, [label, run, f"{questions:,}", f"{mrr:.3f}", *percents]))
    return [row for _, row in sorted(rows, key=lambda item: item[0])]


def _round(value: float) -> str:
    """Three significant digits, without powers of ten."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"
