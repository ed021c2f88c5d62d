"""An update that is killed, or fails, at any step leaves the old run or the new one, whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import forked
import tempograph
from messages import message
from tempograph import Run
from updating import NEXT_DAY, WORLD, all_scores, drawn_run, files_of, named, new_facts

PROGRAM = Path(__file__).parents[1] / "interrupting.py"


@pytest.mark.parametrize("how", ["kill", "fail"])
def test_an_interrupted_update_leaves_a_whole_run(how: str, tmp_path: Path) -> None:
    drawn_run(WORLD, "ted", tmp_path / "run")
    first, second = [("Ann", "visits", WORLD.entities[0], NEXT_DAY)], named(WORLD, new_facts(WORLD))
    second.append(("Zoe", "visits", "Ann", "2030-01-23"))
    # The interrupted update is the third: it also removes the folder of the first.
    for rows in (first, second[:2]):
        tempograph.update(tmp_path / "run", rows)
    old = files_of(tmp_path / "run")
    tempograph.update(tmp_path / "run", second, out=tmp_path / "new")
    (tmp_path / "facts.json").write_text(json.dumps(second))
    arguments = [how, *(str(tmp_path / name) for name in ("run", "facts.json", "work"))]
    done = forked.run([sys.executable, str(PROGRAM), *arguments])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # Files of the update, its folder, results.json, the card, and the removal of the first.
    assert found["steps"] >= 12
    states, errors, scores = [], [], {}
    for name in ("run", "new"):
        run = Run.load(tmp_path / name)
        number = run.updates.number if run.updates else 0
        scores[number] = all_scores(run.answering().model, 16, 8, 22)
    for at in range(1, found["steps"] + 2):
        folder = tmp_path / "work" / str(at) / "run"
        run = Run.load(folder)
        assert run.updates is not None and run.results.updates == run.updates.summary(WORLD)
        number = run.updates.number
        states.append(number)
        assert all_scores(run.answering().model, 16, 8, 22).equal(scores[number])
        files = files_of(folder)
        assert all(name in files for name in old if not name.startswith("updates/1"))
        said = tmp_path / "work" / f"{at}.txt"
        if said.is_file():
            errors.append(said.read_text())
        # The next update makes it whole, whatever was left behind.
        tempograph.update(folder, second)
        assert len(Run.load(folder).known_graph.train) == len(WORLD.train) + 14
        card = (folder / "README.md").read_text()
        assert "3 updates" in card or number == 3
        names = {path.name for path in (folder / "updates").iterdir()}
        assert names == {"2", "3"} or number == 3
        assert how == "kill" or (number == 2) == said.is_file()
    assert set(states) == {2, 3} and (how == "fail" or states == sorted(states))
    ending = message("io.not_written", path="", reason="No space left on device").partition(":")[2]
    assert all(error.endswith(ending) for error in errors)
    assert (len(errors) >= 10) == (how == "fail")
