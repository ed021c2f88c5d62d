"""Reproduce the paper: which runs a table needs, which are measured, and what is written."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import tempograph
from conftest import Call, as_json
from messages import raises
from tempograph.cli.console import out, table
from tempograph.data.folder import read_folder, write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.device import max_parallel_runs
from tempograph.errors import ConfigError, DataError
from tempograph.evaluation.rank_table import RankTable, read_run_ranks
from tempograph.experiments.paper import reproduction as reproducing
from tempograph.experiments.paper.detail_tables import statistics_table
from tempograph.experiments.paper.deviations import DEVIATIONS, deviation_table
from tempograph.experiments.paper.paper_tables import cost_table
from tempograph.experiments.paper.reproduction import reproduce
from tempograph.experiments.paper.required_runs import OUR_MODELS, required_runs
from tempograph.experiments.published import PAPER_TED_VALID, PAPER_TEST, PROTOCOL_DEPENDENT
from tempograph.experiments.results import load_results, load_unshared_epochs, metric
from tempograph.experiments.specs import RunSpec
from tempograph.experiments.status import RunStatus
from tempograph.report.text_table import TextTable
from tempograph.training.config import make_config
from tempograph.training.run_results import RunResults
from tempograph.typing import ARTEFACTS

COMMITTED = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world with the name of a benchmark, so that it has presets and published figures."""
    path = tmp_path_factory.mktemp("data") / "icews14"
    write_folder(make_world(seed=2, entities=12, relations=4, steps=10, facts=200).graph, path)
    return path


def result(preset: str | None, changed: dict[str, Any], **settings: Any) -> RunResults:
    """A result with the settings of the paper's preset, but for some."""
    config = make_config("temp-gru", "icews14", preset="paper").settings()
    config["model"] |= settings
    return RunResults("icews14", "temp-gru", "paper", 0, preset, config, changed=changed)


def test_a_result_matches_when_nothing_but_the_overrides_differs() -> None:
    plain = RunSpec("icews14", "temp-gru", "paper", 0, "paper")
    ungated = RunSpec("icews14", "temp-gru", "paper", 0, "paper", ("model.gate=false",))
    assert plain.matches(result("paper", {}))
    assert not plain.matches(result("paper", {"model.gate": False}, gate=False))
    assert ungated.matches(result("paper", {"model.gate": False}, gate=False))
    assert not ungated.matches(result("paper", {}))
    more = result("paper", {"model.gate": False, "model.dim": 8}, gate=False, dim=8)
    assert not ungated.matches(more)
    assert not plain.matches(result("paper", {}, dim=256)), "an earlier preset of that name"
    assert not replace(plain, preset="tuned").matches(result("tuned", {}))
    assert plain.matches(result("mine.toml", {})), "the same settings by another name"
    assert not plain.matches(replace(result("paper", {}), dataset="icews05-15"))
    assert not RunSpec("icews14", "temp-gru", "paper", 1, "paper").matches(result("paper", {}))
    assert not RunSpec("icews14", "temp-gru", "strict", 0, "paper").matches(result("paper", {}))


def test_the_table_needs_every_row_and_both_protocols_where_they_differ() -> None:
    specs = required_runs("table", "icews14", ("paper", "strict"), (0, 1))
    rows = {(spec.model, spec.protocol, spec.preset) for spec in specs}
    assert {model for model, _, _ in rows} == {
        *PAPER_TEST["icews14"],
        "tcomplex",
        "pointer",
        "temp-pointer",
    }
    assert len(specs) == 2 * len(rows) and len(rows) == len(PAPER_TEST["icews14"]) + 3 + 2 * 3
    for dataset, tuned in (("icews14", "tuned-leak"), ("gdelt", "tuned")):
        paper = required_runs("table", dataset, ("paper",), (0,))
        assert {(spec.model, spec.preset) for spec in paper if spec.protocol == "paper"} == {
            (model, preset) for model in PROTOCOL_DEPENDENT for preset in ("paper", tuned)
        }
    ablation = required_runs("ablation", "icews14", ("paper", "strict"), (0,))
    assert len(ablation) == 6 and sum(not spec.overrides for spec in ablation) == 2
    assert not required_runs("ablation", "icews14", ("strict",), (0,))
    deviations = required_runs("deviations", "icews14", ("paper", "strict"), (0, 1))
    assert len({spec.name for spec in deviations}) == len(deviations) == 2 * (2 + len(DEVIATIONS))
    assert not required_runs("deviations", "icews14", ("strict",), (0,))
    assert not required_runs("deviations", "icews05-15", ("paper",), (0,))
    assert len(required_runs("ted", "icews14", ("strict",), (0,))) == 7


