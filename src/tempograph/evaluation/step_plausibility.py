"""How plausible facts are at each step, whatever the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from tempograph.data.timeline import Queries, Timeline, fact_queries
from tempograph.device import memory_budget
from tempograph.evaluation.probabilities import Calibrator
from tempograph.models.base import CrossFitted, Model
from tempograph.typing import Progress

MAX_SCORED: Final = 256
"""Steps that are scored; those of a longer time axis at which most train facts begin or end."""


def scored_steps(timeline: Timeline, steps: range) -> Tensor:
    """All steps if they are few, else those around which most train facts begin or end, ascending.

    Scores may jump from the step before a fact to its first one, and from its last step to the next
    one. The first and the last of `steps` are among them too.
    """
    every = torch.arange(steps.start, steps.stop, device=timeline.device)
    if len(steps) <= MAX_SCORED:
        return every
    start, end = timeline.facts[:, 3], timeline.fact_end
    near = torch.cat([start - 1, start, end, end + 1])
    near = near[(near >= steps.start) & (near < steps.stop)]
    changes = torch.bincount(near - steps.start, minlength=len(steps))
    most = torch.sort(changes, descending=True, stable=True).indices[: MAX_SCORED - 2]
    scored = changes > 0
    if int(scored.sum()) > MAX_SCORED - 2:
        scored = torch.zeros_like(scored).index_fill_(0, most, True)
    scored[0] = scored[-1] = True
    return every[scored]


@torch.inference_mode()
def step_plausibility(
    model: Model,
    triples: Tensor,
    calibrator: Calibrator,
    steps: range | None = None,
    budget: int | None = None,
    progress: Progress | None = None,
    scorer: Callable[[Queries], Tensor] | None = None,
) -> Tensor:
    """The mean of log P(o | s, r, t) and log P(s | r, o, t) at each step, [n, steps].

    triples [n, 3]; by default all steps. The scores are those of the model, unless there is a
    scorer in their place. Only the `scored_steps` are scored; the steps between two
    of them, where few train facts begin or end, are interpolated. So a long time axis takes little
    longer. Steps come in order, so that each is encoded once.
    """
    steps = range(model.timeline.num_steps) if steps is None else steps
    scored = scored_steps(model.timeline, steps)
    found = plausibility_at(model, triples, calibrator, scored, budget, progress, scorer)
    return interpolate(found, scored, steps)


@torch.inference_mode()
def plausibility_at(
    model: Model,
    triples: Tensor,
    calibrator: Calibrator,
    scored: Tensor,
    budget: int | None = None,
    progress: Progress | None = None,
    scorer: Callable[[Queries], Tensor] | None = None,
) -> Tensor:
    """The plausibility of triples [n, 3] at some steps [k], [k, n]."""
    timeline, scorer = model.timeline, scorer or model.scores
    count, total = len(triples), len(triples) * len(scored)
    budget = memory_budget("ranking", model.device) if budget is None else budget
    size = max(1, budget // (2 * timeline.num_entities * model.bytes_per_candidate))
    found = torch.empty(total, dtype=torch.float64, device=model.device)
    eligible = torch.tensor([timeline.num_entities], device=model.device)
    for start in range(0, total, size):
        pair = torch.arange(start, min(start + size, total), device=model.device)
        events = torch.column_stack([triples[pair % count], scored[pair // count]])
        queries, answer = fact_queries(events, timeline.num_relations)
        log_probs = calibrator.some_log_probs(
            scorer(queries), answer[:, None], eligible.expand(len(answer))
        )
        found[pair] = log_probs[:, 0].view(2, -1).mean(0)
        if progress is not None:
            progress(start + len(pair), total)
    return found.view(len(scored), count)


def cross_fitted_plausibility(
    model: Model,
    triples: Tensor,
    calibrator: Calibrator,
    cross_fitted: CrossFitted | None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """`step_plausibility` at all steps; facts a model was fitted on by its cross-fitted scores.

    The scorer of cross_fitted [n] belongs to the triples.
    """
    if cross_fitted is None:
        return step_plausibility(model, triples, calibrator, budget=budget, progress=progress)
    steps, done = model.timeline.num_steps, 0
    found = torch.empty(len(triples), steps, dtype=torch.float64, device=model.device)
    num_scored = len(scored_steps(model.timeline, range(steps)))

    def advance(pairs: int, _: int) -> None:
        if progress is not None:
            progress(done + pairs, len(triples) * num_scored)

    for number, scorer in enumerate(cross_fitted.scorers):
        own = (cross_fitted.scorer == number).nonzero()[:, 0]
        found[own] = step_plausibility(
            model, triples[own], calibrator, budget=budget, progress=advance, scorer=scorer
        )
        done += len(own) * num_scored
    return found


def interpolate(values: Tensor, scored: Tensor, steps: range) -> Tensor:
    """Values [scored steps, n] at all steps, linearly between scored ones, [n, steps]."""
    every = torch.arange(steps.start, steps.stop, device=scored.device)
    after = torch.searchsorted(scored, every)
    before = (after - (scored[after] > every).long()).clamp(min=0)
    width = (scored[after] - scored[before]).clamp(min=1)
    share = ((every - scored[before]).double() / width)[:, None]
    exact = scored[before] == every
    # A step that is scored keeps its value, even next to one of minus infinity.
    between = torch.lerp(values[before], values[after], share)
    return torch.where(exact[:, None], values[before], between).T.contiguous()
