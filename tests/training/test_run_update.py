"""Updates of runs: answers as if the facts had always been there, and figures from before."""

from __future__ import annotations

import dataclasses
import re
import shlex
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import tempograph
from frames import pandas, polars
from messages import message, raises
from predicting import GRAPH, SETTINGS
from spanned import interval_graph
from tempograph import (
    ConfigError,
    ImportOptions,
    Predictor,
    Run,
    RunError,
    TempographWarning,
    TemporalGraph,
)
from tempograph.data.additions import Additions
from tempograph.data.spans import Bounds, until_last_step
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import DataError, QueryError
from tempograph.models.base import Model
from tempograph.models.embedding.embedding_settings import EmbeddingSettings
from tempograph.models.pointer.copying import Copying
from tempograph.models.registry import MODELS
from tempograph.training.answering import all_facts_in_train
from tempograph.training.callbacks import Callbacks
from tempograph.training.final_fit import answer_from_all_facts
from updating import (
    NEXT_DAY,
    WORLD,
    all_scores,
    drawn_run,
    files_of,
    named,
    new_facts,
    pairs_of,
    read_json,
    write_csv,
)

READING = [name for name, kind in MODELS.items() if kind.settings is not EmbeddingSettings]
"""The kinds of models whose answers depend on facts."""


def test_the_kinds_of_models_that_read_facts_are_those_tested() -> None:
    runs = {name: drawn_run(WORLD, name) for name in MODELS}
    assert {name for name, run in runs.items() if run.model.uses_train_facts} == {*READING}


def built_from_the_start(run: Run, graph: TemporalGraph) -> Model:
    """The model of a run, built on other facts, with its weights wherever they belong."""
    timeline = Timeline(graph)
    parts = [built_from_the_start(part, graph) for part in run.parts.values()]
    model = run.config.kind.build(run.config.model, timeline, *parts)
    state = run.model.state_dict()
    for name, module in model.named_modules():
        if isinstance(module, Copying) and module.prior is not None:
            old = run.model.get_submodule(name)
            assert isinstance(old, Copying) and old.prior is not None
            known = dict(zip(pairs_of(old), old.prior.tolist(), strict=True))
            prior = [known.get(pair, 0.0) for pair in pairs_of(module)]
            state[f"{name}.prior"] = torch.tensor(prior)
    for name, value in model.state_dict().items():
        if name.endswith("relations.time"):
            # A step after the last one has the vector of the last one.
            later = len(value) - len(state[name])
            state[name] = torch.cat([state[name], state[name][-1:].repeat(later, 1)])
    model.load_state_dict(state)
    return model.eval()


@pytest.mark.parametrize("model", READING)
def test_scores_equal_those_of_a_run_that_had_the_facts_from_the_start(
    model: str, tmp_path: Path
) -> None:
    run = drawn_run(WORLD, model, tmp_path / "run")
    old, day = new_facts(WORLD, 5), new_facts(WORLD, 10)
    rows = [*named(WORLD, old), *named(WORLD, day, NEXT_DAY)]
    result = tempograph.update(tmp_path / "run", rows)
    assert result.facts == 15 and result.times == (NEXT_DAY,) and result.changed
    day[:, 3] = 20
    whole = replace(
        WORLD, times=(*WORLD.times, NEXT_DAY), train=np.concatenate([WORLD.train, old, day])
    )
    expected = all_scores(built_from_the_start(run, whole), 14, 8, 21)
    # Both sum the same numbers, but not on every processor in the same order.
    largest = float(expected[expected.isfinite()].abs().max())
    before = all_scores(run.model, 14, 8, 20)
    loaded = Run.load(tmp_path / "run")
    for updated in (result.run, loaded, Run.load(tmp_path / "run").save(tmp_path / "copy")):
        scores = all_scores(updated.answering().model, 14, 8, 21)
        assert_close(scores, expected, rtol=1e-6, atol=1e-6 * max(1.0, largest))
    assert torch.equal(all_scores(loaded.model, 14, 8, 20), before)
    assert scores.shape != before.shape or not torch.equal(scores, before)
    answers = Predictor(loaded).objects(0, 0, NEXT_DAY, top=14, evidence=1)
    assert len(answers.answers) and loaded.graph.same_as(WORLD)


@pytest.mark.parametrize("model", list(MODELS))
def test_new_names_get_weights_and_known_names_keep_theirs(model: str, tmp_path: Path) -> None:
    run = drawn_run(WORLD, model, tmp_path / "run")
    known = named(WORLD, new_facts(WORLD, 6), NEXT_DAY)
    rows = [("Zoe Doe", *known[0][1:]), (known[1][0], "hugs", "Zoe Doe", NEXT_DAY), *known[2:]]
    result = tempograph.update(run, rows)
    assert result.entities == ("Zoe Doe",) and result.relations == ("hugs",)
    updated = Run.load(tmp_path / "run")
    graph, timeline, grown = updated.answering()
    assert graph.sizes == (15, 5, 15, 21) and grown.timeline is timeline
    scores = all_scores(grown, 15, 10, 21)
    assert scores.shape[1] == 15 and not torch.isnan(scores).any()
    assert torch.equal(scores, all_scores(result.run.answering().model, 15, 10, 21))
    if not run.model.uses_train_facts:
        queries = Queries(*(torch.arange(6) for _ in range(2)), torch.arange(6))
        queries = queries._replace(relation=torch.tensor([0, 1, 2, 3, 0, 1]))
        with torch.inference_mode():
            before, after = (each.scores(queries) for each in (run.model, grown))
        assert_close(after[:, :14], before, rtol=1e-5, atol=1e-5)
    predictor = Predictor(updated)
    completion = predictor.subjects("hugs", "Zoe Doe", NEXT_DAY, top=3)
    assert any("'Zoe Doe' is not among the entities" in note for note in completion.notes)
    assert known[1][0] in {answer.name for answer in completion.answers} or model != "pointer"


