"""Check results against the history: the commit of each is there, and had the code it names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from source_version import committed_code

from tempograph.experiments.configurations import configuration_key
from tempograph.experiments.results import result_key
from tempograph.provenance import run_git
from tempograph.training.run_results import RunResults


class Source(NamedTuple):
    """Where a measured file says that it comes from."""

    file: str
    commit: str | None
    dirty: bool | None
    code: str | None


class SourceCheck(NamedTuple):
    """What is wrong, and what could not be checked."""

    problems: list[str]
    notes: list[str]


def check_results(root: Path) -> SourceCheck:
    """Check all results and speed measurements under results/ of a repository."""
    lost = lost_commits(root)
    sources, runs = [], {}
    for path in sorted((root / "results").glob("*-speed.json")):
        found = json.loads(path.read_text(encoding="utf-8"))["environment"]
        names = ("commit", "dirty", "code")
        sources.append(Source(path.name, *(found.get(name) for name in names)))
    for path in sorted((root / "results").glob("*/*.json")):
        run = RunResults.from_json(json.loads(path.read_text(encoding="utf-8")))
        file = path.relative_to(root / "results").as_posix()
        sources.append(Source(file, run.commit, run.dirty, run.code))
        runs[file] = run
    problems, notes = check_sources(sources, root, lost)
    return SourceCheck([*problems, *_find_disagreements(runs)], notes)


def lost_commits(root: Path) -> dict[str, str]:
    """Return why commits that results name are not in the history, by commit."""
    file = root / "results" / "lost-commits.json"
    lost: dict[str, str] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return lost


def check_sources(sources: Iterable[Source], root: Path, lost: Container[str] = ()) -> SourceCheck:
    """Check sources against the history of a repository.

    Files of earlier versions do not say what their code was, and the code of `lost` commits is not
    in the history. Neither are verified, and no problem.
    """
    if run_git(root, "rev-parse", "--is-shallow-repository") != "false":
        return SourceCheck([], ["the history is not here, so the code of results is not verified"])

    @cache
    def in_history(commit: str) -> bool:
        return run_git(root, "merge-base", "--is-ancestor", commit, "HEAD") is not None

    code_at = cache(lambda commit: committed_code(commit, root))
    problems, unverified, gone = list[str](), Counter[str](), Counter[str]()
    for source in sources:
        commit = (source.commit or "").removesuffix("-dirty")
        if source.dirty or commit != (source.commit or ""):
            problems.append(f"{source.file}: measured with a changed source")
        elif source.code is None:
            unverified[f"{commit[:7] or 'unknown'}{'' if in_history(commit) else ' (gone)'}"] += 1
        elif commit in lost:
            gone[commit[:7]] += 1
        elif not in_history(commit):
            problems.append(f"{source.file}: its commit {commit} is not in the history")
        elif source.code != code_at(commit):
            problems.append(f"{source.file}: its code is not that of its commit {commit}")
    notes = []
    for counts, reason in (
        (unverified, "earlier versions did not record their code"),
        (gone, "the history no longer has their commits"),
    ):
        if counts:
            listed = ", ".join(f"{count} at {commit}" for commit, count in counts.most_common())
            notes.append(f"not verified, since {reason}: {listed}")
    return SourceCheck(problems, notes)


def _find_disagreements(runs: dict[str, RunResults]) -> list[str]:
    """Return the files that hold the same run as another but other figures."""
    first: dict[object, str] = {}
    problems = []
    for file, run in runs.items():
        other = first.setdefault((result_key(run), configuration_key(run), run.seed), file)
        same = [
            [one["metrics"] for one in runs[name].evaluations.values()] for name in (file, other)
        ]
        if same[0] != same[1]:
            problems.append(f"{file}: the same settings and seed as {other}, but other figures")
    return problems
