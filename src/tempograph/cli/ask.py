"""complete, score, missing, surprising, calibration: questions to a trained run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tempograph.cli import import_options as importing
from tempograph.cli.answer_tables import print_completion, print_facts, print_note, print_rest
from tempograph.cli.console import out, print_json, progress_bar, show
from tempograph.cli.train import Device, Json, RunFolder
from tempograph.typing import SPLITS, Split

if TYPE_CHECKING:
    from tempograph.prediction.answers import Completion

First = Annotated[
    str | None, typer.Option(help="The first time step; by default the first of the data.")
]
Last = Annotated[
    str | None, typer.Option(help="The last time step; by default the last of the data.")
]
Out = Annotated[Path | None, typer.Option("--out", help="Write a Parquet file as well.")]
Top = Annotated[int, typer.Option(min=1, help="How many, at most.")]


def complete(
    run: RunFolder,
    subject: Annotated[str | None, typer.Option(help="The subject.")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation.")] = None,
    object_: Annotated[str | None, typer.Option("--object", help="The object.")] = None,
    time: Annotated[
        str | None,
        typer.Option(help="The time step, as the dataset labels it, such as 2014-06-01."),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option(help="Ask about this candidate alone: what speaks for it, what against it."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many answers.")] = 10,
    evidence: Annotated[
        int, typer.Option(min=0, help="How many facts to show for each answer.")
    ] = 3,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the answers and their evidence over time (.png, .svg, .pdf)."),
    ] = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Rank the answers to a fact with one part missing: give three of subject, relation, object and time.

    Example: **tempograph complete runs/ted --subject China --relation "Make a visit" --time 2014-06-01**
    """
    from tempograph.errors import ConfigError
    from tempograph.prediction.predictor import Predictor

    if [subject, relation, object_, time].count(None) != 1:
        raise ConfigError(
            "give three of --subject, --relation, --object and --time; the fourth is what is asked"
        )
    if why is not None and None not in (subject, object_):
        raise ConfigError("--why takes a subject or an object; give the time and the other one")
    predictor = Predictor(run, device)

    def ask(most: int) -> Completion:
        if why is not None:
            side = "subject" if subject is None else "object"
            return predictor.why(
                subject or why, relation or "", object_ or why, time or "", side, most
            )
        if time is None:
            with progress_bar("asking about every time step") as progress:
                return predictor.times(
                    subject or "", relation or "", object_ or "", top, most, progress=progress
                )
        if subject is None:
            return predictor.subjects(relation or "", object_ or "", time, top, most)
        if relation is None:
            return predictor.relations(subject, object_ or "", time, top, most)
        return predictor.objects(subject, relation, time, top, most)

    completion = ask(evidence)
    if plot is not None:
        from tempograph.report.drawing import save
        from tempograph.report.model_plots import completion_figure

        save(
            completion_figure(ask(10_000), predictor.graph.times, predictor.run.config.about), plot
        )
    if json_output:
        print_json(
            _plain(
                {"run": str(run), "model": predictor.run.config.name}
                | dataclasses.asdict(completion)
            )
        )
    else:
        print_completion(completion)


