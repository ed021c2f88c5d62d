"""Progress: a bar in a terminal or notebook, lines in a log, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import tempograph
import tempograph.cli.console
from conftest import Call
from predicting import GRAPH
from tempograph import Predictor
from tempograph.data.folder import write_folder
from tempograph.progress import Work, format_duration, show_on_console, show_progress
from tempograph.typing import ProgressOption

pytest_plugins = ("predictor_fixtures",)
pytestmark = pytest.mark.usefixtures("short_fits")

QUESTIONS = [
    {"subject": 0, "relation": 0, "object": None, "time": 4},
    {"subject": 0, "relation": 0, "object": 1, "time": None},
    {"subject": None, "relation": 1, "object": 2, "time": 4},
    {"subject": 0, "relation": 0, "object": 2, "time": None},
]


Output = pytest.CaptureFixture[str]


@pytest.fixture
def small_demo(call: Call) -> None:
    """A dataset folder that commands find before the demo world."""
    write_folder(GRAPH, Path("demo"))


@pytest.fixture
def terminal(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> Output:
    """Standard output and error, as those of a program in a terminal."""
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    return capsys


ROWS = [tuple(GRAPH.describe(fact).values()) for fact in GRAPH.all_facts]


class Clock:
    """A clock for time.monotonic that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


