"""How plausible facts are at each step, whatever the model."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.data.timeline import fact_queries
from tempograph.device import memory_budget
from tempograph.evaluation.probabilities import Calibrator
from tempograph.models.base import Model
from tempograph.typing import Progress


@torch.inference_mode()
def step_plausibility(
    model: Model,
    triples: Tensor,
    calibrator: Calibrator,
    steps: range | None = None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """The mean of log P(o | s, r, t) and log P(s | r, o, t) at each step, [n, steps].

    triples [n, 3]; by default all steps. Steps come in order, so that a step is encoded once.
    """
    timeline = model.timeline
    steps = range(timeline.num_steps) if steps is None else steps
    count, total = len(triples), len(triples) * len(steps)
    budget = memory_budget("ranking", model.device) if budget is None else budget
    size = max(1, budget // (2 * timeline.num_entities * model.bytes_per_candidate))
    found = torch.empty(total, dtype=torch.float64, device=model.device)
    eligible = torch.tensor([timeline.num_entities], device=model.device)
    for start in range(0, total, size):
        pair = torch.arange(start, min(start + size, total), device=model.device)
        events = torch.column_stack([triples[pair % count], steps.start + pair // count])
        queries, answer = fact_queries(events, timeline.num_relations)
        log_probs = calibrator.some_log_probs(
            model.scores(queries), answer[:, None], eligible.expand(len(answer))
        )
        found[pair] = log_probs[:, 0].view(2, -1).mean(0)
        if progress is not None:
            progress(start + len(pair), total)
    return found.view(len(steps), count).T.contiguous()