def printed_width(text_table: TextTable) -> int:
    """Columns of a terminal that a table takes."""
    shown = table(
        text_table.title, text_table.columns, text_table.marked_rows, left=text_table.text_columns
    )
    return out.measure(shown, options=out.options.update(max_width=1000)).maximum


def test_all_tables_are_made_from_committed_results(
    world: Path, tmp_path: Path, started: list[str]
) -> None:
    lines: list[str] = []
    made = reproduce(
        ARTEFACTS, world, results=COMMITTED, out=tmp_path, train=False, note=lines.append
    )
    assert not started, "nothing is trained unasked"
    assert lines and all("its ranks are not those of the test facts here" in line for line in lines)
    rows = list(
        csv.DictReader((tmp_path / "comparative.csv").read_text(encoding="utf-8").splitlines())
    )
    (ted,) = [row for row in rows if row["model"] == "ted"]
    committed = next(
        r
        for r in load_results(COMMITTED)
        if RunSpec("icews14", "ted", "strict", 0, "paper").matches(r)
    )
    assert (
        ted["MRR"] == f"{metric([committed], 'test', 'mrr')[0]:.3f}"
        and ted["published MRR"] == "0.441"
    )
    for name, text_table in made.tables.items():
        assert (tmp_path / f"{name}.md").read_text(encoding="utf-8") == text_table.markdown_page()
        assert (tmp_path / f"{name}.tex").read_text(encoding="utf-8") == text_table.latex()
        assert printed_width(text_table) <= 80 or printed_width(text_table.narrow()) <= 80, (
            "cells would be cut off"
        )
    assert len(made.tables["ted-valid"].rows) == 7
    assert all(picture.stat().st_size > 1000 for picture in made.pictures)


def test_committed_results_are_finished_and_agree_with_their_ranks() -> None:
    assert [one for one in load_results(COMMITTED) if not one.finished] == []
    ranks = sorted(COMMITTED.glob("*/ranks/*.parquet"))
    assert len(ranks) == 8
    for path in ranks:
        metrics = json.loads((path.parents[1] / f"{path.stem}.json").read_text(encoding="utf-8"))[
            "test"
        ]["metrics"]
        assert np.mean(1 / RankTable.read(path).rank) == pytest.approx(metrics["mrr"], abs=1e-5), (
            path
        )


def test_missing_runs_are_trained_once_and_saved(
    world: Path, tmp_path: Path, started: list[str]
) -> None:
    results = tmp_path / "results"
    lines: list[str] = []
    made = reproduce(
        ["ted"], world, results=results, out=tmp_path / "out", device="cpu", note=lines.append
    )
    sigmas = sorted(PAPER_TED_VALID["icews14"])
    assert len(started) == 7 and not made.missing and "7 of 7 runs are missing" in lines[1]
    kept = load_results(results)
    assert sorted(one.config["model"]["sigma"] for one in kept) == sigmas
    assert (results / "icews14" / "ted-sigma-0.1-strict-seed0.json").is_file()
    shown = [row[0] for row in made.tables["ted-test"].rows]
    assert shown == [f"{sigma:g}" for sigma in sigmas]
    next(results.glob("icews14/*sigma-100-*")).unlink()
    again = reproduce(["ted"], world, results=results, out=tmp_path / "out", device="cpu")
    assert len(started) == 7, "the run is there already; its result alone is copied again"
    assert [text_table.rows for text_table in again.tables.values()] == [
        text_table.rows for text_table in made.tables.values()
    ]


