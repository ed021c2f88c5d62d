"""What to know about the time of a question: how far it reaches beyond the data."""

from __future__ import annotations

from tempograph.data.graph import TemporalGraph
from tempograph.data.importers.later_steps import describe_steps
from tempograph.prediction.scenario import Scenario


def time_notes(scenario: Scenario, step: int) -> list[str]:
    """How far a question about a step reaches beyond the data, or which facts it leaves out."""
    graph, run, timeline = scenario.graph, scenario.run, scenario.timeline
    if step < 0 or (step < run.num_trained_steps and not timeline.past_only):
        return []
    last = min(int(timeline.facts[-1, 3]), len(graph.times) - 1)
    asked, trained = graph.times[step], graph.times[run.num_trained_steps - 1]
    if timeline.past_only:
        if step > last:
            return [_describe_distance(graph, last, step)]
        return [f"a forecast of '{asked}' rests on earlier facts; it leaves out later ones"]
    if step <= last:
        last_trained = f"{trained}, the last step of training, whose weights are used for it"
        return [f"'{asked}' is after {last_trained}"]
    weights = (
        f"{scenario.model.name} was trained to complete facts inside the period of its data, and "
        f"takes the weights of {trained} for later steps"
    )
    if not graph.has_intervals:
        # Facts that hold for a while cannot be forecast.
        weights += "; runs with --task forecast are made for questions about the future"
    return [_describe_distance(graph, last, step), weights]


def _describe_distance(graph: TemporalGraph, last: int, step: int) -> str:
    distance = describe_steps(graph, step - last)
    return f"'{graph.times[step]}' is {distance} after the last known fact, {graph.times[last]}"
