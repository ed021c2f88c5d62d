"""Where a result comes from: the commit, whether the source was changed, and a hash of the code."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from count_test_measurements import FILE, MODELS, measurements
from result_sources import Source, SourceCheck, check_results, check_sources
from source_version import PACKAGE, committed_code

from tempograph.device import environment, versions
from tempograph.experiments.results import load_results, metric
from tempograph.provenance import code_hash, source_version

COMMIT = "1" * 40
FILES = {
    "__init__.py": "",
    "device.py": "DEVICE = 1\n",
    "nn/layer.py": "LAYER = 1\n",
    "training/loop.py": "LOOP = 1\n",
    "training/presets/ted/icews14.paper.toml": "[model]\n",
    "data/benchmarks.toml": "[icews14]\n",
    "cli/train.py": "CLI = 1\n",
    "nn/notes.txt": "notes\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package in a folder without history."""
    monkeypatch.delenv("TEMPOGRAPH_COMMIT", raising=False)
    package = tmp_path / "tree" / PACKAGE
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return package


def commit_all(root: Path) -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "All")
    return git("rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ("device.py", True),
        ("nn/layer.py", True),
        ("training/loop.py", True),
        ("data/benchmarks.toml", True),
        ("training/presets/ted/icews14.paper.toml", False),
        ("cli/train.py", False),
        ("nn/notes.txt", False),
    ],
)
def test_the_hash_covers_what_training_and_evaluation_run(changed: str, counts: bool) -> None:
    files = {name: text.encode() for name, text in FILES.items()}
    assert (code_hash(files | {changed: b"other"}) != code_hash(files)) == counts


def test_the_hash_covers_names_and_not_only_contents() -> None:
    assert code_hash({"a.py": b"x", "b.py": b""}) != code_hash({"a.py": b"", "b.py": b"x"})
    assert code_hash({"b.py": b"2", "a.py": b"1"}) == code_hash({"a.py": b"1", "b.py": b"2"})


def test_a_checkout_knows_its_commit_and_whether_it_was_changed(package: Path) -> None:
    root = package.parents[1]
    assert source_version(package)[:2] == (None, None), "there is no history yet"
    commit = commit_all(root)
    clean = source_version(package)
    assert clean == (commit, False, committed_code(commit, root)) and len(commit) == 40
    (root / "README.md").write_text("not a part of the package")
    assert source_version(package) == clean
    (package / "cli" / "train.py").write_text("CLI = 2\n")
    assert source_version(package) == (commit, True, clean.code)
    (package / "nn" / "layer.py").write_text("LAYER = 2\n")
    changed = source_version(package)
    assert changed[:2] == (commit, True) and changed.code != clean.code
    assert committed_code(commit, root) == clean.code, "that of the commit, not of the files"


def test_a_new_file_in_the_package_is_a_change(package: Path) -> None:
    commit = commit_all(package.parents[1])
    (package / "nn" / "other.py").write_text("OTHER = 1\n")
    assert source_version(package)[:2] == (commit, True)


