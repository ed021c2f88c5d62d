"""evaluate and calibration: how good a run is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tempograph.cli.console import (
    metric_cells,
    metric_columns,
    out,
    print_json,
    print_note,
    progress_bar,
    show,
    table,
)
from tempograph.cli.shared_options import Device, Json, Plot, RunFolder, ScoreMemory
from tempograph.cli.train import is_finished
from tempograph.errors import ConfigError
from tempograph.report.text_table import TextTable
from tempograph.typing import ASKED, Ask, Asked, Filter, ForecastProtocol, RankingRules, Split

if TYPE_CHECKING:
    from tempograph.evaluation.evaluations import (
        Evaluation,
        EvaluationSummary,
        QuestionEvaluation,
        QuestionSummary,
    )
    from tempograph.evaluation.interval_evaluation import IntervalEvaluation


def evaluate(
    run: RunFolder,
    split: Annotated[Split, typer.Option(help="The facts to rank.")] = "test",
    ask: Annotated[
        Ask,
        typer.Option(
            help="What to rank: subjects and objects (entity), relations, times, or all of these. "
            "Of facts that hold for a while, the intervals are predicted (time)."
        ),
    ] = "entity",
    filter: Annotated[
        Filter,
        typer.Option(
            help="Other known answers to remove before ranking entities: those at the same time "
            "(time), those at any time (static), or none (raw)."
        ),
    ] = "time",
    protocol: Annotated[
        Literal["paper", ForecastProtocol, RankingRules] | None,
        typer.Option(
            help="For a forecaster: whether its history holds every earlier fact (forecast-single, "
            "the default) or ends with the split before (forecast-multi). For facts that hold for "
            "a while: ask for their start and end, as the literature does, not for every step "
            "(paper). For events: rank by the rules of TGB 2.0 (tgb). Figures are stored beside "
            "the usual ones."
        ),
    ] = None,
    negatives: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --protocol tgb, rank each answer among this many sampled entities instead "
            "of all; by default, 1000 for tkgl-wikidata.",
        ),
    ] = None,
    hits: Annotated[
        str, typer.Option(help="Values of k for Hits@k, separated by commas.")
    ] = "1,3,10",
    memory: ScoreMemory = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with code 1 if the run misses a target of its preset."),
    ] = False,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Check what the stored figures rest on, such as that a forecast sees the past "
            "alone; exit with code 1 if a check fails. A split without figures is ranked first.",
        ),
    ] = False,
    audit_facts: Annotated[
        int, typer.Option(min=1, help="Facts that each check of the audit asks about.")
    ] = 200,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Rank the right answers of every fact in a split, and store ranks and metrics.

    Relations and times are shown beside a baseline: counts of what the same pair did, or when it
    was active.
    """
    if audit:
        if check or ask != "entity" or filter != "time" or protocol == "tgb":
            raise ConfigError(
                "--audit checks the figures of entities with filter time; leave out --ask, "
                "--check, --filter and --protocol tgb"
            )
        if protocol == "paper":
            raise ConfigError("--audit takes a protocol of forecasts; leave out --protocol paper")
        _audit(run, split, protocol, audit_facts, device, json_output)
        return
    import tempograph.training.run_evaluation
    from tempograph.device import resolve_device
    from tempograph.evaluation.interval_evaluation import IntervalEvaluation
    from tempograph.evaluation.ranking import check_cutoffs
    from tempograph.training.run_folder import target_metrics
    from tempograph.training.runs import Run

    ks = _parse_hits(hits)
    if check and ask not in ("entity", "all"):
        raise ConfigError("--check compares entities; use it with --ask entity or all")
    if protocol is not None and ((check and protocol != "paper") or ask != "entity"):
        raise ConfigError(
            f"--protocol {protocol} ranks entities; leave out --ask"
            if protocol == "paper"
            else f"--protocol {protocol} ranks entities and has no targets; leave out --ask and "
            "--check"
        )
    targets = target_metrics(run, split, filter, protocol == "paper") if check else {}
    loaded = Run.load(run, resolve_device(device))
    check_cutoffs(ks, loaded.graph.has_intervals)
    entities: Evaluation | None = None
    questions: list[QuestionEvaluation] = []
    intervals: IntervalEvaluation | None = None
    every: tuple[Asked, ...] = ASKED if ask == "all" else (ask,)
    for asked in every:
        with progress_bar(f"ranking {split}: {asked}") as progress:
            if asked == "entity":
                entities = tempograph.training.run_evaluation.evaluate(
                    loaded,
                    split,
                    protocol=protocol,
                    filter=filter,
                    negatives=negatives,
                    budget=memory * 2**20 if memory else None,
                    progress=progress,
                )
            else:
                found = tempograph.training.run_evaluation.evaluate(
                    loaded,
                    split,
                    ask=asked,
                    budget=memory * 2**20 if memory else None,
                    progress=progress,
                )
                if isinstance(found, IntervalEvaluation):
                    intervals = found
                else:
                    questions.append(found)
    if is_finished(run) is False:
        resume = f"tempograph resume {quote(str(run))}"
        print_note(f"training is not finished; continue with: {resume}")
    figures = entities.summary()["metrics"] if entities is not None else {}
    # Published figures have three digits.
    reached = {name: round(figures[name], 3) for name in targets}
    missed = {name: value for name, value in targets.items() if reached[name] < value}
    if json_output:
        summary = _summaries(entities, questions, intervals, ks)
        print_json(summary | ({"missed": missed} if check else {}))
    else:
        if entities is not None:
            _print_evaluation(entities, ks)
        for each in questions:
            _print_questions(each, ks)
        if intervals is not None:
            _print_intervals(intervals)
        for name, value in targets.items():
            verdict = "missed" if name in missed else "reached"
            out.print(f"{name} {value:.3f} {verdict}: {reached[name]:.3f}")
    if missed:
        raise typer.Exit(1)


