"""Fit: a model is chosen with a reason, trained and tested on a table of events."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import tempograph
from conftest import Call, as_json
from graphs import make_graph
from messages import raises
from tempograph.data.spans import as_intervals
from tempograph.data.synthetic.world import make_world
from tempograph.errors import DataError, RunError
from tempograph.experiments.autofit import choose_model, known_pair_share
from tempograph.models.sparse_scores import MANY_ENTITIES
from tempograph.training import defaults, trainer
from tempograph.training.callbacks import TrainingBar
from tempograph.typing import Progress

pytestmark = pytest.mark.usefixtures("short_fits", "no_drawings")
QUICK = ["train.epochs=2"]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("events") / "events.csv"
    graph = make_world(seed=4, entities=20, relations=5, steps=20, facts=500).graph
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "Event Date", "Source Name", "Event Type", "Target Name"])
        for number, (s, r, o, t) in enumerate(graph.all_facts):
            writer.writerow(
                [number, graph.times[t], graph.entities[s], graph.relations[r], graph.entities[o]]
            )
    return path


def test_fit_imports_chooses_trains_and_tests(events: Path, tmp_path: Path) -> None:
    fitted = tempograph.fit([events], out=tmp_path / "run", overrides=QUICK, device="cpu")
    assert fitted.choice.model == "pointer" and fitted.run.path == tmp_path / "run"
    summary = fitted.summary()
    assert summary["facts"] == 500 and summary["columns"]["time"] == "Event Date"
    assert fitted.columns == summary["columns"] and summary["unused_columns"] == ["id"]
    assert (
        0 < summary["held_out"]["metrics"]["hits@1"] <= 1 and summary["held_out"]["split"] == "test"
    )
    assert sum(row["questions"] for row in summary["relations_held_out"]) == 2 * len(
        fitted.run.graph.test
    )
    mean = np.average(
        [row["hits@10"] for row in summary["relations_held_out"]],
        weights=[row["questions"] for row in summary["relations_held_out"]],
    )
    assert mean == pytest.approx(summary["held_out"]["metrics"]["hits@10"])
    for row in summary["calibration"]["reliability"]:
        assert row["right"] <= row["among_ten"]
    again = tempograph.Predictor(tmp_path / "run").objects(0, 0, 0, top=2, evidence=0)
    assert len(again.answers) == 2


@pytest.mark.usefixtures("no_trust_report")
def test_fit_trains_the_same_weights_as_train(events: Path, tmp_path: Path) -> None:
    fitted = tempograph.fit(
        [events], out=tmp_path / "one", model="complex", overrides=QUICK, device="cpu"
    )
    trained = tempograph.train(fitted.run.graph, "complex", overrides=QUICK, device="cpu")
    for name, value in trained.model.state_dict().items():
        assert torch.equal(value, fitted.run.model.state_dict()[name])


def outcome(folder: Path) -> tuple[dict[str, Any], str, list[str]]:
    """What a fit leaves behind, but for times and paths."""
    results = json.loads((folder / "results.json").read_text())
    text = json.dumps(results, sort_keys=True)
    text = re.sub(r'"(\w*seconds|peak_memory_bytes)": [\d.]+', "", text)
    page = (folder / "trust.html").read_text().replace(str(folder), "RUN")
    ranks = sorted(map(str, pq.read_table(folder / "ranks.parquet").to_pylist()))
    return json.loads((folder / "fit.json").read_text()), text + page, ranks


@pytest.mark.parametrize("model", ["ted", "complex"])
def test_a_fit_in_pieces_equals_one_in_one(events: Path, tmp_path: Path, model: str) -> None:
    """With no time at all, each call does one epoch or one stage."""
    overrides = ["train.epochs=2", "train.validate_every=1"] if model == "complex" else []
    options: dict[str, Any] = {"model": model, "overrides": overrides, "device": "cpu"}
    whole = tempograph.fit([events], out=tmp_path / "whole" / "run", **options)
    assert whole.finished and whole.report == tmp_path / "whole" / "run" / "trust.html"
    path = tmp_path / "pieces" / "run"
    begun = tempograph.fit([events], out=path, max_seconds=0, **options)
    assert not begun.finished and begun.trust is None and begun.report is None
    assert begun.describe().startswith("The fit is not finished")
    assert not begun.summary()["finished"] and begun.summary()["figures"] == []
    calls = 0
    while not (path / "trust.html").exists():
        tempograph.resume(path, device="cpu", max_seconds=0, progress=False)
        calls += 1
    assert calls >= 3
    assert outcome(path) == outcome(tmp_path / "whole" / "run")
    with raises(RunError, "trainer.finished", path=path):
        tempograph.resume(path)


@pytest.mark.parametrize(
    "stage",
    ["ranking entities", "ranking times", "measuring baselines", "writing the trust report"],
)
def test_an_interrupted_fit_names_the_command_that_finishes_it(
    call: Call, events: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    begin = TrainingBar.stage

    def interrupted(bar: TrainingBar, name: str) -> Progress:
        if name == stage:
            raise KeyboardInterrupt
        return begin(bar, name)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingBar, "stage", interrupted)
        code, _, err = call("fit", str(events), "--out", "run", "--model", "ted")
    assert code == 130 and "continue with: tempograph resume run" in err
    code, _, err = call("fit", str(events), "--out", "run", "--model", "ted")
    assert code == 2 and "tempograph resume run" in err
    code, out, err = call("resume", "run")
    assert code == 0, err
    assert "500 facts from 500 rows" in out and "Trust report: run/trust.html" in out
    assert "counts of the pair" in out and Path("run/trust.html").is_file()
    code, _, err = call("resume", "run")
    assert code == 2 and "this run is finished" in err


def test_answers_rest_on_all_facts_unless_the_holdout_is_kept(events: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": "ted", "device": "cpu"}
    fitted = tempograph.fit([events], out=tmp_path / "all", **options)
    assert fitted.summary()["answers"]["facts"] == 500
    assert len(tempograph.Predictor(fitted.run).graph.train) == 500
    assert fitted.evaluation is not None
    again = tempograph.evaluate(tmp_path / "all", "test")
    assert torch.equal(again.ranks.realistic, fitted.evaluation.ranks.realistic)
    kept = tempograph.fit([events], out=tmp_path / "kept", keep_holdout=True, **options)
    assert kept.finished and kept.summary()["answers"] is None
    assert len(tempograph.Predictor(kept.run).graph.train) == len(kept.run.graph.train) < 500
    assert kept.summary()["figures"] == fitted.summary()["figures"]


def test_a_model_is_chosen_by_the_share_of_known_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    train = [(0, 0, 1, 0), (1, 0, 2, 0)]
    meeting = make_graph(train, valid=[(1, 0, 0, 1), (2, 0, 1, 1)], entities=9)
    apart = make_graph(train, valid=[(0, 0, 2, 1), (3, 0, 4, 1)], entities=9)
    assert known_pair_share(meeting) == 1 and known_pair_share(apart) == 0
    assert choose_model(meeting, torch.device("cpu")).model == "pointer"
    assert choose_model(meeting, torch.device("cuda")).model == "temp-pointer"
    assert choose_model(apart, torch.device("cpu")).model == "tntcomplex"
    assert "100% of held-out facts" in choose_model(meeting, torch.device("cpu")).why
    spans = {name: as_intervals(getattr(apart, name)) for name in ("train", "valid", "test")}
    lasting = dataclasses.replace(apart, **spans)
    assert choose_model(lasting, torch.device("cpu")).model == "pointer"
    assert choose_model(lasting, torch.device("cuda")).model == "temp-pointer"
    # A gate would have nothing to weigh.
    monkeypatch.setattr(defaults, "_MAX_FACTORED", 0)
    assert choose_model(lasting, torch.device("cuda")).model == "pointer"
    assert choose_model(meeting, torch.device("cuda")).model == "temp-pointer"
    many = dataclasses.replace(meeting, entities=tuple(map(str, range(MANY_ENTITIES))))
    choice = choose_model(many, torch.device("cuda"))
    assert choice.model == "pointer" and "of the 30,000 entities" in choice.why


@pytest.mark.usefixtures("no_trust_report")
def test_guessed_columns_are_reported_before_training(events: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    tempograph.fit(
        [events],
        out=tmp_path / "run",
        model="complex",
        overrides=QUICK,
        device="cpu",
        report=lambda line: lines.append("epoch"),
        note=lines.append,
    )
    assert "subject from 'Source Name'" in lines[0] and "not used: 'id'" in lines[1]
    assert lines.count("epoch") == len(lines) - 2 >= 1


def test_help_says_that_columns_are_guessed(call: Call) -> None:
    _, out, _ = call("fit", "--help")
    assert "[default: subject]" not in out and "by default guessed" in out


def test_duplicates_are_reported_and_names_are_quoted(call: Call, events: Path) -> None:
    text = events.read_text().replace(",Talenne", ",O'Neill & Co")
    first = text.splitlines()[1].split(",")[2]
    Path("events.csv").write_text(
        text.replace(first, "O'Neill & Co") + text.splitlines()[-1] + "\n"
    )
    code, out, err = call("fit", "events.csv", "--out", "my run", "--model", "ted")
    assert code == 0, err
    assert "500 facts from 501 rows (1 repeated)" in out
    (line,) = (line for line in out.splitlines() if line.startswith("Next: "))
    command = shlex.split(line.removeprefix("Next: ").partition(", or ")[0])
    assert command[:5] == ["tempograph", "complete", "my run", "--subject", "O'Neill & Co"]
    assert call(*command[1:])[0] == 0


def test_the_command(call: Call, events: Path) -> None:
    code, out, err = call("fit", str(events), "--out", "run", "--model", "ted")
    assert code == 0, err
    assert (
        "Model: ted, because it was requested." in out
        and "the right answer among 20 entities is first in" in out
    )
    assert "time from 'Event Date'" in err and "tempograph complete run --subject" in out
    assert "Trust report: run/trust.html" in out and "Answers rest on all 500 facts" in out
    assert "Who-questions with the right answer in the first ten" in out
    code, _, err = call("fit", str(events), "--out", "run")
    assert code == 2 and "run exists already" in err
    made = as_json(
        call("fit", str(events), "--out", "run", "--model", "ted", "--overwrite", "--json")
    )
    assert made["model"] == "ted" and made["entities"] == 20
    figures = {each["asked"]: each for each in made["figures"]}
    assert figures["entity"]["baseline"] is None
    assert figures["relation"]["baseline"] == "counts of the pair"
    assert figures["time"]["metrics"]["mrr"] > 0
    assert made["weakest"] and made["report"] == "run/trust.html"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "e.csv: "),
        ("actor,action,target,date\n", "the file has no rows"),
        ("actor,action,target,date\na,b,c,yesterday\n", "yesterday"),
        (
            "actor,action,target,date\na,b,c,2024-01-01\n",
            "e.csv: too few facts, 1, to hold some out",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_folder(
    text: str, message: str, tmp_path: Path, call: Call
) -> None:
    (tmp_path / "e.csv").write_text(text)
    code, _, err = call("fit", str(tmp_path / "e.csv"), "--out", str(tmp_path / "run"))
    assert code == 2 and message in err and "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_fit_needs_a_file(tmp_path: Path) -> None:
    with raises(DataError, "column_guessing.no_files"):
        tempograph.fit([], out=tmp_path / "run")


def test_the_parts_of_an_ensemble_are_trained_once(
    events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gate learns from valid facts; the figures of a fit are those of test."""
    given: list[tuple[str, ...]] = []

    def train(*_: Any, overrides: tuple[str, ...], **__: Any) -> None:
        given.append(overrides)
        raise RunError("enough")

    monkeypatch.setattr(trainer, "train", train)
    for model in ("temp-pointer", "pointer"):
        with pytest.raises(RunError, match="enough"):
            tempograph.fit(events, out=tmp_path / model, model=model, overrides=["x=1"])
    assert given == [("model.fit_on=valid", "x=1"), ("x=1",)]
