"""The ids of facts of a request, and the scenario for their times, which may be after the data."""

from __future__ import annotations

from tempograph.errors import QueryError
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.server.problems import invalid
from tempograph.server.schema.members import NameOrId, Parts
from tempograph.server.served_run import ServedRun


async def locate(
    run: ServedRun, parts: Parts, client: str, ahead: bool = True
) -> tuple[Scenario, Fact]:
    """The ids of a fact, -1 for a missing part, and the scenario for its time.

    A time after the last step, such as +1, is one of a scenario with further steps, if the question
    may look `ahead`.
    """
    subject, relation, object_, time = parts
    scenario = run.predictor.scenario
    if time is None or not ahead or run.browser.has_time(time):
        return scenario, await run.find_ids(lambda: run.browser.fact_ids(parts))
    fact = await run.find_ids(lambda: run.browser.fact_ids((subject, relation, object_, None)))
    later = await _look_ahead(run, time, client)
    if later is None:
        return scenario, await run.find_ids(lambda: run.browser.fact_ids(parts))
    return later[0], (*fact[:3], later[1])


async def locate_end(
    run: ServedRun, scenario: Scenario, fact: Fact, until: NameOrId, client: str
) -> tuple[Scenario, int]:
    """The last step of the period from the time of a fact to `until`, and its scenario."""
    later = None if run.browser.has_time(until) else await _look_ahead(run, until, client)
    if later is None:
        last = await run.find_ids(lambda: run.browser.time_id(until, "until"))
    else:
        scenario, last = later
    try:
        scenario.check_period(fact, last)
    except QueryError as error:
        raise invalid(str(error)) from error
    return scenario, last


async def _look_ahead(run: ServedRun, time: NameOrId, client: str) -> tuple[Scenario, int] | None:
    """The scenario for a time after the last step, and its id there; None for other texts."""

    def look_ahead() -> tuple[Scenario, int] | None:
        try:
            return run.predictor.scenario.at(time)
        except QueryError:
            return None

    return await run.work(look_ahead, client)
