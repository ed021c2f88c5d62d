"""From dataset to run folder and back: nothing is lost, half-written or silently damaged."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import tempograph
from graphs import make_graph
from messages import raises
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Timeline
from tempograph.errors import ConfigError, DataError, QueryError, RunError, StorageError
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.models.ted import PAPER_SIGMAS, TED
from tempograph.prediction.predictor import Predictor
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.runs import Run

GRAPH = make_world(seed=1, entities=30, relations=6, steps=30, facts=600).graph


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("runs") / "ted"
    run = tempograph.train(GRAPH, "ted", out=out, device="cpu")
    assert run.results.test is None, "test is touched only when asked for"
    return run


def test_sigma_is_chosen_on_valid(run: Run) -> None:
    timeline = Timeline(GRAPH)
    reached = [
        evaluate_model(TED(timeline, sigma), GRAPH, "valid", "strict").summary()["metrics"]["mrr"]
        for sigma in PAPER_SIGMAS
    ]
    assert [line["valid/mrr"] for line in run.history] == reached
    assert run.config.model.sigma == PAPER_SIGMAS[int(np.argmax(reached))]
    assert run.results.valid["metrics"]["mrr"] == max(reached)


def test_epochs_are_chosen_by_what_their_weights_reach() -> None:
    """Tables that the pointer keeps between questions, as those of names, follow the weights."""
    settings = ["model.names=true", "train.epochs=4", "train.learning_rate=0.03"]
    run = tempograph.train(GRAPH, "pointer", overrides=settings, device="cpu")
    assert run.results.valid is not None and run.results.best_epoch > 1
    reached = max(line["valid/mrr"] for line in run.history)
    assert run.results.valid["metrics"]["mrr"] == pytest.approx(reached, abs=1e-6)


def test_choosing_sigma_needs_valid_facts() -> None:
    with raises(DataError, "evaluator.no_facts", graph="small", split="valid"):
        tempograph.train(make_graph([(0, 0, 1, 0)]), "ted")
    run = tempograph.train(make_graph([(0, 0, 1, 0)]), "ted", overrides=["model.sigma=1"])
    assert run.results.parameters == 0


def test_training_without_valid_facts_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    use = "to know when to stop"
    with raises(DataError, "trainer.no_valid_facts", graph="small", model="temp-gru", use=use):
        tempograph.train(make_graph([(0, 0, 1, 0)]), "temp-gru", out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_settings_that_do_not_fit_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with raises(ConfigError, "embedding_loss.whole_times", model="hyte"):
        tempograph.train(GRAPH, "hyte", out=tmp_path / "run", overrides=["train.batch=facts"])
    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_holds_everything(run: Run) -> None:
    assert run.path is not None
    files = {path.name for path in run.path.glob("[!.]*")}
    expected = {
        "config.toml",
        "metrics.jsonl",
        "model.safetensors",
        "ranks.parquet",
        "environment.json",
        "results.json",
        "README.md",
        "dataset",
        "dataset.json",
    }
    assert files == expected
    environment = json.loads((run.path / "environment.json").read_text())
    source = {"commit", "dirty", "code"}
    assert {*source, "torch", "cuda", "triton", "hardware", "seed", "protocol"} <= set(environment)
    results = json.loads((run.path / "results.json").read_text())
    assert {
        "dataset",
        "model",
        "protocol",
        "seed",
        "preset",
        "config",
        *source,
        "versions",
        "hardware",
        "epoch_seconds",
        "train_seconds",
        "peak_memory_bytes",
        "parameters",
        "best_epoch",
        "valid",
    } <= set(results)
    assert "Protocol **strict**" in (run.path / "README.md").read_text()


def test_a_loaded_run_gives_the_same_ranks(run: Run) -> None:
    assert run.path is not None
    loaded = Run.load(run.path)
    assert loaded.config == run.config and loaded.history == run.history
    one, other = (tempograph.evaluate(each, "test").ranks.realistic for each in (run, run.path))
    assert torch.equal(one, other)
    assert (
        json.loads((run.path / "results.json").read_text())["test"]["metrics"]
        == run.results.test["metrics"]
    )


def test_one_file_holds_the_ranks_of_several_evaluations(run: Run) -> None:
    assert run.path is not None
    for _ in range(2):
        for split, filter in (("valid", "time"), ("test", "raw"), ("test", "time")):
            tempograph.evaluate(run, split, filter=filter)  # type: ignore[arg-type]
    table = pq.read_table(run.path / "ranks.parquet")
    rows = table.group_by(["split", "filter"]).aggregate([("rank", "count")]).to_pylist()
    found = {(row["split"], row["filter"]): row["rank_count"] for row in rows}
    assert found == {
        ("valid", "time"): 2 * len(GRAPH.valid),
        ("test", "raw"): 2 * len(GRAPH.test),
        ("test", "time"): 2 * len(GRAPH.test),
    }
    assert table.column_names == [
        "s",
        "r",
        "o",
        "t",
        "side",
        "rank",
        "optimistic",
        "pessimistic",
        "split",
        "filter",
    ]
    assert run.results.test["filter"] == "time", (
        "only the default filter's figures are kept as the run's"
    )


def test_evaluations_of_two_processes_are_both_kept(run: Run, tmp_path: Path) -> None:
    copied = run.save_pretrained(tmp_path / "copied")
    assert copied.path is not None
    one, other = Run.load(copied.path), Run.load(copied.path)
    tempograph.evaluate(one, "train")
    tempograph.evaluate(other, "test")
    kept = json.loads((copied.path / "results.json").read_text())
    assert {"train", "valid", "test"} <= set(kept) and other.results.train is not None


def test_an_existing_folder_is_refused_before_training(run: Run) -> None:
    with raises(StorageError, "io.exists", path=run.path):
        tempograph.train("a dataset that is never looked for", "ted", out=run.path)


@pytest.mark.parametrize(
    ("file", "content", "name", "values"),
    [
        (
            "model.safetensors",
            b"\x80\x04cos\nsystem\n",
            "run_folder.damaged",
            {"reason": "Error while deserializing header: header too large"},
        ),
        (
            "results.json",
            b"{",
            "run_folder.damaged",
            {
                "reason": "Expecting property name enclosed in double quotes: "
                "line 1 column 2 (char 1)"
            },
        ),
        (
            "metrics.jsonl",
            b"\xff\xfe",
            "run_folder.damaged",
            {"reason": "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"},
        ),
        ("config.toml", b"[run]\nname = 'ted'\n", "config.lacks_setting", {"setting": "dataset"}),
        ("dataset/entities.txt", b"", "folder.empty_names", {}),
    ],
)
def test_a_damaged_run_is_refused(
    run: Run, tmp_path: Path, file: str, content: bytes, name: str, values: dict[str, str]
) -> None:
    path = Path(shutil.copytree(run.path or "", tmp_path / "run"))
    (path / file).write_bytes(content)
    damaged = path if name == "run_folder.damaged" else path / file
    with raises(tempograph.TempographError, name, path=damaged, **values):
        Run.load(path)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with raises(RunError, "run_folder.no_run", path=tmp_path):
        Run.load(tmp_path)


def test_an_unknown_device_is_refused() -> None:
    for device in ("abacus", "meta"):
        with raises(ConfigError, "device.unknown", device=device):
            tempograph.train(GRAPH, "ted", device=device)


def test_diverging_training_ends_with_a_one_line_error() -> None:
    wild = ["model.dim=4", "train.learning_rate=1e20", "train.clip=0", "train.epochs=9"]
    with raises(RunError, "loop.diverged", epoch=1, learning_rate="1e+20"):
        tempograph.train(GRAPH, "complex", overrides=wild, device="cpu")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        MemoryError(),
    ],
    ids=["gpu", "cpu", "numpy"],
)
def test_running_out_of_memory_names_the_way_out(
    error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(run.model), "scores", full)
    with raises(RunError, "device.ranking_memory"):
        tempograph.evaluate(run, "test")
    for model, sizes in (
        ("complex", "train.facts_per_step below 20 or train.times_per_step below 8"),
        ("srgcn", "train.times_per_step below 20"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(TrainingLoss, "__call__", full)
            size = "facts" if model == "complex" else "times"
            with raises(RunError, "device.training_memory", sizes=sizes):
                tempograph.train(
                    GRAPH,
                    model,
                    overrides=["model.dim=4", f"train.{size}_per_step=20"],
                    device="cpu",
                )


def test_another_error_is_not_taken_for_lack_of_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(type(run.model), "scores", broken)
    with pytest.raises(RuntimeError, match="^shapes differ$"):
        tempograph.evaluate(run, "test")


def test_a_prediction_lists_the_best_answers_with_their_facts(run: Run) -> None:
    predictor = Predictor(run)
    subject, relation, object_, time = GRAPH.test[0].tolist()
    names = GRAPH.entities[subject], GRAPH.relations[relation], GRAPH.times[time]
    found = predictor.objects(*names, top=30, evidence=2)
    scores = [answer.score for answer in found.answers]
    assert scores == sorted(scores, reverse=True) and all(math.isfinite(score) for score in scores)
    assert [answer.rank for answer in found.answers] == [
        1 + sum(other > score for other in scores) for score in scores
    ]
    known = {answer.name: answer.known for answer in found.answers if answer.known}
    assert known.get(GRAPH.entities[object_], "test") == "test"
    train = {tuple(GRAPH.describe(fact).values()) for fact in GRAPH.train}
    for answer in found.answers:
        assert 1 <= len(answer.evidence) <= 2 <= answer.evidence_count + 1
        for fact in answer.evidence:
            assert (
                fact.subject,
                fact.relation,
                fact.object,
                fact.time,
            ) in train and fact.object == answer.name
            assert fact.time != names[2]


def test_subject_and_object_questions_mirror_each_other(run: Run) -> None:
    predictor = Predictor(run)
    subject, relation, object_, time = (
        GRAPH.describe(GRAPH.valid[0])[key] for key in ("subject", "relation", "object", "time")
    )
    of_object = predictor.objects(subject, relation, time, top=30)
    of_subject = predictor.subjects(relation, object_, time, top=30)
    assert (of_object.subject, of_object.object, of_object.asked) == (subject, None, "object")
    assert (of_subject.subject, of_subject.object, of_subject.asked) == (None, object_, "subject")
    for found, answer in ((of_object, object_), (of_subject, subject)):
        marks = {entry.name: entry.known for entry in found.answers}
        assert marks.get(answer, "valid") == "valid"


def test_an_entity_without_train_facts_can_be_queried() -> None:
    run = tempograph.train(
        make_graph([(0, 0, 1, 0), (0, 0, 1, 1)], test=[(3, 0, 1, 2)]),
        "ted",
        overrides=["model.sigma=1"],
    )
    found = Predictor(run).objects("e3", "r0", "day 2")
    assert [answer.name for answer in found.answers] == ["e1"] and found.answers[0].known == "test"
    assert found.answers[0].why == "same relation"
    assert "'e3' is in no known fact" in found.notes[0] and "only 1 candidate has" in found.notes[1]
    assert tempograph.evaluate(run, "test").summary()["object"]["mrr"] == 1


def test_unknown_names_and_ids_are_refused(run: Run) -> None:
    predictor = Predictor(run)
    typo = {"kind": "relation", "value": "vists", "names": "'visits'"}
    with raises(QueryError, "suggestions.did_you_mean", **typo):
        predictor.objects(GRAPH.entities[0], "vists", GRAPH.times[0])
    with raises(ConfigError, "predictor.top", value=0):
        predictor.objects(GRAPH.entities[0], GRAPH.relations[0], GRAPH.times[0], top=0)


def test_tiny_datasets_can_be_trained_on(tmp_path: Path) -> None:
    graph = make_graph([(0, 0, 0, 0)], entities=1, relations=1, steps=1)
    run = tempograph.train(graph, "ted", out=tmp_path / "run", overrides=["model.sigma=1"])
    assert tempograph.evaluate(run, "train").summary()["metrics"]["mrr"] == 1
    assert Predictor(run).objects("e0", "r0", "day 0").answers == ()
