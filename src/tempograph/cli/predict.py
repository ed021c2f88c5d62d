"""complete, score, missing and surprising: questions to a trained run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tempograph.cli.answer_tables import (
    print_completion,
    print_facts,
    print_missing,
    print_remaining,
)
from tempograph.cli.console import note, out, print_json, print_note, progress_bar
from tempograph.cli.import_options import BATCH_OPTIONS, takes_import_options
from tempograph.cli.shared_options import (
    Device,
    Json,
    ParquetFile,
    Plot,
    RunFolder,
    ScoreMemory,
    Top,
)
from tempograph.typing import SPLITS, Split

if TYPE_CHECKING:
    from tempograph.prediction.answers import Completion


def complete(
    run: RunFolder,
    subject: Annotated[str | None, typer.Option(help="The subject.")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation.")] = None,
    object_: Annotated[str | None, typer.Option("--object", help="The object.")] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="The time, such as 2014-06-01. It may be after the data, as a date or as a number "
            "of steps: +3 is the third step after the last one."
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The first step of a period, instead of --time: answers hold at some step of the "
            "period. If you ask for the time, the answers are in the period.",
        ),
    ] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last step of the period.")] = None,
    why: Annotated[
        str | None, typer.Option(help="Explain only this candidate: the facts for and against it.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of answers.")] = 10,
    new: Annotated[
        bool, typer.Option("--new", help="Leave out answers that are known already.")
    ] = False,
    evidence: Annotated[int, typer.Option(min=0, help="Number of facts shown per answer.")] = 3,
    plot: Plot = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Rank the candidates for the missing part of a fact, with evidence.

    Give three of subject, relation, object and time; in place of the time, --from and --to may name
    a period. Without a time, the answers are time steps, or intervals if facts hold for a while.

    Example: **tempograph complete runs/ted --subject China --relation "Make a visit"
    --time 2014-06-01**
    """
    from tempograph.errors import ConfigError
    from tempograph.prediction.predictor import Predictor

    if time is not None and (first, last) != (None, None):
        raise ConfigError("--time is a moment, --from and --to are a period; give one of them")
    names = [subject, relation, object_]
    if names.count(None) == 1 and (first is None) != (last is None):
        raise ConfigError("--from and --to are the two ends of a period; give both")
    if [*names, time or last].count(None) != 1 and (names.count(None) or time is not None):
        raise ConfigError(
            "give three of --subject, --relation, --object and --time; "
            "the command ranks answers for the fourth"
        )
    if None in names:
        time = time or first
    if why is not None and last is not None:
        raise ConfigError("--why explains an answer at a --time; leave out --from and --to")
    if why is not None and None not in (subject, object_):
        raise ConfigError("--why takes a subject or an object; give the time and the other one")
    predictor = Predictor(run, device)
    ranked = (relation,) if predictor.timeline.has_intervals else (relation, time)
    if None in ranked and not predictor.run.questions.has_heads:
        with progress_bar("learning to rank relations and times") as progress:
            predictor.run.questions.heads(progress)

    def answer(max_facts: int) -> Completion:
        if why is not None:
            side = "subject" if subject is None else "object"
            fact = (subject or why, relation or "", object_ or why, time or "")
            return predictor.why(*fact, side, max_facts)
        if time is None:
            triple = (subject or "", relation or "", object_ or "")
            return predictor.times(*triple, top, max_facts, first, last, new)
        if subject is None:
            return predictor.subjects(
                relation or "", object_ or "", time, top, max_facts, new, until=last
            )
        if relation is None:
            if last is not None:
                raise ConfigError("over a period, ask for a subject or an object, not a relation")
            return predictor.relations(subject, object_ or "", time, top, max_facts, new)
        return predictor.objects(subject, relation, time, top, max_facts, new, until=last)

    completion = answer(evidence)
    config = predictor.run.config
    if plot is not None:
        from tempograph.report.answer_plot import completion_figure
        from tempograph.report.drawing import save

        graph, max_facts = predictor.graph, min(evidence, 10)
        asked = last or time
        times = graph.times if asked is None else predictor.scenario.at(asked)[0].graph.times
        save(completion_figure(answer(10_000), times, config.about, max_facts=max_facts), plot)
    if json_output:
        print_json({"run": str(run), "model": config.name} | dataclasses.asdict(completion))
    else:
        print_completion(completion)


