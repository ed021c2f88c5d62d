"""Search: trials are halved by their valid MRR within a budget, and the best becomes the run."""

from __future__ import annotations

import csv
import dataclasses
import functools
import json
import math
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import forked
import tempograph
import tempograph.experiments.trial_runs
from conftest import Call, as_json
from forked import PIPE, Popen
from messages import raises
from tempograph.data.folder import write_folder
from tempograph.data.graph import TemporalGraph
from tempograph.data.synthetic.world import make_world
from tempograph.errors import ConfigError, RunError
from tempograph.experiments import autofit, fit_stages
from tempograph.experiments.halving import halvings_left, keep_better_half, share_of_trial
from tempograph.experiments.part_choice import greedy_parts
from tempograph.experiments.scheduler import run_processes
from tempograph.experiments.search import halve_trials
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.status import RunStatus
from tempograph.experiments.trial_runs import TrialRuns
from tempograph.experiments.trials import candidate_trials
from tempograph.experiments.worker import train_and_test
from tempograph.report.search_report import search_figure, search_table
from tempograph.training.ensemble_fit import GateExamples
from tempograph.training.fit_record import ModelChoice, SearchPlan
from tempograph.training.run_folder import read_results
from tempograph.training.search_record import SearchRecord, Trial, TrialRound, read_search_record

pytestmark = pytest.mark.usefixtures("short_fits", "no_drawings")

CPU = torch.device("cpu")
GRAPH = make_world(seed=4, entities=20, relations=5, steps=20, facts=500).graph
QUICK = ("train.epochs=2", "train.validate_every=1")
RULES = ModelChoice("pointer", "copying works")
scores = st.dictionaries(st.text(max_size=3), st.none() | st.floats(0, 1), min_size=1, max_size=9)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("events") / "events.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["actor", "action", "target", "date"])
        for s, r, o, t in GRAPH.all_facts:
            names = (GRAPH.entities[s], GRAPH.relations[r], GRAPH.entities[o], GRAPH.times[t])
            writer.writerow(names)
    return path


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the trials that are trained, one after another in this process."""
    names: list[str] = []

    def run_here(
        runs: Iterable[RunStatus], _: object, jobs: int, on_change: Callable[[RunStatus], None]
    ) -> None:
        for run in runs:
            names.append(run.name)
            run.start()
            train_and_test(run.spec, run.report)
            run.end()
            on_change(run)

    monkeypatch.setattr(tempograph.experiments.trial_runs, "run_processes", run_here)
    return names


@pytest.fixture
def search_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits end when the model is chosen: nothing is measured or reported."""
    monkeypatch.setattr(fit_stages._Finishing, "stages_left", lambda _: iter(()))


@given(scores)
def test_the_better_half_is_kept(found: dict[str, float | None]) -> None:
    kept = keep_better_half(found)
    measured = [name for name, score in found.items() if score is not None]
    assert len(kept) == min(len(measured), math.ceil(len(found) / 2))
    assert kept == [name for name in measured if name in kept]
    best = max(((found[name] or 0.0) for name in measured), default=None)
    assert not measured or best in [found[name] for name in kept]
    for name in kept:
        for other in set(measured) - set(kept):
            assert (found[name] or 0.0) >= (found[other] or 0.0)


