"""One run behind the service: its queries are scored in batches on a thread of its own."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Final, TypeVar

import torch

from tempograph.data.protocol import task_of
from tempograph.data.timeline import Queries
from tempograph.device import memory_budget
from tempograph.errors import QueryError
from tempograph.evaluation.rank_table import RankTable, read_run_ranks
from tempograph.prediction.predictor import Predictor
from tempograph.server.batching import QueryBatcher, Result
from tempograph.server.entity_questions import EntityAnswer, EntityQuestion, answer_questions
from tempograph.server.graph_browser import GraphBrowser, UnknownName, shown_labels
from tempograph.server.limits import Limits
from tempograph.server.lookup_threads import LookupThreads
from tempograph.server.metrics import Metrics
from tempograph.server.problems import invalid
from tempograph.server.schema.members import Part
from tempograph.server.schema.operations import RunInfo, WindowSize
from tempograph.typing import SPLITS, Split

_UNIT_SECONDS: Final = 0.05
"""How long a unit of work may keep other requests waiting."""
Item = TypeVar("Item")


class ServedRun:
    """A predictor with a name, a batcher and an index of its facts."""

    def __init__(
        self,
        name: str,
        predictor: Predictor,
        limits: Limits,
        metrics: Metrics,
        threads: LookupThreads,
    ) -> None:
        self.name = name
        self._threads = threads
        self.predictor = predictor
        self.limits = limits
        self.browser = GraphBrowser(name, predictor.run.known_graph, predictor.model.window)
        model, graph = predictor.model, predictor.graph
        self._cold_steps = len(graph.times)
        bytes_per_query = model.bytes_per_candidate * len(graph.entities)
        affordable = memory_budget("service", model.device) // bytes_per_query
        self.batcher = QueryBatcher(
            partial(answer_questions, predictor.scenario),
            max(1, min(limits.batch, affordable)),
            limits.gather,
            limits.waiting,
            self._prepare,
            metrics.batch_queries.labels(name).observe,
        )
        self._fitting_thread = ThreadPoolExecutor(1, thread_name_prefix="fitting")
        self._fitting: dict[str, asyncio.Future[object]] = {}
        self._fitted: set[str] = set()
        self._metrics = metrics
        self._leases = 0
        self.unused = asyncio.Event()
        """Set while no request uses the run."""
        self.unused.set()

    def start(self) -> None:
        """Start to answer in the running event loop, and to report the metrics of this name."""
        self.batcher.start()
        metrics, name = self._metrics, self.name
        metrics.watch(metrics.waiting.labels(name), lambda: self.batcher.waiting)
        metrics.watch(metrics.cached_bytes.labels(name), lambda: self._cached_bytes)
        for outcome in ("hits", "misses"):
            count = partial(self._count_lookups, outcome)
            metrics.watch(metrics.cache_lookups.labels(name, outcome), count)
        metrics.loaded.labels(name).set_to_current_time()

    async def stop(self) -> None:
        """Stop answering; what threads are working on is left behind."""
        self._fitting_thread.shutdown(wait=False, cancel_futures=True)
        await self.batcher.stop()

    @property
    def busy(self) -> bool:
        """Whether a thread of the run is at work."""
        return self.batcher.busy or bool(self._fitting)

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Keep the run answering."""
        self._leases += 1
        self.unused.clear()
        try:
            yield
        finally:
            self._leases -= 1
            if not self._leases:
                self.unused.set()

    def warm_up(self, completely: bool = False) -> None:
        """Answer a first query, so that the first client does not wait for lazy set-up.

        With `completely`, also prepare what would be prepared when the service is idle.
        """
        graph, questions = self.predictor.graph, self.predictor.run.questions
        while self._prepare() and completely:
            pass
        if completely:
            self._cold_steps = 0
            if questions.has_heads:
                self.predictor.scenario.heads()
        fact = (0, 0, -1, len(graph.times) - 1)
        self.predictor.complete(fact, torch.zeros(len(graph.entities)), 1, 0)
        for names in (graph.entity_index, graph.relation_index):
            names.prepare()

    @property
    def _cached_bytes(self) -> int:
        return sum(cache.size for cache in self.predictor.model.caches)

    def _count_lookups(self, outcome: str) -> float:
        return sum(float(getattr(cache, outcome)) for cache in self.predictor.model.caches)

    def _prepare(self) -> bool:
        """Prepare a part of what speeds up later questions; return whether more is left."""
        with torch.inference_mode():
            return self.predictor.model.prepare() or self._encode_next_step()

    def _encode_next_step(self) -> bool:
        """Let the model cache the latest step not cached yet; return whether another would fit."""
        if not self._cold_steps:
            return False
        self._cold_steps -= 1
        before, model = self._cached_bytes, self.predictor.model
        query = ([0], [0], [self._cold_steps])
        with torch.inference_mode():
            model.scores(Queries(*(torch.tensor(ids, device=model.device) for ids in query)))
        budget = sum(cache.budget for cache in model.caches)
        return self._cold_steps > 0 and 2 * self._cached_bytes - before < budget

    @cached_property
    def ranks(self) -> dict[Split, RankTable]:
        """The ranks of the splits that were evaluated; none if the run has no folder."""
        path = self.predictor.run.path
        return {} if path is None else read_run_ranks(path)

    @property
    def model_name(self) -> str:
        """Name of the model."""
        return self.predictor.run.config.name

    def info(self) -> RunInfo:
        """What a client needs to know about the run."""
        run, window, graph = self.predictor.run, self.browser.window, self.browser.graph
        return RunInfo(
            name=self.name,
            model=run.config.name,
            dataset=run.config.dataset,
            protocol=run.config.protocol,
            metrics={name: each["metrics"] for name, each in run.results.evaluations.items()},
            entities=len(graph.entities),
            relations=len(graph.relations),
            facts={split: len(graph.facts(split)) for split in SPLITS},
            steps=len(graph.times),
            first=graph.times[0],
            last=graph.times[-1],
            times=shown_labels(graph.times),
            window=None if window is None else WindowSize(past=window[0], future=window[1]),
            finished=run.results.finished,
            task=task_of(run.config.protocol),
            asked=self._asked,
            intervals=self.predictor.timeline.has_intervals,
        )

    @property
    def _asked(self) -> list[Part]:
        """The parts of a fact that the run can be asked for, as `QuestionModels.heads` has them."""
        if self.predictor.timeline.past_only:
            return ["subject", "object"]
        return ["subject", "relation", "object", "time"]

    async def look_up(self, function: Callable[[], Result]) -> Result:
        """The result of a function that reads names or facts, computed on another thread."""

        def look_up() -> Result:
            try:
                return function()
            except UnknownName as error:
                raise self.browser.suggest(error) from None

        return await self._threads.run(look_up)

    async def find_ids(self, function: Callable[[], Result]) -> Result:
        """The result of a function that looks up a few names; only suggestions need a thread."""
        try:
            return function()
        except UnknownName as error:
            raise await self._threads.run(partial(self.browser.suggest, error)) from None

    async def ask(self, question: EntityQuestion, client: str) -> EntityAnswer:
        """The answer to a question that is scored in one of the next batches."""
        return await _explained(self.batcher.submit(question, client))

    async def work(
        self, unit: Callable[[], Result], client: str, work_left: int = 0, admitted: bool = False
    ) -> Result:
        """Return `unit()`, computed between two batches."""
        return await _explained(self.batcher.work(unit, client, work_left, admitted))

    async def fit(self, name: str, fit: Callable[[], object]) -> None:
        """Wait until `fit()` has fitted what some questions need, if it has not yet.

        That can take a minute, so it has a thread of its own: other questions are answered
        meanwhile. It goes on if the client leaves, for the next one.
        """
        if name in self._fitted:
            return
        if name not in self._fitting:
            loop = asyncio.get_running_loop()
            self._fitting[name] = loop.run_in_executor(self._fitting_thread, fit)
            self._fitting[name].add_done_callback(partial(self._note_fit, name))
        await _explained(asyncio.shield(self._fitting[name]))

    def _note_fit(self, name: str, done: asyncio.Future[object]) -> None:
        del self._fitting[name]
        if not done.cancelled() and done.exception() is None:
            self._fitted.add(name)

    async def units(
        self,
        items: Sequence[Item],
        work: Callable[[Sequence[Item]], Result],
        max_items: int,
        client: str,
        admitted: bool = False,
    ) -> AsyncIterator[tuple[int, Result]]:
        """The number of items done and their result, in units of a fraction of a second.

        Other requests go between them, and nothing is computed for a client that has left. If even
        one item takes long, a unit may take twice as long as the fastest, or the costs that do not
        depend on its size would be paid for each item.
        """
        done, size, fastest = 0, 1, math.inf
        while done < len(items):
            chunk = items[done : done + size]
            unit = partial(_timed, work, chunk)
            left = len(items) - done
            result, seconds = await self.work(unit, client, left, admitted or done > 0)
            done += len(chunk)
            yield done, result
            fastest = min(fastest, seconds)
            wanted = max(_UNIT_SECONDS, 2 * fastest)
            size = max(1, min(max_items, 2 * size, int(size * wanted / seconds)))

    async def in_units(
        self,
        items: Sequence[Item],
        work: Callable[[Sequence[Item]], Sequence[Result]],
        max_items: int,
        client: str,
        admitted: bool = False,
    ) -> list[Result]:
        """The result for each item, computed in units."""
        units = self.units(items, work, max_items, client, admitted)
        return [result async for _, results in units for result in results]


async def _explained(answer: Awaitable[Result]) -> Result:
    """The answer, or the problem of a question that has none."""
    try:
        return await answer
    except QueryError as error:
        raise invalid(str(error)) from error


def _timed(work: Callable[[Sequence[Item]], Result], items: Sequence[Item]) -> tuple[Result, float]:
    """The result of some work, and the seconds that it took."""
    start = time.perf_counter()
    result = work(items)
    return result, max(1e-6, time.perf_counter() - start)
