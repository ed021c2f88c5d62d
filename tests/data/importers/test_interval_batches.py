"""A run remembers the columns of start and end, and reads later files with them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from tempograph import ImportOptions
from tempograph.data.catalog import load_with_options
from tempograph.data.fact_ids import read_facts
from tempograph.data.importers.batch_options import merge_options
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
    # A fact of a batch is asked about at its start, or at a time.
    notes: list[str] = []
    batch = read_facts(graph, path, {}, options, note=notes.append)
    end = "facts are taken at their start, column 'from date'; column 'to date' is not used"
    assert notes == [f"{path}: {end}"]
    assert batch.valid.all() and batch.ids[:2, 3].tolist() == [0, 3]
    rows = read_facts(graph, [("a", "leads", "x", "1927")], {}, options)
    assert rows.valid.all() and rows.ids[0, 3] == 1
    table = pd.read_csv(path, dtype=str)
    assert read_facts(graph, table, {}, options, note=notes.append).ids.tolist() == (
        batch.ids.tolist()
    )
    assert notes[1:] == [f"the table: {end}"]
    merged = merge_options({"time": "date"}, options)
    assert merged is not None and merged.columns[3] == "date" and not merged.has_intervals