def _audit(
    run: Path,
    split: Split,
    protocol: ForecastProtocol | None,
    num_facts: int,
    device: str,
    json_output: bool,
) -> None:
    """Audit a run and print a row for each check; exit with code 1 if one fails."""
    import tempograph.experiments.run_audit
    from tempograph.training.run_folder import read_config, read_results

    with progress_bar(f"auditing {run}") as progress:
        summary = tempograph.experiments.run_audit.audit(
            run, split, protocol=protocol, num_facts=num_facts, device=device, progress=progress
        )
    if json_output:
        results, own = read_results(run), protocol in (None, summary["protocol"])
        figures = results.evaluation(split) if own else results.multi_step.get(split)
        print_json({**(figures or {}), "audit": summary})
    else:
        checks = summary["checks"]
        rows = [
            [each["name"], "holds" if each["holds"] else "FAILS", each["detail"]] for each in checks
        ]
        title = f"Audit of {read_config(run).about}"
        failed = sum(not each["holds"] for each in checks)
        caption = f"{failed} of {len(checks)} checks fail" if failed else "all checks hold"
        out.print(table(title, ["check", "", "what was compared"], rows, 3, caption))
    if not summary["holds"]:
        raise typer.Exit(1)


def _parse_hits(hits: str) -> list[int]:
    try:
        ks = [int(k) for k in hits.split(",")]
    except ValueError:
        ks = []
    if min(ks, default=0) < 1:
        raise ConfigError(f"--hits takes whole numbers from 1, separated by commas, found '{hits}'")
    return ks


def _summaries(
    entities: Evaluation | None,
    questions: Sequence[QuestionEvaluation],
    intervals: IntervalEvaluation | None,
    ks: list[int],
) -> dict[str, Any]:
    """The summary of the entities, with the others under what they ask for; or the only one."""
    by_part: dict[str, Any] = {each.asked: each.summary(ks) for each in questions}
    if intervals is not None:
        by_part["time"] = intervals.summary()
    if entities is None:
        return dict(*by_part.values())
    return {**entities.summary(ks), **by_part}


def _print_questions(evaluation: QuestionEvaluation, ks: list[int]) -> None:
    """Print the metrics of relations or times, and those of the baseline."""
    from tempograph.evaluation.evaluations import BASELINES

    summary = evaluation.summary(ks)
    rows = [
        [f"{evaluation.asked}s", *metric_cells(summary["metrics"])],
        [f"baseline: {BASELINES[evaluation.asked]}", *metric_cells(summary["baseline"])],
    ]
    title = f"{evaluation.asked.capitalize()} questions on {evaluation.dataset}, {evaluation.split}"
    caption = (
        f"protocol {evaluation.protocol}, other known {evaluation.asked}s removed, Hits in "
        f"percent, {evaluation.seconds:.1f} s{_calibration_note(summary)}"
    )
    out.print(table(title, ["ranked", *metric_columns(summary["metrics"])], rows, caption=caption))
    if evaluation.note is not None:
        out.print(evaluation.note, soft_wrap=True)


