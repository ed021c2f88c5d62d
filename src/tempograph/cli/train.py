"""train, resume, evaluate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from tempograph.cli.console import (
    err,
    metric_cells,
    metric_columns,
    out,
    print_json,
    progress_bar,
    stoppable,
    table,
)
from tempograph.training.distributed import Processes
from tempograph.typing import Filter, Protocol, Split

if TYPE_CHECKING:
    from tempograph.evaluation.evaluator import Evaluation
    from tempograph.training.runs import Run


def _complete_dataset(incomplete: str) -> list[str]:
    from tempograph.data.catalog import available

    return [entry.name for entry in available() if entry.name.startswith(incomplete)]


def _complete_model(incomplete: str) -> list[str]:
    from tempograph.models.registry import MODELS

    return [name for name in MODELS if name.startswith(incomplete)]


# Written out, because the registry would bring torch into every --help; a test compares.
_MODELS = (
    "ted, transe, distmult, complex, simple, ttranse, hyte, ta-distmult, de-transe, de-distmult, de-simple, atise-ee, "
    "atise-er, tcomplex, tntcomplex, pointer, srgcn, temp-gru, temp-sa, ensemble or temp-pointer"
)

Dataset = Annotated[
    str,
    typer.Argument(
        help="A dataset folder, or a known name such as demo or icews14.",
        autocompletion=_complete_dataset,
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, made by train or fit.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
TensorBoard = Annotated[
    bool, typer.Option("--tensorboard", help="Write TensorBoard events into the run folder too.")
]
MaxTime = Annotated[
    float | None, typer.Option(min=0, help="Stop after so many minutes; resume goes on.")
]


def train(
    dataset: Dataset,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings, such as model.sigma=0.1."),
    ] = None,
    model: Annotated[
        str, typer.Option(help=f"The model to fit: {_MODELS}.", autocompletion=_complete_model)
    ] = "ted",
    preset: Annotated[
        str | None, typer.Option(help="A shipped preset such as paper, or a TOML file.")
    ] = None,
    protocol: Annotated[
        Protocol, typer.Option(help="Whose facts make an entity active.")
    ] = "strict",
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="The run folder; by default runs/DATASET-MODEL.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all randomness.")] = 0,
    device: Device = "auto",
    max_time: MaxTime = None,
    tensorboard: TensorBoard = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run folder if it exists.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Fit a model to the train facts, choose on valid, and keep it in a run folder.

    Example: **tempograph train icews14 --model ted model.sigma=0.1 --out runs/ted**
    """
    import tempograph.training.trainer

    folder = out_folder or Path("runs") / f"{Path(dataset).name}-{model}"
    if not overwrite:
        refuse_unfinished(folder)
    with training_progress(folder, f"{model} on {dataset}", quiet=json_output) as (
        report,
        progress,
    ):
        run = tempograph.training.trainer.train(
            dataset,
            model,
            out=folder,
            protocol=protocol,
            preset=preset,
            seed=seed,
            overrides=overrides or (),
            device=device,
            overwrite=overwrite,
            max_seconds=None if max_time is None else 60 * max_time,
            tensorboard=tensorboard,
            report=report,
            progress=progress,
        )
    print_run(run, folder, json_output)


def refuse_unfinished(folder: Path) -> None:
    """A training that was stopped is gone on with, not begun again by mistake; of many processes one looks."""
    from tempograph.errors import StorageError

    if not Processes.from_environment().is_main:
        return
    if _finished(folder) is False:
        way_on = f"go on with it: tempograph resume {quote(str(folder))}"
        raise StorageError(
            f"{folder} holds a training that is not finished; {way_on}, or pass --overwrite"
        )


