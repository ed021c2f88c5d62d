"""What `Predictor.add` returns: the facts that were not added, and those that ended others."""

from __future__ import annotations

import pyarrow as pa

from tempograph.data.result_table import ResultTable


class AddedFacts(ResultTable):
    """The facts that were not added, with their `error`; `closed` has those that ended others."""

    def __init__(self, rejected: pa.Table, closed: pa.Table) -> None:
        super().__init__(rejected)
        self.closed = ResultTable(closed)
        """The facts whose end replaced an open or unknown one."""