def _print_intervals(evaluation: IntervalEvaluation) -> None:
    """Print the metrics of predicted intervals, of all facts and of each kind."""
    summary = evaluation.summary()
    groups = {"all": (summary["facts"], summary["metrics"])}
    groups |= {kind: (each["facts"], each["metrics"]) for kind, each in summary["kinds"].items()}
    rows = [
        [name, f"{facts:,}", *(f"{100 * each:.1f}" for each in measured.values())]
        for name, (facts, measured) in groups.items()
    ]
    title = f"Intervals predicted by {evaluation.model} on {evaluation.dataset}, {evaluation.split}"
    left_out = f", {summary['left_out']:,} facts with an unknown bound left out"
    caption = (
        f"protocol {evaluation.protocol}, in percent, {evaluation.seconds:.1f} s"
        f"{left_out if summary['left_out'] else ''}"
    )
    columns = ["bounds", "facts", "aeIOU@1", "gIOU@1", "TAC"]
    out.print(table(title, columns, rows, caption=caption))
    if evaluation.note is not None:
        out.print(evaluation.note, soft_wrap=True)


def _calibration_note(summary: EvaluationSummary | QuestionSummary) -> str:
    error = summary.get("calibration_error")
    return "" if error is None else f"; expected calibration error {error:.3f}"


def _print_evaluation(evaluation: Evaluation, ks: list[int]) -> None:
    """Print the metrics of both sides together and of each."""
    from tempograph.evaluation.evaluations import METRIC_LABELS

    summary = evaluation.summary(ks)
    rows = [[label, *metric_cells(summary[key])] for key, label in METRIC_LABELS.items()]
    for heading, groups in (("", summary.get("kinds")), ("steps: ", summary.get("lengths"))):
        rows += [
            [f"{heading}{name} ({each['facts']:,})", *metric_cells(each["metrics"])]
            for name, each in (groups or {}).items()
        ]
    caption = (
        f"{evaluation.basis}, Hits in percent, "
        f"{evaluation.seconds:.1f} s{_calibration_note(summary)}"
    )
    columns = ["ranked", *metric_columns(summary["metrics"])]
    out.print(table(evaluation.title, columns, rows, caption=caption))
    if evaluation.note is not None:
        out.print(evaluation.note, soft_wrap=True)


def calibration(
    run: RunFolder,
    ask: Annotated[
        Asked, typer.Option(help="The probabilities to check: of entities, relations or times.")
    ] = "entity",
    plot: Plot = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Show how far the probabilities of a run can be trusted.

    They are calibrated once, on the validation split, and stored in the run folder.
    """
    from tempograph.device import resolve_device
    from tempograph.evaluation.reliability import reliability_cells
    from tempograph.training.runs import Run

    loaded = Run.load(run, resolve_device(device))
    config = loaded.config
    with progress_bar("scoring the valid split") as progress:
        found = loaded.questions.calibration(ask, progress)
    if plot is not None:
        from tempograph.report.drawing import save
        from tempograph.report.model_plots import reliability_figure

        save(reliability_figure(found, config.about), plot)
    if json_output:
        print_json({"run": str(run), "model": config.name, "asked": ask} | found)
        return
    title = (
        f"{config.name} on {config.dataset}: probability of the best {ask}, "
        "and how often it is right"
    )
    directions = ", both query directions" if ask == "entity" else ""
    caption = (
        f"{found['facts']:,} {found['split']} facts{directions}, "
        f"protocol {config.protocol}, filter time; temperature {found['temperature']:.3f}, "
        f"uniform share {found.get('uniform', 0.0):.1%}; "
        f"expected calibration error {found['calibration_error']:.3f} "
        f"({found['calibration_error_before']:.3f} before calibration)"
    )
    show(TextTable(title, *reliability_cells(found["reliability"]), caption=caption))
