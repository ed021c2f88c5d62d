"""train and resume."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperOption

from tempograph.cli.console import err, note, out, print_json, stoppable
from tempograph.cli.shared_options import (
    Dataset,
    Device,
    Json,
    MaxTime,
    OverwriteRun,
    RunFolder,
    TaskOption,
    TensorBoard,
    TrainProtocol,
)
from tempograph.progress import show_on_console
from tempograph.training.callbacks import TrainingBar
from tempograph.training.distributed import Processes
from tempograph.typing import MODEL_ENTRY_POINTS

if TYPE_CHECKING:
    from tempograph.training.runs import Run


# Spelled out because importing the registry would load torch for every --help; a test compares.
_MODELS: Final = (
    *(
        "ted",
        "recurrency",
        "edgebank",
        "history-frequency",
        "transe",
        "distmult",
        "complex",
        "simple",
        "ttranse",
        "hyte",
        "ta-distmult",
    ),
    *("de-transe", "de-distmult", "de-simple", "atise-ee", "atise-er", "tcomplex", "tntcomplex"),
    *("pointer", "srgcn", "temp-gru", "temp-sa", "ensemble", "temp-pointer"),
)
_HELP: Final = f"The model to train: {', '.join(_MODELS[:-1])} or {_MODELS[-1]}"


def _models_of_packages() -> list[str]:
    """The models that other packages add, by the names of their entry points."""
    from importlib.metadata import entry_points

    return sorted(entry_points(group=MODEL_ENTRY_POINTS).names - {*_MODELS})


def _complete_model(incomplete: str) -> list[str]:
    names = (*_MODELS, *_models_of_packages())
    return [name for name in names if name.startswith(incomplete)]


class TrainCommand(TyperCommand):
    """A command whose help lists the models of other packages, looked up when it is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the command."""
        if others := ", ".join(_models_of_packages()):
            for option in self.params:
                if isinstance(option, TyperOption) and option.name == "model":
                    option.help = f"{_HELP}; from other packages: {others}."
        super().format_help(ctx, formatter)


def train(
    dataset: Dataset,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings, such as model.sigma=0.1."),
    ] = None,
    model: Annotated[str, typer.Option(help=f"{_HELP}.", autocompletion=_complete_model)] = "ted",
    preset: Annotated[
        str | None,
        typer.Option(
            help="Settings to start from: a shipped preset such as paper, or a TOML file."
        ),
    ] = None,
    task: TaskOption = "complete",
    protocol: TrainProtocol = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="The run folder; by default, runs/DATASET-MODEL.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    device: Device = "auto",
    max_time: MaxTime = None,
    tensorboard: TensorBoard = False,
    overwrite: OverwriteRun = False,
    json_output: Json = False,
) -> None:
    """Train a model and write a run folder with the best weights by validation MRR.

    Example: **tempograph train icews14 --model ted model.sigma=0.1 --out runs/ted**
    """
    import tempograph.training.trainer

    folder = out_folder or Path("runs") / f"{Path(dataset).name}-{model}"
    if not overwrite:
        refuse_unfinished(folder)
    description = f"training {model} on {dataset}"
    with training_progress(folder, description, quiet=json_output) as bar:
        run = tempograph.training.trainer.train(
            dataset,
            model,
            out=folder,
            task=task,
            protocol=protocol,
            preset=preset,
            seed=seed,
            overrides=overrides or (),
            device=device,
            overwrite=overwrite,
            max_seconds=None if max_time is None else 60 * max_time,
            tensorboard=tensorboard,
            report=bar.report,
            progress=bar.rank,
            note=None if json_output else note,
        )
    _print_run(run, folder, json_output)


def resume(
    run: RunFolder,
    max_time: MaxTime = None,
    tensorboard: TensorBoard = False,
    device: Device = "auto",
    json_output: Json = False,
) -> None:
    """Continue an interrupted run; the result is the same as without the interruption.

    A run that 'fit' started also finishes its search, is measured and gets its trust report.
    """
    import tempograph.training.trainer

    if is_unfinished_fit(run):
        _resume_fit(run, max_time, tensorboard, device, json_output)
        return
    with training_progress(run, f"resuming {run}", quiet=json_output) as bar:
        resumed = tempograph.training.trainer.resume(
            run,
            device=device,
            max_seconds=None if max_time is None else 60 * max_time,
            tensorboard=tensorboard,
            report=bar.report,
            progress=bar.rank,
        )
    _print_run(resumed, run, json_output)


def _resume_fit(
    run: Path, max_time: float | None, tensorboard: bool, device: str, json_output: bool
) -> None:
    """Continue a run that fit started, to the end of what fit does."""
    from tempograph.cli.fit_output import print_fit
    from tempograph.experiments.fit_hooks import FitHooks
    from tempograph.experiments.fit_stages import resume_fit

    with training_progress(run, f"resuming {run}", quiet=json_output) as bar:
        seconds = None if max_time is None else 60 * max_time
        tell = None if json_output else note
        hooks = FitHooks.within(seconds, bar.report, bar.rank, bar.stage, tell)
        result = resume_fit(run, hooks, device, tensorboard)
    if json_output:
        print_json(result.summary())
    else:
        print_fit(result, run)


def refuse_unfinished(folder: Path) -> None:
    """Raise if `folder` holds an unfinished run, so that it is not overwritten by mistake."""
    from tempograph.errors import StorageError

    if Processes.from_environment().is_main and _is_done(folder) is False:
        raise StorageError(
            f"{folder} holds an unfinished run; "
            f"continue it with: tempograph resume {quote(str(folder))}, or pass --overwrite"
        )


def is_finished(folder: Path) -> bool | None:
    """Whether the training of a run folder is finished; None if there is no such folder."""
    return _read_finished(folder / "results.json")


def is_unfinished_fit(folder: Path) -> bool:
    """Whether a folder holds a run that fit started and that is not at its end."""
    return is_finished(folder) is not None and _read_finished(folder / "fit.json") is False


def _is_done(folder: Path) -> bool | None:
    """Whether nothing is left to do in a run folder; None if there is no such folder."""
    return is_finished(folder) and not is_unfinished_fit(folder)


def _read_finished(file: Path) -> bool | None:
    try:
        return bool(json.loads(file.read_text(encoding="utf-8"))["finished"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


@contextmanager
def training_progress(folder: Path, description: str, quiet: bool) -> Iterator[TrainingBar]:
    """Print each epoch on standard error and, on an interrupt, the command that continues.

    A terminal also shows a bar; without one, a ranking that takes long prints a line.
    """

    def report(line: dict[str, Any]) -> None:
        if not quiet:
            shown = (name for name in line if name not in ("valid/mr", "valid/hits@3"))
            note("  ".join(_report_cell(name, line[name]) for name in shown))
            work.last_line = time.monotonic()

    done_before = _is_done(folder)

    def next_step() -> str | None:
        done = _is_done(folder)
        if done is None or (done_before and done):
            return None
        if done:
            return f"the run is trained; evaluate it with: tempograph evaluate {quote(str(folder))}"
        return f"continue with: tempograph resume {quote(str(folder))}"

    with stoppable(next_step), show_on_console(description, err, note) as work:
        yield TrainingBar(work, report)


def _report_cell(name: str, value: Any) -> str:
    if name == "part":
        return f"{value}:"
    if name == "left":
        return f"at most {timedelta(seconds=round(value))} left" if value else "done"
    if name == "seconds":
        return f"{value:.2f} s"
    digits = {"epoch": ".0f", "half": ".0f", "steps": ".0f", "sigma": "g"}.get(name, ".4f")
    return f"{name} {value:{digits}}"


def _print_run(run: Run, folder: Path, json_output: bool) -> None:
    """Print the result of the training and what to do next."""
    results = run.results
    if json_output:
        print_json({"run": str(folder)} | results.to_json())
        return
    size = f"{results.parameters:,} parameters"
    about = f" on {run.config.dataset}, protocol {run.config.protocol}, {size}: {folder}"
    out.print(Text.assemble((run.config.name, "bold"), about))
    quoted = quote(str(folder))
    if not results.finished:
        out.print(f"not finished; continue with: tempograph resume {quoted}", soft_wrap=True)
    elif results.valid is not None:
        epoch = f" at epoch {results.best_epoch}" if results.best_epoch else ""
        cross_fitted = ", cross-fitted" if "note" in results.valid else ""
        mrr = f"valid MRR {results.valid['metrics']['mrr']:.3f}{epoch}{cross_fitted}"
        out.print(f"{mrr}; next: tempograph evaluate {quoted} --split test", soft_wrap=True)