@pytest.mark.parametrize("model", ["pointer", "temp-gru", "complex", "temp-pointer"])
def test_two_updates_equal_one(model: str, tmp_path: Path) -> None:
    known = named(WORLD, new_facts(WORLD, 9), NEXT_DAY)
    first = [("Zoe", *known[0][1:]), *known[1:4]]
    second = [("Zoe", *known[4][1:]), ("Lou", *known[5][1:]), *known[6:]]
    run = drawn_run(WORLD, model)
    in_two = tempograph.update(tempograph.update(run, first).run, second).run
    at_once = tempograph.update(run, [*first, *second]).run
    assert in_two.path is None and in_two.updates is not None and in_two.updates.number == 2
    assert in_two.known_graph.same_as(at_once.known_graph)
    one, other = (all_scores(each.answering().model, 16, 8, 21) for each in (in_two, at_once))
    assert_close(one, other, rtol=1e-6, atol=1e-6)
    assert run.updates is None and run.results.updates is None


def chronological(graph: TemporalGraph, steps: int) -> TemporalGraph:
    """A graph whose last steps are valid and test, with nothing after them."""
    facts = graph.all_facts[np.argsort(graph.all_facts[:, 3], kind="stable")]
    train, valid, test = (
        facts[(facts[:, 3] >= first) & (facts[:, 3] < last)]
        for first, last in ((0, steps - 4), (steps - 4, steps - 2), (steps - 2, steps))
    )
    return replace(graph, times=graph.times[:steps], train=train, valid=valid, test=test)


PAST = {"pointer": ["model.max_facts_per_hop=4"], "recurrency": [], "ted": [], "temp-sa": []}
"""Models that forecast from the facts before a question, with settings."""


@pytest.mark.parametrize("model", [*PAST, "complex"])
def test_a_forecaster_updated_day_by_day_answers_as_one_that_knows_all_days(
    model: str, tmp_path: Path
) -> None:
    """An answer about a day rests on the days before it, whenever the later ones come in."""
    known = chronological(WORLD, 16)
    settings = PAST.get(model, [])
    run = drawn_run(known, model, protocol="forecast-single", settings=settings)
    all_days = tempograph.update(run, named(WORLD, WORLD.all_facts)).run
    assert len(all_days.answering().timeline.facts) == len(WORLD.all_facts)
    whole = all_days.answering().model
    for day in range(16, 20):
        rows = torch.from_numpy(WORLD.all_facts[WORLD.all_facts[:, 3] == day])
        subject, relation, _, time = rows.unbind(1)
        queries = Queries(subject, relation, time)
        before = tempograph.update(run, [("Zoe", "visits", "Lou", WORLD.times[day])]).run
        with torch.inference_mode():
            expected = whole.scores(queries)
            # A fact of the day itself, with new names, adds the step and changes no answer.
            scores = before.answering().model.scores(queries)[:, :14]
        if model != "ted":
            # TED scales its scores by the number of steps.
            assert_close(scores, expected, rtol=1e-5, atol=1e-5)
        run = tempograph.update(run, named(WORLD, rows.numpy())).run
    final = run.save(tmp_path / "run")
    assert final.updates is not None and final.updates.number == 4
    one, other = (all_scores(each.answering().model, 14, 8, 20) for each in (final, all_days))
    assert_close(one, other)
    # Held-out facts are known to a forecaster.
    assert tempograph.update(run, named(WORLD, known.test)).known == len(known.test)