@given(st.floats(0, 1e4), st.integers(1, 20), st.integers(1, 20))
def test_the_shares_of_all_rounds_sum_to_the_budget_at_most(
    budget: float, trials: int, jobs: int
) -> None:
    left, rounds = budget, 0
    while trials > 1:
        left -= share_of_trial(left, halvings_left(trials), trials, jobs) * math.ceil(trials / jobs)
        trials, rounds = math.ceil(trials / 2), rounds + 1
        assert left >= -1e-9 * budget
    assert share_of_trial(left, halvings_left(1), 1, jobs) == left
    assert left == pytest.approx(budget / (rounds + 1))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    rounds = [TrialRound(1, 4.5, 2.0, 0.25, 3), TrialRound(2, 9.0, 2.5, None, 6, interrupted=True)]
    trials = [Trial("ted", "ted"), Trial("a", "pointer", ("model.paths=false",), rounds, "slow")]
    record = SearchRecord(2.0, RULES, trials, 9.5, 1, "nothing gained", "a", "best", True)
    record.write(tmp_path)
    assert read_search_record(tmp_path) == record
    later = json.loads((tmp_path / "search.json").read_text()) | {"of a later version": 1}
    (tmp_path / "search.json").write_text(json.dumps(later))
    assert read_search_record(tmp_path) == record
    assert record.seconds_left == 110.5 and record.trial("a").valid_mrr == 0.25
    assert record.trial("a").took_part(1) and not record.trial("a").took_part(2)
    table = search_table(record)
    assert table.rows[0][:3] == ["a", "paths false", "chosen"] and table.rows[1][-1] == "-"
    (axes,) = search_figure(record).axes
    assert [text.get_text() for text in axes.get_figure().legends[0].get_texts()] == ["a (chosen)"]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["[]", "{}", "{", '{"trials": 3}'])
def test_a_damaged_record_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "search.json").write_text(text)
    with pytest.raises(RunError, match="the run is damaged"):
        read_search_record(tmp_path)


def plan(model: str = "pointer", requested: bool = False, *overrides: str) -> SearchPlan:
    return SearchPlan(1.0, ModelChoice(model, "why"), requested, overrides)


def names(*arguments: Any) -> list[str]:
    return [trial.name for trial in candidate_trials(GRAPH, CPU, plan(*arguments), 0)]


def test_the_trials_follow_from_the_rules_and_the_request() -> None:
    both = ["pointer-fewer-facts", "pointer"], ["tntcomplex", "tntcomplex-strong-penalties"]
    assert names() == [*both[0], *both[1]] and names("tntcomplex") == [*both[1], *both[0]]
    assert names("ted", True) == ["ted"]
    assert names("temp-gru", True) == ["temp-gru", "temp-gru-fast", "temp-gru-slow"]
    assert names("complex", True)[1:] == ["complex-strong-penalties", "complex-weak-penalties"]
    # A setting that is given is not varied; trials that are then the same are one.
    fixed = ("model.max_facts=9", "model.max_facts_per_relation=9")
    fixed += ("model.max_facts_per_pair=9", "model.max_facts_per_time=9")
    assert "pointer" not in names("pointer", False, *fixed)
    near = "'train.epochs', 'train.batch' or 'train.loss'"
    with raises(ConfigError, "trials.no_setting", setting="train.epoch", names=near):
        names("pointer", False, "train.epoch=3")
    with raises(ConfigError, "trials.combines", model="temp-pointer"):
        names("temp-pointer", True)


