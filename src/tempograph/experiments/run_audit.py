"""An audit of a run folder: what its figures rest on, checked again from the stored weights.

The audit can only check what is computed from the weights. Which facts the weights were trained on
is not visible in them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from tempograph.data.graph import TemporalGraph
from tempograph.data.protocol import task_of
from tempograph.data.split_records import split_records
from tempograph.device import resolve_device
from tempograph.errors import DataError, RunError, StorageError
from tempograph.evaluation.audit_checks import (
    AuditCheck,
    AuditSummary,
    SampledRanks,
    check_each_alone,
    check_filter,
    check_ranks,
    rank_sample,
)
from tempograph.evaluation.evaluator import evaluate_model
from tempograph.evaluation.independent_ranks import RawDataset
from tempograph.evaluation.rank_table import read_run_ranks
from tempograph.evaluation.result_checks import check_figures, check_stored_ranks
from tempograph.experiments.audited_run import AuditedRun
from tempograph.experiments.completion_audit import check_asked_fact, check_held_out
from tempograph.experiments.forecast_audit import check_past_only, facts_of_some_steps
from tempograph.progress import show_progress
from tempograph.training.run_evaluation import evaluate
from tempograph.training.run_folder import dataset_folder
from tempograph.training.run_protocol import evaluation_protocol
from tempograph.training.runs import Run
from tempograph.typing import SPLITS, ProgressOption, Protocol, Split

AUDIT_FACTS: Final = 200
"""Facts that each check of an audit asks about."""


def audit(
    folder: str | Path,
    split: Split = "test",
    *,
    protocol: Protocol | None = None,
    num_facts: int = AUDIT_FACTS,
    device: str = "auto",
    progress: ProgressOption = True,
) -> AuditSummary:
    """Check what the figures of a run folder rest on, and keep the outcome in its results.

    A split without figures is evaluated first, under the protocol that is given or that of the run.
    Each check asks about `num_facts` facts at most, on both sides. If the splits are mixed, or the
    graph is not what the files hold, nothing else is checked. Progress is shown as in `train`.
    """
    run, path = Run.load(folder, resolve_device(device)), Path(folder)
    if not len(run.graph.test):
        raise DataError(f"{folder}: its test split has no facts, so there is nothing to ask about")
    if run.graph.has_intervals:
        raise DataError(
            f"{folder}: audits are for events, and the facts of {run.graph.name} hold for a while; "
            "tempograph evaluate ranks them"
        )
    raw = RawDataset(dataset_folder(path))
    checks = [check_splits(run), _check_files(run.graph, raw)]
    if _all_hold(checks):
        chosen = evaluation_protocol(run, protocol)
        own = chosen == run.config.protocol
        with show_progress(f"auditing {run.config.name} on {run.graph.name}", progress) as advance:
            if split not in (run.results.evaluations if own else run.results.multi_step):
                evaluate(run, split, protocol=chosen, progress=False)
            planned = _Audit(AuditedRun(run, path, num_facts), raw).checks()
            for number, check in enumerate(planned, 1):
                checks.append(check())
                if advance is not None:
                    advance(number, len(planned))
    summary: AuditSummary = {
        "protocol": run.config.protocol,
        "facts": num_facts,
        "holds": _all_hold(checks),
        "checks": checks,
    }
    # The folder of somebody else may be read-only.
    with suppress(StorageError):
        run.update_results(audit=summary)
    return summary


def _all_hold(checks: list[AuditCheck]) -> bool:
    return all(check["holds"] for check in checks)


def check_splits(run: Run) -> AuditCheck:
    """The splits are those of the training and, for a forecaster, follow each other in time."""
    name, recorded, found = "Splits are not mixed", run.results.splits, split_records(run.graph)
    try:
        evaluation_protocol(run)
    except (DataError, RunError) as error:
        return {"name": name, "holds": False, "detail": str(error)}
    changed = [split for split in SPLITS if recorded and recorded[split] != found[split]]
    if changed:
        detail = f"the facts of {' and '.join(changed)} are not those of the training"
        return {"name": name, "holds": False, "detail": detail}
    detail = "all facts are those of the training"
    if not recorded:
        detail = "the run is of an earlier version, which kept no record of the facts"
    if task_of(run.config.protocol) == "forecast":
        periods = (
            f"{split} is {record['first']} to {record['last']}"
            for split, record in found.items()
            if record["facts"]
        )
        detail += f"; {', '.join(periods)}"
    return {"name": name, "holds": True, "detail": detail}


def _check_files(graph: TemporalGraph, raw: RawDataset) -> AuditCheck:
    """The graph holds the facts in the files of the dataset folder."""
    wrong = [
        split
        for split in SPLITS
        if raw.facts[split] != [tuple(fact) for fact in graph.facts(split).tolist()]
    ]
    total = sum(len(facts) for facts in raw.facts.values())
    detail = f"{total:,} facts read with plain Python are equal"
    if wrong:
        detail = f"the facts of {' and '.join(wrong)} differ from those in the files"
    return {"name": "The graph is what the files hold", "holds": not wrong, "detail": detail}


class _Audit:
    """The checks that a run must pass for its task, and the ranks that they share."""

    def __init__(self, audited: AuditedRun, raw: RawDataset) -> None:
        self.audited, self.raw = audited, raw
        self.run, self.graph = audited.run, audited.graph
        self.forecasts = task_of(audited.protocol) == "forecast"
        self._sampled: dict[Split, SampledRanks] = {}

    def checks(self) -> list[Callable[[], AuditCheck]]:
        """All checks, to be called one after another."""
        audited, results = self.audited, self.run.results
        seen = [partial(check_past_only, audited)]
        if not self.forecasts:
            seen = [partial(check_held_out, audited, "Test is not seen", "test")]
            if len(self.graph.valid):
                seen.append(partial(check_held_out, audited, "Valid is not seen", "valid", "test"))
            seen.append(partial(check_asked_fact, audited))
        return [
            *seen,
            self.check_each_alone,
            self.check_ranks,
            self.check_filter,
            *(partial(self.check_results, split) for split in results.evaluations),
            *(partial(self.check_multi_step, split) for split in results.multi_step),
        ]

    def check_each_alone(self) -> AuditCheck:
        """The scores of a query do not depend on the others; asked of a model that is new."""
        audited, graph = self.audited, self.graph
        facts = facts_of_some_steps(audited) if self.forecasts else audited.sampled_test_facts()
        model = audited.answering(audited.build(graph), graph, "test")
        return check_each_alone(model, facts, len(graph.relations))

    def check_ranks(self) -> AuditCheck:
        """The ranks of test facts are found again by an independent ranker."""
        return check_ranks(self.sampled_ranks("test"))

    def check_filter(self) -> AuditCheck:
        """Only answers of the query's time are removed before ranking test facts."""
        return check_filter(self.sampled_ranks("test"))

    def check_results(self, split: Split) -> AuditCheck:
        """The figures in results.json are those of the ranks, and the ranks are found again."""
        reported = self.run.results.evaluations[split]["metrics"]
        sample, stored = self.sampled_ranks(split), read_run_ranks(self.audited.folder).get(split)
        if stored is None:
            # A folder that was made to be sent holds no ranks.
            again = evaluate_model(self.run.model, self.graph, split, self.audited.protocol)
            return check_figures("Results", reported, again, sample)
        return check_stored_ranks(split, reported, stored, self.graph.facts(split), sample)

    def check_multi_step(self, split: Split) -> AuditCheck:
        """The multi-step figures in results.json, whose ranks are not kept, are found again."""
        reported = self.run.results.multi_step[split]["metrics"]
        again = evaluate_model(self.run.model, self.graph, split, "forecast-multi")
        return check_figures("Multi-step results", reported, again)

    def sampled_ranks(self, split: Split) -> SampledRanks:
        """Ranks of a sample of a split."""
        if split not in self._sampled:
            audited, graph = self.audited, self.graph
            position = audited.sample(split, audited.num_facts)
            model = audited.answering(audited.model, graph, split)
            self._sampled[split] = rank_sample(model, graph, split, position, self.raw)
        return self._sampled[split]