@pytest.mark.parametrize("model", ["pointer", "recurrency", "temp-gru"])
def test_a_forecaster_takes_new_names_and_training(model: str, tmp_path: Path) -> None:
    known = chronological(WORLD, 16)
    settings = PAST.get(model, [])
    run = drawn_run(known, model, tmp_path / "run", "forecast-single", settings)
    who, day = WORLD.entities[0], WORLD.times[16]
    rows = [("Zoe", "hugs", who, day), (who, "visits", "Zoe", day)]
    epochs = 0 if model == "recurrency" else 1
    result = tempograph.update(run, rows, train=epochs, progress=False)
    assert result.trained == ((model,) if epochs else ())
    loaded = Run.load(tmp_path / "run")
    scores = all_scores(loaded.answering().model, 15, 10, 17)
    assert scores.shape[1] == 15 and not torch.isnan(scores).any()
    completion = Predictor(loaded).objects("Zoe", "hugs", WORLD.times[17], top=3)
    assert len(completion.answers) == 3
    found = Predictor(loaded).objects(who, "visits", WORLD.times[17], top=15)
    assert "Zoe" in {answer.name for answer in found.answers}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained and tested run of the pointer; tests copy it."""
    path = tmp_path_factory.mktemp("trained") / "run"
    run = tempograph.train(GRAPH, "pointer", out=path, overrides=SETTINGS["pointer"], device="cpu")
    tempograph.evaluate(run, "test")
    return path


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Run.load(trained).save(tmp_path / "mine").path or Path()


def test_figures_stay_those_from_before_and_say_so(folder: Path) -> None:
    before = tempograph.evaluate(folder, "test")
    assert before.note is None
    facts = named(GRAPH, new_facts(GRAPH))
    result = tempograph.update(folder, facts)
    stored = read_json(folder / "results.json")
    assert stored["updates"] == {
        **{"number": 1, "facts": 12, "entities": 0, "relations": 0, "steps": 0},
        **{"last": GRAPH.times[-1], "epochs": 0},
    }
    sentence = (
        "One update since the figures were measured added 12 facts, up to 2030-01-20; "
        "answers use them, the figures do not."
    )
    card = (folder / "README.md").read_text()
    assert sentence in card and f"{len(GRAPH.train):,} train facts alone. " in card
    assert result.describe()[-1] == sentence == result.summary()["measured"]
    after = tempograph.evaluate(folder, "test")
    assert after.note == "measured with the data and weights from before the run was updated"
    assert torch.equal(after.ranks.realistic, before.ranks.realistic)
    assert "Test: measured with the data and weights" in (folder / "README.md").read_text()
    tempograph.update(folder, [("Zoe", *facts[0][1:3], "2030-01-22")])
    card = (folder / "README.md").read_text()
    assert "2 updates since" in card and "added 13 facts, 1 entity and 2 steps" in card


def test_known_facts_are_not_added_again(folder: Path) -> None:
    train, held_out = named(GRAPH, GRAPH.train[:3]), named(GRAPH, GRAPH.test[:2])
    files = files_of(folder)
    result = tempograph.update(folder, train)
    assert not result.changed and result.known == 3 and files_of(folder) == files
    # Held-out facts are news to answers that rest on train facts.
    result = tempograph.update(folder, [*train, *held_out, *held_out])
    assert (result.rows, result.facts, result.known, result.repeated) == (7, 2, 3, 2)
    assert result.account() == "7 rows = 2 new facts + 3 known + 2 repeated + 0 bad"
    assert tempograph.update(folder, held_out).known == 2
    updated = Run.load(folder)
    assert answer_from_all_facts(updated, Callbacks(None, None)) is not None
    assert len(updated.answering().timeline.facts) == len(GRAPH.all_facts)
    result = tempograph.update(folder, named(GRAPH, GRAPH.valid[:2]))
    assert result.known == 2 and not result.changed


FORMS = {
    "rows": lambda rows: rows,
    "dicts": lambda rows: [dict(zip(("s", "r", "o", "t"), row, strict=True)) for row in rows],
    "arrow": lambda rows: pa.table(
        dict(zip("srot", map(list, zip(*rows, strict=True)), strict=True))
    ),
    "pandas": lambda rows: pandas().DataFrame(rows, columns=["s", "r", "o", "t"]),
    "polars": lambda rows: polars().DataFrame(rows, schema=["s", "r", "o", "t"], orient="row"),
}


@pytest.mark.parametrize("form", [*FORMS, "file", "ids"])
def test_facts_may_have_any_form(form: str, tmp_path: Path) -> None:
    graph = replace(WORLD, times=tuple(str(2000 + step) for step in range(20)))
    run = replace(
        drawn_run(graph, "ted"),
        import_options=ImportOptions(subject="s", relation="r", object="o", time="t"),
    )
    facts = new_facts(graph, 4)
    rows = named(graph, facts)
    given: object
    if form == "file":
        given = write_csv(tmp_path / "new.csv", rows, "s,r,o,t")
    elif form == "ids":
        given = facts
    else:
        given = FORMS[form]([(*row[:3], int(row[3])) for row in rows])
    notes: list[str] = []
    result = tempograph.update(run, given, note=notes.append)  # type: ignore[arg-type]
    assert result.facts == 4 and not result.entities and not notes
    assert result.run.updates is not None
    assert sorted(result.run.updates.additions.facts.tolist()) == sorted(facts.tolist())


def test_numbers_in_a_table_are_names_and_labels() -> None:
    graph = replace(WORLD, times=tuple(str(step) for step in range(20)))
    run = drawn_run(graph, "ted")
    who = graph.entities[0]
    result = tempograph.update(run, [(7, "visits", who, 21), (7, "visits", who, 21)])
    assert result.entities == ("7",) and result.times == ("20", "21") and result.repeated == 1
    with pytest.raises(DataError, match="there is no entity 14"):
        tempograph.update(run, np.array([[14, 0, 1, 0]]))


def test_an_update_remembers_the_import(tmp_path: Path) -> None:
    rows = [("Ann", "meets", "Bob", f"{day:02d}/01/2024") for day in range(1, 21)]
    events = write_csv(tmp_path / "events.csv", rows, "p,q,r,s")
    options = ImportOptions(subject="p", relation="q", object="r", time="s")
    fitted = tempograph.fit(
        events, out=tmp_path / "run", options=options, model="ted", progress=False
    )
    assert len(fitted.run.graph.times) == 20
    day = [("Ann", "meets", " Bob ", "05/02/2024"), ("Cai", "meets", "Bob", "06/02/2024")]
    notes: list[str] = []
    new = write_csv(tmp_path / "new.csv", day, "p,q,r,s")
    result = tempograph.update(tmp_path / "run", new, note=notes.append)
    assert result.entities == ("Cai",) and not notes
    # The fifth of February, not the second of May.
    assert result.times[-1] == "2024-02-06" and len(result.times) == 17
    other = write_csv(tmp_path / "other.csv", day, "who,verb,whom,when")
    for skip_bad in (False, True):
        with pytest.raises(DataError, match="pass --day-first or --month-first; nothing was"):
            tempograph.update(tmp_path / "run", other, options=ImportOptions(skip_bad=skip_bad))
    options = ImportOptions(day_first=True)
    result = tempograph.update(tmp_path / "run", other, options=options, note=notes.append)
    assert result.known == 2 and "does not have the columns of the import" in notes[0]
    predictor = Predictor(tmp_path / "run")
    assert predictor.objects("Cai", "meets", "2024-02-06", top=1).answers[0].name == "Bob"


@pytest.mark.parametrize("model", ["pointer", "complex", "tntcomplex", "temp-gru", "ensemble"])
def test_a_run_can_be_trained_further(model: str, tmp_path: Path) -> None:
    run = drawn_run(WORLD, model, tmp_path / "run")
    measured = files_of(tmp_path / "run")
    known = named(WORLD, new_facts(WORLD, 6), NEXT_DAY)
    rows = [("Zoe", *known[0][1:]), *known[1:]]
    without = tempograph.update(run, rows, save=False)
    lines: list[dict[str, object]] = []
    result = tempograph.update(
        tmp_path / "run", rows, train=2, device="cpu", report=lines.append, progress=False
    )
    names = tuple(run.parts) or (model,)
    assert result.trained == names and result.epochs == 2 and len(lines) == 2 * len(names)
    assert "for 2 epochs on all facts" in " ".join(result.describe())
    scores = all_scores(result.run.answering().model, 15, 8, 21)
    assert not torch.allclose(scores, all_scores(without.run.answering().model, 15, 8, 21))
    loaded = Run.load(tmp_path / "run")
    assert_close(all_scores(loaded.answering().model, 15, 8, 21), scores)
    assert loaded.num_trained_entities == 15 and loaded.num_trained_steps == 21
    # What was measured is untouched.
    after = files_of(tmp_path / "run")
    same = [name for name in measured if name not in ("results.json", "README.md")]
    assert same and all(after[name] == measured[name] for name in same)
    # Another update starts from the new weights, and keeps them.
    later = [("Zoe", *known[1][1:3], "2030-01-22"), ("Lou", *known[2][1:3], "2030-01-22")]
    again = tempograph.update(tmp_path / "run", later)
    assert not again.trained and again.results.updates["epochs"] == 2  # type: ignore[index]
    loaded = Run.load(tmp_path / "run")
    grown = loaded.answering().model
    assert all_scores(grown, 16, 8, 22).shape[1] == 16 and loaded.num_trained_entities == 15
    if model == "complex":
        vectors = [
            each.answering().model.entity_vectors(torch.tensor([0]))[0]
            for each in (result.run, loaded)
        ]
        assert torch.equal(vectors[1][:15], vectors[0])
    more = tempograph.update(tmp_path / "run", [], train=1, device="cpu", progress=False)
    assert more.results.updates["epochs"] == 3 and more.run.num_trained_entities == 16  # type: ignore


def test_a_model_without_weights_is_not_trained(tmp_path: Path) -> None:
    run = drawn_run(WORLD, "ted", tmp_path / "run")
    files = files_of(tmp_path / "run")
    result = tempograph.update(run, [], train=3)
    assert not result.trained and not result.changed and files_of(tmp_path / "run") == files


def test_another_folder_gets_the_updated_run(folder: Path, tmp_path: Path) -> None:
    facts, files = named(GRAPH, new_facts(GRAPH)), files_of(folder)
    result = tempograph.update(folder, facts, out=tmp_path / "new")
    assert result.path == tmp_path / "new" == result.run.path and files_of(folder) == files
    copied = files_of(tmp_path / "new")
    changed = {"README.md", "results.json"}
    assert all(copied[name] == data for name, data in files.items() if name not in changed)
    assert {name for name in copied if name.startswith("updates/")} == {
        f"updates/1/{name}"
        for name in ("entities.txt", "facts.tsv.gz", "relations.txt", "times.txt")
    }
    with raises(tempograph.StorageError, "io.exists", path=tmp_path / "new"):
        tempograph.update(folder, facts, out=tmp_path / "new")
    # A run in memory goes there as well, and an update without news is a copy.
    run = Run.load(tmp_path / "new")
    assert not tempograph.update(run, facts, out=tmp_path / "third").changed
    assert Run.load(tmp_path / "third").known_graph.same_as(run.known_graph)
    memory = tempograph.update(drawn_run(WORLD, "ted"), named(WORLD, new_facts(WORLD)))
    assert memory.path is None
    saved = tempograph.update(memory.run, [], out=tmp_path / "fourth").run
    assert Run.load(saved.path or "").known_graph.same_as(memory.run.known_graph)


def test_an_update_in_memory_changes_no_file(folder: Path) -> None:
    files, facts = files_of(folder), named(GRAPH, new_facts(GRAPH))
    result = tempograph.update(folder, facts, save=False)
    assert result.path is None and files_of(folder) == files
    assert len(result.run.answering().timeline.facts) == len(GRAPH.train) + 12
    assert result.results.updates == result.run.results.updates


def test_a_folder_keeps_the_last_two_updates(folder: Path) -> None:
    for number, fact in enumerate(named(GRAPH, new_facts(GRAPH, 4)), 1):
        assert tempograph.update(folder, [fact]).results.updates["number"] == number  # type: ignore
    assert {path.name for path in (folder / "updates").iterdir()} == {"3", "4"}
    assert len(Run.load(folder).answering().timeline.facts) == len(GRAPH.train) + 4


def test_updates_at_the_same_time_are_both_made(folder: Path) -> None:
    facts = named(GRAPH, new_facts(GRAPH, 12))
    threads = [
        threading.Thread(target=tempograph.update, args=(folder, facts[number::4]))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Run.load(folder).answering().timeline.facts) == len(GRAPH.train) + 12


def test_a_loaded_run_does_not_overwrite_the_update_of_another(folder: Path) -> None:
    facts, run = named(GRAPH, new_facts(GRAPH, 4)), Run.load(folder)
    tempograph.update(folder, facts[:2])
    files = files_of(folder)
    with raises(RunError, "update_storage.updated", path=folder):
        tempograph.update(run, facts[2:])
    assert files_of(folder) == files


WRONG = {
    "an empty name": (("", "visits", "{who}", NEXT_DAY), "the subject is empty"),
    "an unreadable date": (("{who}", "visits", "{who}", "yesterday"), "'yesterday' is not on"),
    "a date long after": (("{who}", "visits", "{who}", "3030-01-01"), "is it a typo?"),
    "a date before the first": (("{who}", "visits", "{who}", "1999-01-01"), "is not on the time"),
}


@pytest.mark.parametrize(("row", "problem"), WRONG.values(), ids=WRONG)
def test_a_bad_row_changes_nothing_or_is_skipped(
    folder: Path, tmp_path: Path, row: tuple[str, ...], problem: str
) -> None:
    who, files = GRAPH.entities[0], files_of(folder)
    good = named(GRAPH, new_facts(GRAPH, 30), "2030-01-21")
    rows = [*good[:20], tuple(each.format(who=who) for each in row), *good[20:]]
    path = write_csv(tmp_path / "new.csv", rows, "subject,relation,object,time")
    with pytest.raises(DataError) as caught:
        tempograph.update(folder, path)
    text = str(caught.value)
    assert text.startswith(f"{path}:22: ") and problem in text and files_of(folder) == files
    assert text.endswith("; --skip-bad skips such rows; nothing was changed")
    with pytest.raises(DataError, match=r"fact 20: .*; ImportOptions\(skip_bad=True\) skips"):
        tempograph.update(folder, rows)
    result = tempograph.update(folder, path, options=ImportOptions(skip_bad=True))
    (skipped,) = result.skipped
    assert result.facts == len(set(good)) and skipped.rows == 1
    assert skipped.first == f"{path}:22" and skipped.examples[0].value.count(", ") == 3


def test_an_import_that_skipped_bad_rows_lets_no_update_skip_them(tmp_path: Path) -> None:
    rows = [("Ann", "meets", "Bob", f"2024-01-{day:02d}") for day in range(1, 21)]
    bad = ("Ann", "meets", "", "2024-01-20")
    events = write_csv(tmp_path / "events.csv", [*rows, bad], "p,q,r,s")
    options = ImportOptions(*"pqrs", skip_bad=True, max_bad=1)
    tempograph.fit(events, out=tmp_path / "run", options=options, model="ted", progress=False)
    day = [("Ann", "meets", "Cai", "2024-01-21"), (*bad[:3], "2024-01-21")]
    new = write_csv(tmp_path / "new.csv", day, "p,q,r,s")
    with pytest.raises(DataError, match=r"new.csv:3: the object is empty.*--skip-bad skips such"):
        tempograph.update(tmp_path / "run", new)
    new.write_text(new.read_text() + "Ann,meets\n")
    given = {"skip_bad": True, "max_bad": 2}
    skipped = tempograph.update(tmp_path / "run", new, options=given).skipped
    assert skipped[1].examples[0].value == "wrong number of columns: 'Ann,meets'"


def test_too_many_bad_rows_are_refused(folder: Path, tmp_path: Path) -> None:
    rows = [*named(GRAPH, new_facts(GRAPH, 5)), ("", "visits", "x", NEXT_DAY)]
    path = write_csv(tmp_path / "new.csv", rows, "subject,relation,object,time")
    files = files_of(folder)
    with pytest.raises(DataError, match=r"1 of 6 rows are bad \(16.7%\): an empty value: 1 row, "):
        tempograph.update(folder, path, options=ImportOptions(skip_bad=True))
    with pytest.raises(DataError, match="none of 1 rows can be added; an empty value"):
        tempograph.update(folder, rows[-1:], options=ImportOptions(skip_bad=True))
    assert files_of(folder) == files
    allowed = ImportOptions(skip_bad=True, max_bad=1)
    assert tempograph.update(folder, path, options=allowed).facts == 5
    assert tempograph.update(folder, [], progress=False).rows == 0


def test_what_cannot_be_updated_says_why(folder: Path, tmp_path: Path) -> None:
    with raises(RunError, "run_folder.no_run", path=tmp_path):
        tempograph.update(tmp_path, [])
    with raises(ConfigError, "run_update.epochs", value=-1):
        tempograph.update(folder, [], train=-1)
    run = Run.load(folder)
    run.results.finished = False
    resume = f"continue it with: tempograph resume {shlex.quote(str(folder))}"
    for each, way_out in ((run, resume), (replace(run, path=None), "train it again")):
        unfinished = {"model": "pointer", "dataset": "demo", "way_out": way_out}
        with raises(RunError, "run_update.unfinished", **unfinished):
            tempograph.update(each, [])


def test_a_time_far_after_the_data_is_pointed_out(folder: Path, tmp_path: Path) -> None:
    rows = named(WORLD, new_facts(WORLD, 3))
    days = [NEXT_DAY, "2031-01-21", "2030-01-31"]
    rows = [(*row[:3], day) for row, day in zip(rows, days, strict=True)]
    path = write_csv(tmp_path / "new.csv", rows, "subject,relation,object,time")
    text = message(
        "update_facts.far",
        **{"place": f"{path}:3", "time": "2031-01-21", "far": "355 days", "last": "2030-01-31"},
        steps=355,
    )
    files = files_of(folder)
    with pytest.raises(TempographWarning) as refused:
        tempograph.update(folder, path)
    assert str(refused.value) == text and files_of(folder) == files
    with pytest.warns(TempographWarning) as caught:
        result = tempograph.update(folder, path, save=False)
    assert [str(each.message) for each in caught] == [text] and caught[0].filename == __file__
    assert len(result.times) == 366
    assert tempograph.update(folder, [rows[0], rows[2]], save=False).facts == 2


SPANS = interval_graph(3, facts=40, sizes=(14, 4, 20))


def span_rows(graph: TemporalGraph, rows: np.ndarray) -> list[tuple[str, ...]]:
    """Facts that hold for a while, by name."""
    facts = [graph.describe(row) for row in rows]
    return [
        tuple(fact[part] or "unknown" for part in ("subject", "relation", "object", "start", "end"))
        for fact in facts
    ]


def years(graph: TemporalGraph) -> TemporalGraph:
    return replace(graph, times=tuple(str(1901 + step) for step in range(len(graph.times))))


@pytest.mark.parametrize("model", ["pointer", "ted", "temp-gru", "complex", "temp-pointer"])
def test_facts_with_an_end_count_as_if_they_had_always_been_there(
    model: str, tmp_path: Path
) -> None:
    world = years(SPANS)
    run = drawn_run(world, model, tmp_path / "run")
    later = years(interval_graph(4, facts=12, sizes=(14, 4, 23)))
    new = np.array([row for row in later.train.tolist() if row not in world.all_facts.tolist()])
    rows = span_rows(later, new)
    first = tempograph.update(tmp_path / "run", rows[:5])
    second = tempograph.update(tmp_path / "run", [*rows, rows[0]])
    assert (first.facts, second.facts, second.known) == (5, len(new) - 5, 6)
    loaded = Run.load(tmp_path / "run")
    steps = len(loaded.known_graph.times)
    assert 20 < steps <= 23 and first.times + second.times == later.times[20:steps]
    longer = world.with_later_times(later.times[20:steps])
    new = until_last_step(new, steps)
    whole = replace(longer, train=np.concatenate([longer.train, new]))
    assert loaded.known_graph.same_as(whole)
    expected = all_scores(built_from_the_start(run, whole), 14, 8, steps)
    largest = float(expected[expected.isfinite()].abs().max())
    at_once = tempograph.update(run, rows, save=False).run
    for updated in (second.run, loaded, at_once, loaded.save(tmp_path / "copy")):
        scores = all_scores(updated.answering().model, 14, 8, steps)
        assert_close(scores, expected, rtol=1e-6, atol=1e-6 * max(1.0, largest))
    assert loaded.graph.same_as(world)
    assert Run.load(tmp_path / "copy").known_graph.same_as(whole)


def test_facts_are_known_by_start_and_end(tmp_path: Path) -> None:
    world = years(interval_graph(0))
    first = Bounds.OPEN_END
    train = np.array(
        [[0, 0, 1, 2, 11, first], [2, 1, 3, 4, 6, 0], [2, 1, 3, 9, 9, Bounds.UNKNOWN_END]]
    )
    world = replace(world, train=train)
    drawn_run(world, "ted", tmp_path / "run")
    who, what = world.entities, world.relations
    still, held = (who[0], what[0], who[1]), (who[2], what[1], who[3])
    rows = [
        (*still, "1903", ".."),
        (*held, "1905", "1907"),
        (*held, "1905", "1908"),
        (*held, "1905", "1908"),
        (*held, "1910", "1912"),
    ]
    result = tempograph.update(tmp_path / "run", rows)
    assert (result.rows, result.facts, result.known, result.repeated) == (5, 1, 2, 1)
    assert result.closed == 1 == result.summary()["closed"] and result.changed
    assert result.account() == "5 rows = 1 new facts + 1 closed + 2 known + 1 repeated + 0 bad"
    assert result.describe()[1].startswith("Closed: 1 fact known with an open or unknown end")
    # A moment at which a fact holds is known, also after the axis; another is a fact of one step.
    moments = [(*held, "1906"), (*held, "1904"), (*still, "1915")]
    result = tempograph.update(tmp_path / "run", moments)
    assert (result.facts, result.known, result.times) == (1, 2, ())
    added = Run.load(tmp_path / "run").known_graph.train[len(train) :].tolist()
    assert added == [[2, 1, 3, 4, 7, 0], [2, 1, 3, 3, 3, 0]]
    assert tempograph.update(tmp_path / "run", [(*still, "1903", "..")]).known == 1
    copy = Run.load(tmp_path / "run")
    predictor = Predictor(copy)
    predictor.add([(*held, "1914", "1917")])
    saved = predictor.save()
    assert saved.updates is not None and saved.updates.number == 3
    assert saved.known_graph.times[-1] == "1917"
    assert Run.load(tmp_path / "run").known_graph.same_as(saved.known_graph)
    # The open end of the first fact follows the axis.
    assert Run.load(tmp_path / "run").known_graph.train[0].tolist() == [0, 0, 1, 2, 16, first]


@pytest.mark.parametrize("model", ["pointer", "ted", "complex"])
@pytest.mark.parametrize("on_all_facts", [False, True])
def test_closed_facts_count_as_if_they_had_always_been_closed(
    model: str, on_all_facts: bool, tmp_path: Path
) -> None:
    world = years(interval_graph(4, facts=60, sizes=(14, 4, 20), held_out=10))
    closed, rows = {}, []
    for split in ("train", "valid", "test"):
        facts = world.facts(split).copy()
        is_open = (facts[:, 5] & (Bounds.OPEN_END | Bounds.UNKNOWN_END)) > 0
        starts = {(*row[:4], row[5] & Bounds.OPEN_START) for row in world.all_facts.tolist()}
        assert len(starts) == len(world.all_facts), "no two facts compete for an end"
        for number in np.flatnonzero(is_open & (facts[:, 3] < 17)):
            start, bounds = facts[number, [3, 5]]
            facts[number, 4:] = start + 2, bounds & Bounds.OPEN_START
            if split == "train" or on_all_facts:
                rows.append(facts[number].copy())
        closed[split] = facts
        if split == "train":
            assert len(rows) > 3
    run = drawn_run(world, model)
    if on_all_facts:
        facts = len(world.all_facts)
        run.results.answers = {"facts": facts, "refitted": [], "seconds": 0.0}
    else:
        closed |= {"valid": world.valid, "test": world.test}
    run.save(tmp_path / "run")
    whole = replace(world, **closed)
    named = span_rows(world, np.array(rows))
    result = tempograph.update(tmp_path / "run", named)
    assert (result.closed, result.facts, result.known) == (len(rows), 0, 0)
    again = tempograph.update(tmp_path / "run", named)
    assert (again.closed, again.facts, again.known) == (0, 0, len(rows)) and not again.changed
    loaded = Run.load(tmp_path / "run")
    assert loaded.known_graph.same_as(whole) and loaded.graph.same_as(world)
    from_start = built_from_the_start(run, whole)
    answering = loaded.answering()
    if on_all_facts:
        assert np.array_equal(
            np.unique(answering.graph.train, axis=0), np.unique(whole.all_facts, axis=0)
        )
        from_start = built_from_the_start(run, all_facts_in_train(whole))
    expected = all_scores(from_start, 14, 8, 20)
    largest = float(expected[expected.isfinite()].abs().max())
    assert_close(
        all_scores(answering.model, 14, 8, 20), expected, rtol=1e-6, atol=1e-6 * max(1.0, largest)
    )


def test_bad_spans_are_counted_by_reason(tmp_path: Path) -> None:
    world = years(interval_graph(0))
    drawn_run(world, "ted", tmp_path / "run")
    files = files_of(tmp_path / "run")
    fact = ",".join((world.entities[0], world.relations[0], world.entities[1]))
    bounds = ["1890,1905", "soon,1905", "1903,soon", "####,", "1905,1903", "1903,1905"]
    path = tmp_path / "new.csv"
    path.write_text(
        "\n".join(["subject,relation,object,start,end", *(f"{fact},{each}" for each in bounds)])
    )
    problem = message(
        "bound_lookup.before", part="start", text="1890", graph=world.name, first="1901"
    )
    with pytest.raises(DataError, match=re.escape(f"{path}:2: {problem}")):
        tempograph.update(tmp_path / "run", path)
    assert files_of(tmp_path / "run") == files
    options = ImportOptions(skip_bad=True, max_bad=5, empty_end="unknown")
    result = tempograph.update(tmp_path / "run", path, options=options)
    assert result.rows == 6 and {each.reason: each.rows for each in result.skipped} == {
        "a time that is not on the grid": 1,
        "no readable start": 1,
        "no readable end": 1,
        "neither start nor end": 1,
        "start after end": 1,
    }
    assert result.facts + result.known == 1


def test_a_model_is_trained_further_on_facts_with_an_end(tmp_path: Path) -> None:
    world = years(SPANS)
    drawn_run(world, "temp-gru", tmp_path / "run")
    rows = [("Zoe", world.relations[0], world.entities[1], "1915", "1922")]
    result = tempograph.update(tmp_path / "run", rows, train=1, progress=False)
    assert result.trained == ("temp-gru",) and result.times == ("1921", "1922")
    later = tempograph.update(tmp_path / "run", [(*rows[0][:3], "1923", "..")])
    loaded = Run.load(tmp_path / "run")
    scores = all_scores(loaded.answering().model, 15, 8, 23)
    assert not torch.isnan(scores).any()
    assert torch.equal(scores, all_scores(later.run.answering().model, 15, 8, 23))


class Fixed(Model):
    """A model that can only use the facts it was trained on."""

    name = "ted"
    bytes_per_candidate = 4

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline

    def scores(self, queries: Queries) -> torch.Tensor:
        return torch.zeros(len(queries.time), self.timeline.num_entities)


def test_a_model_that_cannot_take_facts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = drawn_run(WORLD, "ted")
    fixed = replace(run, model=Fixed(run.timeline))
    monkeypatch.setattr(MODELS, "package", lambda name: "package 'other'")
    reason = "ted can only be queried with the facts it was trained on"
    with raises(RunError, "run_update.fixed", model="ted", reason=reason):
        tempograph.update(fixed, named(WORLD, new_facts(WORLD)))


def test_new_relations_that_do_not_fit_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, files = Run.load(folder), files_of(folder)

    def refuse(*_: object) -> None:
        raise QueryError("its tables for 4 relations do not fit 5")

    monkeypatch.setattr("tempograph.training.answering.grow_weights", refuse)
    row = (GRAPH.entities[0], "hugs", GRAPH.entities[1], "2030-01-20")
    reason = "its tables for 4 relations do not fit 5"
    with raises(RunError, "answering.new_names", model="pointer", reason=reason):
        tempograph.update(run, [row])
    assert files_of(folder) == files


@settings(max_examples=15)
@given(st.lists(st.integers(0, 29), min_size=1, max_size=30), st.integers(1, 4))
def test_batches_in_any_order_add_the_same_facts(picks: list[int], size: int) -> None:
    facts = named(WORLD, new_facts(WORLD, 30))
    run = drawn_run(WORLD, "ted")
    total = known = 0
    for start in range(0, len(picks), size):
        result = tempograph.update(run, [facts[pick] for pick in picks[start : start + size]])
        run, total, known = result.run, total + result.facts, known + result.known + result.repeated
    assert total == len(set(picks)) and known == len(picks) - total
    found = {tuple(run.known_graph.describe(row).values()) for row in run.known_graph.train}
    assert found == {*named(WORLD, WORLD.train), *(facts[pick] for pick in picks)}


def test_a_damaged_update_is_reported(folder: Path) -> None:
    tempograph.update(folder, named(GRAPH, new_facts(GRAPH)))
    (folder / "updates" / "1" / "facts.tsv.gz").write_bytes(b"nothing")
    with pytest.raises(tempograph.TempographError, match=r"facts\.tsv\.gz: not a complete gzip"):
        Run.load(folder)
    (folder / "updates" / "1" / "facts.tsv.gz").unlink()
    with pytest.raises(tempograph.TempographError, match=r"facts\.tsv\.gz: no such file"):
        Run.load(folder)


def test_results_show_what_changed() -> None:
    run = drawn_run(WORLD, "ted")
    who, whom = WORLD.entities[:2]
    rows = [(who.lower(), "visits", whom, NEXT_DAY), ("Zoe", "hugs", whom, NEXT_DAY)]
    result = tempograph.update(run, rows)
    assert repr(result) == (
        "UpdateResult(ted on demo: 2 rows = 2 new facts + 0 known + 0 repeated + 0 bad)"
    )
    assert result.lookalikes == {who.lower(): who}
    assert result.describe()[1:5] == [
        f"New entities: 2, {who.lower()}, Zoe.",
        "New relations: 1, hugs.",
        f"New steps: 1, {NEXT_DAY}.",
        "New names that differ from known ones in case, accents or blanks alone: "
        f"'{who.lower()}' and '{who}'.",
    ]
    assert "<td" in result._repr_html_() and "hugs" in result._repr_html_()
    many = tempograph.update(run, [(f"N{n}", "visits", whom, NEXT_DAY) for n in range(8)])
    assert "New entities: 8, N0, N1, N2, N3, N4 and 3 more." in many.describe()
    assert many.summary()["entities"] == {"added": 8, "examples": ["N0", "N1", "N2", "N3", "N4"]}
    assert dataclasses.is_dataclass(result) and Additions().sizes.facts == 0
    with pytest.raises(QueryError):
        Predictor(run).objects("Zoe", "visits", 0)