@takes_import_options(BATCH_OPTIONS, remembered=True)
def score(
    run: RunFolder,
    facts: Annotated[
        Path, typer.Argument(help="A file with one fact per row, of any kind that can be imported.")
    ],
    options: Mapping[str, Any],
    out_file: ParquetFile = None,
    ranks: Annotated[
        bool,
        typer.Option(help="Also compute probabilities and ranks; without them, scoring is faster."),
    ] = True,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop if a fact cannot be scored, and score none.")
    ] = False,
    memory: ScoreMemory = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Compute the score, probability and rank of each fact in a file, for both query directions.

    A fact that cannot be scored, such as one with an unknown name, is reported with the reason, and
    the others are scored. Of facts with a start and an end, these are means over the steps at which
    they hold.

    Example: **tempograph score runs/mine rumors.csv --out scored.parquet**
    """
    from tempograph.data.fact_ids import read_facts
    from tempograph.data.table_files import write_table
    from tempograph.errors import QueryError
    from tempograph.prediction.predictor import Predictor

    predictor = Predictor(run, device)
    remembered, forecasts = predictor.run.import_options, predictor.timeline.past_only
    batch = read_facts(predictor.graph, facts, options, remembered, forecasts, print_note)
    if strict:
        batch.refuse_errors()
    failed = [] if batch.valid.all() else batch.describe_errors("scored")
    if failed and not batch.valid.any():
        raise QueryError(f"{failed[0]}; the first is {failed[1]}")
    with progress_bar("scoring") as progress:
        budget = memory * 2**20 if memory else None
        scored = predictor.score_batch(batch, progress, budget, ranks)
    if out_file is not None:
        write_table(scored.to_arrow(), out_file)
    name = predictor.model.name
    if json_output:
        print_json({"run": str(run), "model": name, "facts": scored.to_pylist()})
    else:
        count = f"{int(batch.valid.sum()):,} of {len(scored):,}" if failed else f"{len(scored):,}"
        print_facts(f"{count} facts scored by {name}", scored.slice(0, 50).to_pylist())
        print_remaining(len(scored), 50, out_file)
    for skip in batch.skipped:
        print_note(f"skipped, {skip}")
    for number, line in enumerate(failed):
        note(f"  {line}" if number else f"warning: {line}")


def missing(
    run: RunFolder,
    entity: Annotated[
        str | None, typer.Option(help="Only facts with this entity as subject or object.")
    ] = None,
    relation: Annotated[
        list[str] | None, typer.Option(help="Only this relation; can be repeated.")
    ] = None,
    first: Annotated[
        str | None, typer.Option(help="First time step; by default, the first in the data.")
    ] = None,
    last: Annotated[
        str | None, typer.Option(help="Last time step; by default, the last in the data.")
    ] = None,
    top: Top = 20,
    at_least: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Write every fact with at least this probability to --out, not just the top ones.",
        ),
    ] = None,
    out_file: ParquetFile = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Find facts that probably happened and are not in the data.

    There is one row for each subject, relation and object, at its most likely time, which is an
    interval if facts hold for a while. The probability is that the fact happened, if as many facts
    are missing as were held out for validation.

    Example: **tempograph missing runs/mine --entity China --first 2014-06-01 --last 2014-06-30**
    """
    from tempograph.errors import ConfigError
    from tempograph.prediction.predictor import Predictor

    if at_least is not None and out_file is None:
        raise ConfigError(
            "--at-least may find any number of facts; name a Parquet file for them with --out"
        )
    predictor = Predictor(run, device)
    with progress_bar("searching for missing facts") as progress:
        found = predictor.missing(entity, relation, first, last, top, at_least, out_file, progress)
    about = {"run": str(run), "model": predictor.model.name}
    if isinstance(found, int):
        if json_output:
            print_json(about | {"facts": found, "out": str(out_file)})
        else:
            count = f"{found:,} facts with a probability of at least {at_least:g}"
            out.print(f"{count}: {out_file}", soft_wrap=True)
    elif json_output:
        print_json(about | {"facts": found.to_pylist()})
    else:
        print_missing(found.to_pylist())


def surprising(
    run: RunFolder,
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="Only facts of this split; can be repeated. By default all splits.",
            metavar=f"<{'|'.join(SPLITS)}>",
        ),
    ] = None,
    top: Top = 20,
    out_file: ParquetFile = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Find the known facts that the model considers least plausible."""
    from tempograph.data.table_files import write_table
    from tempograph.prediction.predictor import Predictor

    predictor = Predictor(run, device)
    with progress_bar("searching for surprising facts") as progress:
        found = predictor.surprising(cast("list[Split]", split) or SPLITS, top, progress)
    if out_file is not None:
        write_table(found.to_arrow(), out_file)
    name = predictor.model.name
    if json_output:
        print_json({"run": str(run), "model": name, "facts": found.to_pylist()})
        return
    one_split = len(set(found["known"].to_pylist())) < 2
    rows = (found.drop_columns(["known"]) if one_split else found).to_pylist()
    print_facts(f"The least plausible facts according to {name}", rows)
