"""The command line. Commands import heavy modules when they run, so that --help is instant."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer
from rich.text import Text

from tempograph.cli import (
    compare,
    datasets,
    demo,
    evaluate,
    export,
    fit,
    forecasting,
    predict,
    reporting,
    reproduce,
    serve,
    train,
    update,
)
from tempograph.cli.console import err, every_process, out, process_name, shown_warnings
from tempograph.errors import ProcessLostError, TempographError
from tempograph.version import __version__

app = typer.Typer(
    name="tempograph",
    help="Find missing facts in a temporal knowledge graph, with evidence.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with **tempograph demo**, or with your own events: "
    "**tempograph fit events.csv --out runs/mine**.",
)
app.add_typer(datasets.app, name="data")
_CLASSES = {"train": train.TrainCommand, "update": update.UpdateCommand}
"""The commands with a class of their own."""
for command in (
    demo.demo,
    fit.fit,
    train.train,
    train.resume,
    update.update,
    evaluate.evaluate,
    compare.compare,
    reproduce.reproduce,
    predict.complete,
    predict.score,
    predict.missing,
    predict.surprising,
    forecasting.forecast,
    forecasting.backtest,
    evaluate.calibration,
    reporting.report,
    export.export,
    serve.serve,
):
    app.command(command.__name__, cls=_CLASSES.get(command.__name__))(command)


def _print_version(requested: bool) -> None:
    if requested:
        out.print(f"tempograph {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 check failed, 2 user error, 130 interrupted."""
    # A parent that ignores ended children passes that on: exit codes of processes would be lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        with shown_warnings():
            app(prog_name="tempograph")
    except TempographError as error:
        console = every_process if isinstance(error, ProcessLostError) else err
        console.print(Text.assemble(("error:", "bold red"), f" {error}"), soft_wrap=True)
        sys.exit(2)
    except SystemExit as leaving:
        if leaving.code == 130:
            every_process.print(f"{process_name()}interrupted; nothing is half-written")
        raise
