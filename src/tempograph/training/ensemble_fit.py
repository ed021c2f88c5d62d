"""Fitting the gate of an ensemble on facts that its parts were not trained on."""

from __future__ import annotations

import copy
import dataclasses
import statistics
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import TemporalGraph, sort_by_time
from tempograph.data.held_facts import random_steps
from tempograph.data.protocol import task_of
from tempograph.data.spans import EVENT_COLUMNS
from tempograph.data.timeline import fact_queries
from tempograph.errors import DataError
from tempograph.evaluation.evaluator import query_batches
from tempograph.evaluation.history import with_history
from tempograph.models.ensemble.ensemble_gate import EnsembleGate, PartOutputs
from tempograph.models.ensemble.ensemble_model import Ensemble, assign_halves, shuffle_facts
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings, part_names
from tempograph.training.run_results import GateSummary
from tempograph.typing import MetricsCallback, Progress, Protocol

_VALIDATE_EVERY: Final = 20
"""Steps between two validations on the other half of the facts."""
_PATIENCE: Final = 15
"""Validations without a better MRR before fitting stops."""
_BATCH_SIZE: Final = 4096
"""Examples that are ranked together."""
_BUCKETS: Final = (0, 1, 4, 16, 64, 256)
"""Lower bounds of the frequency buckets in the table of weights."""


class GateExamples(NamedTuple):
    """Queries with some candidates that a gate is fitted on; the first candidate is the answer."""

    query_features: Tensor
    part_log_probs: Tensor
    candidate_features: Tensor
    """[n, candidates, 0] if the gate does not look at candidates."""
    excluded: Tensor
    """Candidates that do not count: repeated, or other true answers, [n, candidates]."""
    fact: Tensor
    """Position of the fact behind each query, [n]."""

    def take(self, index: Tensor) -> GateExamples:
        """The examples at an index."""
        return GateExamples(*(column[index] for column in self))

    def scores(self, gate: EnsembleGate) -> Tensor:
        """Combined scores of the candidates, [n, candidates]."""
        outputs = PartOutputs(self.part_log_probs, self.query_features, self.candidate_features)
        return gate.combine(outputs).masked_fill(self.excluded, -torch.inf)


def hold_out(
    settings: EnsembleSettings, graph: TemporalGraph, seed: int, protocol: Protocol
) -> TemporalGraph | None:
    """The facts in other splits, for a gate that is fitted on train; None if it is not.

    Random train facts, or the last ones if the task is to forecast, become the valid facts, on
    which `fit_ensemble` fits the gate. The valid and test facts become test facts, which it does
    not look at.
    """
    if settings.fit_on != "train":
        return None
    facts = sort_by_time(graph.train)
    count = min(max(1, round(settings.holdout * len(facts))), settings.max_facts, len(facts) - 1)
    held_out = np.zeros(len(facts), dtype=bool)
    if task_of(protocol) == "forecast":
        # Whole steps, but never the first one, without which there is no past.
        if facts[0, 3] == facts[-1, 3]:
            raise DataError(
                f"{graph.name}: a gate is fitted on the last train facts, but all of them are at "
                f"{graph.times[facts[0, 3]]}; train on more steps, or set model.fit_on=valid"
            )
        first = max(facts[-count, 3], facts[0, 3] + 1)
        held_out = facts[:, 3] >= first
    else:
        held_out[shuffle_facts(len(facts), seed)[:count].numpy()] = True
    test = np.concatenate([graph.valid, graph.test])
    return dataclasses.replace(graph, train=facts[~held_out], valid=facts[held_out], test=test)


