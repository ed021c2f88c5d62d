"""Predictors take facts with unknown names on request, and save what was added."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from torch.testing import assert_close

import tempograph
from messages import message, raises
from predicting import GRAPH, sample_scores
from tempograph import ConfigError, Predictor, QueryError, Run, TempographWarning
from tempograph.prediction.vectors import export_vectors
from updating import NEXT_DAY, WORLD, all_scores, drawn_run, named, new_facts

pytest_plugins = ("predictor_fixtures",)
WHO = GRAPH.entities[0]
ROWS = [("Zoe", "visits", WHO, "2030-01-21"), (WHO, "hugs", "Zoe", "2030-01-22")]


def test_unknown_names_are_refused_unless_they_are_to_be_added(predictor: Predictor) -> None:
    before = sample_scores(predictor)
    with pytest.warns(TempographWarning, match="2 of 2 rows cannot be added"):
        rejected = predictor.add(ROWS)
    assert len(rejected) == 2 and sample_scores(predictor) == before
    with raises(ConfigError, "predictor.new", value="maybe"):
        predictor.add(ROWS, new="maybe")  # type: ignore[arg-type]
    assert len(predictor.add(ROWS, new="add")) == 0
    assert predictor.graph.entities[-1] == "Zoe" and predictor.graph.relations[-1] == "hugs"
    completion = predictor.objects("Zoe", "visits", "2030-01-21", top=20)
    (found,) = [answer for answer in completion.answers if answer.name == WHO]
    assert found.known == "train"
    assert any("'Zoe' is not among the entities" in note for note in completion.notes)
    # The same as an update, and it can be undone.
    updated = tempograph.update(predictor.run, ROWS, save=False).run
    expected = all_scores(updated.answering().model, 13, 8, 22)
    assert_close(all_scores(predictor.model, 13, 8, 22), expected)
    predictor.remove(ROWS)
    assert sample_scores(predictor) == before and predictor.graph is GRAPH


def test_relations_and_times_are_ranked_with_new_names(predictor: Predictor) -> None:
    predictor.add(ROWS, new="add")
    relations = predictor.relations(WHO, "Zoe", "2030-01-22", top=5, progress=False)
    assert {answer.name for answer in relations.answers} >= {"hugs", "visits"}
    times = predictor.times("Zoe", "visits", WHO, top=3, progress=False)
    assert len(times.answers) == 3
    scored = predictor.score(ROWS, progress=False)
    assert scored["error"].null_count == 2 and scored["object_rank"].null_count == 0


@pytest.mark.parametrize("model", ["pointer", "temp-gru", "complex", "ted", "ensemble"])
def test_save_keeps_what_was_added(model: str, tmp_path: Path) -> None:
    run = drawn_run(WORLD, model, tmp_path / "run")
    predictor = Predictor(run)
    predictor.add([("Zoe", "visits", WHO, NEXT_DAY)], new="add")
    predictor.add(named(WORLD, new_facts(WORLD, 3)))
    scores = all_scores(predictor.model, 15, 8, 21)
    saved = predictor.save(tmp_path / "copy")
    assert saved.path == tmp_path / "copy" and Run.load(tmp_path / "run").updates is None
    assert all_scores(predictor.model, 15, 8, 21).equal(scores)
    loaded = Predictor(tmp_path / "copy")
    assert all_scores(loaded.model, 15, 8, 21).equal(scores)
    assert loaded.run.results.updates == predictor.run.results.updates
    # In place, and again.
    loaded.add([("Lou", "visits", "Zoe", "2030-01-23")], new="add")
    assert loaded.save().path == tmp_path / "copy" == loaded.save().path
    again = Run.load(tmp_path / "copy")
    assert again.updates is not None and again.updates.number == 2
    assert again.known_graph.entities[-2:] == ("Zoe", "Lou") and len(again.known_graph.times) == 23


def test_a_run_without_a_folder_is_saved_to_one(ted_predictor: Predictor, tmp_path: Path) -> None:
    ted_predictor.add(ROWS, new="add")
    with raises(ConfigError, "predictor.no_folder"):
        ted_predictor.save()
    saved = ted_predictor.save(tmp_path / "run")
    assert Run.load(tmp_path / "run").known_graph.same_as(saved.known_graph)
    with raises(tempograph.StorageError, "io.exists", path=tmp_path / "run"):
        Predictor(drawn_run(WORLD, "ted")).save(tmp_path / "run")


def test_removed_facts_are_not_saved(ted_predictor: Predictor, tmp_path: Path) -> None:
    ted_predictor.add(ROWS[:1], new="add")
    gone = [tuple(GRAPH.describe(GRAPH.train[0]).values())]
    ted_predictor.remove(gone)
    with pytest.raises(QueryError) as caught:
        ted_predictor.save(tmp_path / "run")
    assert str(caught.value) == message("scenario.removed") and not (tmp_path / "run").exists()
    ted_predictor.add(gone)
    assert ted_predictor.save(tmp_path / "run").updates is not None


@pytest.mark.parametrize("model", ["complex", "temp-gru"])
def test_vectors_of_new_entities_are_exported(model: str, tmp_path: Path) -> None:
    run = drawn_run(WORLD, model)
    facts = [("Zoe", "visits", WHO, NEXT_DAY), *named(WORLD, new_facts(WORLD, 3))]
    updated = tempograph.update(run, facts).run
    for each, name in ((run, "before"), (updated, "after")):
        export_vectors(each, tmp_path / name)
    before, after = (pq.read_table(tmp_path / name) for name in ("before", "after"))
    assert after["entity"].to_pylist() == [*WORLD.entities, "Zoe"]
    if model == "complex":
        old, new = (torch.tensor(table["vector"].to_pylist()) for table in (before, after))
        assert torch.equal(new[:14], old)
    else:
        assert set(after["time"].to_pylist()) == {NEXT_DAY}


def test_surprising_looks_at_added_facts_too(tmp_path: Path) -> None:
    run = drawn_run(WORLD, "pointer", tmp_path / "run")
    facts = named(WORLD, new_facts(WORLD, 4))
    updated = tempograph.update(run, facts).run
    updated.update_results(answers={"facts": 300, "refitted": [], "seconds": 0.0})
    found = Predictor(updated).surprising(top=500, progress=False)
    columns = ("subject", "relation", "object", "time")
    rows = {tuple(row[part] for part in columns) for row in found.to_pylist()}
    assert rows >= {*facts} and len(found) == len(WORLD.all_facts) + 4