def score(
    run: RunFolder,
    facts: Annotated[
        Path,
        typer.Argument(
            help="A CSV, TSV or Parquet file with columns subject, relation, object and time."
        ),
    ],
    subject: importing.Subject = "subject",
    relation: importing.Relation = "relation",
    object_: importing.Object = "object",
    time: importing.Time = "time",
    delimiter: importing.Delimiter = None,
    time_format: importing.TimeFormat = None,
    out_file: Out = None,
    ranks: Annotated[
        bool,
        typer.Option(
            help="With probability and rank among all entities, or scores alone, which is faster."
        ),
    ] = True,
    memory: Annotated[int | None, typer.Option(min=1, help="Budget for scores in MiB.")] = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Score, probability and rank of each fact in a file, from both sides.

    Example: **tempograph score runs/mine rumours.csv --out scored.parquet**
    """
    from tempograph.data.importers.fact_columns import read_fact_table
    from tempograph.data.importers.options import ImportOptions
    from tempograph.errors import QueryError
    from tempograph.prediction.predictor import Predictor
    from tempograph.prediction.scan import write_table

    separator = importing.as_typed(delimiter)
    options = ImportOptions(
        subject, relation, object_, time, delimiter=separator, time_format=time_format
    )
    given = read_fact_table(facts, options)
    predictor = Predictor(run, device)
    with progress_bar("scoring") as progress:
        try:
            found = predictor.score(given, progress, memory * 2**20 if memory else None, ranks)
        except QueryError as error:
            raise QueryError(f"{facts}, rows counted from 0: {error}") from None
    if out_file is not None:
        write_table(found, out_file)
    if json_output:
        print_json(
            _plain({"run": str(run), "model": predictor.model.name, "facts": found.to_pylist()})
        )
    else:
        print_facts(
            f"{len(found):,} facts as {predictor.model.name} sees them",
            found.slice(0, 50).to_pylist(),
        )
        print_rest(len(found), 50, out_file)
        print_note(predictor)


def missing(
    run: RunFolder,
    entity: Annotated[
        str | None, typer.Option(help="Only facts of this entity, as subject or object.")
    ] = None,
    relation: Annotated[
        list[str] | None, typer.Option(help="Only this relation; may be given again.")
    ] = None,
    first: First = None,
    last: Last = None,
    top: Top = 20,
    at_least: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Write every fact with such a probability to --out instead."
        ),
    ] = None,
    out_file: Out = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """The most plausible facts that are not in the data.

    Example: **tempograph missing runs/mine --entity China --first 2014-06-01 --last 2014-06-30**
    """
    from tempograph.errors import ConfigError
    from tempograph.prediction.predictor import Predictor

    if at_least is not None and out_file is None:
        raise ConfigError(
            "--at-least may find any number of facts; name a Parquet file for them with --out"
        )
    predictor = Predictor(run, device)
    with progress_bar("looking for missing facts") as progress:
        found = predictor.missing(entity, relation, first, last, top, at_least, out_file, progress)
    about = {"run": str(run), "model": predictor.model.name}
    if isinstance(found, int):
        if json_output:
            print_json(about | {"facts": found, "out": str(out_file)})
        else:
            out.print(
                f"{found:,} facts with a probability of at least {at_least:g}: {out_file}",
                soft_wrap=True,
            )
    elif json_output:
        print_json(_plain(about | {"facts": found.to_pylist()}))
    else:
        print_facts("The most plausible facts that are not in the data", found.to_pylist())
        print_note(predictor)


def surprising(
    run: RunFolder,
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="Facts of this split; may be given again; else all.",
            metavar=f"<{'|'.join(SPLITS)}>",
        ),
    ] = None,
    top: Top = 20,
    out_file: Out = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Known facts that the model finds least plausible, most surprising first."""
    from tempograph.prediction.predictor import Predictor
    from tempograph.prediction.scan import write_table

    predictor = Predictor(run, device)
    with progress_bar("looking for odd facts") as progress:
        found = predictor.surprising(cast("list[Split]", split) or SPLITS, top, progress)
    if out_file is not None:
        write_table(found, out_file)
    if json_output:
        print_json(
            _plain({"run": str(run), "model": predictor.model.name, "facts": found.to_pylist()})
        )
    else:
        differ = len(set(found["known"].to_pylist())) > 1
        rows = (found if differ else found.drop_columns(["known"])).to_pylist()
        print_facts(f"Facts that {predictor.model.name} finds hard to believe", rows)
        print_note(predictor)


def calibration(
    run: RunFolder,
    plot: Annotated[
        Path | None, typer.Option(help="Draw how sure against how often right (.png, .svg, .pdf).")
    ] = None,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """How far the probabilities of a run can be trusted: fitted on valid once, and kept with the run."""
    from tempograph.device import resolve_device
    from tempograph.errors import QueryError
    from tempograph.report.reliability_table import reliability_table
    from tempograph.training.runs import Run

    loaded = Run.load(run, resolve_device(device))
    with progress_bar("asking about valid") as progress:
        if loaded.temperature(progress) is None:
            raise QueryError(
                f"the scores of {loaded.config.name} are not probabilities, so there is no calibration"
            )
    if loaded.results.calibration is None:
        raise QueryError(
            f"{run}: its valid split has no facts, so there is nothing to calibrate on"
        )
    found = loaded.results.calibration
    if plot is not None:
        from tempograph.report.drawing import save
        from tempograph.report.model_plots import reliability_figure

        save(reliability_figure(found, loaded.config.about), plot)
    if json_output:
        print_json({"run": str(run), "model": loaded.config.name} | found)
        return
    caption = (
        f"{found['facts']:,} facts of {found['split']} from both sides, protocol {loaded.config.protocol}, filter "
        f"time; temperature {found['temperature']:.3f}; expected calibration error {found['calibration_error']:.3f}, "
        f"before {found['calibration_error_before']:.3f}"
    )
    title = f"{loaded.config.name} on {loaded.config.dataset}: how sure the best answer is, and how often right"
    show(reliability_table(found, title, caption))


def _plain(value: Any) -> Any:
    """What JSON can hold: a score that is out of the question becomes null."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
