"""Entity vectors as a Parquet table."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import torch

from conftest import Call, as_json
from messages import raises
from tempograph.errors import QueryError
from tempograph.prediction.vectors import export_vectors
from tempograph.training.runs import Run

STORED = sorted(Path(__file__).parents[1].glob("stored/*/*.json"))


def load_stored(model: str) -> Run:
    return Run.from_pretrained(next(path for path in STORED if path.stem == model).with_suffix(""))


def test_vectors_equal_those_of_the_model(tmp_path: Path) -> None:
    run = load_stored("temp-gru")
    times = run.graph.times[2:5]
    export_vectors(run, tmp_path / "v.parquet", times)
    rows = pq.read_table(tmp_path / "v.parquet").to_pylist()
    assert [row["time"] for row in rows] == [time for time in times for _ in run.graph.entities]
    with torch.inference_mode():
        expected = run.model.entity_vectors(torch.tensor([2, 3, 4]))
    assert torch.equal(torch.tensor([row["vector"] for row in rows]), expected.flatten(0, 1))
    assert [row["entity"] for row in rows[: len(run.graph.entities)]] == list(run.graph.entities)
    assert not torch.equal(expected[0], expected[1]), "vectors of TeMP depend on the time"


def test_vectors_that_do_not_depend_on_time_are_written_once(tmp_path: Path) -> None:
    run = load_stored("tntcomplex")
    export_vectors(run, tmp_path / "v.parquet", run.graph.times)
    table = pq.read_table(tmp_path / "v.parquet")
    assert table.num_rows == len(run.graph.entities) and table["time"].null_count == table.num_rows


def test_the_export_command(call: Call, tmp_path: Path) -> None:
    folder = str(next(path for path in STORED if path.stem == "atise-ee").with_suffix(""))
    made = as_json(call("export", folder, "--out", "v.parquet", "--times", "all", "--json"))
    assert made["width"] == 8 and pq.read_table("v.parquet").num_rows == 12 * 10
    code, out, _ = call("export", folder, "--out", "w.parquet")
    assert code == 0 and out == "12 entities, vectors of 8 numbers: w.parquet\n"
    code, _, err = call("export", folder, "--out", "x.parquet", "--times", "1066-10-14")
    assert code == 2 and "1066-10-14" in err and not Path("x.parquet").exists()
    pointer = str(next(path for path in STORED if path.stem == "pointer").with_suffix(""))
    code, _, err = call("export", pointer, "--out", "y.parquet")
    assert (
        code == 2
        and "pointer has no vectors for entities" in err
        and not Path("y.parquet").exists()
    )


def test_an_unknown_time_is_refused(tmp_path: Path) -> None:
    grid = {"graph": "demo", "count": 10, "first": "2030-01-01", "last": "2030-01-10"}
    with raises(QueryError, "graph.not_on_grid", time="never", **grid):
        export_vectors(load_stored("temp-gru"), tmp_path / "v.parquet", ["never"])
