"""The rows of the tables of models: the runs of each, and the published figures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, get_args

from tempograph.experiments.measured_rows import (
    RowKind,
    Runs,
    preset_cell,
    remarks,
    row_kind,
    with_sources,
)
from tempograph.experiments.published import (
    PAPER_TEST,
    PROTOCOL_DEPENDENT,
    Published,
    protocols_of,
    published,
)
from tempograph.experiments.results import best_settings
from tempograph.models.registry import MODELS
from tempograph.report.text_table import TextTable
from tempograph.training.run_results import RunResults
from tempograph.typing import Protocol

FIGURE_COLUMNS: Final = ("MRR", "Hits@1", "Hits@3", "Hits@10")
BOTH_COLUMNS: Final = (*FIGURE_COLUMNS, "published: MRR", *FIGURE_COLUMNS[1:])
"""Our figures, then the published ones."""
BOTH_NAMES: Final = (*FIGURE_COLUMNS, *(f"published {name}" for name in FIGURE_COLUMNS))
"""The same with unique names, for programs."""
BOTH_PROTOCOLS: Final[tuple[Protocol, ...]] = ("paper", "strict")
HEAD_COLUMNS: Final = ("model", "protocol", "preset", "remarks")
NARROW_HEAD: Final = ", ".join(HEAD_COLUMNS[:3])
NO_FIGURES: Final = ["-"] * 4


class TableRow(NamedTuple):
    """A model under a protocol, with the best settings of one kind."""

    model: str
    protocol: Protocol
    kind: RowKind
    runs: Runs

    @property
    def preset(self) -> str:
        """The preset of its settings; a dash if there is none."""
        if self.runs:
            return preset_cell(self.runs)
        return "paper" if self.kind == "paper's settings" else "-"

    @property
    def head(self) -> list[str]:
        """Model, protocol, preset and remarks."""
        notes = remarks(self.runs) if self.runs else "-"
        return [self.model, self.protocol, self.preset, notes]

    @property
    def name(self) -> str:
        """What notes call the row."""
        if self.kind == "fitted on valid":
            return f"{self.model} (gate fitted on valid)"
        if self.kind == "with names":
            return f"{self.model} (with names)"
        if self.model not in PROTOCOL_DEPENDENT:
            return self.model
        return f"{self.model} ({self.protocol}, {self.preset})"

    def published(self, dataset: str) -> Published:
        """Return the published figures that may stand beside it."""
        preset = "paper" if self.kind == "paper's settings" else None
        return published(dataset, self.model, self.protocol, preset)


def table_rows(
    results: Sequence[RunResults], dataset: str, protocols: Sequence[Protocol] = BOTH_PROTOCOLS
) -> list[TableRow]:
    """Return a row for all models, protocols and kinds of settings, the paper's models first.

    Candidates for a row are all results of its kind. There is a row without runs for what should be
    measured: the paper's settings under its protocol, and the usual ones.
    """
    here = [result for result in results if result.dataset == dataset]
    best = best_settings(here, lambda run: (run.model, run.protocol, row_kind(run)))
    rows = []
    for model in dict.fromkeys((*PAPER_TEST["icews14"], *MODELS)):
        for protocol in protocols_of(model, protocols):
            leaking = model in PROTOCOL_DEPENDENT and protocol == "paper"
            for kind in get_args(RowKind):
                runs = best.get((model, protocol, kind), [])
                if runs or kind == "usual" or (leaking and kind == "paper's settings"):
                    rows.append(TableRow(model, protocol, kind, runs))
    return rows


def with_row_sources(table: TextTable, rows: Sequence[TableRow]) -> TextTable:
    """Return a table that says where its rows were measured; see `with_sources`."""
    return with_sources(table, [[row.runs] for row in rows], [row.name for row in rows])
