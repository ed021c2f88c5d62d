"""A run remembers the columns of start and end, and reads later files with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tempograph import ImportOptions
from tempograph.data.catalog import load_with_options
from tempograph.data.fact_ids import read_facts
from tempograph.data.importers.batch_options import merge_options
from tempograph.errors import DataError
from tempograph.training.run_folder import IMPORT, read_import_options


def test_options_of_intervals_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("who,role,org,from date,to date\na,leads,x,1926,1929\nb,leads,x,1929,\n")
    given = ImportOptions(subject="who", relation="role", object="org", valid_share=0)
    graph, options = load_with_options(path, given)
    assert options is not None
    assert (options.start, options.end, options.has_intervals) == ("from date", "to date", True)
    (tmp_path / IMPORT).write_text(json.dumps(options.given))
    assert read_import_options(tmp_path) == options
    # A fact of a batch holds from its start to its end.
    notes: list[str] = []
    batch = read_facts(graph, path, {}, options, note=notes.append)
    assert notes == [] and batch.valid.all()
    assert batch.ids.tolist() == graph.train.tolist()
    rows = read_facts(graph, [("a", "leads", "x", "1927")], {}, options)
    assert rows.valid.all() and rows.ids.tolist() == [[0, 0, 1, 1]]
    table = pd.read_csv(path, dtype=str)
    assert np.array_equal(read_facts(graph, table, {}, options).ids, batch.ids)
    spans = [("a", "leads", "x", "1926", "1929"), ("b", "leads", "x", "1929", None)]
    assert np.array_equal(read_facts(graph, spans, {}, options).ids, batch.ids)
    merged = merge_options({"time": "date"}, options)
    assert merged is not None and merged.columns[3] == "date" and not merged.has_intervals


def test_facts_without_an_end_are_at_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("who,role,org,from date,to date\na,leads,x,1926,1929\nb,leads,x,1929,\n")
    given = ImportOptions(subject="who", relation="role", object="org", valid_share=0)
    graph, options = load_with_options(path, given)
    moments = tmp_path / "moments.csv"
    moments.write_text("who,role,org,from date\na,leads,x,1927\n")
    assert read_facts(graph, moments, {}, options).ids.tolist() == [[0, 0, 1, 1]]
    assert read_facts(graph, path, {"time": "from date"}, options).ids.tolist() == (
        [[0, 0, 1, 0], [2, 0, 1, 3]]
    )
    # An end that is asked for must be there.
    with pytest.raises(DataError, match="there is no column 'to date'"):
        read_facts(graph, moments, {"end": "to date"}, options)


def test_the_end_of_an_event_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("who,role,org,from date,to date\na,leads,x,1926,1926\nb,leads,x,1929,1929\n")
    given = ImportOptions(subject="who", relation="role", object="org", valid_share=0)
    graph, options = load_with_options(path, given)
    assert not graph.has_intervals
    end = "facts are taken at their start, column 'from date'; column 'to date' is not used"
    notes: list[str] = []
    for facts, source in ((path, str(path)), (pd.read_csv(path, dtype=str), "the table")):
        batch = read_facts(graph, facts, {}, options, note=notes.append)
        assert batch.ids[:, 3].tolist() == [0, 3] and notes.pop() == f"{source}: {end}"
