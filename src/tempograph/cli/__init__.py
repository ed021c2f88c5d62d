"""The command line: commands, no logic. Heavy imports wait inside the commands, so that help is instant."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.text import Text

from tempograph.cli import ask as asking
from tempograph.cli import compare, demo, export, fit, reproduce, serve
from tempograph.cli import datasets as data
from tempograph.cli import reports as report
from tempograph.cli import train as model
from tempograph.cli.console import err, out
from tempograph.errors import TempographError
from tempograph.version import __version__

app = typer.Typer(
    name="tempograph",
    help="Find the missing facts of a temporal knowledge graph, with evidence.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with **tempograph demo**; for your own events, **tempograph fit events.csv --out runs/mine**.",
)
app.command("demo")(demo.demo)
app.add_typer(data.app, name="data")
app.command("fit")(fit.fit)
app.command("train")(model.train)
app.command("resume")(model.resume)
app.command("evaluate")(model.evaluate)
app.command("compare")(compare.compare)
app.command("reproduce")(reproduce.reproduce)
app.command("complete")(asking.complete)
app.command("score")(asking.score)
app.command("missing")(asking.missing)
app.command("surprising")(asking.surprising)
app.command("calibration")(asking.calibration)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("serve")(serve.serve)


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"tempograph {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command line: 0 done, 1 a check failed, 2 the user's mistake, 130 interrupted."""
    try:
        app(prog_name="tempograph")
    except TempographError as error:
        err.print(Text.assemble(("error:", "bold red"), f" {error}"), soft_wrap=True)
        sys.exit(2)
    except SystemExit as leaving:
        if leaving.code == 130:
            err.print("interrupted; nothing is half-written")
        raise
