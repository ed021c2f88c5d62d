"""Facts in names, dates or ids become rows of ids; time steps after the last one."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import make_graph
from messages import message, raises
from tempograph import TemporalGraph
from tempograph.data.fact_ids import to_fact_ids
from tempograph.data.graph import rows_in
from tempograph.data.importers.later_steps import extend_times
from tempograph.data.importers.time_grid import step_labels, steps_since_1970
from tempograph.data.synthetic.world import make_world
from tempograph.errors import QueryError
from tempograph.typing import Granularity

GRAPH = make_world(entities=12, relations=4, steps=20, facts=300).graph


def test_every_kind_of_column_is_looked_up() -> None:
    rows = GRAPH.test[:40]
    subject, relation, object_ = (
        [names[number] for number in rows[:, place]]
        for place, names in enumerate((GRAPH.entities, GRAPH.relations, GRAPH.entities))
    )
    days = [date.fromisoformat(GRAPH.times[step]) for step in rows[:, 3]]
    kinds = {
        "text in chunks, dates": (pa.chunked_array([subject[:7], [], subject[7:]]), pa.array(days)),
        "categories, labels": (
            pa.chunked_array([subject[:7], subject[7:]]).dictionary_encode(),
            list(map(str, days)),
        ),
        "ids": (rows[:, 0], rows[:, 3]),
    }
    for kind, (who, when) in kinds.items():
        table = pa.table({"subject": who, "relation": relation, "object": object_, "time": when})
        assert np.array_equal(to_fact_ids(GRAPH, table), rows), kind
        assert to_fact_ids(GRAPH, table[:0]).shape == (0, 4)
    lacking = [*subject[:5], None]
    categories = pa.array(lacking).dictionary_encode()
    for wrong, value in ((lacking, None), (categories, None), ([[1]] * 6, [1]), ([0.5] * 6, 0.5)):
        table = pa.table(
            {"subject": wrong, "relation": relation[:6], "object": object_[:6], "time": days[:6]}
        )
        row = 5 if value is None else 0
        problem = message("id_lookup.not_a_name", column="subject", value=value)
        if value is None:
            problem = message("table_reader.empty", column="subject")
        with raises(QueryError, "fact_ids.fact", row=row, problem=problem):
            to_fact_ids(GRAPH, table)
    table = pa.table(
        {
            "subject": [0] * 3,
            "relation": ["visits", "visits", "x"],
            "object": [0] * 3,
            "time": [0] * 3,
        }
    )
    problem = message("suggestions.unknown", kind="relation", value="x")
    with raises(QueryError, "fact_ids.fact", row=2, problem=problem):
        to_fact_ids(GRAPH, table)


@pytest.mark.parametrize("granularity", ["day", "week", "month", "year"])
def test_a_date_maps_to_the_step_that_contains_it(granularity: Granularity) -> None:
    days = np.arange("2019-12-20", "2021-01-20", dtype="M8[D]")
    steps = steps_since_1970(days, granularity)
    graph = replace(
        make_graph([(0, 0, 1, 0)]), times=step_labels(int(steps[0]), int(steps[-1]), granularity)
    )
    assert [graph.time_id(day) for day in days.tolist()] == (steps - steps[0]).tolist()
    if granularity == "day":
        assert (
            replace(graph, times=("2020-01-01T22", "2020-01-01T23")).time_id(
                datetime(2020, 1, 1, 23, 59)
            )
            == 1
        )
    if granularity == "week":
        label = graph.time_label(date(2021, 1, 31))
        assert extend_times(graph, [label])[0].times[-2:] == ("2021-W03", "2021-W04")


def test_only_a_regular_time_grid_is_extended() -> None:
    graph = make_graph([(0, 0, 1, 0)])
    labels = {"graph": "small", "first": "day 0", "last": "day 4"}
    refused = message("time_grid.no_continuation", time="day 9", **labels)
    assert extend_times(graph, ["day 9", "day 2"]) == (graph, {"day 9": refused})
    for last, new, made in (
        (("2020-11", "2020-12"), "2021-02", ("2021-01", "2021-02")),
        (("2020-W52", "2020-W53"), "2021-W01", ("2021-W01",)),
        (("7", "8"), "10", ("9", "10")),
        (("2020-01-01T22", "2020-01-01T23"), "2020-01-02T00", ("2020-01-02T00",)),
    ):
        short = TemporalGraph(
            "x", ("a",), ("r",), last, np.zeros((1, 4), np.int64), *[np.zeros((0, 4), np.int64)] * 2
        )
        assert extend_times(short, [new])[0].times == (*last, *made)
    weeks = replace(short, times=("2020-W52", "2020-W53"))
    assert extend_times(weeks, ["2020-W54", "2019-W01"]) == (weeks, {})
    far = message("time_grid.far", time="2300-W01", steps="14,558", last="2020-W53")
    extended, reasons = extend_times(weeks, ["2300-W01", "2021-W02"])
    assert extended.times[2:] == ("2021-W01", "2021-W02") and reasons == {"2300-W01": far}


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.integers(0, 12))
def test_rows_in_equals_a_set_lookup(seed: int, some: int, others: int) -> None:
    rng = np.random.default_rng(seed)
    rows, facts = (rng.integers(0, 3, (count, 4)) for count in (some, others))
    among = {tuple(fact) for fact in facts.tolist()}
    assert rows_in(rows, facts).tolist() == [tuple(row) in among for row in rows.tolist()]


def test_a_date_is_refused_by_a_grid_of_numbers() -> None:
    graph = replace(GRAPH, times=tuple(str(number) for number in range(1, 1 + len(GRAPH.times))))
    with raises(QueryError, "graph.date_for_label", date="2024-01-05", label="1"):
        graph.time_id(date(2024, 1, 5))
    late = datetime(2030, 1, 5, 23, tzinfo=timezone(timedelta(hours=-5)))
    assert (
        GRAPH.times[GRAPH.time_id(late)]
        == "2030-01-06"
        == GRAPH.times[GRAPH.time_id(late.isoformat())]
    )


def test_the_error_lists_all_names_that_differ_by_case() -> None:
    graph = replace(make_graph([(0, 0, 1, 0)]), entities=("ANN", "Ann", "ann", "nan"))
    typo = {"kind": "entity", "value": "aNN", "names": "'ANN', 'Ann' or 'ann'"}
    with raises(QueryError, "suggestions.did_you_mean", **typo):
        graph.entity_id("aNN")