def _finished(folder: Path) -> bool | None:
    """Whether the training of a run folder is finished; None where there is no such folder."""
    try:
        return bool(json.loads((folder / "results.json").read_text(encoding="utf-8"))["finished"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def resume(
    run: RunFolder,
    max_time: MaxTime = None,
    tensorboard: TensorBoard = False,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Go on with a training that was stopped, as if it had never been stopped."""
    import tempograph.training.trainer

    with training_progress(run, f"resuming {run}", quiet=json_output) as (report, progress):
        resumed = tempograph.training.trainer.resume(
            run,
            device=device,
            max_seconds=None if max_time is None else 60 * max_time,
            tensorboard=tensorboard,
            report=report,
            progress=progress,
        )
    print_run(resumed, run, json_output)


@contextmanager
def training_progress(
    folder: Path, description: str, quiet: bool
) -> Iterator[tuple[Callable[[dict[str, Any]], None], Callable[[int, int], None]]]:
    """Report each epoch on standard error and, when training is stopped, say how to go on."""

    def report(line: dict[str, Any]) -> None:
        if not quiet:
            err.print(
                "  ".join(
                    _shown(name, value) for name, value in line.items() if name not in _UNSHOWN
                )
            )

    before = _finished(folder)

    def way_on() -> str | None:
        finished = _finished(folder)
        if finished is None or (before and finished):
            return None
        if finished:
            return f"the run is trained; go on with: tempograph evaluate {quote(str(folder))}"
        return f"go on with: tempograph resume {quote(str(folder))}"

    with stoppable(way_on), progress_bar(description) as progress:
        yield report, progress


_UNSHOWN = ("valid/mr", "valid/hits@3")


def _shown(name: str, value: Any) -> str:
    if name == "part":
        return f"{value}:"
    if name == "left":
        return f"at most {timedelta(seconds=round(value))} left" if value else "done"
    digits = {
        "epoch": "{:.0f}",
        "half": "{:.0f}",
        "steps": "{:.0f}",
        "sigma": "{:g}",
        "seconds": "{:.2f} s",
    }.get(name, "{:.4f}")
    return f"{'' if name == 'seconds' else name + ' '}{digits.format(value)}"


def print_run(run: Run, folder: Path, json_output: bool) -> None:
    """What training has come to, and what to do next."""
    if json_output:
        print_json({"run": str(folder)} | run.results.to_json())
        return
    size = f"{run.results.parameters:,} parameters"
    about = f" on {run.config.dataset}, protocol {run.config.protocol}, {size}: {folder}"
    out.print(Text.assemble((run.config.name, "bold"), about))
    if not run.results.finished:
        out.print(
            f"not finished; go on with: tempograph resume {quote(str(folder))}", soft_wrap=True
        )
    elif run.results.valid is not None:
        best = f" at epoch {run.results.best_epoch}" if run.results.best_epoch else ""
        mrr, noted = (
            run.results.valid["metrics"]["mrr"],
            ", cross-fitted" * ("note" in run.results.valid),
        )
        way_on = f"next: tempograph evaluate {quote(str(folder))} --split test"
        out.print(f"valid MRR {mrr:.3f}{best}{noted}; {way_on}", soft_wrap=True)


def evaluate(
    run: RunFolder,
    split: Annotated[Split, typer.Option(help="The facts to rank.")] = "test",
    filter: Annotated[
        Filter,
        typer.Option(help="Known answers to take out: true at that time, at any time, or none."),
    ] = "time",
    hits: Annotated[str, typer.Option(help="The k of Hits@k, separated by commas.")] = "1,3,10",
    memory: Annotated[
        int | None,
        typer.Option(min=1, help="Budget for scores in MiB; by default 512, on a GPU 4096."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 1 unless the figures that the run's preset names are reached.",
        ),
    ] = False,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Rank every fact of a split from both sides; ranks and figures are kept in the run folder."""
    import tempograph.training.trainer
    from tempograph.errors import ConfigError
    from tempograph.training.run_folder import target_metrics

    try:
        wanted = [int(k) for k in hits.split(",")]
    except ValueError:
        wanted = []
    if min(wanted, default=0) < 1:
        raise ConfigError(f"--hits takes whole numbers from 1, separated by commas, found '{hits}'")
    targets = target_metrics(run, split, filter) if check else {}
    with progress_bar(f"ranking {split}") as progress:
        evaluation = tempograph.training.trainer.evaluate(
            run,
            split,
            filter=filter,
            device=device,
            budget=memory * 2**20 if memory else None,
            progress=progress,
        )
    if _finished(run) is False:
        err.print(
            f"note: the training is not finished; tempograph resume {quote(str(run))} goes on",
            soft_wrap=True,
        )
    # Figures are published to three digits.
    found = (
        {name: round(value, 3) for name, value in evaluation.summary()["metrics"].items()}
        if check
        else {}
    )
    missed = {name: value for name, value in targets.items() if found[name] < value}
    if json_output:
        print_json(evaluation.summary(wanted) | ({"missed": missed} if check else {}))
    else:
        print_evaluation(evaluation, wanted)
        for name, value in targets.items():
            out.print(
                f"{name} {value:.3f} {'missed' if name in missed else 'reached'}: {found[name]:.3f}"
            )
    if missed:
        raise typer.Exit(1)


def print_evaluation(evaluation: Evaluation, hits: list[int]) -> None:
    """The metrics of both sides and each, and how far ties could move them."""
    from tempograph.evaluation.evaluator import METRIC_LABELS

    summary = evaluation.summary(hits)
    rows = [[label, *metric_cells(summary[key])] for key, label in METRIC_LABELS.items()]
    title = f"{evaluation.model} on {evaluation.dataset}, {evaluation.split}: {len(evaluation.facts):,} facts"
    caption = f"protocol {evaluation.protocol}, filter {evaluation.filter}, Hits in per cent, {evaluation.seconds:.1f} s"
    out.print(table(title, ["ranked", *metric_columns(summary["metrics"])], rows, caption=caption))
    if evaluation.note is not None:
        out.print(evaluation.note, soft_wrap=True)
