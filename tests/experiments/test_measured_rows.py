"""Rows of measured results: seeds share a configuration, and every row says where it comes from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tempograph.experiments.configurations import (
    changes_of,
    configuration_key,
    configuration_of,
    has_settings_of,
)
from tempograph.experiments.measured_rows import remarks, same_code
from tempograph.experiments.paper.detail_tables import ted_table
from tempograph.experiments.paper.paper_tables import comparative_table, leak_table
from tempograph.experiments.paper.required_runs import named_runs
from tempograph.experiments.paper.table_rows import table_rows
from tempograph.experiments.results import best_settings, load_results, result_key
from tempograph.experiments.specs import RunSpec
from tempograph.report.text_table import TextTable
from tempograph.training.config import make_config
from tempograph.training.run_results import RunResults

ONE, OTHER = "1" * 40, "2" * 40
COMMITTED = Path(__file__).parents[2] / "results"


def result(
    model: str = "temp-gru",
    preset: str | None = "tuned",
    protocol: Any = "strict",
    seed: int = 0,
    mrr: float = 0.5,
    commit: str | None = ONE,
    code: str | None = None,
    dirty: bool | None = False,
    **settings: Any,
) -> RunResults:
    """A result on ICEWS14 with the settings of a preset, but for some."""
    config = make_config(model, "icews14", preset=preset).settings()
    config["model"] |= settings
    metrics = {"mrr": mrr, "hits@1": mrr, "hits@3": mrr, "hits@10": mrr}
    split: Any = {"metrics": metrics}
    return RunResults(
        *("icews14", model, protocol, seed, preset, config),
        changed={f"model.{name}": value for name, value in settings.items()},
        commit=commit,
        code=code,
        dirty=dirty,
        hardware="a GPU",
        valid=split,
        test=split,
    )


def row_of(table: TextTable, *head: str) -> list[str]:
    """The row as people read it, by model, protocol and preset."""
    (row,) = [
        marked
        for marked, row in zip(table.marked_rows, table.rows, strict=True)
        if tuple(row[: len(head)]) == head
    ]
    return row


def test_seeds_of_a_row_have_equal_settings_whatever_their_preset_is_called() -> None:
    runs = [result(seed=0), result(seed=1), dataclasses.replace(result(seed=2), preset="mine.toml")]
    changed = result(seed=3, mrr=0.1)
    changed.config["train"]["epochs"] = 7
    (chosen,) = best_settings([*runs, changed], result_key).values()
    assert chosen == runs, "the same name does not make the same settings"


def test_renamed_and_later_settings_do_not_split_a_row() -> None:
    runs = [result("temp-pointer", seed=seed) for seed in (0, 1)]
    old = runs[1].config["model"]
    old["through_others"] = old.pop("common_neighbors")
    old["facts"] = old.pop("max_facts")
    del old["queries_per_step"]
    assert configuration_key(runs[0]) == configuration_key(runs[1])
    whole, number = result(), result()
    whole.config["train"]["weight_decay"], number.config["train"]["weight_decay"] = 0, 0.0
    assert configuration_key(whole) == configuration_key(number)


def test_a_missing_setting_means_what_it_was_then() -> None:
    old, new = result("temp-pointer"), result("temp-pointer")
    del old.config["model"]["fit_on"]
    assert configuration_of(old)["model.fit_on"] == changes_of(old)["model.fit_on"] == "valid"
    assert configuration_of(new)["model.fit_on"] == "train" and not changes_of(new)
    plain = RunSpec("icews14", "temp-pointer", preset="tuned")
    on_valid = dataclasses.replace(plain, overrides=("model.fit_on=valid",))
    assert on_valid.name == "temp-pointer-tuned-fit-on-valid-strict-seed0"
    assert [plain.matches(one) for one in (old, new)] == [False, True]
    assert [on_valid.matches(one) for one in (old, new)] == [True, False]


def test_the_settings_of_parts_count_if_they_are_known() -> None:
    runs = [result("temp-pointer", seed=seed) for seed in (0, 1, 2)]
    for run, epochs in zip(runs[1:], (6, 7), strict=True):
        pointer = make_config("pointer", "icews14", overrides=[f"train.epochs={epochs}"])
        run.parts = {"pointer": pointer.settings()}
    assert len({configuration_key(run) for run in runs}) == 3
    assert has_settings_of(runs[0], "tuned") and not has_settings_of(runs[1], "tuned")
    parts = ("pointer", "temp-gru", "tntcomplex")
    runs[2].parts = {
        name: make_config(name, "icews14", preset="tuned").settings() for name in parts
    }
    assert has_settings_of(runs[2], "tuned")


def test_a_fitted_setting_counts_as_it_was_requested() -> None:
    runs = [result("ted", "paper", seed=seed, sigma=sigma) for seed, sigma in ((0, 0.1), (1, 1.0))]
    assert configuration_key(runs[0]) != configuration_key(runs[1])
    for run in runs:
        run.asked = {"sigma": None}
    assert configuration_key(runs[0]) == configuration_key(runs[1])


def test_the_highest_mean_valid_mrr_decides_without_exception() -> None:
    tuned = [result(seed=seed, mrr=mrr) for seed, mrr in ((0, 0.5), (1, 0.6))]
    ablation = result(mrr=0.56, gate=False)
    for runs in ([*tuned, ablation], [ablation, *tuned]):
        (row,) = (row for row in table_rows(runs, "icews14", ("strict",)) if row.runs)
        assert row.head == ["temp-gru", "strict", "tuned", "no gate"]


def test_the_settings_of_the_paper_have_a_row_of_their_own() -> None:
    runs = [
        result(preset="paper", protocol="paper", mrr=0.6),
        result(preset="tuned-leak", protocol="paper", mrr=0.7),
        result(preset="paper", protocol="paper", mrr=0.8, gate=False),
    ]
    table = comparative_table(runs, "icews14")
    paper, best = (row for row in table.rows if row[:2] == ["temp-gru", "paper"])
    assert paper[2:4] == ["paper", "-"] and paper[5] == "0.600" and paper[9] == "0.601"
    assert best[2:4] == ["paper", "no gate"] and best[5] == "0.800" and best[9] == "-"
    leaking = row_of(comparative_table(runs[:2], "icews14"), "temp-gru", "paper", "tuned-leak")
    assert leaking[3] == "no gate, no imputation" and leaking[9] == "-"


def test_a_row_of_a_replaced_preset_does_not_pass_for_the_new_one() -> None:
    run = result("srgcn", "tuned-leak", "paper")
    assert remarks([run]) == "-"
    run.config["model"]["feature_dropout"] = 0.9
    assert remarks([run]) == "earlier settings of this preset"


def test_a_gate_fitted_on_valid_has_a_row_of_its_own() -> None:
    """Its valid MRR is that of facts it learned from, so it is no candidate for the other row."""
    earlier, on_valid = (
        result("temp-pointer", seed=seed, mrr=mrr, fit_on="valid")
        for seed, mrr in ((0, 0.7), (1, 0.6))
    )
    del earlier.config["model"]["fit_on"]
    on_train = result("temp-pointer", mrr=0.5)
    table = comparative_table([earlier, on_valid, on_train], "icews14")
    usual, marked = (row for row in table.rows if row[0] == "temp-pointer")
    assert usual[2:6] == ["tuned", "-", "1", "0.500"]
    assert marked[2:6] == ["tuned", "gate fitted on valid", "2", "0.650 ± 0.050"]
    (alone,) = (
        row for row in comparative_table([on_valid], "icews14").rows if row[0] == "temp-pointer"
    )
    assert alone[3] == "gate fitted on valid"


def test_figures_with_names_have_a_row_of_their_own() -> None:
    """However good they are: the model has read more than the facts."""
    named = result("temp-pointer", mrr=0.7, names=True)
    named.parts = {
        name: make_config(name, "icews14", preset="tuned", overrides=overrides).settings()
        for name, overrides in {
            "pointer": ["model.names=true"],
            "temp-gru": ["model.names=true"],
            "tntcomplex": [],
        }.items()
    }
    table = comparative_table([named, result("temp-pointer", mrr=0.5)], "icews14")
    usual, marked = (row for row in table.rows if row[0] == "temp-pointer")
    assert usual[2:6] == ["tuned", "-", "1", "0.500"]
    assert marked[2:6] == ["tuned", "with names", "1", "0.700"], "with the settings of the preset"
    strict = [result(mrr=0.5), result(mrr=0.7, names=True)]
    leak = leak_table([*strict, result("temp-gru", "tuned-leak", "paper", mrr=0.8)])
    assert [leak.rows[0][column] for column in (2, 4)] == ["tuned", "0.500"]
    (spec,) = (spec for spec in named_runs("icews14", [0]) if spec.model == "temp-pointer")
    assert spec.matches(named) and not spec.matches(result("temp-pointer"))
    assert not RunSpec("icews14", "temp-pointer", preset="tuned").matches(named)


def test_a_model_that_has_changed_since_is_named() -> None:
    old = dataclasses.replace(result("atise-er", entities="fixed"), changed={})
    assert remarks([old]) == "earlier model with entities fixed"
    assert "earlier model" not in remarks([result("atise-er")])
    assert "earlier model" not in remarks([result("temp-gru", gate=False)])


def test_rows_of_another_commit_and_means_over_different_code_are_marked() -> None:
    runs = [
        *(result("complex", seed=seed) for seed in (0, 1)),
        *(result("distmult", seed=seed, commit=OTHER) for seed in (0, 1)),
        *(result("simple", seed=0, commit=commit) for commit in (ONE,)),
        result("simple", seed=1, commit=OTHER),
        *(result("transe", seed=seed, commit=c, code="a") for seed, c in enumerate((ONE, OTHER))),
        *(result("hyte", seed=seed, code=code) for seed, code in enumerate("ab")),
        result("ttranse", code="a"),
        result("ttranse", seed=1),
        result("pointer", commit=None),
    ]
    table = comparative_table(runs, "icews14")
    marked = {row[0].partition(" ")[0]: row[0].partition(" ")[2] for row in table.marked_rows}
    assert {model: mark for model, mark in marked.items() if mark} == {
        "distmult": "†",
        "transe": "†",
        "pointer": "†",
        "simple": "‡",
        "hyte": "‡",
        "ttranse": "‡",
    }
    assert table.notes[0] == "Measured on a GPU at commit 1111111 unless marked."
    assert table.notes[1] == (
        "† Measured at other commits (1111111, 2222222: transe; 2222222: distmult; "
        "unknown: pointer)."
    )
    assert "(1111111, 2222222: simple; 1111111: ttranse, hyte)" in table.notes[2]
    for text in (table.markdown_page(), table.narrow().markdown_page()):
        assert "simple" in text and "‡" in text and "2222222" in text
    assert r"$\ddagger$" in table.latex() and "2222222" in table.latex()
    commits = {one["model"]: one["commit"] for one in table.records()}
    assert commits["simple"] == "1111111 2222222" and commits["complex"] == "1111111"
    assert commits["atise-ee"] is None


def test_a_changed_source_is_another_commit() -> None:
    changed = result("distmult", dirty=True)
    old = result("simple", commit=f"{ONE}-dirty", dirty=None)
    clean = [result("complex", seed=seed) for seed in (0, 1, 2)]
    notes = comparative_table([*clean, changed, old], "icews14").notes
    assert notes[1] == "† Measured at other commits (1111111 with changes: distmult, simple)."


@pytest.mark.parametrize(
    ("codes", "commits", "same"),
    [
        ("aa", (ONE, OTHER), True),
        ("ab", (ONE, ONE), False),
        ((None, None), (ONE, ONE[:7]), True),
        ((None, None), (ONE, OTHER), False),
        (("a", None), (ONE, ONE), False),
    ],
)
def test_code_is_compared_by_its_hash_or_else_by_the_commit(
    codes: Any, commits: tuple[str, str], same: bool
) -> None:
    runs = [result(commit=at, code=code) for at, code in zip(commits, codes, strict=True)]
    assert same_code(runs) == same


def test_figures_of_two_rows_may_have_different_code() -> None:
    strict = result(commit=ONE)
    paper = result(preset="paper", protocol="paper", commit=OTHER)
    assert leak_table([strict, paper]).marks == ["†"], "the two are not averaged"
    again = dataclasses.replace(strict, seed=1, commit=OTHER)
    assert leak_table([strict, again, paper]).marks == ["‡"]


def test_every_table_of_committed_results_names_its_commit() -> None:
    results = load_results(COMMITTED)
    for table in (comparative_table(results, "icews14"), ted_table(results, "icews14", "test")):
        assert table.notes[0].startswith("Measured on ") and len(table.marks) == len(table.rows)
