"""Fitting the gate of a ensemble on valid, which no part was trained on, without fooling oneself."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph
from tempograph.data.timeline import fact_queries
from tempograph.evaluation.evaluator import query_batches
from tempograph.models.ensemble.ensemble import Ensemble, EnsembleGate, deal, halves
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings, part_names
from tempograph.training.run_results import GateSummary
from tempograph.typing import Progress

_EVERY: Final = 20
"""Steps between two looks at the other half of valid."""
_PATIENCE: Final = 15
"""Looks without a better MRR before fitting stops."""
_AT_ONCE: Final = 4096
"""Questions that are ranked at once while a gate is fitted."""
_BUCKETS: Final = (0, 1, 4, 16, 64, 256)
"""Where the buckets of frequencies begin in the table of weights."""


class Kept(NamedTuple):
    """Questions as a gate is fitted on them; the right answer is the first of the candidates."""

    seen: Tensor
    """What the gate sees, [n, seen]."""
    part_log_probs: Tensor
    """Log-probabilities of the candidates, [n, candidates, parts]."""
    told: Tensor
    """What is told of the candidates, [n, candidates, told]; nothing where the gate does not look at them."""
    absent: Tensor
    """Which candidates are none: named twice, or right as well, [n, candidates]."""
    fact: Tensor
    """Which fact is asked about, [n]."""

    def take(self, index: Tensor) -> Kept:
        """Some of the questions."""
        return Kept(*(column[index] for column in self))

    def scores(self, gate: EnsembleGate) -> Tensor:
        """Mixed scores of the candidates, [n, candidates]."""
        return gate.mix(self.seen, self.part_log_probs, self.told).masked_fill(
            self.absent, -torch.inf
        )


def fit_ensemble(
    ensemble: Ensemble,
    graph: TemporalGraph,
    seed: int,
    report: Callable[[dict[str, float]], None],
    progress: Progress | None = None,
) -> GateSummary:
    """Fit the gates of a ensemble, and say for results.json how much each part counts.

    A gate is fitted on each half of valid, as many steps as are best on the other half, which it will rank; then one
    on all of valid for the mean of these steps.
    """
    settings = ensemble.settings
    chosen = deal(len(graph.valid), seed)[: settings.facts].sort().values
    facts = torch.from_numpy(graph.valid)[chosen].to(ensemble.device)
    kept = keep(
        ensemble, facts, KnownAnswers.from_train_and_valid(graph, ensemble.device), progress
    )
    half = halves(len(graph.valid), seed)[chosen].to(ensemble.device)[kept.fact]
    taken = []
    for number, gate in enumerate(ensemble.without):
        fitted, line = _fit_until_best(
            ensemble.new_gate(seed),
            kept.take(half != number),
            kept.take(half == number),
            settings,
            seed,
        )
        gate.load_state_dict(fitted.state_dict())
        taken.append(line["steps"])
        report({"half": number + 1} | line)
    gate, steps = ensemble.new_gate(seed), round(statistics.mean(taken))
    lines = [{"steps": 0.0}, *islice(descend(gate, kept, settings, seed), steps)]
    report(lines[-1])
    ensemble.gate.load_state_dict(gate.state_dict())
    with torch.no_grad():
        weights = gate(kept.seen)
        if len(weights):
            ensemble.usual.copy_(weights.mean(0))
    ensemble.seed.fill_(seed)
    # The third number seen is that of the entity and the relation together, over the whole time.
    frequency = kept.seen[:, 2].expm1().round().long()
    table = weights_table(frequency, weights, part_names(settings.parts))
    return {"steps": steps, "sharpness": float(gate.log_sharpness.detach().exp()), "weights": table}


@torch.no_grad()
def keep(
    ensemble: Ensemble, facts: Tensor, known: KnownAnswers, progress: Progress | None = None
) -> Kept:
    """The best candidates of each part for both questions of each fact [n, 4], other right answers left out.

    Where the gate looks at candidates, a question whose answer no part has among its best is left out: standing there
    only because it is right, the answer would give itself away.
    """
    queries, answer = fact_queries(facts, known.num_relations)
    most = min(ensemble.settings.candidates, known.num_entities)
    found = []
    for index in query_batches(ensemble, queries, known, progress=progress):
        asked, right = queries.take(index), answer[index]
        part_log_probs, seen, told = ensemble.consult(asked)
        row, entity = known(asked)
        other = entity != right[row]
        row, entity = row[other], entity[other]
        wrong = torch.zeros(
            part_log_probs.shape[:2], dtype=torch.bool, device=part_log_probs.device
        )
        wrong[row, entity] = True
        best = (
            part_log_probs.masked_fill(wrong[:, :, None], -torch.inf)
            .topk(most, dim=1)
            .indices.flatten(1)
        )
        candidates = torch.cat([right[:, None], best], dim=1)
        absent = wrong.gather(1, candidates) | _repeated(candidates)
        which = candidates[:, :, None]
        values, about = (
            each.gather(1, which.expand(-1, -1, each.shape[2]))
            for each in (part_log_probs, part_log_probs[:, :, :0] if told is None else told)
        )
        kept = Kept(seen, values, about, absent, index % len(facts))
        found.append(
            kept if told is None else kept.take((best == right[:, None]).any(1).nonzero()[:, 0])
        )
    return Kept(*(torch.cat(column) for column in zip(*found, strict=True)))


def _repeated(candidates: Tensor) -> Tensor:
    """Which entries of each row stand further to the left as well, [n, candidates]."""
    ordered, place = candidates.sort(dim=1, stable=True)
    again = torch.zeros_like(candidates, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.zeros_like(again).scatter_(1, place, again)


def descend(
    gate: EnsembleGate, kept: Kept, settings: EnsembleSettings, seed: int
) -> Iterator[dict[str, float]]:
    """Lower the softmax cross-entropy of the right answers, and say after each step how far that is."""
    generator = torch.Generator().manual_seed(seed)
    gate.centre.copy_(kept.seen.mean(0))
    spread = kept.seen.std(0, correction=0)
    gate.spread.copy_(torch.where(spread > 1e-6, spread, 1))
    optimizer = torch.optim.Adam(gate.parameters(), settings.learning_rate)
    step = 0
    while True:
        order = torch.randperm(len(kept.seen), generator=generator).to(kept.seen.device)
        for index in torch.split(order, settings.questions_per_step):
            scores = kept.take(index).scores(gate)
            loss = (torch.logsumexp(scores, 1) - scores[:, 0]).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            step += 1
            yield {"steps": step, "loss": float(loss.detach())}


def _fit_until_best(
    gate: EnsembleGate, kept: Kept, other: Kept, settings: EnsembleSettings, seed: int
) -> tuple[EnsembleGate, dict[str, float]]:
    """The gate when it is best on the other questions, fitted on the kept ones."""
    best, found = copy.deepcopy(gate), {"steps": 0.0, "mrr": mrr(gate, other)}
    if not len(kept.seen) or not len(other.seen):
        return best, found
    for line in islice(descend(gate, kept, settings, seed), settings.steps):
        if line["steps"] % _EVERY == 0 or line["steps"] == settings.steps:
            line["mrr"] = mrr(gate, other)
            if line["mrr"] > found["mrr"]:
                best, found = copy.deepcopy(gate), line
            if line["steps"] - found["steps"] >= _EVERY * _PATIENCE:
                break
    return best, found


@torch.no_grad()
def mrr(gate: EnsembleGate, kept: Kept) -> float:
    """Mean reciprocal rank of the right answers among the candidates; ties share their mean rank."""
    if not len(kept.seen):
        return 0.0
    total = 0.0
    for columns in zip(*(torch.split(column, _AT_ONCE) for column in kept), strict=True):
        scores = Kept(*columns).scores(gate)
        greater, equal = (
            (compared.sum(1)) for compared in (scores > scores[:, :1], scores == scores[:, :1])
        )
        total += float((1 / (greater + (equal + 1) / 2)).sum())
    return total / len(kept.seen)


def weights_table(frequency: Tensor, weights: Tensor, names: list[str]) -> list[dict[str, Any]]:
    """Mean weights of the parts by how often the entity and the relation of a question occur together.

    frequency [n], weights [n, parts].
    """
    table = []
    for first, after in zip(_BUCKETS, (*_BUCKETS[1:], None), strict=True):
        inside = (
            (frequency >= first) if after is None else (frequency >= first) & (frequency < after)
        )
        label = (
            f"{first}+"
            if after is None
            else str(first)
            if after == first + 1
            else f"{first}-{after - 1}"
        )
        if inside.any():
            means = zip(names, weights[inside].mean(0).tolist(), strict=True)
            table.append({"frequency": label, "questions": int(inside.sum()), **dict(means)})
    return table