def test_a_copied_tree_is_dirty_if_its_code_differs(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = package.parents[1]
    commit = commit_all(root)
    copy = tmp_path / "copy" / PACKAGE
    shutil.copytree(package, copy)
    assert source_version(copy)[:2] == (None, None)
    monkeypatch.setenv("TEMPOGRAPH_COMMIT", f"{commit}:{committed_code(commit, root)}")
    assert source_version(copy)[:2] == (commit, False)
    (copy / "training" / "loop.py").write_text("LOOP = 2\n")
    assert source_version(copy)[:2] == (commit, True)


def test_with_a_commit_alone_a_copied_tree_may_or_may_not_be_dirty(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPOGRAPH_COMMIT", COMMIT)
    assert source_version(package)[:2] == (COMMIT, None)


def test_an_environment_names_the_source_and_the_versions() -> None:
    found = environment(torch.device("cpu"))
    assert {"commit", "dirty", "code", "python", "torch", "cuda", "triton"} <= found.keys()
    assert versions().items() <= found.items() and found["torch"] == torch.__version__
    assert found["code"] == source_version().code


def test_results_are_checked_against_the_history(package: Path) -> None:
    root = package.parents[1]
    commit = commit_all(root)
    code = committed_code(commit, root)
    (package / "nn" / "layer.py").write_text("LAYER = 2\n")
    later = commit_all(root)

    def check(*source: str | bool | None) -> SourceCheck:
        return check_sources([Source("a.json", *source)], root)  # type: ignore[arg-type]

    assert check(commit, False, code) == ([], [])
    assert check(commit, None, code) == ([], []), "the hash says that the copy was clean"
    assert "its code is not that of its commit" in check(later, False, code).problems[0]
    assert "is not in the history" in check(COMMIT, False, code).problems[0]
    problems, notes = check_sources([Source("a.json", COMMIT, False, code)], root, {COMMIT: "lost"})
    assert not problems
    assert notes == [
        f"not verified, since the history no longer has their commits: 1 at {COMMIT[:7]}"
    ]
    for dirty in ((commit, True, code), (f"{commit}-dirty", None, None)):
        assert check(*dirty).problems == ["a.json: measured with a changed source"]
    problems, notes = check(commit[:7], None, None)
    assert not problems and notes[0].endswith(f"did not record their code: 1 at {commit[:7]}")
    assert check(COMMIT, None, None).notes[0].endswith("1 at 1111111 (gone)")


def test_without_history_results_are_not_verified(package: Path) -> None:
    found = check_sources([Source("a.json", COMMIT, False, "0")], package)
    assert not found.problems and "the history is not here" in found.notes[0]


def test_two_files_of_one_run_must_agree(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "icews14"
    folder.mkdir(parents=True)
    metrics = {"mrr": 0.5, "hits@1": 0.4, "hits@3": 0.5, "hits@10": 0.6}
    run = {
        **{"dataset": "icews14", "model": "ted", "protocol": "strict", "seed": 0},
        **{"config": {"model": {"sigma": 1.0}}, "test": {"metrics": metrics}},
    }
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(json.dumps(run))
        assert not check_results(tmp_path).problems
    (folder / "c.json").write_text(json.dumps(run | {"test": {"metrics": metrics | {"mrr": 0.6}}}))
    (problem,) = check_results(tmp_path).problems
    assert problem == (
        "icews14/c.json: the same settings and seed as icews14/a.json, but other figures"
    )


def test_every_measurement_on_test_is_counted_once(package: Path) -> None:
    root = package.parents[1]
    (root / "results" / "icews14").mkdir(parents=True)
    file = root / "results" / "icews14" / "pointer-strict-seed0.json"
    head = {"dataset": "icews14", "model": "pointer", "protocol": "strict", "seed": 0}

    def write(file: Path, mrr: float, **more: object) -> None:
        metrics = {"mrr": mrr, "hits@1": mrr, "hits@3": mrr, "hits@10": mrr}
        file.write_text(json.dumps(head | {"config": {}, "test": {"metrics": metrics}} | more))

    for mrr in (0.5, 0.6, 0.5):
        write(file, mrr)
        commit_all(root)
    write(file.with_name("copy.json"), 0.6)
    write(file.with_name("other.json"), 0.9, model="complex")
    (root / "results" / "other.json").write_text("[]")
    commit_all(root)
    file.unlink()
    write(file.with_name("new.json"), 0.7)
    found = [(one["model"], one["test_mrr"]) for one in measurements(root)]
    assert sorted(found) == [("pointer", 0.5), ("pointer", 0.6), ("pointer", 0.7)]


def test_the_measurements_of_committed_results_are_on_the_list() -> None:
    listed = json.loads(FILE.read_text(encoding="utf-8"))["measurements"]
    names = ("dataset", "model", "seed", "test_mrr")
    keys = {tuple(one[name] for name in names) for one in listed}
    for run in load_results(FILE.parent, ("test",)):
        if run.model in MODELS:
            (mrr,) = metric([run], "test", "mrr")
            assert (run.dataset, run.model, run.seed, round(mrr, 6)) in keys, "run make tables"
