"""What `fit` read and chose, kept in the run folder so that an interrupted fit can go on."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.bad_rows import BadValue, SkippedRows
from tempograph.data.importers.column_guessing import TableColumns
from tempograph.data.importers.importer import ImportResult
from tempograph.data.importers.options import ImportOptions
from tempograph.io import write_json
from tempograph.training.run_folder import explain_damage
from tempograph.typing import FileFormat

FIT: Final = "fit.json"
"""The file of a run folder that `fit` wrote; other run folders have none."""


@dataclass(frozen=True)
class ModelChoice:
    """A model and why it was chosen."""

    model: str
    why: str


@dataclass(frozen=True)
class SearchPlan:
    """What `fit` was asked to search."""

    minutes: float
    rules: ModelChoice
    """What the rules choose, or the model that was requested."""
    requested: bool = False
    """Whether the model was requested, so that only its settings vary."""
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class FitRecord:
    """How the data of a fit was read, which model was chosen, and whether the fit is finished."""

    format: FileFormat
    rows: int
    duplicates: int
    skipped: tuple[SkippedRows, ...]
    remarks: tuple[str, ...]
    overlaps: int | None
    table: TableColumns
    choice: ModelChoice
    keep_holdout: bool = False
    """Whether answers rest on the train facts alone, also after the model is measured."""
    finished: bool = False
    """Whether the model is trained and measured, and the trust report written."""
    plan: SearchPlan | None = None
    """The search that comes before the end; None for the rules alone."""

    @staticmethod
    def of(
        imported: ImportResult,
        table: TableColumns,
        choice: ModelChoice,
        keep_holdout: bool,
        plan: SearchPlan | None = None,
    ) -> FitRecord:
        """The record of a fit that begins."""
        return FitRecord(
            imported.format,
            imported.rows,
            imported.duplicates,
            imported.skipped,
            imported.remarks,
            imported.overlaps,
            table,
            choice,
            keep_holdout,
            plan=plan,
        )

    def imported(self, graph: TemporalGraph, options: ImportOptions | None) -> ImportResult:
        """What the import returned."""
        return ImportResult(
            graph,
            self.format,
            self.rows,
            self.duplicates,
            self.skipped,
            self.remarks,
            self.overlaps,
            options,
        )

    def write(self, folder: Path) -> None:
        """Write the file of a run folder, whole or not at all."""
        write_json(folder / FIT, dataclasses.asdict(self))


def read_fit_record(folder: Path) -> FitRecord | None:
    """The record in a run folder; None if `fit` did not write it."""
    path = folder / FIT
    if not path.is_file():
        return None
    with explain_damage(folder):
        try:
            return _parse(json.loads(path.read_text(encoding="utf-8")))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{FIT} does not hold what fit writes: {error!r}") from error


def _parse(data: dict[str, Any]) -> FitRecord:
    # A later version may have more fields.
    names = [field.name for field in dataclasses.fields(FitRecord)]
    values = {name: data[name] for name in names if name in data}
    table = dict(values["table"])
    return FitRecord(
        **values
        | {
            "skipped": tuple(map(_parse_skipped, values["skipped"])),
            "remarks": tuple(values["remarks"]),
            "table": TableColumns(**table | {"unused": tuple(table["unused"])}),
            "choice": ModelChoice(**values["choice"]),
            "plan": _parse_plan(values.get("plan")),
        }
    )


def _parse_plan(data: dict[str, Any] | None) -> SearchPlan | None:
    if data is None:
        return None
    rules = ModelChoice(**data["rules"])
    return SearchPlan(**data | {"rules": rules, "overrides": tuple(data["overrides"])})


def _parse_skipped(data: dict[str, Any]) -> SkippedRows:
    examples = tuple(BadValue(**example) for example in data["examples"])
    return SkippedRows(**data | {"examples": examples})