class Cell:
    """The output of a notebook cell: what is displayed, and how it is updated."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, content: dict[str, str], raw: bool, display_id: bool) -> Cell:
        assert raw and display_id and not self.shown
        self.shown.append(content)
        return self

    def update(self, content: dict[str, str], raw: bool) -> None:
        assert raw and self.shown
        self.shown.append(content)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    display.display = cell.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return cell


def api_calls(folder: Path) -> dict[str, Callable[[ProgressOption], Any]]:
    """Everything in the Python interface that takes long, by the text of its bar."""
    run = tempograph.train(GRAPH, "ted", device="cpu", progress=False)
    predictor = Predictor(run)
    settings = ["train.epochs=2", "model.dim=4"]

    def train(progress: ProgressOption) -> Any:
        return tempograph.train(
            GRAPH, "complex", device="cpu", overrides=settings, progress=progress
        )

    def fit(progress: ProgressOption) -> Any:
        out = folder / "fitted"
        return tempograph.fit(
            GRAPH, out=out, model="ted", device="cpu", overwrite=True, progress=progress
        )

    def resume(progress: ProgressOption) -> Any:
        stopped = tempograph.train(
            GRAPH,
            "complex",
            out=folder / "stopped",
            overwrite=True,
            overrides=settings,
            device="cpu",
            max_seconds=0,
            progress=False,
        )
        assert stopped.path is not None
        return tempograph.resume(stopped.path, device="cpu", progress=progress)

    return {
        "training complex on demo: epoch 2, valid MRR 0.": train,
        "training complex on demo: epoch 2": resume,
        "ranking entities": fit,
        "ranking the valid facts": lambda p: tempograph.evaluate(run, "valid", progress=p),
        "learning to rank relations and times": lambda p: Predictor(
            replace(run), device="cpu"
        ).times(0, 0, 1, progress=p),
        "answering questions": lambda p: predictor.ask(QUESTIONS, progress=p),
        "scoring facts": lambda p: predictor.score(GRAPH.test, progress=p),
        "searching for missing facts": lambda p: predictor.missing(last=3, progress=p),
        "searching for surprising facts": lambda p: predictor.surprising(progress=p),
    }


@pytest.mark.usefixtures("no_trust_report")
def test_a_terminal_shows_a_bar_if_it_is_wanted(terminal: Output, tmp_path: Path) -> None:
    for text, call in api_calls(tmp_path).items():
        assert terminal.readouterr() == ("", "")
        call(True)
        out, err = terminal.readouterr()
        assert text in err and out == ""
        for off in (False, None):
            call(off)
        called: list[tuple[int, int]] = []
        call(lambda *step, called=called: called.append(step))
        assert called[-1][0] == called[-1][1] > 0, text


def test_a_bar_is_the_default(terminal: Output, tmp_path: Path) -> None:
    predictor = Predictor(tempograph.train(GRAPH, "ted", device="cpu"))
    assert "training ted on demo" in terminal.readouterr().err
    calls: dict[str, Callable[[], object]] = {
        "importing": lambda: tempograph.fit(ROWS, out=tmp_path / "run", model="ted", device="cpu"),
        "ranking the test facts": lambda: tempograph.evaluate(predictor.run),
        "learning to rank relations and times": lambda: predictor.times(0, 0, 1),
        "answering questions": lambda: predictor.ask(QUESTIONS),
        "scoring facts": lambda: predictor.score(GRAPH.test),
        "searching for missing facts": lambda: predictor.missing(last=3),
        "searching for surprising facts": lambda: predictor.surprising(),
    }
    for text, call in calls.items():
        call()
        assert text in terminal.readouterr().err


@pytest.mark.usefixtures("no_trust_report")
def test_nothing_is_shown_without_a_terminal(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for call in api_calls(tmp_path).values():
        call(True)
    assert capsys.readouterr() == ("", "")


def test_a_dumb_terminal_has_no_bar(terminal: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with show_progress("counting", True) as progress:
        assert progress is None


def test_a_bar_does_not_take_what_is_printed_to_a_file(
    terminal: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    with show_progress("counting", True):
        print("a result")
    assert file.getvalue() == "a result\n" and "a result" not in terminal.readouterr().err


@pytest.mark.usefixtures("small_demo")
def test_the_commands_show_one_bar(
    call: Call, terminal: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A console finds this out when it is made.
    monkeypatch.setattr(tempograph.cli.console.err, "is_interactive", True)
    code, _, err = call("train", "demo", "--model", "ted", "--out", "run")
    assert code == 0 and "training ted on demo" in err
    fact = ",".join(GRAPH.describe(GRAPH.test[0]).values())
    Path("facts.csv").write_text(f"subject,relation,object,time\n{fact}\n")
    # A second bar would show the text of the Python interface.
    for arguments, own, of_python in (
        (["evaluate", "run"], "ranking test", "ranking the test facts"),
        (["score", "run", "facts.csv"], "scoring", "scoring facts"),
    ):
        code, _, err = call(*arguments)
        assert code == 0 and own in err and of_python not in err


def test_a_log_has_a_line_every_ten_seconds(clock: Clock) -> None:
    lines: list[str] = []
    console = Console(file=io.StringIO())
    with show_on_console("searching for missing facts", console, lines.append) as work:
        for done in range(1, 9):
            clock.now += 4
            work.update(done, 10)
    # After 12 and 24 s: 4 s for each tenth.
    assert lines == [
        "searching for missing facts: 30%, about 28 s left",
        "searching for missing facts: 60%, about 16 s left",
    ]
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


@pytest.mark.usefixtures("small_demo")
def test_a_piped_command_prints_a_line_when_work_takes_long(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("train", "demo", "--model", "ted", "--out", "run")[0] == 0
    missing = ["missing", "run", "--entity", GRAPH.entities[0], "--top", "2"]
    code, _, error = call(*missing)
    assert code == 0 and "missing facts" not in error
    monkeypatch.setattr("tempograph.progress._LINE_SECONDS", 0)
    code, _, error = call(*missing)
    assert code == 0
    lines = [line for line in error.splitlines() if line.startswith("searching for missing facts")]
    assert len(lines) > 1 and lines[-1] == "searching for missing facts: 100%"
    code, out, error = call("train", "demo", "--model", "ted", "--out", "other", "--json")
    assert out.count("\n") == 1 and "training ted on demo: sigma" in error


@pytest.mark.usefixtures("small_demo")
def test_an_epoch_in_a_log_counts_as_a_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempograph.progress._LINE_SECONDS", 5)
    settings = ["train.epochs=3", "model.dim=4"]
    _, _, error = call("train", "demo", "--model", "complex", *settings, "--out", "run")
    assert error.count("epoch ") == 3 and "training complex" not in error


def test_a_notebook_shows_a_bar_and_then_a_line(cell: Cell, clock: Clock) -> None:
    with show_progress("scoring <facts>", True) as progress:
        assert progress is not None
        for done in (1, 2, 3, 4):
            clock.now += 0.3
            progress(done, 4)
    assert [content["text/plain"] for content in cell.shown] == [
        "scoring <facts>: 50%, about 1 s left",
        "scoring <facts>: 75%, about 1 s left",
        "scoring <facts>: 100%",
        "scoring <facts>, done after 1 s",
    ]
    assert cell.shown[0]["text/html"] == (
        '<div><progress value="0.500"></progress> scoring &lt;facts&gt;: 50%, about 1 s left</div>'
    )
    assert cell.shown[-1]["text/html"] == (
        '<div style="opacity:.7">scoring &lt;facts&gt;, done after 1 s</div>'
    )


def test_a_notebook_is_told_that_work_was_interrupted(cell: Cell, clock: Clock) -> None:
    with pytest.raises(KeyboardInterrupt), show_progress("scoring", True) as progress:
        assert progress is not None
        clock.now += 70
        progress(1, 4)
        raise KeyboardInterrupt
    assert cell.shown[-1]["text/plain"] == "scoring, stopped after 70 s"


def test_short_work_leaves_no_trace_in_a_notebook(cell: Cell) -> None:
    predictor = Predictor(tempograph.train(GRAPH, "ted", overrides=["model.sigma=1"]))
    predictor.score(GRAPH.test[:2])
    assert cell.shown == []


def test_the_time_left_is_estimated_from_the_count_that_is_going_on(clock: Clock) -> None:
    work = Work("ranking")
    assert work.line == "ranking"
    clock.now += 10
    work.update(5, 10)
    assert work.line == "ranking: 50%, about 10 s left"
    clock.now += 4
    assert work.line == "ranking: 50%, about 6 s left"
    work.update(10, 10)
    assert work.line == "ranking: 100%"
    # An hour of training later, the next ranking begins.
    clock.now += 3600
    work.update(1, 10)
    assert work.line == "ranking: 10%"
    clock.now += 2
    work.update(2, 10)
    assert work.line == "ranking: 20%, about 16 s left"
    # A download of unknown size.
    work.update(300, 0)
    assert work.line == "ranking"


def test_durations_are_short() -> None:
    durations = {0: "1 s", 20.4: "20 s", 99: "99 s", 100: "2 min", 5900: "98 min"}
    durations |= {7500: "2 h 5 min"}
    assert {seconds: format_duration(seconds) for seconds in durations} == durations


def test_questions_of_every_kind_are_counted(ted_predictor: Predictor) -> None:
    steps: list[tuple[int, int]] = []
    ted_predictor.ask(
        [*QUESTIONS, {**QUESTIONS[0], "subject": 99}], progress=lambda *step: steps.append(step)
    )
    assert steps == [(2, 4), (4, 4)]


def test_a_comparison_counts_the_runs_that_have_ended(
    started: list[str], tmp_path: Path, terminal: Output
) -> None:
    steps: list[tuple[int, int]] = []
    models = ["ted", "complex"]
    settings = ["train.epochs=1", "model.dim=4", "model.sigma=1"]
    write_folder(GRAPH, tmp_path / "demo")
    tempograph.compare(
        tmp_path / "demo",
        models,
        out=tmp_path / "runs",
        overrides=settings,
        device="cpu",
        progress=lambda *step: steps.append(step),
    )
    assert steps == [(0, 2), (1, 2), (1, 2), (2, 2)] and terminal.readouterr().err == ""
