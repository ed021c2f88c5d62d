"""The runs of the service by name."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from starlette.requests import Request

from tempograph.device import release_free_memory
from tempograph.errors import ConfigError, TempographError
from tempograph.prediction.predictor import Predictor
from tempograph.server.limits import Limits
from tempograph.server.lookup_threads import LookupThreads
from tempograph.server.metrics import Metrics
from tempograph.server.problems import Problem, not_ready, reload_failed, unknown
from tempograph.server.schema.operations import InfoResponse, RequestLimits
from tempograph.server.served_run import ServedRun
from tempograph.version import __version__

_RELEASE_SECONDS: Final = 10.0
"""How often free memory is returned while questions are asked."""


class Service:
    """Runs by name; the first is the default."""

    def __init__(
        self, predictors: Mapping[str, Predictor], limits: Limits, metrics: Metrics | None = None
    ) -> None:
        if not predictors:
            raise ConfigError("name at least one run folder to serve")
        self.limits = limits
        self.metrics = metrics or Metrics()
        self.threads = LookupThreads(limits.waiting)
        self.runs = {name: self._serve(name, each) for name, each in predictors.items()}
        self._reloading = asyncio.Lock()
        # The event loop would wait for a thread of its own when it is closed.
        self._loading_thread = ThreadPoolExecutor(1, thread_name_prefix="loading")
        self._loading: Future[ServedRun] | None = None
        self._retiring: dict[ServedRun, asyncio.Task[None]] = {}
        self._answered = asyncio.Event()
        self._releasing: asyncio.Task[None] | None = None

    def _serve(self, name: str, predictor: Predictor) -> ServedRun:
        return ServedRun(name, predictor, self.limits, self.metrics, self.threads)

    def start(self) -> None:
        """Start to answer in the running event loop."""
        for run in self.runs.values():
            run.start()
        self._releasing = asyncio.create_task(self._release_memory())

    async def stop(self) -> None:
        """Stop answering."""
        if self._releasing is not None:
            self._releasing.cancel()
        for task in self._retiring.values():
            task.cancel()
        for run in (*self.runs.values(), *self._retiring):
            await run.stop()
        self.threads.stop()
        self._loading_thread.shutdown(wait=False, cancel_futures=True)

    @property
    def busy(self) -> bool:
        """Whether a thread of a run is at work, or one that loads a run."""
        loading = self._loading is not None and not self._loading.done()
        return loading or any(run.busy for run in (*self.runs.values(), *self._retiring))

    def check_ready(self) -> None:
        """Raise a problem if a run cannot take another request.

        It names no run, because it needs no token.
        """
        for run in self.runs.values():
            if not run.batcher.running:
                raise not_ready("a run does not answer")
            if run.batcher.waiting >= self.limits.waiting:
                raise not_ready("the queue of a run is full")

    def run(self, name: str | None) -> ServedRun:
        """The run with a name, or the default run."""
        if name is None:
            return next(iter(self.runs.values()))
        if name not in self.runs:
            raise unknown("run", name, list(self.runs))
        return self.runs[name]

    @contextmanager
    def lease(self, request: Request, name: str | None) -> Iterator[ServedRun]:
        """The run that a request names; it answers until the end, even if it is reloaded."""
        run = self.run(name)
        request.state.run = run.name
        try:
            with run.lease():
                yield run
        finally:
            self._answered.set()

    async def reload(self, name: str | None = None) -> list[str]:
        """Load a run, or all, from its folder again; return the names.

        Requests in progress finish on the old run. If a folder cannot be loaded, nothing changes.
        """
        async with self._reloading:
            old = [self.run(name)] if name is not None else list(self.runs.values())
            new: list[ServedRun] = []
            for run in old:
                self._loading = self._loading_thread.submit(self._load_again, run)
                new.append(await asyncio.wrap_future(self._loading))
            for before, after in zip(old, new, strict=True):
                after.start()
                self.runs[after.name] = after
                self.metrics.reloads.labels(after.name).inc()
                self._retiring[before] = asyncio.create_task(self._retire(before))
        return [run.name for run in new]

    def _load_again(self, run: ServedRun) -> ServedRun:
        predictor = run.predictor
        if predictor.run.path is None:
            raise reload_failed(f"the run '{run.name}' was not loaded from a folder")
        try:
            loaded = Predictor(predictor.run.path, str(predictor.model.device), self.limits.cache)
        except TempographError as error:
            raise reload_failed(str(error)) from error
        again = self._serve(run.name, loaded)
        again.warm_up()
        return again

    async def _retire(self, run: ServedRun) -> None:
        await run.unused.wait()
        await run.stop()
        del self._retiring[run], run
        settle_memory()

    async def _release_memory(self) -> None:
        """Return what answers needed for a moment, even if clients left before they had them."""
        while True:
            await self._answered.wait()
            self._answered.clear()
            await asyncio.sleep(_RELEASE_SECONDS)
            with suppress(Problem):
                await self.threads.run(release_free_memory)

    def info(self) -> InfoResponse:
        """All runs, and the limits of requests."""
        limits = RequestLimits.model_validate(self.limits, from_attributes=True)
        runs = [run.info() for run in self.runs.values()]
        return InfoResponse(version=__version__, runs=runs, limits=limits)


def settle_memory() -> None:
    """Free what is no longer used, and let the garbage collector leave the rest alone from now on.

    A look at all objects of a few runs takes a tenth of a second, in which nothing is answered. It
    would also write to them, so that processes could no longer share their memory.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def named_runs(arguments: Sequence[str]) -> dict[str, Path]:
    """Run folders by name, from arguments NAME=FOLDER or FOLDER, which is named as itself."""
    named: dict[str, Path] = {}
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        if not equals or Path(argument).exists():
            name, folder = Path(argument).resolve().name, argument
        if not name or not folder:
            raise ConfigError(f"'{argument}' needs a name and a folder; write NAME=FOLDER")
        if name in named:
            raise ConfigError(f"two runs are named '{name}'; rename one: NAME={folder}")
        named[name] = Path(folder)
    return named
