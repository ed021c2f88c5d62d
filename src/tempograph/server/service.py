"""The runs of the service by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tempograph.errors import ConfigError
from tempograph.prediction.predictor import Predictor
from tempograph.server.limits import Limits
from tempograph.server.lookup_threads import LookupThreads
from tempograph.server.metrics import Metrics
from tempograph.server.problems import unknown
from tempograph.server.schema import InfoResponse, RequestLimits
from tempograph.server.served_run import ServedRun
from tempograph.version import __version__


class Service:
    """Runs by name; the first is the default."""

    def __init__(self, predictors: Mapping[str, Predictor], limits: Limits) -> None:
        if not predictors:
            raise ConfigError("name at least one run folder to serve")
        self.limits = limits
        self.metrics = Metrics()
        self.threads = LookupThreads(limits.waiting)
        self.runs = {
            name: ServedRun(name, predictor, limits, self.metrics, self.threads)
            for name, predictor in predictors.items()
        }

    def start(self) -> None:
        """Start to answer in the running event loop."""
        for run in self.runs.values():
            run.batcher.start()

    async def stop(self) -> None:
        """Stop answering."""
        for run in self.runs.values():
            await run.batcher.stop()
        self.threads.stop()

    @property
    def busy(self) -> bool:
        """Whether a thread of a run is at work."""
        return any(run.batcher.busy for run in self.runs.values())

    def run(self, name: str | None) -> ServedRun:
        """The run with a name, or the default run."""
        if name is None:
            return next(iter(self.runs.values()))
        if name not in self.runs:
            raise unknown("run", name, list(self.runs))
        return self.runs[name]

    def info(self) -> InfoResponse:
        """All runs, and the limits of requests."""
        limits = RequestLimits.model_validate(self.limits, from_attributes=True)
        runs = [run.info() for run in self.runs.values()]
        return InfoResponse(version=__version__, runs=runs, limits=limits)


def named_runs(arguments: Sequence[str]) -> dict[str, Path]:
    """Run folders by name, from arguments NAME=FOLDER or FOLDER, which is named as itself."""
    named: dict[str, Path] = {}
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        if not equals or Path(argument).exists():
            name, folder = Path(argument).resolve().name, argument
        if name in named:
            raise ConfigError(f"two runs are named '{name}'; rename one: NAME={folder}")
        named[name] = Path(folder)
    return named
