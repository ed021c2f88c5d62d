"""Models of other packages: every command knows them, and a broken package breaks only itself."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tempograph
from conftest import Call, as_json
from messages import message
from tempograph import Predictor, TempographWarning
from tempograph.cli.train import _complete_model
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.errors import ConfigError
from tempograph.models.registry import MODELS, model_kind
from tempograph.training import recipes

pytestmark = pytest.mark.usefixtures("short_fits", "no_drawings")

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "tests" / "plugin"
FREQUENT = (PLUGIN / "frequent.py").read_text(encoding="utf-8")
GRAPH = make_world(entities=12, relations=4, steps=20, facts=300).graph
WHO, RELATION, WHOM = GRAPH.entities[0], GRAPH.relations[0], GRAPH.entities[1]
TIME = GRAPH.times[7]


def install(
    site: Path, package: str, modules: Mapping[str, str], models: Mapping[str, str]
) -> None:
    """Write what `pip install` would: the modules, the metadata and the entry points."""
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text, encoding="utf-8")
    folder = site / f"{package.replace('-', '_')}-1.0.dist-info"
    folder.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
    (folder / "METADATA").write_text(metadata)
    entries = "".join(f"{name} = {value}\n" for name, value in models.items())
    (folder / "entry_points.txt").write_text(f"[tempograph.models]\n{entries}")


@pytest.fixture
def site(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder for installed packages; what is loaded from it is forgotten after the test."""
    folder = tmp_path_factory.mktemp("site")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(recipes, "_RECIPES", dict(recipes._RECIPES))
    paths = (str(folder), *filter(None, [os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    MODELS.__dict__.pop("_kinds", None)
    before = set(sys.modules)
    yield folder
    MODELS.__dict__.pop("_kinds", None)
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


@pytest.fixture
def frequent(site: Path) -> Path:
    """The package of the docs, installed."""
    install(site, "tempograph-frequent", {"frequent": FREQUENT}, {"frequent": "frequent:KIND"})
    return site


@pytest.fixture
def data(call: Call) -> Path:
    write_folder(GRAPH, Path("data"))
    return Path("data")


def test_the_docs_show_the_package_and_it_has_at_most_60_lines() -> None:
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    project = (PLUGIN / "pyproject.toml").read_text(encoding="utf-8")
    assert f"```toml\n{project}```" in page and f"```py\n{FREQUENT}```" in page
    assert len((project + FREQUENT).splitlines()) <= 60
    assert 'frequent = "frequent:KIND"' in project and 'name = "tempograph-frequent"' in project


def test_every_command_knows_the_model(call: Call, frequent: Path, data: Path) -> None:
    _, out, _ = call("train", "--help")
    assert "; from other packages: frequent." in " ".join(out.replace("│", " ").split())
    assert _complete_model("fr") == ["frequent"] and "temp-gru" in _complete_model("temp")
    trained = as_json(call("train", "data", "--model", "frequent", "--out", "run", "--json"))
    assert trained["model"] == "frequent" and trained["finished"] and trained["valid"]
    assert as_json(call("evaluate", "run", "--json"))["metrics"]["mrr"] > 0.1
    assert as_json(call("calibration", "run", "--json"))["temperature"] > 0
    given = {"subject": WHO, "relation": RELATION, "object": WHOM, "time": TIME}
    for asked in given:
        question = [word for name in given if name != asked for word in (f"--{name}", given[name])]
        found = as_json(call("complete", "run", *question, "--top", "3", "--json"))
        assert found["asked"] == asked and len(found["answers"]) == 3
    rows = [",".join(given), *(",".join(GRAPH.describe(fact).values()) for fact in GRAPH.test)]
    Path("new.csv").write_text("\n".join(rows))
    facts = as_json(call("score", "run", "new.csv", "--json"))["facts"]
    assert len(facts) == len(GRAPH.test) and all(fact["object_probability"] for fact in facts)
    assert as_json(call("missing", "run", "--top", "3", "--json"))["facts"][2]["probability"]
    assert len(as_json(call("surprising", "run", "--top", "4", "--json"))["facts"]) == 4
    assert call("export", "run", "--out", "vectors.parquet")[0] == 0
    vectors = pq.read_table("vectors.parquet")
    assert len(vectors) == 12 and len(vectors["vector"][0]) == 2 * len(GRAPH.relations)
    assert call("report", "run", "--out", "report.html")[0] == 0
    assert "ranks entities by how often they occur" in Path("report.html").read_text()
    setting = ("model.smoothing=0.1", "--out", "other")
    assert call("train", "data", "--model", "frequent", *setting)[0] == 0
    assert "smoothing = 0.1" in Path("other/config.toml").read_text()


def test_compare_and_fit_know_the_model(call: Call, frequent: Path, data: Path) -> None:
    models = ("--models", "frequent,ted", "--device", "cpu")
    compared = as_json(call("compare", "data", *models, "--out", "table", "--json"))
    assert [row["model"] for row in compared["models"]] == ["frequent", "ted"]
    assert all(row["runs"][0]["test"]["mrr"] > 0 for row in compared["models"])
    rows = ["who,verb,whom,when", *(",".join(GRAPH.describe(f).values()) for f in GRAPH.all_facts)]
    Path("events.csv").write_text("\n".join(rows))
    fitted = as_json(call("fit", "events.csv", "--model", "frequent", "--out", "run", "--json"))
    assert fitted["model"] == "frequent" and fitted["finished"]
    predictor = Predictor("run")
    new = (WHO, RELATION, WHOM, "2030-01-25")
    before = predictor.objects(*new[:2], TIME, top=1, evidence=0).answers[0].score
    assert len(predictor.add([new], strict=True)) == 0
    assert predictor.objects(*new[:2], TIME, top=1, evidence=0).answers[0].score != before
    assert predictor.objects(*new[:2], new[3]).answers[0].evidence_count > 0


def test_a_model_of_a_package_is_served(frequent: Path) -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from serving import client_of

    predictor = Predictor(tempograph.train(GRAPH, "frequent", device="cpu"))
    with client_of({"mine": predictor}) as client:
        assert client.get("/api/v1/info").json()["runs"][0]["model"] == "frequent"
        question = {"subject": WHO, "relation": RELATION, "time": TIME, "top": 2}
        answer = client.post("/api/v1/complete", json=question)
        assert answer.status_code == 200 and answer.json()["model"] == "frequent"


def test_training_by_gradient_is_resumed(call: Call, site: Path, data: Path) -> None:
    text = (ROOT / "tests" / "bilinear.py").read_text(encoding="utf-8")
    install(
        site, "tempograph-bilinear", {"bilinear_model": text}, {"bilinear": "bilinear_model:KIND"}
    )
    train = ("train", "data", "--model", "bilinear", "--device", "cpu")
    assert call(*train, "--out", "whole")[0] == 0
    stopped = as_json(call(*train, "--max-time", "0", "--out", "run", "--json"))
    assert not stopped["finished"]
    resumed = as_json(call("resume", "run", "--device", "cpu", "--json"))
    whole = json.loads(Path("whole/results.json").read_text())
    assert resumed["finished"] and resumed["valid"]["metrics"] == whole["valid"]["metrics"]
    parts = 'model.parts=["bilinear", "distmult"]'
    settings = (parts, "model.fit_on=valid", "--out", "both", "--device", "cpu")
    assert call("train", "data", "--model", "ensemble", *settings)[0] == 0
    assert Path("both/parts/bilinear/config.toml").exists()


def test_a_command_in_a_process_of_its_own_knows_the_model(frequent: Path, tmp_path: Path) -> None:
    write_folder(GRAPH, tmp_path / "demo")
    command = ["train", "demo", "--model", "frequent", "--out", "run", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "tempograph", *command], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"] == "frequent"


BROKEN = {
    "no such module": ({}, "nosuch:KIND", "registry.not_loaded", "ModuleNotFoundError"),
    "an error while it is loaded": (
        {"nosuch": "raise RuntimeError('needs\\nlibrary 3')"},
        "nosuch:KIND",
        "registry.not_loaded",
        "RuntimeError: needs library 3",
    ),
    "an exit while it is loaded": (
        {"nosuch": "raise SystemExit(3)"},
        "nosuch:KIND",
        "registry.not_loaded",
        "SystemExit: 3",
    ),
    "no such name": ({"nosuch": ""}, "nosuch:KIND", "registry.not_loaded", "AttributeError"),
    "another type": ({"nosuch": "KIND = 3"}, "nosuch:KIND", "registry.not_a_kind", "int"),
    "another name": (
        {"nosuch": FREQUENT.replace('name="frequent"', 'name="often"')},
        "nosuch:KIND",
        "registry.other_name",
        "often",
    ),
    "settings that are no dataclass": (
        {"nosuch": FREQUENT.replace("@dataclass(frozen=True)\n", "")},
        "nosuch:KIND",
        "registry.settings",
        "<class 'nosuch.FrequentSettings'>",
    ),
}


@pytest.mark.parametrize(("modules", "value", "name", "detail"), BROKEN.values(), ids=BROKEN)
def test_a_broken_package_is_named_and_breaks_only_itself(
    call: Call, site: Path, data: Path, modules: dict[str, str], value: str, name: str, detail: str
) -> None:
    install(site, "some-package", modules, {"frequent": value})
    problem = message(name, package="some-package", entry=f"frequent = {value}", detail=detail)
    # Of an error while it is loaded, only the beginning is given here.
    problem = problem.partition(detail)[0] + detail
    code, out, err = call("train", "data", "--model", "frequent")
    assert code == 2 and out == "" and err.count("\n") == 1 and err.startswith(f"error: {problem}")
    assert err.endswith("uninstall the package\n")
    MODELS.__dict__.pop("_kinds", None)
    code, _, err = call("train", "data", "--model", "ted", "model.sigma=1", "--out", "run")
    assert code == 0 and err.startswith(f"warning: {problem}")
    assert err.count("some-package") == 1
    question = ("--subject", WHO, "--relation", RELATION, "--time", TIME)
    for command in (("--help",), ("train", "--help"), ("complete", "run", *question)):
        code, _, err = call(*command)
        assert code == 0 and "error" not in err
    code, _, err = call("train", "data", "--model", "ensemble", 'model.parts=["ted", "frequent"]')
    assert code == 2 and err.endswith("uninstall the package\n")


def test_no_package_replaces_a_model(call: Call, frequent: Path, data: Path) -> None:
    text = FREQUENT.replace('name="frequent"', 'name="ted"')
    install(frequent, "first", {"first": text}, {"ted": "first:KIND"})
    install(frequent, "second", {"second": FREQUENT}, {"frequent": "second:KIND"})
    code, out, err = call("train", "data", "--model", "ted", "model.sigma=1", "--out", "run")
    assert code == 0 and "ted on data" in out
    problems = [
        message("registry.exists", package="first", entry="ted = first:KIND", model="ted"),
        message(
            "registry.exists", package="second", entry="frequent = second:KIND", model="frequent"
        ),
    ]
    shown = {line.removeprefix("warning: ") for line in err.splitlines() if "package" in line}
    # Which of two packages comes first is up to Python.
    assert problems[0] in shown and len(shown) == 2
    assert MODELS["ted"].summary.startswith("copies facts")


def test_a_package_without_a_recipe_is_named(call: Call, site: Path, data: Path) -> None:
    text = FREQUENT.replace("register_recipe(F", "(lambda *_: None)(F")
    install(site, "some-package", {"nosuch": text}, {"frequent": "nosuch:KIND"})
    code, out, err = call("train", "data", "--model", "frequent")
    missing = {"model": "frequent", "settings": "FrequentSettings"}
    problem = message("recipes.none_in_package", package="some-package", **missing)
    assert code == 2 and out == "" and err == f"error: {problem}\n"
    assert call("train", "data", "--model", "ted", "model.sigma=1", "--out", "run")[0] == 0


def test_a_run_needs_the_package_of_its_model(
    call: Call, frequent: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("train", "data", "--model", "frequent", "--out", "run")[0] == 0
    for file in (frequent / "tempograph_frequent-1.0.dist-info").iterdir():
        file.unlink()
    (frequent / "tempograph_frequent-1.0.dist-info").rmdir()
    importlib.invalidate_caches()
    MODELS.__dict__.pop("_kinds", None)
    code, _, err = call("evaluate", "run")
    assert code == 2 and err.startswith("error: run/config.toml: there is no model 'frequent'; ")
    assert err.endswith("; if another package adds the model, install it\n")
    install(frequent, "some-package", {}, {"frequent": "gone:KIND"})
    importlib.invalidate_caches()
    MODELS.__dict__.pop("_kinds", None)
    code, _, err = call("evaluate", "run")
    assert code == 2 and re.match(r"error: run/config.toml: package 'some-package': .*\n\Z", err)


def test_python_warns_once_of_a_broken_package(site: Path) -> None:
    install(site, "some-package", {}, {"frequent": "nosuch:KIND"})
    with pytest.warns(TempographWarning, match="^package 'some-package': entry point ") as caught:
        names: list[Any] = [list(MODELS), list(MODELS), model_kind("ted").name]
    assert len(caught) == 1 and names[1] == names[0] and "frequent" not in names[0]
    with pytest.raises(ConfigError, match="^package 'some-package': entry point "):
        model_kind("frequent")
