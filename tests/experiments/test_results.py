"""Measured results: which are shown in a table, and how seeds become one row."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docs_tables import tried_table

import tempograph
from graphs import make_graph
from messages import message, raises
from tempograph.errors import DataError
from tempograph.experiments.paper.paper_tables import (
    comparative_table,
    cost_table,
    error_reduction_table,
    ted_table,
)
from tempograph.experiments.published import PAPER_TEST, published
from tempograph.experiments.results import (
    changes_of,
    figure_cells,
    load_results,
    save_result,
    settings_of,
)
from tempograph.experiments.specs import RunSpec
from tempograph.training.config import make_config
from tempograph.training.run_results import RunResults


def result_json(
    model: str, protocol: str, dim: int, seed: int, valid: float, test: float, **more: Any
) -> dict[str, Any]:
    def split(mrr: float) -> dict[str, Any]:
        return {"metrics": {"mrr": mrr, "hits@1": mrr / 2, "hits@3": mrr, "hits@10": mrr}}

    head = {"dataset": "icews14", "model": model, "protocol": protocol, "seed": seed}
    config = {"model": {"dim": dim}}
    return head | {"config": config, "valid": split(valid), "test": split(test)} | more


def result(*figures: Any, **more: Any) -> RunResults:
    return RunResults.from_json(result_json(*figures, **more))


def test_the_settings_best_on_valid_are_shown_whatever_they_do_on_test() -> None:
    wide = [
        result("temp-gru", "strict", 256, seed, valid, test)
        for seed, valid, test in ((0, 0.6, 0.5), (1, 0.7, 0.6))
    ]
    narrow = result("temp-gru", "strict", 128, 0, 0.64, 0.99)
    (row,) = [
        row
        for row in comparative_table([*wide, narrow], "icews14").rows
        if row[:2] == ["temp-gru", "strict"]
    ]
    assert row[2:] == ["2", "0.550 ± 0.050", "27.5", "55.0", "55.0", "-", "-", "-", "-"]


def test_a_changed_preset_is_shown_only_if_there_is_nothing_else() -> None:
    shipped, changed = (
        result("temp-gru", "strict", 8, 0, *figures, preset="tuned", changed=changes)
        for figures, changes in (((0.5, 0.4), {}), ((0.7, 0.6), {"model.gate": False}))
    )
    for runs, mrr in (([changed, shipped], "0.400"), ([changed], "0.600")):
        (row,) = [
            row
            for row in comparative_table(runs, "icews14").rows
            if row[:2] == ["temp-gru", "strict"]
        ]
        assert row[2:4] == ["1", mrr]


def test_a_copy_does_not_count_as_a_seed() -> None:
    run, other = (result("temp-gru", "strict", 8, seed, 0.5, 0.4 + 0.1 * seed) for seed in (0, 1))
    for runs, cells in (
        ([run, run], ["1", "0.400"]),
        ([run, other, run, other], ["2", "0.450 ± 0.050"]),
    ):
        (row,) = [
            row
            for row in comparative_table(runs, "icews14").rows
            if row[:2] == ["temp-gru", "strict"]
        ]
        assert row[2:4] == cells


def test_tried_settings_have_one_row_for_all_seeds() -> None:
    tried = [
        result("temp-gru", "strict", width, seed, valid, 0.1, finished=finished)
        for width, seed, valid, finished in (
            (256, 0, 0.71234, True),
            (128, 0, 0.6, True),
            (128, 1, 0.7, True),
            (128, 2, 0.8, False),
        )
    ]
    elsewhere = result("srgcn", "strict", 64, 0, 0.9, 0.9)
    sheet = tried_table([*tried, elsewhere], "icews14", "temp-gru")
    assert [row[:3] for row in sheet.rows] == [
        ["defaults above", "2", "0.6500 ± 0.0500"],
        ["model.dim = 256", "1", "0.7123"],
        ["defaults above, stopped by a time limit", "1", "0.8000"],
    ]
    assert (
        sheet.caption
        == "icews14, valid, protocol strict; unless stated otherwise: model.dim = 128."
    )
    parts = [
        result("ensemble", "strict", 0, 0, 0.5, 0.5, config={"model": {"parts": names}})
        for names in (["a", "b"], ["c"])
    ]
    assert {row[0] for row in tried_table(parts, "icews14", "ensemble").rows} == {
        "defaults above",
        "model.parts = c",
    }


def test_records_have_unique_keys_and_numbers() -> None:
    runs = [result("temp-gru", "strict", 8, seed, 0.5, 0.4 + 0.1 * seed) for seed in (0, 1)]
    records = comparative_table(runs, "icews14").records()
    (ours,) = [one for one in records if (one["model"], one["protocol"]) == ("temp-gru", "strict")]
    (theirs,) = [one for one in records if (one["model"], one["protocol"]) == ("temp-gru", "paper")]
    assert (
        ours["MRR"] == 0.45
        and ours["MRR spread"] == 0.05
        and ours["Hits@1"] == 22.5
        and ours["seeds"] == 2
    )
    assert (
        ours["published Hits@1"] is None
        and theirs["published Hits@1"] == 47.8
        and theirs["MRR"] is None
    )


def test_a_sigma_measured_twice_has_one_row_and_a_published_one_has_one() -> None:
    runs = [
        result("ted", "strict", 0, 0, 0.4, 0.3, config={"model": {"sigma": x}})
        for x in (1.0, 0.1, 0.1, 7)
    ]
    rows = ted_table(runs, "icews14", "test").rows
    assert [row[:2] for row in rows if row[1] != "-"] == [
        ["0.1", "0.300"],
        ["1", "0.300"],
        ["7", "0.300"],
    ]
    assert [row[0] for row in rows] == ["1e-05", "0.01", "0.1", "1", "7", "10", "100", "100000"]


def test_published_figures_appear_only_under_their_protocol() -> None:
    both = [result("srgcn", protocol, 8, 0, 0.5, 0.5) for protocol in ("strict", "paper")]
    paper, strict = (row for row in comparative_table(both, "icews14").rows if row[0] == "srgcn")
    assert paper[1] == "paper" and paper[7] == "0.604"
    assert strict[1] == "strict" and strict[7] == "-"


def test_the_published_table_is_complete() -> None:
    models = [
        "transe",
        "distmult",
        "complex",
        "simple",
        "ttranse",
        "hyte",
        "ta-distmult",
        "de-transe",
        "de-distmult",
        "de-simple",
        "atise-ee",
        "atise-er",
        "tntcomplex",
        "ted",
        "srgcn",
        "temp-gru",
        "temp-sa",
    ]
    assert {dataset: list(table) for dataset, table in PAPER_TEST.items()} == dict.fromkeys(
        ("icews14", "icews05-15", "gdelt"), models
    )
    for table in PAPER_TEST.values():
        for mrr, first, third, tenth in table.values():
            hits = [figure for figure in (first, third, tenth) if figure is not None]
            assert hits == sorted(hits) and (mrr is None or hits[0] / 100 <= mrr < hits[-1] / 100)


@pytest.mark.parametrize(
    ("dataset", "model", "cells"),
    [
        ("icews14", "transe", "0.326 15.4 43.0 64.4"),
        ("icews14", "complex", "0.442 40.0 43.0 66.4"),
        ("icews14", "ta-distmult", "0.477 36.3 - 68.6"),
        ("icews14", "temp-sa", "0.607 48.4 68.4 84.0"),
        ("icews05-15", "ttranse", "0.271 8.4 - 61.6"),
        ("icews05-15", "atise-er", "0.484 35.0 55.8 74.9"),
        ("icews05-15", "tntcomplex", "0.670 59.0 71.0 81.0"),
        ("icews05-15", "temp-gru", "0.691 56.6 78.2 91.7"),
        ("gdelt", "hyte", "0.118 0.0 16.5 32.6"),
        ("gdelt", "de-simple", "0.230 14.1 24.8 40.3"),
        ("gdelt", "atise-ee", "- - - -"),
        ("gdelt", "srgcn", "0.239 15.7 25.6 39.8"),
        ("icews14", "tcomplex", "- - - -"),
        ("mine", "ted", "- - - -"),
    ],
)
def test_published_cells(dataset: str, model: str, cells: str) -> None:
    assert " ".join(figure_cells(published(dataset, model, "paper"))) == cells


def test_a_result_is_saved_under_its_name(tmp_path: Path) -> None:
    run = tempograph.train(
        make_graph([(0, 0, 1, 0)], valid=[(0, 0, 1, 2)]), "ted", overrides=["model.sigma=1"]
    )
    path = save_result(run.results, tmp_path, "sigma1")
    assert path == tmp_path / "small" / "ted-sigma1-strict-seed0.json"
    assert load_results(tmp_path) == [
        RunResults.from_json(json.loads(json.dumps(run.results.to_json())))
    ]
    path.write_text("{")
    reason = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    with raises(DataError, "results.not_a_result", path=path, reason=reason):
        load_results(tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("null", message("run_results.not_an_object", type="NoneType")),
        ("[1]", message("run_results.not_an_object", type="list")),
        ("{}", message("run_results.wrong_type", key="dataset")),
        ({"seed": "0"}, message("run_results.wrong_type", key="seed")),
        ({"config": {"model": 1}}, message("run_results.no_sections")),
        ({"changed": []}, message("run_results.wrong_type", key="changed")),
        ({"train_seconds": "long"}, message("run_results.wrong_type", key="train_seconds")),
        ({"test": None}, message("run_results.no_figures", split="test")),
        ({"valid": {"metrics": {"mrr": 0.5}}}, message("run_results.no_figures", split="valid")),
    ],
)
def test_a_file_that_is_no_result_is_named(
    tmp_path: Path, change: str | dict[str, Any], reason: str
) -> None:
    whole = result_json("ted", "strict", 8, 0, 0.5, 0.5)
    path = tmp_path / "icews14" / "x.json"
    path.parent.mkdir()
    path.write_text(json.dumps(whole))
    assert load_results(tmp_path, ("valid", "test")) == [RunResults.from_json(whole)]
    path.write_text(change if isinstance(change, str) else json.dumps(whole | change))
    with raises(DataError, "results.not_a_result", path=path, reason=reason):
        load_results(tmp_path, ("valid", "test"))


def test_only_the_requested_splits_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "icews14" / "x.json"
    path.parent.mkdir()
    path.write_text(
        json.dumps(
            {k: v for k, v in result_json("ted", "strict", 8, 0, 0.5, 0.5).items() if k != "test"}
        )
    )
    assert len(load_results(tmp_path)) == len(load_results(tmp_path, ("valid",))) == 1
    reason = message("run_results.no_figures", split="test")
    with raises(DataError, "results.not_a_result", path=path, reason=reason):
        load_results(tmp_path, ("test",))


def test_settings_match_under_their_earlier_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = type(make_config("temp-gru", "icews14").model)
    monkeypatch.setattr(settings, "aliases", {"width": "dim"}, raising=False)
    old = result("temp-gru", "strict", 0, 0, 0.5, 0.4, config={"model": {"width": 8}})
    new = result("temp-gru", "strict", 8, 1, 0.5, 0.6)
    assert settings_of(old) == settings_of(new) == {"model.dim": 8}
    assert RunSpec("icews14", "temp-gru", overrides=("model.width=8",)).matches(old)
    assert RunSpec("icews14", "temp-gru", seed=1, overrides=("model.width=8",)).matches(new)
    (row,) = [
        row
        for row in comparative_table([old, new], "icews14").rows
        if row[:2] == ["temp-gru", "strict"]
    ]
    assert row[2:4] == ["2", "0.500 ± 0.100"]


def test_a_gate_fitted_on_valid_is_marked_and_gives_way_to_one_fitted_on_train() -> None:
    """Results of earlier versions do not say what the gate was fitted on: it was valid."""

    def run(seed: int, valid: float, **settings: str) -> RunResults:
        config = {"model": {"hidden": 16} | settings}
        figures = "temp-pointer", "strict", 0, seed, valid, valid
        changed = {"model.fit_on": "valid"} if settings.get("fit_on") == "valid" else {}
        return result(*figures, preset="tuned", config=config, changed=changed)

    earlier, on_valid = run(0, 0.7), run(1, 0.6, fit_on="valid")
    on_train = run(0, 0.5, fit_on="train")
    assert settings_of(earlier)["model.fit_on"] == changes_of(earlier)["model.fit_on"] == "valid"
    assert settings_of(on_train)["model.fit_on"] == "train" and not changes_of(on_train)
    plain = RunSpec("icews14", "temp-pointer", preset="tuned")
    marked = replace(plain, overrides=("model.fit_on=valid",))
    assert marked.name == "temp-pointer-tuned-fit-on-valid-strict-seed0"
    assert [plain.matches(one) for one in (earlier, on_train)] == [False, True]
    assert [marked.matches(one) for one in (earlier, on_train)] == [True, False]
    for runs, label, cells in (
        ([earlier, on_valid], "temp-pointer*", ["2", "0.650 ± 0.050"]),
        ([earlier, on_valid, on_train], "temp-pointer", ["1", "0.500"]),
    ):
        (row,) = [
            row for row in comparative_table(runs, "icews14").rows if row[0].startswith("temp-p")
        ]
        assert row[0] == label and row[2:4] == cells
        runs = [*runs, result("ted", "strict", 0, 0, 0.5, 0.5)]
        for make in (comparative_table, cost_table, error_reduction_table):
            table = make(runs, "icews14")
            assert any(row[0] == label for row in table.rows)
            assert table.caption.endswith("* The gate was fitted on validation facts.") == (
                "*" in label
            )