def test_runs_finished_before_an_interrupt_are_saved(
    world: Path, tmp_path: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [
        RunSpec("icews14", "ted", "strict", 0, overrides=(f"model.sigma={sigma}",), save_ranks=True)
        for sigma in (1, 2, 3)
    ]
    monkeypatch.setattr(reproducing, "required_runs", lambda *_: specs)
    folders, ended, lines = (
        {"results": tmp_path / "results", "out": tmp_path / "out"},
        list[str](),
        list[str](),
    )

    def stop(_: object, changed: RunStatus) -> None:
        if changed.state == "finished":
            ended.append(changed.name)
        if len(ended) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(["ted"], world, **folders, device="cpu", watch=stop)
    kept = sorted(path.stem for path in (tmp_path / "results" / "icews14").glob("*.json"))
    assert kept == sorted(ended) == ["ted-sigma-2-strict-seed0", "ted-sigma-3-strict-seed0"]
    assert len(list((tmp_path / "results" / "icews14" / "ranks").iterdir())) == 2
    next((tmp_path / "results" / "icews14").glob("*sigma-2*.json")).unlink()
    reproduce(["ted"], world, **folders, device="cpu", note=lines.append)
    assert lines[0].startswith("1 of 3 runs are missing and will be trained: ted sigma-1"), (
        "a finished folder is there"
    )
    assert len(load_results(tmp_path / "results")) == 3 and len(started) == 3


def test_a_failed_run_is_reported_and_the_command_fails(
    call: Call, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [
        RunSpec("icews14", "ted", "strict", 0),
        RunSpec(
            "icews14", "complex", "strict", 0, overrides=("model.dim=10000000000", "train.epochs=1")
        ),
    ]
    monkeypatch.setattr(reproducing, "required_runs", lambda *_: specs)
    command = [
        "reproduce",
        "table",
        "--dataset",
        str(world),
        "--results",
        "results",
        "--out",
        "made",
        "--device=cpu",
    ]
    code, out, err = call(*command)
    name = "complex-dim-10000000000-epochs-1-strict-seed0"
    assert code == 1 and "3 tables" in out and f"note: {name}: failed: RuntimeError: " in err
    assert [path.name for path in Path("results").glob("*/*.json")] == ["ted-strict-seed0.json"]
    code, out, _ = call(*command, "--json")
    assert code == 1 and [run["run"] for run in json.loads(out)["failed"]] == [name]


@pytest.mark.parametrize("artefacts", [["table", "figures"], ["figures", "table"]])
def test_a_run_required_twice_is_trained_once_and_its_ranks_are_saved(
    artefacts: list[str],
    world: Path,
    tmp_path: Path,
    started: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sigma = ("model.sigma=1",)
    specs = {
        "table": [
            RunSpec("icews14", "ted", "strict", 0),
            RunSpec("icews14", "ted", "strict", 0, overrides=sigma),
        ],
        "figures": [RunSpec("icews14", "ted", "strict", 0, save_ranks=True)],
    }
    monkeypatch.setattr(reproducing, "required_runs", lambda artefact, *others: specs[artefact])
    folders, lines = {"results": tmp_path / "results", "out": tmp_path / "out"}, list[str]()
    made = reproduce(artefacts, world, **folders, train=False)
    assert [spec.name for spec in made.missing] == ["ted-strict-seed0", "ted-sigma-1-strict-seed0"]
    reproduce(artefacts, world, **folders, device="cpu", note=lines.append)
    assert "no such folder" in lines[0] and "2 of 2 runs are missing" in lines[1]
    assert started == ["ted-sigma-1-strict-seed0", "ted-strict-seed0"], (
        "the last of the table first"
    )
    (ranks,) = (tmp_path / "results" / "icews14" / "ranks").iterdir()
    assert ranks.name == "ted-strict-seed0.parquet"
    assert np.array_equal(
        np.unique(RankTable.read(ranks).facts, axis=0), np.unique(read_folder(world).test, axis=0)
    )


def test_saved_ranks_are_drawn(world: Path, tmp_path: Path, started: list[str]) -> None:
    graph = read_folder(world)
    run = tempograph.train(graph, "ted", out=tmp_path / "run")
    tempograph.evaluate(run, "test")
    ranked = read_run_ranks(tmp_path / "run")["test"]
    (tmp_path / "results" / "icews14" / "ranks").mkdir(parents=True)
    ranked.write(tmp_path / "results" / "icews14" / "ranks" / "ted-strict-seed0.parquet")
    again = RankTable.read(tmp_path / "results" / "icews14" / "ranks" / "ted-strict-seed0.parquet")
    assert np.array_equal(again.facts, ranked.facts) and np.array_equal(
        again.asks_subject, ranked.asks_subject
    )
    assert np.allclose(again.rank, ranked.rank)
    made = reproduce(
        ["figures"], world, results=tmp_path / "results", out=tmp_path / "out", train=False
    )
    assert {"statistics.svg", "replication-hits10.svg", "relations.svg"} <= {
        path.name for path in made.pictures
    }
    assert "ted-strict" in (tmp_path / "out" / "replication-hits10.svg").read_text(encoding="utf-8")
    assert {spec.model for spec in made.missing} == {
        "de-simple",
        "srgcn",
        "temp-gru",
        "pointer",
    } and not started


def test_the_command(call: Call, world: Path) -> None:
    code, out, err = call(
        "reproduce",
        "table",
        "--dataset",
        str(world),
        "--results",
        str(COMMITTED),
        "--no-train",
        "--out",
        "made",
    )
    assert code == 0 and "Models on icews14" in out and "0.441" in out and "4 tables" in out
    assert r"\begin{table}" in Path("made/comparative.tex").read_text()
    made = as_json(
        call(
            "reproduce",
            "ted",
            "--dataset",
            str(world),
            "--results",
            str(COMMITTED),
            "--no-train",
            "--json",
        )
    )
    assert len(made["tables"]["ted-valid"]) == 7 and made["folder"] == "reproduced/icews14"
    assert made["tables"]["ted-valid"][0]["published Hits@1"] == 36.2
    code, _, err = call("reproduce", "tabel", "--dataset", str(world))
    assert code == 2 and "tabel" in err
    code, _, err = call("reproduce", "table", "--dataset", "icews41", "--no-train")
    assert code == 2 and "icews41" in err and not Path("reproduced/icews41").exists()
    code, _, err = call(
        "reproduce", "table", "--dataset", str(world), "--seeds", "one", "--no-train"
    )
    assert code == 2 and "--seeds takes whole numbers" in err


def test_tables_of_a_benchmark_need_no_data(call: Call) -> None:
    code, out, _ = call(
        "reproduce", "table", "--dataset", "gdelt", "--results", str(COMMITTED), "--no-train"
    )
    assert code == 0 and "0.275" in out and "redistributed" in out
    code, _, err = call("reproduce", "figures", "--dataset", "gdelt", "--no-train")
    assert code == 2 and "gdelt is not on this machine" in err
    code, out, err = call(
        "reproduce", "all", "--dataset", "gdelt", "--results", str(COMMITTED), "--no-train"
    )
    assert (
        code == 0
        and "0.275" in out
        and "3,419,607" in out
        and "gdelt is not on this machine" in err
    )
    assert "ted: nothing to show for gdelt" in err


@pytest.mark.parametrize(("chosen", "other"), [("strict", "paper"), ("paper", "strict")])
def test_one_protocol_alone(world: Path, tmp_path: Path, chosen: Any, other: str) -> None:
    lines: list[str] = []
    protocols, what = (chosen,), ["table", "ablation"]
    made = reproduce(
        what,
        world,
        results=COMMITTED,
        out=tmp_path,
        protocols=protocols,
        train=False,
        note=lines.append,
    ).tables
    for name in ("comparative", "errors", "cost"):
        shown = {(row[0], row[1]) for row in made[name].rows}
        assert {protocol for model, protocol in shown if model in PROTOCOL_DEPENDENT} == {chosen}, (
            name
        )
        assert ("pointer", "strict") in shown, "models that do not depend on it are in both"
    assert "leak" not in made and ("ablation" in made) == (chosen == "paper")
    assert lines == (
        [] if chosen == "paper" else ["ablation: skipped, since it needs protocol paper"]
    )


def test_deviations_are_compared_with_the_preset_itself() -> None:
    def measured(seed: int, mrr: float, **settings: Any) -> RunResults:
        changed = {f"model.{name}": value for name, value in settings.items()}
        summary = {"metrics": dict.fromkeys(("hits@1", "hits@3", "hits@10"), 0.5) | {"mrr": mrr}}
        return replace(result("paper", changed, **settings), seed=seed, valid=summary)  # type: ignore[arg-type]

    runs = [measured(0, 0.61), measured(1, 0.63), measured(0, 0.55, norm="degree_squared")]
    table = deviation_table(runs, "icews14")
    assert len(table.rows) == 2 + len(DEVIATIONS)
    shown = {tuple(row[:3]): row[3:] for row in table.rows}
    assert shown.pop(("temp-gru", "as shipped", "-")) == ["2", "0.620 ± 0.010", "-"]
    twice = "temp-gru", "norm=degree_squared", "authors' code"
    assert shown.pop(twice) == ["1", "0.550", "-0.070"]
    assert all(cells == ["-", "-", "-"] for cells in shown.values())
    assert not deviation_table(runs, "icews05-15").rows


def test_published_sigmas_are_shown_without_results(call: Call) -> None:
    code, out, err = call("reproduce", "ted", "--no-train")
    assert code == 0 and "0.455" in out and out.count("100000") == 2
    assert "results: there is no such folder" in err and "7 runs missing" in err


def test_a_dataset_outside_the_paper_has_no_tables(call: Call) -> None:
    for what in ("table", "ted", "ablation"):
        code, out, err = call(
            "reproduce", what, "--dataset", "demo", "--no-train", "--results", str(COMMITTED)
        )
        assert code == 0 and out.startswith("Nothing in") and err.count("\n") == 1
        assert err.startswith(f"{what}: nothing to show for demo: the paper has no such table")
    Path("notes.txt").touch()
    code, _, err = call("reproduce", "table", "--no-train", "--results", "notes.txt")
    assert code == 2 and "notes.txt: is a file; --results takes a folder" in err


def test_costs_are_in_table_order_with_epochs_that_shared_no_gpu() -> None:
    results, unshared = load_results(COMMITTED), load_unshared_epochs(COMMITTED)
    hardware = next(iter(unshared))[2:]
    text_table = cost_table(results, "icews14", unshared=unshared)
    assert list(dict.fromkeys(row[0] for row in text_table.rows)) == [
        *PAPER_TEST["icews14"],
        *OUR_MODELS,
    ]
    cells = {(row[0], row[1], row[2]): row for row in text_table.rows}
    tuned = unshared["icews14", "temp-sa", *hardware]
    assert cells["temp-sa", "strict", "tuned"][6] == f"{tuned:.2f}"
    assert (
        "otherwise idle GPU, except for" in text_table.caption
        and "temp-gru (paper, tuned-leak)" in text_table.caption
    )
    assert (
        "so they do not measure speed. Neither do the epoch times."
        in cost_table(results, "icews14").caption
    )
    assert "temp-sa (strict, tuned)" not in text_table.caption
    own = cost_table(results, "icews14").rows
    assert cells["temp-gru", "paper", "tuned-leak"] in own, "other settings keep their own"


def test_legends_use_the_names_of_the_paper(tmp_path: Path) -> None:
    names = (
        "temp-gru-tuned-gate-false-strict-seed0",
        "mine-strict-seed3",
        "de-simple-tuned-strict-seed0",
    )
    for name in names:
        (tmp_path / f"{name}.parquet").touch()
    labels = list(reproducing._legend(tmp_path, ("paper", "strict")).values())
    assert labels == ["DE-SimplE", "TeMP-GRU without gate", "mine-strict-seed3"]
    assert "TeMP-GRU without gate" not in reproducing._legend(tmp_path, ("paper",)).values()


def test_sizes_are_shown_with_the_published_ones(world: Path) -> None:
    graph = read_folder(world)
    here, printed = statistics_table("icews14", graph).records()
    assert here["entities"] == len(graph.entities) and here["total"] == len(graph.all_facts)
    assert (
        "digits" in statistics_table("icews05-15", None).caption
        and not statistics_table("icews14", None).caption
    )
    assert (
        printed["counted"] == "published"
        and printed["entities"] == 7128
        and printed["total"] == 90730
    )


def test_an_unknown_artefact_is_an_error(world: Path, tmp_path: Path) -> None:
    with raises(ConfigError, "reproduction.unknown", value="figure", names="'figures'"):
        reproduce(["figure"], world, results=tmp_path, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("split", ["valid", "test"])
def test_an_empty_split_is_an_error_before_training(
    split: str, tmp_path: Path, started: list[str]
) -> None:
    graph = make_world(seed=2, entities=12, relations=4, steps=10, facts=200).graph
    write_folder(dataclasses.replace(graph, **{split: graph.test[:0]}), tmp_path / "icews14")
    with raises(DataError, "required_runs.no_facts", graph="icews14", split=split):
        reproduce(
            ["ted"],
            tmp_path / "icews14",
            results=tmp_path / "results",
            out=tmp_path / "out",
            device="cpu",
        )
    assert not started


def test_a_damaged_result_is_named(world: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "bad" / "icews14").mkdir(parents=True)
    (tmp_path / "bad" / "icews14" / "x.json").write_text(json.dumps([1])[:-1])
    code, _, err = call(
        "reproduce",
        "table",
        "--dataset",
        str(world),
        "--results",
        str(tmp_path / "bad"),
        "--no-train",
    )
    assert code == 2 and "x.json: not a result" in err


@pytest.mark.parametrize(
    ("gibibytes", "cores", "wanted"), [(139, 16, 14), (80, 64, 8), (24, 1, 1), (6, 16, 1)]
)
def test_a_gpu_runs_as_many_jobs_as_fit(
    gibibytes: int, cores: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda _: SimpleNamespace(total_memory=gibibytes * 2**30),
    )
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert max_parallel_runs(torch.device("cuda")) == wanted
    assert max_parallel_runs(torch.device("cpu")) == 1
