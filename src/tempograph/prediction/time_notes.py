"""What to know about the time of a question: how far it reaches beyond the data."""

from __future__ import annotations

from tempograph.data.importers.later_steps import describe_steps
from tempograph.prediction.scenario import Scenario


def time_notes(scenario: Scenario, step: int) -> list[str]:
    """How far a question about a step reaches beyond the data, or what it leaves out."""
    graph, run, timeline = scenario.graph, scenario.run, scenario.timeline
    if step < 0:
        return []
    last = min(int(timeline.facts[-1, 3]), len(graph.times) - 1)
    asked, known = graph.times[step], graph.times[last]
    beyond = f"'{asked}' is {describe_steps(graph, step - last)} after the last known fact, {known}"
    if timeline.past_only:
        if step > last:
            return [beyond]
        return [f"a forecast of '{asked}' rests on earlier facts; it leaves out later ones"]
    trained = graph.times[run.num_trained_steps - 1]
    weights = f"after {trained}, the last step of training, whose weights are used for it"
    if step < run.num_trained_steps:
        return []
    if step <= last:
        return [f"'{asked}' is {weights}"]
    # Facts that hold for a while cannot be forecast.
    way_out = (
        ""
        if graph.has_intervals
        else ("; runs with --task forecast are made for questions about the future")
    )
    return [
        beyond,
        f"{scenario.model.name} was trained to complete facts inside the period of its data, and "
        f"takes the weights of {trained} for later steps{way_out}",
    ]
