"""A table of questions, each a fact with one part missing, as rows of ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tempograph.data.arrow_tables import TABLE, ArrowStream, TableLike, to_arrow_table
from tempograph.data.graph import COLUMNS, Facts, TemporalGraph
from tempograph.data.id_lookup import MISSING, encode_column, look_up
from tempograph.data.importers.batch_options import question_options, row_options
from tempograph.data.importers.csv_reader import column_positions
from tempograph.data.importers.option_words import PYTHON
from tempograph.data.importers.options import ImportOptions
from tempograph.data.row_errors import RowErrors
from tempograph.data.time_lookup import TimeLookup
from tempograph.errors import DataError
from tempograph.training.question_models import QuestionModels
from tempograph.typing import HEAD_ASKED

_NOT_ONE: Final = "a wrong number of missing parts"
_NOT_RANKED: Final = "a missing part that the run does not rank"


class Questions(NamedTuple):
    """Questions in ids [n, 4] with -1 for the missing part, what is wrong with each, and as text.

    A question with an error has no meaningful ids.
    """

    ids: Facts
    errors: RowErrors
    given: pa.Table
    times: tuple[str, ...]
    """The time grid of the ids, with further steps if there are questions about these."""

    @property
    def asked(self) -> NDArray[np.int64]:
        """The column that each question asks for, or -1 if it has an error, [n]."""
        return np.where(self.errors.mask, -1, np.argmax(self.ids == MISSING, axis=1))


def read_questions(
    graph: TemporalGraph,
    data: TableLike,
    given: Mapping[str, Any],
    remembered: ImportOptions | None = None,
    extend: bool = False,
) -> Questions:
    """The questions of a table; a column that it lacks is missing in every row.

    The columns are those that the `given` import options name, or else those of the `remembered`
    options, if three of them are there. With `extend`, times may be after the last step.
    """
    table = to_arrow_table(data)
    if isinstance(data, ArrowStream) or table.column_names != list(COLUMNS):
        options = question_options(table.column_names, given, remembered)
    else:
        options = row_options(given, remembered)
    names = [name for name in options.columns if name in table.column_names]
    if len(names) < len(COLUMNS) - 1:
        lacking = next(name for name in options.columns if name not in names)
        known = ", ".join(map(repr, table.column_names))
        raise DataError(
            f"{TABLE}: a question has three of the columns {', '.join(options.columns)}; "
            f"'{lacking}' is not among {known}"
        )
    column_positions(TABLE, table.column_names, names)
    nothing = pa.chunked_array([pa.nulls(len(table), pa.string())])
    columns = [table[name] if name in names else nothing for name in options.columns]
    for part, column in zip(COLUMNS, columns, strict=True):
        if pa.types.is_nested(column.type):
            raise DataError(
                f"{TABLE}: the {part} must be text, numbers or dates, found {column.type}"
            )
    encoded = [encode_column(column) for column in columns]
    lookup = TimeLookup(graph, options, extend, words=PYTHON)
    ids, errors = look_up(graph, encoded, options, lookup)
    missing = (ids == MISSING).sum(axis=1)
    for count in np.unique(missing[missing != 1]):
        text = f"exactly one of {', '.join(COLUMNS)} must be missing, found {count}"
        errors = errors.then(RowErrors.at(missing == count, _NOT_ONE, text))
    texts = [column.texts() for column in encoded]
    given_parts = pa.table(texts, names=list(COLUMNS))
    return Questions(ids, errors, given_parts, lookup.graph.times)


def refuse_unranked(
    questions: Questions, models: QuestionModels, intervals: bool = False
) -> Questions:
    """The questions with an error for each about a relation or time that a run does not rank.

    With `intervals`, the caller can answer when facts hold that do so for a while.
    """
    reason, errors, asked = models.heads_refused, questions.errors, questions.asked
    refused = {} if reason is None else dict.fromkeys(HEAD_ASKED, reason)
    if models.timeline.has_intervals and not intervals:
        no_room = (
            f"{models.graph.name}: its facts hold for a while, and a table of questions has no "
            "room for intervals; ask when with Predictor.when, one fact at a time"
        )
        refused = {"time": no_room}
    for kind, text in refused.items():
        of_kind = asked == COLUMNS.index(kind)
        errors = errors.then(RowErrors.at(of_kind, _NOT_RANKED, text))
    return questions._replace(errors=errors)
