"""Scans of a served run for missing, surprising and likely facts, as lines sent one by one."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import torch

from tempograph.data.spans import INTERVAL_COLUMNS
from tempograph.models.heads.fact_candidates import Search
from tempograph.prediction.forecast import ForecastFact
from tempograph.prediction.missing import MissingFacts, MissingSearch, by_time
from tempograph.prediction.outlook import Outlook, StepForecast, find_steps
from tempograph.prediction.scenario import Scenario
from tempograph.prediction.scoring import measured_scenario, most_surprising, score_columns
from tempograph.server.problems import Place, invalid
from tempograph.server.schema.request_models import (
    ForecastRequest,
    MissingRequest,
    SurprisingRequest,
)
from tempograph.server.schema.response_models import MissingFact, SurprisingFact
from tempograph.server.schema.scan_lines import (
    EndLine,
    ForecastEndLine,
    ForecastLine,
    MissingLine,
    ProgressLine,
    SurprisingLine,
)
from tempograph.server.served_run import ServedRun
from tempograph.training.occurrence_proposals import ProposedFacts

MissingLines = AsyncIterator[ProgressLine | MissingLine | EndLine]
SurprisingLines = AsyncIterator[ProgressLine | SurprisingLine | EndLine]
ForecastLines = AsyncIterator[ProgressLine | ForecastLine | ForecastEndLine]
_MAX_ITEMS: Final = 10_000
"""Facts in one unit."""


async def scan_missing(run: ServedRun, request: MissingRequest, client: str) -> MissingLines:
    """Lines of progress, then the facts that are most likely missing, then the end."""
    if request.at_least is None:
        _check_top(run, request.top)
    search = await run.find_ids(lambda: _search(run, request))
    scenario, at_least = run.predictor.scenario, request.at_least
    scan = MissingSearch(scenario, search, None if at_least is not None else request.top)
    await run.fit("missing", scan.fit)
    if scan.has_intervals:
        proposals = await run.work(scan.propose, client)
    else:
        proposals = await _propose_events(run, scan, client)
    yield ProgressLine(done=0, total=len(proposals))
    parts = [torch.empty(0, dtype=torch.float64, device=proposals.device)]
    index = range(len(proposals))

    def probability(rows: Sequence[int]) -> torch.Tensor:
        return scan.probability(proposals[rows[0] : rows[-1] + 1])

    async for done, part in run.units(index, probability, _MAX_ITEMS, client, admitted=True):
        parts.append(part)
        yield ProgressLine(done=done, total=len(proposals))

    found = MissingFacts(proposals, torch.cat(parts))
    if at_least is not None:
        found = found.at_least(at_least)
        _check_count(run, found, at_least)
    if scan.has_intervals:
        found = found if at_least is not None else found.best(request.top)
        held, facts = [proposals.new_empty(0, INTERVAL_COLUMNS)], found.facts

        def hold(rows: Sequence[int]) -> torch.Tensor:
            return scan.hold(facts[rows[0] : rows[-1] + 1])

        index, most = range(len(facts)), min(_MAX_ITEMS, scan.held_together)
        async for done, part in run.units(index, hold, most, client, admitted=True):
            held.append(part)
            yield ProgressLine(done=done, total=len(facts))
        found = MissingFacts(torch.cat(held), found.probability)

    def name_facts() -> list[dict[str, Any]]:
        if at_least is not None:
            table = found.table(scenario.graph)
        else:
            table = found.by_triple(scenario.graph, request.top)
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    rows = await run.work(name_facts, client, admitted=True)
    for row in rows:
        yield MissingLine(fact=MissingFact(**row))
    yield EndLine(facts=len(rows))


async def _propose_events(run: ServedRun, scan: MissingSearch, client: str) -> torch.Tensor:
    """What a search proposes if facts are events, found in units, [n, 4]."""
    found = await run.work(scan.proposals, client)

    def answer(questions: Sequence[int]) -> None:
        found.answer(range(questions[0], questions[-1] + 1))

    async for _ in run.units(range(len(found)), answer, _MAX_ITEMS, client, admitted=True):
        pass
    return await run.work(lambda: by_time(found.proposals().facts), client, admitted=True)


async def scan_surprising(
    run: ServedRun, request: SurprisingRequest, client: str
) -> SurprisingLines:
    """Lines of progress, then the known facts that are least plausible, then the end."""
    _check_top(run, request.top)

    def prepare() -> tuple[Scenario, pa.Table]:
        scenario = measured_scenario(run.predictor.scenario)
        return scenario, pa.table(score_columns(scenario, scenario.graph.train[:0]))

    scenario, nothing = await run.work(prepare, client)
    graph = scenario.graph
    facts = np.concatenate([graph.train[:0], *(graph.facts(split) for split in request.splits)])
    yield ProgressLine(done=0, total=len(facts))
    # Queries at one time share its encoding.
    order = np.argsort(facts[:, 3], kind="stable")

    def score(rows: Sequence[int]) -> pa.Table:
        return pa.table(score_columns(scenario, facts[order[rows[0] : rows[-1] + 1]]))

    parts = [nothing]
    async for done, part in run.units(range(len(facts)), score, _MAX_ITEMS, client, admitted=True):
        parts.append(part)
        yield ProgressLine(done=done, total=len(facts))

    def name_facts() -> list[dict[str, Any]]:
        scores = pa.concat_tables(parts).take(np.argsort(order))
        rows: list[dict[str, Any]] = most_surprising(graph, facts, scores, request.top).to_pylist()
        return rows

    rows = await run.work(name_facts, client, admitted=True)
    for row in rows:
        yield SurprisingLine(fact=SurprisingFact(**_without_infinity(row)))
    yield EndLine(facts=len(rows))


async def scan_forecast(run: ServedRun, request: ForecastRequest, client: str) -> ForecastLines:
    """Lines of progress, then the facts that are likely at each step, then the end."""
    _check_top(run, request.top * request.days)
    search = await run.find_ids(lambda: _search(run, request))
    await run.fit("forecast", run.predictor.run.questions.occurrence)

    def prepare() -> tuple[Outlook, range]:
        scenario, steps = find_steps(run.predictor.scenario, request.date, request.days)
        return Outlook(scenario), steps

    outlook, steps = await run.work(prepare, client)
    yield ProgressLine(done=0, total=len(steps))

    single = list[StepForecast]()
    for done, step in enumerate(steps, 1):
        propose = partial(outlook.propose, step, search, request.top)
        proposals = await run.work(propose, client, admitted=True)
        found = await _probabilities(run, outlook, step, proposals, client)
        best = found.best(request.top, request.min_probability)
        single += (best.row(number) for number in range(len(best.facts)))
        yield ProgressLine(done=done, total=len(steps))

    def describe(chunk: Sequence[StepForecast]) -> list[ForecastFact]:
        return [fact for each in chunk for fact in outlook.describe(each, request.evidence)]

    async for _, facts in run.units(single, describe, _MAX_ITEMS, client, admitted=True):
        for fact in facts:
            yield ForecastLine(fact=fact)
    about = outlook.summary(steps)
    yield ForecastEndLine(
        facts=len(single), steps=about.steps, known_until=about.known_until, notes=about.notes
    )


async def _probabilities(
    run: ServedRun, outlook: Outlook, step: int, proposals: list[ProposedFacts], client: str
) -> StepForecast:
    """The proposed facts of a step with their probabilities."""

    def probability(parts: Sequence[ProposedFacts]) -> list[torch.Tensor]:
        return [outlook.probability(step, part) for part in parts]

    found = await run.in_units(proposals, probability, len(proposals), client, admitted=True)
    return StepForecast(torch.cat([part.facts for part in proposals]), torch.cat(found))


def _search(run: ServedRun, request: MissingRequest | ForecastRequest) -> Search:
    browser = run.browser
    return Search(
        None if request.entity is None else browser.entity_id(request.entity),
        None
        if request.relations is None
        else [
            browser.relation_id(name, Place("relations", index))
            for index, name in enumerate(request.relations)
        ],
        browser.span(request.first, request.last) if isinstance(request, MissingRequest) else None,
    )


def _check_count(run: ServedRun, found: MissingFacts, at_least: float) -> None:
    count, limit = len(found.facts), run.limits.facts
    if count > limit:
        highest = float(found.probability[found.order()[limit - 1]])
        raise invalid(
            f"{count:,} facts have a probability of at least {at_least:g}, and a response has at "
            f"most {limit:,}; search a part of the data, or for facts of at least {highest:.3g}"
        )


def _check_top(run: ServedRun, top: int) -> None:
    if top > run.limits.facts:
        raise invalid(f"top is at most {run.limits.facts}, found {top}")


def _without_infinity(row: dict[str, Any]) -> dict[str, Any]:
    """A row with null for a score that rules a candidate out, as JSON has no infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
