"""What an import reads: files and tables in memory, each for one split or for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tempograph.data.arrow_tables import TABLE
from tempograph.data.importers.arrow_reader import holds_text, read_arrow
from tempograph.data.importers.bad_rows import SkipCounter
from tempograph.data.importers.options import ImportOptions
from tempograph.data.importers.row_checks import Batch, Grid
from tempograph.data.importers.sources import file_size
from tempograph.data.importers.table_reader import read_column, read_table
from tempograph.typing import Split


@dataclass(frozen=True, eq=False)
class FactInput:
    """A file or a table in memory, and the split of its rows if all have one."""

    content: Path | pa.Table
    split: Split | None = None

    @property
    def name(self) -> str:
        """How messages name it: by its path, "the table", or "the valid table"."""
        if isinstance(self.content, Path):
            return str(self.content)
        return f"the {self.split} table" if self.split else TABLE

    @property
    def size(self) -> int:
        """The bytes to read; none for a table in memory."""
        return file_size(self.content) if isinstance(self.content, Path) else 0

    def read(
        self, options: ImportOptions, grid: Grid, skips: SkipCounter, remarks: list[str]
    ) -> Iterator[Batch]:
        """The rows in batches; faulty ones are skipped and counted, or stop the import.

        What was detected about a file is added to `remarks`.
        """
        counter = skips if options.skip_bad else None
        if isinstance(self.content, Path):
            yield from read_table(self.content, options, grid, counter, remarks)
            return
        for columns, steps, _ in read_arrow(self.content, self.name, options, grid, counter):
            yield columns, steps, 0

    def read_texts(self, column: str, options: ImportOptions) -> Iterator[pa.Array]:
        """A column in batches of text; none if it holds dates or numbers."""
        if isinstance(self.content, Path):
            yield from read_column(self.content, column, options)
        elif holds_text(self.content[column].type):
            yield from self.content[column].chunks
