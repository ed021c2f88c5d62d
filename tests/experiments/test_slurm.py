"""Runs of a comparison as tasks of a Slurm array, with an sbatch that notes what it is given."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from forked import run
from tempograph.data.folder import write_folder
from tempograph.data.synthetic.world import make_world
from tempograph.errors import ConfigError, RunError
from tempograph.experiments.comparison import Comparison, compare
from tempograph.experiments.slurm import SlurmArray

GRAPH = make_world(seed=2, entities=12, relations=4, steps=10, facts=200)
SBATCH = """#!/bin/sh
submitted="$(/usr/bin/dirname "$0")/../submitted"
echo "$2" >> "$submitted"
echo "4$(/usr/bin/wc -l < "$submitted" | /usr/bin/tr -d ' ');cluster"
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dataset and, on PATH, an sbatch."""
    write_folder(GRAPH.graph, tmp_path / "world")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sbatch").write_text(SBATCH)
    (tmp_path / "bin" / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def compare_in(
    folder: Path, slurm: SlurmArray, *models: str, out: str | Path = "out"
) -> Comparison:
    # Nothing else takes them, nor do the parts of an ensemble.
    settings = ["train.epochs=1", "model.dim=8"] if "distmult" in models else []
    return compare(
        folder / "world",
        models,
        out=folder / out,
        device="cpu",
        overrides=settings,
        slurm=slurm,
        progress=False,
    )


def test_runs_are_tasks_of_an_array_and_the_next_call_finds_them(cluster: Path) -> None:
    slurm = SlurmArray("--partition=gpu --gpus=1", 2)
    comparison = compare_in(cluster, slurm, "ted", "distmult")
    assert not comparison.failed and "submitted to Slurm, job 41" in comparison.markdown()
    (script,) = (cluster / "submitted").read_text().splitlines()
    text = Path(script).read_text()
    assert "#SBATCH --array=0-1%2\n" in text and "#SBATCH --partition=gpu\n" in text
    *_, command = text.splitlines()
    for task in range(2):
        done = run(shlex.split(command), env={**os.environ, "SLURM_ARRAY_TASK_ID": str(task)})
        assert done.returncode == 0, done.stderr[-500:]
    assert '"epoch": 1' in done.stdout
    again = compare_in(cluster, slurm, "ted", "distmult")
    assert all(row.test_metrics for row in again.rows)
    assert len((cluster / "submitted").read_text().splitlines()) == 1, "nothing is left to run"


def test_spaces_and_signs_in_paths_and_options_reach_slurm(cluster: Path) -> None:
    """Slurm reads lines as a shell does, and takes a % in the name of a file for a number."""
    out, options = 'my "best" 100%a # run\'s', "--comment='two words' --gpus=1"
    compare_in(cluster, SlurmArray(options), "ted", out=out)
    (script,) = (cluster / "submitted").read_text().splitlines()
    lines = [line for line in Path(script).read_text().splitlines() if line.startswith("#SBATCH ")]
    found = [shlex.split(line.removeprefix("#SBATCH "), comments=True) for line in lines]
    log = f"{cluster}/{out}/slurm/array-0".replace("%", "%%")
    words = ["--array=0-0", f"--output={log}-%a.log", "--comment=two words", "--gpus=1"]
    assert found == [[word] for word in words]
    assert lines[-1] == "#SBATCH --gpus=1", "what needs no quotes has none"


def test_an_ensemble_waits_for_its_parts(cluster: Path) -> None:
    compare_in(cluster, SlurmArray(), "ensemble", "complex", "temp-gru")
    first, second = (cluster / "submitted").read_text().splitlines()
    assert "--array=0-1\n" in Path(first).read_text()
    assert "#SBATCH --dependency=afterany:41\n" in Path(second).read_text()
    (line,) = Path(second).with_suffix(".jsonl").read_text().splitlines()
    assert json.loads(line)["model"] == "ensemble"


def test_nothing_is_submitted_while_slurm_runs_it(cluster: Path) -> None:
    compare_in(cluster, SlurmArray(), "ted")
    (cluster / "bin" / "squeue").write_text("#!/bin/sh\necho 41_0 RUNNING\n")
    (cluster / "bin" / "squeue").chmod(0o755)
    with pytest.raises(RunError, match="out: Slurm has not ended job 41; wait for it, or end it"):
        compare_in(cluster, SlurmArray(), "ted")


def test_a_refusal_and_a_machine_without_slurm_are_explained(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster / "bin" / "sbatch").write_text("#!/bin/sh\necho 'no such partition' >&2\nexit 1\n")
    with pytest.raises(RunError, match="array-0.sh: sbatch refused it: no such partition; change"):
        compare_in(cluster, SlurmArray("--partition=none"), "ted")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="^there is no sbatch here; use --slurm on a machine"):
        compare_in(cluster, SlurmArray(), "ted")
