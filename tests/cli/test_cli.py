"""The command line as users see it: output, exit codes, one line for each error."""

from __future__ import annotations

import functools
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from coded import ICEWS_HEADER, gdelt_row, icews_row
from conftest import Call, as_json
from forked import PIPE, Popen
from graphs import make_graph
from messages import message
from spanned import interval_graph
from tempograph import Run, TemporalGraph, train
from tempograph.cli import console
from tempograph.cli.answer_tables import print_completion
from tempograph.data.folder import read_folder, write_folder
from tempograph.data.importers.importer import import_files
from tempograph.data.importers.options import ImportOptions
from tempograph.data.synthetic import world
from tempograph.models.registry import MODELS
from tempograph.prediction.answer import Answer, EvidenceFact, evidence_legend
from tempograph.prediction.answers import Completion
from tempograph.training import trainer
from tempograph.version import __version__

EVENTS = "subject,relation,object,time\n" + "".join(
    f"{s},{r},{o},2024-01-{day:02d}\n"
    for day in range(1, 29)
    for s, r, o in (
        ("Ann", "meets", "Bob"),
        ("Bob", "calls", "Cai"),
        (("Ann", "Cai")[day % 2], "visits", "Dee"),
    )
)


@pytest.fixture
def events(call: Call) -> Path:
    """An imported dataset called `mine`."""
    Path("events.csv").write_text(EVENTS)
    assert call("data", "import", "events.csv", "--out", "mine")[0] == 0
    return Path("mine")


def test_help_names_every_command(call: Call) -> None:
    code, out, _ = call("--help")
    asking = ("complete", "score", "missing", "surprising", "calibration", "report", "export")
    commands = ("demo", "data", "train", "evaluate", "compare", "reproduce", *asking)
    assert code == 0 and all(command in out for command in commands)
    for command in (*([name] for name in commands), ["data", "import"]):
        code, out, _ = call(*command, "--help")
        assert code == 0 and f"Usage: tempograph {' '.join(command)}" in out


def test_version(call: Call) -> None:
    assert call("--version")[:2] == (0, f"tempograph {__version__}\n")


def shorten_demo(patch: pytest.MonkeyPatch, *settings: str, **sizes: int) -> None:
    """Let the demo train with other settings, on a smaller world."""

    def train_briefly(graph: TemporalGraph, model: str, **options: Any) -> Run:
        if model != "ted":
            options["overrides"] = [*options["overrides"], *settings]
        return train(graph, model, **options)

    patch.setattr(world, "make_world", functools.partial(world.make_world, **sizes))
    patch.setattr(trainer, "train", train_briefly)


def test_demo_shows_a_table_and_an_answer_with_evidence(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"entities": 12, "relations": 4, "steps": 10, "facts": 200}
    shorten_demo(monkeypatch, "model.dim=16", "train.epochs=10", **sizes)
    for _ in range(2):
        code, out, _ = call("demo")
        assert code == 0
        assert (
            "TeMP-GRU" in out
            and "protocol strict" in out
            and "probability" in out
            and "facts with an effect" in out
        )


