"""Where the answers are found: the analyses of one split as words, pictures and tables of a report."""

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
from tempograph.report import analysis_plots
from tempograph.report.html import Block, Fold, Heading, Picture, Words
from tempograph.report.text_table import TextTable
from tempograph.typing import Split

_DRAWN: Final[dict[str, Callable[[RankTable, TemporalGraph], QueryGroups]]] = {
    "answer seen with the given entity": by_pair_history,
    "steps to the nearest same fact in train": by_distance,
    "train facts of the answer": lambda ranked, graph: by_degree(ranked, graph, "answer"),
    "train facts of the given entity": lambda ranked, graph: by_degree(ranked, graph, "given"),
}
_GROUPS: Final = {**_DRAWN, "what is asked": lambda ranked, _: by_side(ranked)}
_EFFECTS: Final = {
    "replication": (
        "The pattern holds the answer: the more often it occurred near the question, the more there is to copy. A "
        "model that uses time well rises to the right."
    ),
    "reference": (
        "The pattern holds what the question gives, not the answer. A few such facts help; very many mean many "
        "candidates to choose from, and a curve may fall again."
    ),
}
_BOUNDS: Final = "From, to: where {} lies at 95%."


@dataclass(frozen=True, eq=False)
class Findings:
    """The ranks of some runs, by their labels, on one split of one dataset; `protocols` stands beside every figure."""

    graph: TemporalGraph
    split: Split
    ranks: Mapping[str, RankTable]
    protocols: str
    window: int

    @property
    def about(self) -> str:
        """What must stand beside the figures."""
        return f"{self.graph.name}, {self.split}, filter time; {self.protocols}"

    def blocks(self, prefix: str) -> list[Block]:
        """All of it; names of pictures begin with the prefix."""
        blocks: list[Block] = [
            Heading(f"Where the answers are found: {self.graph.name}, {self.split}"),
            Words(
                "A frequency counts the train facts that share a pattern with the question's fact, such as its subject "
                f"and relation, within {self.window} steps before and after it, its own step left out."
            ),
        ]
        frequencies = pattern_frequencies(self._questions, self.graph, self.window, self.window)
        for effect, meaning in _EFFECTS.items():
            hits, hits_bins = self._effect(effect, "hits@10", frequencies, prefix)
            mrr, mrr_bins = self._effect(effect, "mrr", frequencies, prefix)
            blocks += [
                Heading(f"{effect.capitalize()} effect, {self.split}", 3),
                Words(meaning),
                hits,
            ]
            blocks += [
                Fold("The same for MRR", [mrr]),
                Fold("The bins as tables", [hits_bins, mrr_bins]),
            ]
        blocks += [
            Heading(f"What train holds about a question, {self.split}", 3),
            *self._groups(prefix),
        ]
        blocks += [Heading(f"Relations, {self.split}", 3), *self._relations(prefix)]
        return blocks

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
            panels.append(analysis_plots.Panel(side, pattern, curves))
            for label, (bins, _) in curves.items():
                for at, questions, *figures in zip(*bins, strict=True):
                    cells = [f"{scale * value:.{digits}f}" for value in figures]
                    rows.append(
                        [
                            side,
                            f"f({', '.join(pattern)})",
                            label,
                            _rounded(at),
                            f"{questions:,.0f}",
                            *cells,
                        ]
                    )
        title = f"{effect.capitalize()} effect"
        alt = (
            f"{title}: {shown} against the frequency of {len(panels)} patterns. Dots are means of questions with "
            "like frequencies: 0 by itself, the others in up to twelve ranges, cut where these would hold equally "
            "many; all questions of one frequency stay together. Lines are smoothed, bands hold 95%; the tables below "
            "hold the bins."
        )
        columns = ("asked", "frequency", "run", "value", "questions", shown, "from", "to")
        caption = (
            f"{self.about}. Value: the bin's mean, on a logarithmic scale. {_BOUNDS.format(shown)}"
        )
        figure = analysis_plots.effect_figure(title, panels, self.window, self.about, shown)
        name = f"{prefix}{effect}-{shown.lower().replace('@', '')}"
        return Picture(name, figure, alt), TextTable(f"{title}: {shown}", columns, rows, 3, caption)

    def _groups(self, prefix: str) -> list[Block]:
        found = {title: self._figures(groups) for title, groups in _GROUPS.items()}
        drawn = {title: found[title] for title in _DRAWN}
        rows = [[title, *row] for title, runs in found.items() for row in _rows(runs)]
        columns = ("by", "group", "run", "questions", "MRR", "Hits@1", "Hits@10", "from", "to")
        caption = f"{self.about}. Hits in per cent. {_BOUNDS.format('Hits@10')}"
        alt = (
            "Hits@10 of questions grouped by what train holds about them: whether a fact of any time joins the answer "
            "with the given entity, by the same relation or only otherwise; how far away the nearest fact with the "
            "same subject, relation and object is; how many facts name the answer, and the given entity. Bars hold 95%."
        )
        return [
            Picture(f"{prefix}groups", analysis_plots.groups_figure(drawn, self.about), alt),
            Fold(
                "The figures as a table",
                [TextTable("Groups of questions", columns, rows, 3, caption)],
            ),
        ]

    def _relations(self, prefix: str) -> list[Block]:
        found = self._figures(by_relation)
        columns = ("relation", "run", "questions", "MRR", "Hits@1", "Hits@10", "from", "to")
        caption = f"{self.about}. Hits in per cent. {_BOUNDS.format('Hits@10')}"
        alt = "Hits@10 of the relations that are asked most often, with 95% bars; the table below holds all of them."
        return [
            Picture(f"{prefix}relations", analysis_plots.relations_figure(found, self.about), alt),
            Fold(
                "All relations as a table",
                [TextTable("Relations", columns, _rows(found), 2, caption)],
            ),
        ]

    def _figures(
        self, groups: Callable[[RankTable, TemporalGraph], QueryGroups]
    ) -> dict[str, GroupMetrics]:
        found = groups(self._questions, self.graph)
        return {label: group_metrics(ranked, found) for label, ranked in self.ranks.items()}

    @property
    def _questions(self) -> RankTable:
        """Any run's: on the same data, all have ranked the same questions in the same order."""
        return next(iter(self.ranks.values()))


def _rows(runs: Mapping[str, GroupMetrics]) -> list[list[str]]:
    """Label, run and figures; the runs of one group stand together."""
    rows = [
        (
            place,
            [
                label,
                run,
                f"{questions:,}",
                f"{mrr:.3f}",
                *(f"{100 * value:.1f}" for value in shares),
            ],
        )
        for run, figures in runs.items()
        for place, (label, questions, mrr, *shares) in enumerate(zip(*figures, strict=True))
        if questions
    ]
    return [row for _, row in sorted(rows, key=lambda placed: placed[0])]


def _rounded(value: float) -> str:
    """Three digits that count, and no power of ten."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"