def fit_ensemble(
    ensemble: Ensemble,
    graph: TemporalGraph,
    seed: int,
    report: MetricsCallback,
    progress: Progress | None = None,
) -> GateSummary:
    """Fit the gates of an ensemble on valid; return the weights of the parts for results.json.

    One gate is fitted on each half of valid, for the number of steps that is best on the other
    half. The final gate is fitted on all of valid for the mean of these steps. To fit a gate on
    train, call this with a graph of `hold_out` and with parts that are trained on it.
    """
    settings = ensemble.settings
    chosen = shuffle_facts(len(graph.valid), seed)[: settings.max_facts].sort().values
    facts = _asked_facts(torch.from_numpy(graph.valid)[chosen], seed).to(ensemble.device)
    known = KnownAnswers.from_train_and_valid(graph, ensemble.device)
    protocol = ensemble.timeline.protocol
    asked = cast(Ensemble, with_history(ensemble, graph, "valid", protocol))
    examples = collect_examples(asked, facts, known, progress)
    half = assign_halves(len(graph.valid), seed)[chosen].to(ensemble.device)[examples.fact]
    half_gates, best_steps = [], []
    for number in (0, 1):
        fitted, line = _fit_until_best(
            ensemble.new_gate(seed),
            examples.take(half != number),
            examples.take(half == number),
            settings,
            seed,
        )
        half_gates.append(fitted)
        best_steps.append(line["steps"])
        report({"half": number + 1} | line)
    if settings.fit_on == "valid":
        ensemble.half_gates.load_state_dict(nn.ModuleList(half_gates).state_dict())
    gate, steps = ensemble.new_gate(seed), round(statistics.mean(best_steps))
    lines = [{"steps": 0.0}, *islice(gradient_steps(gate, examples, settings, seed), steps)]
    report(lines[-1])
    ensemble.gate.load_state_dict(gate.state_dict())
    with torch.no_grad():
        weights = gate(examples.query_features)
    ensemble.seed.fill_(seed)
    # The third feature is the frequency of the entity with the relation, over all time.
    frequency = examples.query_features[:, 2].expm1().round().long()
    table = weights_table(frequency, weights, part_names(settings.parts))
    sharpness = float(gate.log_sharpness.detach().exp())
    return {
        "fitted_on": settings.fit_on,
        "facts": len(facts),
        "steps": steps,
        "sharpness": sharpness,
        "weights": table,
    }


def _asked_facts(facts: Tensor, seed: int) -> Tensor:
    """Facts [n, 4]; those that hold for a while at a random step each, as parts are trained."""
    if facts.shape[1] == EVENT_COLUMNS:
        return facts
    generator = torch.Generator().manual_seed(seed)
    step = random_steps(facts[:, 3], facts[:, 4], generator)
    return torch.column_stack([facts[:, :3], step])


@torch.no_grad()
def collect_examples(
    ensemble: Ensemble, facts: Tensor, known: KnownAnswers, progress: Progress | None = None
) -> GateExamples:
    """The best candidates of each part for both queries of each fact [n, 4].

    If the gate looks at candidates, a query is left out unless a part has the answer among its
    best: a candidate that is there only because it is right would give the answer away.
    """
    queries, answers = fact_queries(facts, known.num_relations)
    count = min(ensemble.settings.candidates, known.num_entities)
    batches = []
    for index in query_batches(ensemble, queries, known, progress=progress):
        batch, answer = queries.take(index), answers[index]
        log_probs, query_features, candidate_features = ensemble.part_outputs(batch)
        row, entity = known(batch)
        other = entity != answer[row]
        also_true = torch.zeros(log_probs.shape[:2], dtype=torch.bool, device=log_probs.device)
        also_true[row[other], entity[other]] = True
        best = log_probs.masked_fill(also_true[:, :, None], -torch.inf).topk(count, dim=1).indices
        best = best.flatten(1)
        candidates = torch.cat([answer[:, None], best], dim=1)
        features = log_probs[:, :, :0] if candidate_features is None else candidate_features
        column = candidates[:, :, None]
        examples = GateExamples(
            query_features,
            log_probs.gather(1, column.expand(-1, -1, log_probs.shape[2])),
            features.gather(1, column.expand(-1, -1, features.shape[2])),
            also_true.gather(1, candidates) | _repeated(candidates),
            index % len(facts),
        )
        if candidate_features is not None:
            examples = examples.take((best == answer[:, None]).any(1).nonzero()[:, 0])
        batches.append(examples)
    return GateExamples(*(torch.cat(column) for column in zip(*batches, strict=True)))