def test_in_the_demo_world_time_matters_and_temp_is_ahead(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_demo(monkeypatch, "train.epochs=20", entities=50, facts=2500)
    shown = as_json(call("demo", "--json"))
    static, ted, temp = (entry["metrics"]["mrr"] for entry in shown["models"].values())
    assert temp > ted + 0.02 and temp > static + 0.02
    answer = shown["completion"]["answers"][0]
    assert (
        answer["known"] == "test"
        and answer["rank"] == 1
        and answer["evidence"]
        and answer["probability"] > 0.05
    )


def test_a_trained_model_answers_from_every_side(call: Call, events: Path) -> None:
    settings = ("model.dim=8", "model.window=2", "train.epochs=2", "train.times_per_step=8")
    code, out, err = call(
        "train", "mine", "--model", "temp-gru", "--out", "run", "--device", "cpu", *settings
    )
    assert code == 0 and "epoch 2" in err and "valid MRR" in out
    assert as_json(call("evaluate", "run", "--json"))["model"] == "temp-gru"
    sides = {
        "subject": ("--relation", "meets", "--object", "Bob"),
        "relation": ("--subject", "Ann", "--object", "Bob"),
        "object": ("--subject", "Ann", "--relation", "meets"),
    }
    for asked, question in sides.items():
        found = as_json(call("complete", "run", *question, "--time", "2024-01-15", "--json"))
        assert found["asked"] == asked and found[asked] is None
        total = sum(answer["probability"] for answer in found["answers"])
        assert total == pytest.approx(1)
        right = {"subject": "Ann", "relation": "meets", "object": "Bob"}[asked]
        (marked,) = (answer for answer in found["answers"] if answer["name"] == right)
        assert marked["known"] in ("train", "valid", "test")
    code, out, _ = call("complete", "run", *sides["relation"], "--time", "2024-01-15")
    assert (
        code == 0
        and "probability" in out
        and "(Ann, ?, Bob, 2024-01-15)" in out
        and "add up" not in out
    )
    found = as_json(
        call("complete", "run", *sides["object"], "--time", "2024-01-15", "--new", "--json")
    )
    assert not any(answer["known"] for answer in found["answers"])
    assert sum(answer["probability"] for answer in found["answers"]) == pytest.approx(1)


def test_evidence_is_printed_below_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    long = "the [bold]Ministry[/] of Foreign Affairs of a Far and Long Country :smile:"
    facts = (
        EvidenceFact("Ann", "meets", "Bob", "2024-01-01", None, 0.25),
        EvidenceFact("Bob", "hosts", "Ann", "2024-01-02", None, -12.5),
        EvidenceFact("Ann", "greets", "Bob", "2024-01-03", 0.5, 0.0),
    )
    answers = (
        Answer(1, "Bob", 2.0, 0.5, "train", "near", facts, 7),
        Answer(2, long, 1.0, 0.1, None, "none", (), 0),
    )
    print_completion(Completion("Ann", "meets", None, "2024-01-02", "object", answers, ()))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert (
        ["1", "Bob", "train", "50.0%"] in lines
        and ["near,", "7", "facts"] in lines
        and ["none,", "0", "facts"] in lines
    )
    assert ["2024-01-01", "+0.25", "Ann", "meets", "Bob"] in lines
    assert ["2024-01-02", "-12.50", "Bob", "hosts", "Ann"] in lines
    assert ["2024-01-03", "0", "Ann", "greets", "Bob"] in lines and ["..."] in lines
    assert ["time", "effect", "subject", "relation", "object"] in lines
    assert evidence_legend(facts).split() in lines
    bare = tuple(
        replace(answer, evidence=(), evidence_count=0, why="not requested") for answer in answers
    )
    print_completion(Completion("Ann", "meets", None, "2024-01-02", "object", bare, ()))
    shown = capsys.readouterr().out
    assert "not requested" not in shown and "fact" not in shown and "Bob" in shown


LONG = ("Ministry of Agriculture, Fisheries and " + "x" * 400 + " Welfare ") * 2


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("length", [30, 900])
def test_evidence_is_aligned_and_names_are_folded_but_never_cut(
    width: int, length: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", width)
    long = LONG[:length].strip()
    facts = (
        EvidenceFact(long, "meets", "Bob", "2024-01-01", None, 0.25),
        EvidenceFact("Bob", long.upper(), "Ann", "2024-01-02", None, -12.5),
        EvidenceFact("Ann", "greets", long.swapcase(), "2024-01-03", None, 0.5),
    )
    answers = (Answer(1, "Bob", 2.0, 0.5, None, "near", facts, 3),)
    print_completion(Completion(long, "meets", None, "2024-01-02", "object", answers, ()))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert all(len(line) <= width for line in lines)
    assert evidence_legend(facts) in [line.strip() for line in lines]
    (heading,) = (line for line in lines if "time" in line and "subject" in line)
    assert ("object" in heading) == (length == 30), "long names are below each other"
    starts = [heading.index(name) for name in ("subject", "relation", "object") if name in heading]
    first = [index for index, line in enumerate(lines) if re.match(" +2024-01-0", line)]
    for fact, start, stop in zip(
        facts, first, [*first[1:], lines.index("", first[-1])], strict=True
    ):
        assert lines[start].split()[:2] == [fact.time, f"{fact.effect:+.2f}"]
        shown = [
            "".join("".join(line[left:right] for line in lines[start:stop]).split())
            for left, right in zip(starts, [*starts[1:], None], strict=True)
        ]
        names = ["".join(name.split()) for name in (fact.subject, fact.relation, fact.object)]
        assert shown == (names if length == 30 else ["".join(names)])


@pytest.mark.parametrize(
    ("share", "effect", "heading", "value", "legend"),
    [
        (0.5, None, "share", "50%", "share: the part of the score that the model attributes"),
        (0.5, 0.0, "effect", "0", "effect: how much the score falls without the fact"),
        (None, None, "effect", "", "effect: not measured for these facts"),
    ],
)
def test_the_legend_says_what_the_number_is(
    share: float | None,
    effect: float | None,
    heading: str,
    value: str,
    legend: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fact = EvidenceFact("Ann", "meets", "Bob", "2024-01-01", share, effect)
    answers = (Answer(1, "2024-01-02", 2.0, 0.25, None, "near", (fact,), 1),)
    print_completion(Completion("Ann", "meets", "Bob", None, "time", answers, ()))
    shown = capsys.readouterr().out
    assert [*f"2024-01-01 {value} Ann meets Bob".split()] in map(str.split, shown.splitlines())
    assert f"time {heading} subject relation object" in " ".join(shown.split()) and legend in shown
    assert str(fact) == "  ".join(filter(None, ("2024-01-01", value, "Ann", "meets", "Bob")))


def test_an_embedding_method_from_training_to_an_answer(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = world.make_world(entities=30, relations=6, steps=24, facts=600)
    monkeypatch.setattr(world, "make_world", lambda: small)
    settings = ("model.dim=8", "model.wave_share=0.5", "train.epochs=2", "train.validate_every=1")
    stopped = call(
        "train", "demo", "--model", "de-simple", "--out", "run", "--max-time", "0", *settings
    )
    assert (
        stopped[0] == 0
        and "epoch 1" in stopped[2]
        and "continue with: tempograph resume run" in stopped[1]
    )
    assert as_json(call("resume", "run", "--json"))["finished"]
    figures = as_json(call("evaluate", "run", "--json"))
    assert (
        figures["model"] == "de-simple"
        and figures["protocol"] == "strict"
        and 0 < figures["metrics"]["mrr"] <= 1
    )
    subject, relation, object_, time = (
        names[number]
        for names, number in zip(
            (small.graph.entities, small.graph.relations, small.graph.entities, small.graph.times),
            small.graph.train[0],
            strict=True,
        )
    )
    parts = {"subject": subject, "relation": relation, "object": object_}
    for asked, right in parts.items():
        rest = [
            word for name, part in parts.items() if name != asked for word in (f"--{name}", part)
        ]
        found = as_json(call("complete", "run", *rest, "--time", time, "--top", "30", "--json"))
        (marked,) = (answer for answer in found["answers"] if answer["name"] == right)
        assert (
            found["asked"] == asked
            and marked["known"] == "train"
            and marked["evidence"][0]["time"] == time
        )
        total = sum(answer["probability"] for answer in found["answers"])
        assert total == pytest.approx(1)


def test_settings_that_do_not_fit_the_model_are_refused(call: Call, events: Path) -> None:
    command = ("train", "mine", "--model", "de-simple", "--out", "run", "--device", "cpu")
    code, _, err = call(*command, "train.batch=facts")
    assert (
        code == 2
        and err.startswith("error: de-simple's entities change with time")
        and err.count("\n") == 1
    )
    code, _, err = call(*command, "model.relations=drifting")
    assert code == 2 and "drifting vectors are for decoder gaussian, not simple" in err
    assert not Path("run").exists()


def test_an_interrupted_training_is_resumed(call: Call, events: Path) -> None:
    settings = ("model.dim=8", "model.window=2", "train.epochs=2", "train.times_per_step=8")
    stopped = call(
        "train", "mine", "--model", "srgcn", "--out", "run", "--max-time", "0", *settings
    )
    assert stopped[0] == 0 and "not finished; continue with: tempograph resume run" in stopped[1]
    # An epoch is one line, however narrow the terminal is.
    assert re.search("epoch 1 .*valid/hits@10 .* left\n", stopped[2])
    for command in (("train", "mine"), ("fit", "events.csv")):
        code, _, err = call(*command, "--out", "run")
        assert (
            code == 2 and "continue it with: tempograph resume run" in err and err.count("\n") == 1
        )
    assert as_json(call("resume", "run", "--json"))["finished"]
    code, _, err = call("resume", "run")
    assert code == 2 and "run: this run is finished" in err


def test_from_events_to_an_answer(call: Call, events: Path) -> None:
    code, out, _ = call("train", "mine", "--out", "run")
    assert code == 0 and "valid MRR" in out
    code, out, _ = call("evaluate", "run")
    assert code == 0 and "protocol strict, filter time" in out and "both sides" in out
    code, out, _ = call(
        "complete", "run", "--subject", "ann", "--relation", "meets", "--time", "2024-01-15"
    )
    assert code == 0 and "Bob" in out and "same entity and relation" in out
    found = as_json(
        call(
            "complete",
            "run",
            "--object",
            "Bob",
            "--relation",
            "meets",
            "--time",
            "2024-01-15",
            "--json",
        )
    )
    assert found["asked"] == "subject" and found["answers"][0]["name"] == "Ann"
    assert found["answers"][0]["known"] in ("train", "valid", "test")


def test_json_is_one_object_and_nothing_else(call: Call, events: Path) -> None:
    assert as_json(call("train", "mine", "--out", "run", "--json", "model.sigma=1"))["run"] == "run"
    found = as_json(
        call("evaluate", "run", "--split", "test", "--hits", "1,2", "--filter", "static", "--json")
    )
    assert (
        set(found["metrics"]) == {"mrr", "mr", "hits@1", "hits@2"} and found["filter"] == "static"
    )
    assert {
        "dataset",
        "model",
        "split",
        "protocol",
        "filter",
        "metrics",
        "subject",
        "object",
        "seconds",
    } <= set(found)
    listed = as_json(call("data", "list", "--json"))["datasets"]
    names = [entry["name"] for entry in listed]
    assert names[:4] == ["demo", "icews14", "icews05-15", "gdelt"]
    assert names[4:6] == ["yago11k", "wikidata12k"]
    assert len(names) == 10 and all(name.startswith("tkgl-") for name in names[6:])
    statistics = as_json(call("data", "stats", "mine", "--json"))["datasets"][0]
    assert statistics["entities"] == 4 and len(statistics["active"]) == 28
    imported = as_json(
        call("data", "import", "events.csv", "events.csv", "--out", "twice", "--json")
    )
    assert imported["rows"] == 168 and imported["duplicates"] == 84
    assert call("data", "import", "events.csv", "--out", "columns", "--parquet")[0] == 0
    assert Path("columns/train.parquet").exists()
    assert read_folder(Path("columns")).same_as(read_folder(events))


def test_statistics_are_printed_and_drawn(call: Call, events: Path) -> None:
    code, out, _ = call("data", "stats", "mine", "demo")
    assert code == 0 and "mine" in out and "demo" in out and "Protocol strict" in out
    assert call("data", "stats", "mine", "--plot", "mine.png")[0] == 0
    assert Path("mine.png").read_bytes().startswith(b"\x89PNG")
    assert call("train", "mine", "--out", "run")[0] == 0
    question = ("--subject", "Ann", "--relation", "meets", "--time", "2024-01-15")
    assert call("complete", "run", *question, "--plot", "answer.svg")[0] == 0
    assert "<svg" in Path("answer.svg").read_text()


def test_names_are_printed_as_they_are(call: Call) -> None:
    """Brackets and colons in names are neither markup nor pictures."""
    rows = (
        f"{one},meets,:smile:,{day}\n"
        for day in range(40)
        for one in ("group [gone]", "group [/left]")
    )
    Path("events.csv").write_text("subject,relation,object,time\n" + "".join(rows))
    assert call("data", "import", "events.csv", "--out", "mine")[0] == 0
    assert call("train", "mine", "--out", "run")[0] == 0
    code, out, _ = call(
        "complete", "run", "--object", ":smile:", "--relation", "meets", "--time", "5"
    )
    assert code == 0 and "group [gone]" in out and "group [/left]" in out and ":smile:" in out
    code, _, error = call(
        "complete", "run", "--object", "[/gone]", "--relation", "meets", "--time", "5"
    )
    assert code == 2 and "error: there is no entity '[/gone]'" in error


@pytest.mark.parametrize(
    "name", ["numbers.csv", "numbers.TSV", "numbers.tsv.gz", "numbers.parquet"]
)
def test_a_file_that_was_imported_can_be_scored(call: Call, name: str) -> None:
    """Numbers are names and labels, never ids, whatever the kind of file."""
    columns = {
        "subject": [7, 5, 7] * 9,
        "relation": [1, 1, 3] * 9,
        "object": [5, 9, 9] * 9,
        "time": [*range(20, 47)],
    }
    table, tab = pa.table(columns), pa.csv.WriteOptions(delimiter="\t")
    if name.endswith(".parquet"):
        pa.parquet.write_table(table, name)
    else:
        with pa.output_stream(name) as stream:
            pa.csv.write_csv(table, stream, tab if "tsv" in name.lower() else None)
    assert call("data", "import", name, "--out", "mine")[0] == 0
    assert call("train", "mine", "--out", "run")[0] == 0
    scored = as_json(call("score", "run", name, "--json"))["facts"]
    asked = [[fact[key] for key in columns] for fact in scored[:3]]
    assert asked == [["7", "1", "5", "20"], ["5", "1", "9", "21"], ["7", "3", "9", "22"]]
    assert all(fact["known"] for fact in scored)


def test_data_list_shows_where_datasets_are_and_how_to_get_them(call: Call) -> None:
    code, out, _ = call("data", "list")
    assert (
        code == 0
        and "generated on demand" in out
        and "tempograph data get icews14" in out
        and "3,419,607" in out
    )


def test_columns_of_any_name_can_be_scored(call: Call, events: Path) -> None:
    assert call("train", "mine", "--out", "run")[0] == 0
    Path("rumors.csv").write_text("who,did,whom,day\nAnn,meets,Bob,2024-01-15\n")
    columns = ("--subject", "who", "--relation", "did", "--object", "whom", "--time", "day")
    (fact,) = as_json(call("score", "run", "rumors.csv", *columns, "--json"))["facts"]
    assert (fact["subject"], fact["relation"], fact["object"], fact["time"]) == (
        "Ann",
        "meets",
        "Bob",
        "2024-01-15",
    )


def test_suggested_commands_are_quoted(call: Call) -> None:
    Path("events.csv").write_text(EVENTS)
    code, out, _ = call("data", "import", "events.csv", "--out", "my data")
    assert code == 0 and "next: tempograph train 'my data' --model pointer" in out
    code, out, _ = call("train", "my data", "--out", "my run")
    assert code == 0 and "next: tempograph evaluate 'my run' --split test" in out


def test_a_download_prints_its_folder_and_source(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tempograph.data.known_datasets.get_benchmark", lambda *_: make_graph([(0, 0, 1, 0)])
    )
    code, out, _ = call("data", "get", "ICEWS14", "--out", "there")
    assert code == 0 and "small: 90,730 facts, every file as published: there" in out
    assert "Source: ICEWS; split of Garcia-Duran et al. 2018" in out


def test_check_compares_metrics_with_the_targets_of_the_preset(call: Call) -> None:
    call("train", "demo", "--model", "ted", "--out", "run", "model.sigma=1")
    code, _, err = call("evaluate", "run", "--check")
    assert code == 2 and "run: its preset names no figure to reach on test with filter time" in err
    settings = Path("run/config.toml")
    for mrr, expected in ((0.5, 0), (0.9, 1)):
        kept = settings.read_text().partition("[target]")[0]
        settings.write_text(
            f'{kept}[target]\n"test/mrr" = {mrr}\n"test/hits@10" = 0.1\n"valid/mrr" = 1.0\n'
        )
        code, out, _ = call("evaluate", "run", "--check")
        assert code == expected and f"mrr {mrr:.3f} {('reached', 'missed')[code]}: 0.55" in out
        assert "hits@10 0.100 reached" in out and "1.000" not in out
        code, out, _ = call("evaluate", "run", "--check", "--json")
        assert code == expected and json.loads(out)["missed"] == ({"mrr": mrr} if code else {})
    settings.write_text(f'{kept}[target]\n"valid/mrr" = 0.1\n')
    code, _, err = call("evaluate", "run", "--check")
    assert code == 2 and "no figure to reach on test with filter time; pass --split valid" in err
    code, out, _ = call("evaluate", "run", "--check", "--split", "valid")
    assert code == 0 and "mrr 0.100 reached" in out


def test_check_compares_protocol_paper_with_targets_of_its_own(call: Call) -> None:
    write_folder(interval_graph(1, facts=60, held_out=8), Path("mine"))
    assert call("train", "mine", "--model", "ted", "--out", "run", "model.sigma=1")[0] == 0
    code, out, _ = call("evaluate", "run", "--protocol", "paper", "--json")
    reached = json.loads(out)["metrics"]["mrr"]
    settings = Path("run/config.toml")
    kept = settings.read_text().partition("[target]")[0]
    for mrr, expected in ((reached - 0.01, 0), (reached + 0.01, 1)):
        settings.write_text(f'{kept}[target]\n"paper/test/mrr" = {mrr}\n')
        code, out, _ = call("evaluate", "run", "--protocol", "paper", "--check")
        assert code == expected and f"mrr {mrr:.3f} {('reached', 'missed')[code]}" in out
    code, _, err = call("evaluate", "run", "--check")
    assert code == 2 and "no figure to reach on test" in err and "pass --protocol paper" in err


def test_help_names_every_model(call: Call) -> None:
    _, out, _ = call("train", "--help")
    words = set(re.findall(r"[\w-]+", out))
    assert words.issuperset(MODELS)


def whole(name: str, **values: object) -> str:
    """A pattern that a printed error matches only if it is this message and nothing else."""
    return rf"\Aerror: {re.escape(message(name, **values))}\n\Z"


UNKNOWN_ANNE = message("suggestions.did_you_mean", kind="entity", value="Anne", names="'Ann'")
USER_ERRORS = {
    "no such dataset": (
        ["train", "icwes14"],
        "there is no dataset 'icwes14'.*did you mean 'icews14'",
    ),
    "a benchmark not here": (["train", "icews14"], whole("catalog.not_here", dataset="icews14")),
    "no such folder": (["data", "stats", "./gone"], whole("folder.no_folder", path="gone")),
    "no such model": (
        ["train", "mine", "--model", "tde"],
        whole("suggestions.did_you_mean", kind="model", value="tde", names="'ted'"),
    ),
    "no such setting": (
        ["train", "mine", "model.sigm=1"],
        whole("setting_values.misspelt", owner="model ted", setting="sigm", names="'sigma'"),
    ),
    "no such device": (
        ["train", "mine", "--device", "tpu9"],
        whole("device.unknown", device="tpu9"),
    ),
    "an existing run": (["train", "mine", "--out", "run"], whole("io.exists", path="run")),
    **{
        f"a protocol that {command} cannot follow": (
            [command, "mine", "--task", "forecast", "--protocol", "paper"],
            whole("protocol.task", protocol="paper", own="complete", task="forecast"),
        )
        for command in ("train", "compare")
    },
    "no run": (["evaluate", "mine"], whole("run_folder.no_run", path="mine")),
    "no such run": (
        ["complete", "gone", "--relation", "x", "--time", "y", "--subject", "z"],
        whole("run_folder.no_run", path="gone"),
    ),
    "hits": (
        ["evaluate", "run", "--hits", "1,ten"],
        "--hits takes whole numbers from 1, separated by commas, found '1,ten'",
    ),
    "no hits": (
        ["evaluate", "run", "--hits", "0"],
        "--hits takes whole numbers from 1, separated by commas, found '0'",
    ),
    "unknown entity": (
        ["complete", "run", "--subject", "Anne", "--relation", "meets", "--time", "2024-01-15"],
        whole("suggestions.did_you_mean", kind="entity", value="Anne", names="'Ann'"),
    ),
    "unknown relation": (
        ["complete", "run", "--subject", "Ann", "--relation", "meet", "--time", "2024-01-15"],
        whole("suggestions.did_you_mean", kind="relation", value="meet", names="'meets'"),
    ),
    "a time off the grid": (
        ["complete", "run", "--subject", "Ann", "--relation", "meets", "--time", "2023-01-15"],
        whole(
            "graph.not_on_grid",
            time="2023-01-15",
            graph="mine",
            count=28,
            first="2024-01-01",
            last="2024-01-28",
        ),
    ),
    "nothing is asked": (
        [
            "complete",
            "run",
            "--subject",
            "Ann",
            "--object",
            "Bob",
            "--relation",
            "meets",
            "--time",
            "2024-01-15",
        ],
        "give three of --subject, --relation, --object and --time; "
        "the command ranks answers for the fourth",
    ),
    "too much is asked": (
        ["complete", "run", "--relation", "meets", "--time", "2024-01-15"],
        "give three of --subject",
    ),
    "why a time": (
        [
            "complete",
            "run",
            "--subject",
            "Ann",
            "--object",
            "Bob",
            "--relation",
            "meets",
            "--why",
            "Cai",
        ],
        "--why takes a subject or an object; give the time and the other one",
    ),
    "facts that are not there": (
        ["score", "run", "gone.csv"],
        whole("sources.no_file", path="gone.csv"),
    ),
    "facts without a time": (
        ["score", "run", "lacking.csv"],
        whole(
            "column_guessing.no_column",
            path="lacking.csv",
            part="time",
            columns="'subject', 'relation', 'object'",
        ),
    ),
    "facts of an unknown entity": (
        ["score", "run", "odd.csv", "--strict", "--out", "scored.parquet"],
        rf"\Aerror: odd.csv:3: {re.escape(UNKNOWN_ANNE)}\n\Z",
    ),
    "no fact that can be scored": (
        ["score", "run", "wrong.csv", "--out", "scored.parquet"],
        whole(
            "predict.none",
            count=message(
                "row_errors.count",
                failed=2,
                rows=2,
                done="scored",
                kinds="1 with an unknown entity, 1 with a time that is not on the grid",
            ),
            path="wrong.csv",
            line=2,
            problem=UNKNOWN_ANNE,
        ),
    ),
    "at least nothing": (
        ["missing", "run", "--at-least", "0", "--out", "found.parquet"],
        "at_least must be a probability above 0, found 0.0",
    ),
    "at least, but where": (
        ["missing", "run", "--at-least", "0.5"],
        "name a Parquet file for them with --out",
    ),
    "a period without steps": (
        ["missing", "run", "--first", "2024-01-10", "--last", "2024-01-05"],
        "the period from 2024-01-10 to 2024-01-05 holds no time step",
    ),
    "an unknown split": (
        ["surprising", "run", "--split", "test", "--split", "tset"],
        whole("suggestions.did_you_mean", kind="split", value="tset", names="'test'"),
    ),
    "a picture of what kind": (
        ["data", "stats", "mine", "--plot", "a.gif"],
        "a.gif: a picture ends in .png, .svg, .pdf",
    ),
    "a report of what kind": (
        ["report", "run", "--out", "a.pdf"],
        whole("run_report.suffix", path="a.pdf"),
    ),
    "no run to report on": (
        ["report", "run", "mine", "--out", "a.html"],
        whole("run_folder.no_run", path="mine"),
    ),
    "one picture, two datasets": (
        ["data", "stats", "mine", "demo", "--plot", "a.png"],
        "--plot draws one dataset, found 2",
    ),
    "a missing file": (
        ["data", "import", "gone.csv", "--out", "new"],
        whole("sources.no_file", path="gone.csv"),
    ),
    "an existing dataset": (
        ["data", "import", "events.csv", "--out", "mine"],
        whole("io.exists", path="mine"),
    ),
    "a missing column": (
        ["data", "import", "events.csv", "--out", "new", "--subject", "subjct"],
        "events.csv.*subjct.*did you mean 'subject'",
    ),
    "shares": (
        ["data", "import", "events.csv", "--out", "new", "--valid", "0.7", "--test", "0.5"],
        whole("options.shares", valid=0.7, test=0.5),
    ),
    "no match": (
        ["data", "import", "gone/*.zip", "--out", "new"],
        whole("sources.no_match", path="gone/*.zip"),
    ),
    "another format": (
        ["data", "import", "events.csv", "--format", "gdelt", "--out", "new"],
        whole("event_formats.wrong_width", path="events.csv", found=1),
    ),
    "a dataset": (
        ["data", "import", "mine", "--format", "icews", "--out", "new"],
        whole("any_source.dataset", path="mine"),
    ),
    "several folders": (
        ["data", "import", "mine", "run", "--format", "icews", "--out", "new"],
        whole("sources.folder", path="mine"),
    ),
    "codes of a table": (
        ["data", "import", "events.csv", "--entity", "code", "--out", "new"],
        whole("options.for_events", setting="entity"),
    ),
    "no such benchmark": (["data", "get", "icews18"], "there is no benchmark 'icews18'"),
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with events, the dataset `mine` made of them, and a run trained on it."""
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "events.csv").write_text(EVENTS)
    imported = import_files([folder / "events.csv"], ImportOptions(), "mine")
    write_folder(imported.graph, folder / "mine")
    train(folder / "mine", "ted", overrides=["model.sigma=1"], out=folder / "run")
    return folder


@pytest.mark.parametrize(("arguments", "pattern"), USER_ERRORS.values(), ids=USER_ERRORS)
def test_a_user_error_is_one_clear_line(
    call: Call, workspace: Path, arguments: list[str], pattern: str
) -> None:
    shutil.copytree(workspace, Path(), dirs_exist_ok=True)
    Path("lacking.csv").write_text("subject,relation,object\nAnn,meets,Bob\n")
    Path("odd.csv").write_text(
        "subject,relation,object,time\nAnn,meets,Bob,2024-01-15\nAnne,meets,Bob,2024-01-15\n"
    )
    Path("wrong.csv").write_text(
        "subject,relation,object,time\nAnne,meets,Bob,2024-01-15\nAnn,meets,Bob,2034-01-15\n"
    )
    before = sorted(path.name for path in Path().iterdir())
    code, out, err = call(*arguments)
    assert code == 2 and out == ""
    assert err.startswith("error: ") and err.count("\n") == 1
    assert re.search(pattern, err), err
    assert sorted(path.name for path in Path().iterdir()) == before, "nothing was left behind"


def test_usage_errors_exit_with_2(call: Call) -> None:
    assert call("evaluate")[0] == 2
    assert call("train", "demo", "--protocol", "lenient")[0] == 2
    assert call("nonsense")[0] == 2


def test_a_faulty_row_is_reported_and_nothing_is_written(call: Call) -> None:
    for row, fault in (
        ("Ann,meets,Bob", "expected 4 fields, found 3"),
        ("Ann,meets,,2024-01-01", "object"),
        ("Ann,meets,Bob,soon", "soon"),
    ):
        Path("bad.csv").write_text(
            f"subject,relation,object,time\nAnn,meets,Bob,2024-01-01\n{row}\n"
        )
        code, _, err = call("data", "import", "bad.csv", "--out", "bad")
        assert code == 2 and "bad.csv:3" in err and fault in err
        assert not Path("bad").exists()


def test_import_guesses_columns_and_names_those_it_does_not_use(call: Call) -> None:
    header = "actor,action,target,start,end,note"
    Path("spans.csv").write_text(f"{header}\nAnn,leads,Bob,2024-01-01,2024-02-01,x\n")
    code, _, err = call("data", "import", "spans.csv", "--out", "spans")
    assert code == 0
    guessed, unused, steps = err.splitlines()
    assert "subject from 'actor'" in guessed and "name them with --subject" in guessed
    assert unused == f"note: {message('column_guessing.unused', columns=repr('note'))}"
    assert steps.startswith("note: steps are days: all dates are known to the day")
    again = ("data", "import", "spans.csv", "--out", "spans", "--overwrite", "--json")
    found = as_json(call(*again))
    assert (found["columns"]["start"], found["columns"]["end"]) == ("start", "end")
    assert found["intervals"]["closed"] == 1
    found = as_json(call(*again, "--time", "start"))
    assert found["columns"]["time"] == "start" and "intervals" not in found
    assert message("column_guessing.end", column="end", start="start") in found["notes"]


def test_faulty_rows_are_skipped_on_request(call: Call) -> None:
    rows = [
        "Ann,meets,Bob",
        "Ann,meets,,2024-01-01",
        "Ann,meets,Bob,soon",
        "Ann,meets,Cai,1024-01-01",
    ]
    Path("bad.csv").write_text(EVENTS + "\n".join(rows) + "\n")
    code, _, err = call("data", "import", "bad.csv", "--out", "new")
    fault = {"path": "bad.csv", "line": 86, "expected": 4, "found": 3}
    assert (code, err) == (2, f"error: {message('csv_reader.wrong_field_count', **fault)}\n")
    code, out, err = call("data", "import", "bad.csv", "--skip-bad", "--out", "new")
    assert code == 0 and re.search(r"rows +88 *\n +skipped +3 *\n", out)
    assert "88 rows = 85 facts + 0 duplicates + 3 bad" in out
    reasons = {
        "wrong number of columns": (86, "Ann,meets,Bob"),
        "no usable object": (87, ""),
        "no readable time": (88, "soon"),
    }
    ends = {"first": "1024-01-01", "last": "2024-01-28"}
    sparse = message("importer.sparse", used=29, count="365,271", **ends)
    assert err.splitlines() == [
        *(
            skip_note("bad_rows.value", reason, "bad.csv", line, value=value)
            for reason, (line, value) in reasons.items()
        ),
        f"note: {sparse}",
    ]
    found = as_json(
        call("data", "import", "bad.csv", "--skip-bad", "--out", "new", "--overwrite", "--json")
    )
    assert found["skipped"] == 3 and len(found["reasons"]) == 3
    Path("bad.csv").write_text(EVENTS + "\n".join(rows[:3]) + "\n")
    code, out, err = call("fit", "bad.csv", "--skip-bad", "--model", "ted", "--out", "run")
    assert code == 0 and "84 facts from 87 rows (3 skipped)" in out
    assert skip_note("bad_rows.value", "no readable time", "bad.csv", 88, value="soon") in err
    command = ("data", "import", "bad.csv", "--skip-bad", "--out", "other", "--max-bad")
    code, _, err = call(*command, "2")
    assert code == 2 and "3 of 87 rows are bad" in err and "--max-bad" in err
    assert not Path("other").exists()
    assert call(*command, "0.1")[0] == 0


def skip_note(
    name: str, reason: str, path: str, line: int, rows: int = 1, value: str | None = None
) -> str:
    skipped = message(name, reason=reason, path=path, line=line, rows=rows, value=value)
    return f"note: skipped, {skipped}"


def test_event_formats_are_detected_and_skipped_rows_reported(call: Call) -> None:
    good = [gdelt_row(f"E{day}", "042", "BOB", f"201502{day:02}") for day in range(1, 11)]
    bad = ["", "broken", gdelt_row("", "042", "BOB", "20150218"), "broken"]
    Path("gdelt").mkdir()
    Path("gdelt/b.CSV").write_text("\n".join([*good, *bad]))
    Path("gdelt/a.CSV.gz").write_bytes(gzip.compress("\n".join(good).encode()))
    found = as_json(
        call("data", "import", "gdelt/*", "--relation-level", "root", "--out", "packed", "--json")
    )
    assert {
        name: found[name] for name in ("format", "rows", "duplicates", "skipped", "relations")
    } == {"format": "gdelt", "rows": 23, "duplicates": 10, "skipped": 3, "relations": 1}
    assert found["train"] + found["valid"] + found["test"] == 10
    assert found["reasons"] == [
        {"reason": "wrong number of columns", "rows": 2, "first": "gdelt/b.CSV:12", "examples": []},
        {"reason": "no subject", "rows": 1, "first": "gdelt/b.CSV:13", "examples": []},
    ]
    command = ("data", "import", "gdelt/b.CSV", "--overwrite", "--out", "packed")
    code, out, err = call(*command)
    assert code == 0 and re.search(r"rows +13 *\n +skipped +3 *\n", out)
    notes = [
        skip_note("bad_rows.several", "wrong number of columns", "gdelt/b.CSV", 12, rows=2),
        skip_note("bad_rows.one", "no subject", "gdelt/b.CSV", 13),
    ]
    guess = "note: the file looks like GDELT events; if it is not, pass --format"
    assert err.splitlines() == [guess, *notes]
    assert call(*command, "--format", "gdelt", "--entity", "code")[2].splitlines() == notes
    assert Path("packed/entities.txt").read_text().splitlines()[:2] == ["E1", "BOB"]
    code, out, _ = call("train", "packed", "--out", "run")
    assert code == 0 and "valid MRR" in out


def test_files_without_events_are_refused(call: Call) -> None:
    Path("a.tab").write_text(
        "\n".join([ICEWS_HEADER, icews_row("Ann", "Consult", "", "2014-01-31"), "broken"])
    )
    code, out, err = call("data", "import", "a.tab", "--out", "new")
    assert (code, out) == (2, "") and not Path("new").exists()
    reasons = "; ".join(
        message("bad_rows.one", reason=reason, path="a.tab", line=line)
        for reason, line in (("wrong number of columns", 3), ("no object", 2))
    )
    none = message("importer.no_events", paths="a.tab", rows=2, reasons=reasons)
    assert err == f"error: {none}\n"


def test_an_interrupt_exits_with_130_and_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, time; from tempograph.data.importers import any_source\n"
        "def slow(*_): print('ready', flush=True); time.sleep(60)\n"
        "any_source.read_rows = slow\n"
        "from tempograph.cli import main; main()"
    )
    (tmp_path / "events.csv").write_text(EVENTS)
    command = [sys.executable, "-c", program, "data", "import", "events.csv", "--out", "mine"]
    with Popen(command, cwd=tmp_path, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "interrupted; nothing is half-written" in err
    assert [path.name for path in tmp_path.iterdir()] == ["events.csv"]


def test_python_m_works_without_an_installation() -> None:
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-m", "tempograph", "--version"],
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == f"tempograph {__version__}"


def test_timestamps_are_scored_at_the_steps_they_were_imported_to(call: Call) -> None:
    rows = [f"Ann,meets,Bob,2024-01-{day:02}T23:30:00-05:00" for day in range(1, 20)]
    Path("moments.csv").write_text("\n".join(["subject,relation,object,time", *rows]))
    for granularity, first in (
        ("day", "2024-01-02"),
        ("week", "2024-W01"),
        ("hour", "2024-01-02T04"),
    ):
        imported = call(
            "data", "import", "moments.csv", "--granularity", granularity, "--out", granularity
        )
        assert imported[0] == 0, imported
        assert call("train", granularity, "model.sigma=1", "--out", f"runs/{granularity}")[0] == 0
        facts = as_json(call("score", f"runs/{granularity}", "moments.csv", "--json"))["facts"]
        assert (
            len(facts) == 19 and facts[0]["time"] == first and all(fact["known"] for fact in facts)
        )
    two = "subject;relation;object;time\nAnn;meets;Bob;02/01/2024\nAnn;meets;Bob; 20/01/2024\n"
    Path("written.csv").write_text(two)
    how = ("--delimiter", ";", "--time-format", "%d/%m/%Y", "--json")
    facts = as_json(call("score", "runs/day", "written.csv", *how))["facts"]
    assert [fact["time"] for fact in facts] == ["2024-01-02", "2024-01-20"]
    Path("written.csv").write_text(two.replace(" 20/01", "31/02"))
    code, _, err = call("score", "runs/day", "written.csv", *how, "--strict")
    fault = message("time_grid.no_match", value="31/02/2024", time_format="%d/%m/%Y")
    assert code == 2 and err == f"error: written.csv:3: {fault}\n"
    code, _, err = call("score", "runs/day", "written.csv", "--delimiter", "ab")
    assert code == 2 and err == f"error: {message('options.delimiter', value='ab')}\n"
    Path("odd.csv").write_text("subject,relation,object,time\nAnn,meets,Bob,2034-01-01\n")
    code, _, err = call("score", "runs/day", "odd.csv")
    assert code == 2 and "; the first is odd.csv:2: '2034-01-01' is not on the time grid" in err


def test_the_suggested_training_works_without_valid_facts(call: Call) -> None:
    Path("one.csv").write_text("subject,relation,object,time\nAnn,meets,Bob,2024-01-15\n")
    code, out, _ = call("data", "import", "one.csv", "--out", "one")
    assert code == 0
    suggested = out.rpartition("next: tempograph ")[2].split()
    assert suggested[:2] == ["train", "one"] and call(*suggested)[0] == 0


def test_long_names_wrap_and_numbers_do_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 80)
    names = [
        f"Express intent to engage in diplomatic cooperation in the matter of {letter}"
        for letter in "abc"
    ]
    made = console.table(
        "t", ["relation", "questions", "first"], [[name, "1,234", "56%"] for name in names]
    )
    console.out.print(made)
    shown = capsys.readouterr().out
    assert shown.count("1,234") == 3 and "questions" in shown and "first" in shown
    lines = [line for line in shown.splitlines() if line.strip().endswith(("a", "b", "c"))]
    assert [line.split()[-1] for line in lines] == ["a", "b", "c"] and max(
        map(len, shown.splitlines())
    ) <= 80


def test_evaluating_an_unfinished_run_prints_a_note(call: Call, events: Path) -> None:
    settings = ("model.dim=4", "train.epochs=3")
    assert (
        call("train", "mine", "--model", "complex", "--max-time", "0", "--out", "run", *settings)[0]
        == 0
    )
    code, _, err = call("evaluate", "run")
    assert (
        code == 0 and "note: training is not finished; continue with: tempograph resume run" in err
    )


def test_damaged_ranks_are_reported_in_one_line(call: Call, events: Path) -> None:
    assert call("train", "mine", "--out", "run")[0] == 0
    Path("run/ranks.parquet").write_bytes(Path("run/ranks.parquet").read_bytes()[:200])
    code, _, err = call("evaluate", "run")
    assert code == 2 and err.count("\n") == 1 and err.startswith("error: run: ")