def test_a_gpu_tries_more(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SimpleNamespace(total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: memory)
    trials = candidate_trials(GRAPH, torch.device("cuda"), plan("temp-pointer"), 0)
    counts = Counter(trial.model for trial in trials)
    assert counts == {"pointer": 4, "tntcomplex": 3, "temp-gru": 3}
    assert len({trial.name for trial in trials}) == len(trials)


class Scripted(TrialRuns):
    """Trials whose valid MRR after each round is written down."""

    def __init__(self, scores: dict[str, list[float | None]], seconds: float = 1.0) -> None:
        trials = [Trial(name, "pointer") for name in scores]
        first = Trial("ted", "ted", rounds=[TrialRound(0, 1, 1, 0.2, finished=True)])
        self.record = SearchRecord(1.0, RULES, [first, *trials], leader="ted")
        self.plan, self.jobs, self.scores, self.trained = plan(), 1, scores, list[str]()
        self.seconds = seconds

    def train(self, trials: Sequence[Trial], number: int, share: float) -> bool:
        for trial in trials:
            self.trained.append(trial.name)
            self.record.seconds += self.seconds
            mrr = self.scores[trial.name][number - 1]
            trial.rounds.append(TrialRound(number, 0, 1, mrr, number, number))
            if mrr is None:
                trial.dropped = "too slow"
        return True

    def write(self) -> None:
        """Nothing is kept."""


def test_the_worse_half_is_dropped_until_one_is_left() -> None:
    runs = Scripted({"a": [0.3, 0.4], "b": [0.5, 0.5], "c": [None], "d": [0.4, 0.6]})
    assert halve_trials(runs) and runs.trained == ["a", "b", "c", "d", "b", "d"]
    worse = [f"in the worse half after round {number}" for number in (1, 2)]
    dropped = [trial.dropped for trial in runs.record.trials[1:]]
    assert dropped == [*worse, "too slow", None]
    assert runs.record.stopped is None and runs.record.halvings == 2


def test_a_search_stops_when_nothing_is_gained_or_the_time_is_used_up() -> None:
    flat = {name: [0.3 + number / 10] * 3 for number, name in enumerate("abcdefgh")}
    runs = Scripted(flat)
    assert halve_trials(runs) and len(runs.trained) == 8 + 4
    assert runs.record.stopped == "round 2 gained only 0.0000 in valid MRR"
    slow = Scripted(flat, seconds=30)
    assert halve_trials(slow) and len(slow.trained) == 8
    assert slow.record.stopped == "the time was used up" and slow.record.seconds_left == 0


def test_a_process_stops_in_the_middle_of_an_epoch_when_its_time_is_up(tmp_path: Path) -> None:
    write_folder(GRAPH, tmp_path / "data")
    spec = RunSpec(
        "mine",
        "pointer",
        overrides=("train.epochs=100000", "train.patience=100000"),
        source=str(tmp_path / "data"),
        folder=tmp_path / "run",
        device="cpu",
        valid_only=True,
        stop_seconds=2,
    )
    run = RunStatus(spec)
    run_processes([run], {spec: set()}, 1, lambda _: None)
    assert run.state == "unfinished" and run.reason is None


def examples_of(*scores: np.ndarray) -> GateExamples:
    """Examples whose parts give these scores [n, candidates]; the first candidate is right."""
    parts = torch.log_softmax(torch.from_numpy(np.stack(scores, 2)), 1)
    empty = torch.zeros(len(parts), parts.shape[1], 0)
    excluded = torch.zeros(parts.shape[:2], dtype=torch.bool)
    return GateExamples(empty[:, 0], parts, empty, excluded, torch.arange(len(parts)))


def test_parts_that_add_nothing_are_left_out() -> None:
    rng = np.random.default_rng(0)
    right = np.zeros((400, 30))
    right[:, 0] = 2
    first, second = (right + rng.normal(size=right.shape) for _ in range(2))
    noise = rng.normal(size=right.shape)
    assert greedy_parts(examples_of(first, noise, first)) == [0]
    assert greedy_parts(examples_of(first, noise, second)) == [0, 2]


def test_a_search_chooses_the_best_on_valid(
    events: Path, tmp_path: Path, trained: list[str]
) -> None:
    notes: list[str] = []
    out = tmp_path / "run"
    fitted = tempograph.fit(
        [events], out=out, minutes=5, overrides=QUICK, device="cpu", note=notes.append
    )
    search = fitted.search
    assert fitted.finished and search is not None and search.finished
    assert search == read_search_record(out) and (out / "search.svg").is_file()
    first = next(line for line in notes if line.startswith("valid MRR"))
    assert "with ted after" in first and f"tempograph complete {out} --subject" in first
    assert trained[:4] == [trial.name for trial in search.trials[1:5]]
    assert search.leader is not None and search.seconds < 300
    chosen = search.trial(search.leader)
    others = [trial.valid_mrr or 0.0 for trial in search.trials if trial is not chosen]
    assert (chosen.valid_mrr or 0.0) >= max(others) and fitted.choice.model == chosen.model
    assert fitted.choice.why == search.why and "of" in search.why
    assert all(trial.dropped for trial in search.trials if trial is not chosen)
    for trial in search.trials[1:]:
        folder = out / "search" / trial.name
        assert read_results(folder).test is None and not len(tempograph.Run.load(folder).graph.test)
    summary = fitted.summary()
    assert summary["search"]["leader"] == search.leader and summary["held_out"]["split"] == "test"
    assert "What was tried" in (out / "trust.html").read_text()
    assert len(tempograph.Predictor(out).objects(0, 0, 0, top=2, evidence=0).answers) == 2
    with raises(RunError, "trainer.finished", path=out):
        tempograph.resume(out)


@pytest.mark.usefixtures("search_only")
def test_test_facts_have_no_part_in_the_choice(tmp_path: Path, trained: list[str]) -> None:
    rng = np.random.default_rng(1)
    sizes = (len(GRAPH.entities), len(GRAPH.relations), len(GRAPH.entities), len(GRAPH.times))
    test = np.unique(rng.integers(0, sizes, (60, 4)), axis=0)
    other = dataclasses.replace(GRAPH, test=test)

    def outcome(graph: TemporalGraph, name: str) -> list[tuple[str, float | None, str | None]]:
        options: dict[str, Any] = {"overrides": QUICK, "device": "cpu", "keep_holdout": True}
        fitted = tempograph.fit(graph, out=tmp_path / name, minutes=5, **options)
        assert fitted.search is not None
        return [(t.name, t.valid_mrr, t.dropped) for t in fitted.search.trials]

    assert outcome(GRAPH, "one") == outcome(other, "other")


def test_a_search_in_pieces_comes_to_its_end(
    events: Path, tmp_path: Path, trained: list[str], request: pytest.FixtureRequest
) -> None:
    """With no time at all, each call trains one trial for one epoch."""
    out = tmp_path / "run"
    options: dict[str, Any] = {"minutes": 5, "overrides": QUICK, "device": "cpu"}
    begun = tempograph.fit([events], out=out, max_seconds=0, **options)
    assert not begun.finished and begun.search is not None and not begun.search.finished
    candidates = [(t.name, t.overrides) for t in begun.search.trials]
    assert len(tempograph.Predictor(out).objects(0, 0, 0, top=2, evidence=0).answers) == 2
    for _ in range(40):
        if (out / "trust.html").exists():
            break
        tempograph.resume(out, device="cpu", max_seconds=0, progress=False)
    search = read_search_record(out)
    assert search is not None and search.finished
    assert [(t.name, t.overrides) for t in search.trials[: len(candidates)]] == candidates
    request.getfixturevalue("search_only")
    whole = tempograph.fit([events], out=tmp_path / "whole", **options)
    assert whole.search is not None and whole.search.leader == search.leader


@pytest.mark.usefixtures("search_only")
def test_trials_share_a_device_that_has_room(
    events: Path, tmp_path: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for three, the first three of four trials are started together."""
    together: list[int] = []
    run_here = tempograph.experiments.trial_runs.run_processes

    def run_counted(runs: Sequence[RunStatus], *arguments: Any) -> None:
        together.append(len(runs))
        run_here(runs, *arguments)

    monkeypatch.setattr(tempograph.experiments.trial_runs, "run_processes", run_counted)
    monkeypatch.setattr(tempograph.experiments.trial_runs, "max_parallel_runs", lambda _: 3)
    options: dict[str, Any] = {"overrides": QUICK, "device": "cpu", "minutes": 5}
    fitted = tempograph.fit([events], out=tmp_path / "run", **options)
    assert fitted.search is not None and fitted.search.finished and together[:2] == [3, 1]


@pytest.mark.usefixtures("search_only")
def test_only_the_settings_of_a_requested_model_vary(
    events: Path, tmp_path: Path, trained: list[str]
) -> None:
    options: dict[str, Any] = {"overrides": QUICK, "device": "cpu", "minutes": 5}
    fitted = tempograph.fit([events], out=tmp_path / "run", model="complex", **options)
    assert fitted.choice.model == "complex" and {name[:7] for name in trained} == {"complex"}


def test_the_command_takes_the_minutes_of_a_search(
    call: Call, events: Path, trained: list[str], request: pytest.FixtureRequest
) -> None:
    code, out, err = call("fit", str(events), "--out", "ted", "--model", "ted", "--minutes", "0.1")
    assert code == 0, err
    assert "Model: ted, because it has valid MRR" in out and "Trials" in out
    request.getfixturevalue("search_only")
    made = as_json(
        call("fit", str(events), "--out", "two", "--model", "ted", "--minutes", "0.1", "--json")
    )
    assert made["search"]["leader"] == "ted" and made["search"]["finished"]
    made = as_json(
        call("fit", str(events), "--out", "no", "--model", "ted", "--minutes", "0", "--json")
    )
    assert made["search"] is None


@pytest.mark.parametrize(
    ("minutes", "message"),
    [
        ("-1", "minutes must be at least 0 and finite, found -1"),
        ("abc", "Invalid value for '--minutes'"),
        ("nan", "minutes must be at least 0 and finite, found nan"),
        ("inf", "minutes must be at least 0 and finite, found inf"),
    ],
)
def test_a_bad_budget_is_one_line_and_leaves_no_folder(
    call: Call, events: Path, minutes: str, message: str
) -> None:
    code, _, err = call("fit", str(events), "--out", "run", "--minutes", minutes)
    assert code == 2 and message in err and "Traceback" not in err and not Path("run").exists()


def test_a_search_of_an_ensemble_is_refused(call: Call, events: Path) -> None:
    arguments = ("--out", "run", "--minutes", "1", "--model", "temp-pointer")
    code, _, err = call("fit", str(events), *arguments)
    assert code == 2 and "a search combines models itself" in err and not Path("run").exists()


def test_a_search_goes_on_without_a_trial_that_is_killed(
    call: Call, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, started = tmp_path / "run", list[Popen]()

    class KilledPopen(Popen):
        """The first of all is killed as soon as it runs."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if not started:
                self.kill()
            started.append(self)

    monkeypatch.setattr(forked, "Popen", KilledPopen)
    monkeypatch.setattr(autofit, "fit", functools.partial(autofit.fit, overrides=QUICK))
    arguments = ("--out", str(out), "--minutes", "5", "--device", "cpu")
    code, printed, errors = call("fit", str(events), *arguments)
    assert code == 0 and len(started) > 1, errors
    record = read_search_record(out)
    assert record is not None and record.finished and (out / "trust.html").is_file()
    killed = record.trials[1]
    assert killed.dropped is not None and "killed by the system" in killed.dropped
    assert killed.dropped in errors and "Trust report" in printed


def start(events: Path, out: Path) -> Popen:
    """Start the command in a process of its own, whose trials are forked."""
    program = (
        "import forked, tempograph.experiments.scheduler as scheduler\n"
        "scheduler.subprocess = forked\n"
        "from tempograph.cli import main; main()"
    )
    arguments = ["fit", str(events), "--out", str(out), "--minutes", "0.08", "--device", "cpu"]
    return Popen([sys.executable, "-c", program, *arguments], stdout=PIPE, stderr=PIPE)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_search_answers_and_resumes(
    call: Call, events: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    out = tmp_path / "run"
    process = start(events, out)
    while not [*out.glob("search/*/config.toml")]:
        assert process.poll() is None, "no trial was started"
        time.sleep(0.02)
    process.send_signal(stop)
    _, errors = process.communicate(timeout=200)
    if stop == signal.SIGINT:
        assert process.returncode == 130
        assert f"continue with: tempograph resume {out}" in errors and "Traceback" not in errors
    code, _, err = call("fit", str(events), "--out", str(out))
    assert code == 2 and "tempograph resume" in err
    assert len(tempograph.Predictor(out).objects(0, 0, 0, top=2, evidence=0).answers) == 2
    code, printed, err = call("resume", str(out), "--device", "cpu")
    assert code == 0, err
    assert "Trials" in printed and "Trust report" in printed
    record = read_search_record(out)
    assert record is not None and record.finished
    if stop == signal.SIGINT:
        assert call("fit", str(events), "--out", str(out), "--model", "ted", "--overwrite")[0] == 0
        assert not (out / "search.json").exists()