def _repeated(candidates: Tensor) -> Tensor:
    """Which entries of each row occur further to the left as well, [n, candidates]."""
    ordered, position = candidates.sort(dim=1, stable=True)
    again = torch.zeros_like(candidates, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.zeros_like(again).scatter_(1, position, again)


def gradient_steps(
    gate: EnsembleGate, examples: GateExamples, settings: EnsembleSettings, seed: int
) -> Iterator[dict[str, float]]:
    """Minimize the softmax cross-entropy of the answers; yield the loss of each step, endlessly."""
    generator = torch.Generator().manual_seed(seed)
    features = examples.query_features
    gate.centre.copy_(features.mean(0))
    spread = features.std(0, correction=0)
    gate.spread.copy_(torch.where(spread > 1e-6, spread, 1))
    optimizer = torch.optim.Adam(gate.parameters(), settings.learning_rate)
    step = 0
    while True:
        order = torch.randperm(len(features), generator=generator).to(features.device)
        for index in torch.split(order, settings.queries_per_step):
            scores = examples.take(index).scores(gate)
            loss = (torch.logsumexp(scores, 1) - scores[:, 0]).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            step += 1
            yield {"steps": step, "loss": float(loss.detach())}


def _fit_until_best(
    gate: EnsembleGate,
    examples: GateExamples,
    validation: GateExamples,
    settings: EnsembleSettings,
    seed: int,
) -> tuple[EnsembleGate, dict[str, float]]:
    """The gate at its best MRR on the validation examples, and the line of that step."""
    best, best_line = copy.deepcopy(gate), {"steps": 0.0, "mrr": mrr(gate, validation)}
    if not len(examples.fact) or not len(validation.fact):
        return best, best_line
    for line in islice(gradient_steps(gate, examples, settings, seed), settings.steps):
        if line["steps"] % _VALIDATE_EVERY == 0 or line["steps"] == settings.steps:
            line["mrr"] = mrr(gate, validation)
            if line["mrr"] > best_line["mrr"]:
                best, best_line = copy.deepcopy(gate), line
            if line["steps"] - best_line["steps"] >= _VALIDATE_EVERY * _PATIENCE:
                break
    return best, best_line


@torch.no_grad()
def mrr(gate: EnsembleGate, examples: GateExamples) -> float:
    """Mean reciprocal rank of the answers among the candidates; ties share their mean rank."""
    if not len(examples.fact):
        return 0.0
    total = 0.0
    for columns in zip(*(torch.split(column, _BATCH_SIZE) for column in examples), strict=True):
        scores = GateExamples(*columns).scores(gate)
        greater, equal = (
            compared.sum(1) for compared in (scores > scores[:, :1], scores == scores[:, :1])
        )
        total += float((1 / (greater + (equal + 1) / 2)).sum())
    return total / len(examples.fact)


def weights_table(frequency: Tensor, weights: Tensor, names: list[str]) -> list[dict[str, Any]]:
    """Mean weights [n, parts] by the frequency [n] of a query's entity with its relation."""
    rows: list[dict[str, Any]] = []
    for first, after in zip(_BUCKETS, (*_BUCKETS[1:], None), strict=True):
        label = f"{first}+" if after is None else f"{first}-{after - 1}"
        if after == first + 1:
            label = str(first)
        inside = frequency >= first
        if after is not None:
            inside &= frequency < after
        if inside.any():
            means = zip(names, weights[inside].mean(0).tolist(), strict=True)
            rows.append({"frequency": label, "questions": int(inside.sum()), **dict(means)})
    return rows
