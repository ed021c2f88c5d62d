"""Answers to a table of questions: entities in batches, relations and times one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograph.data.graph import COLUMNS, Facts, TemporalGraph
from tempograph.data.result_table import name_columns
from tempograph.data.timeline import Queries, undirected_facts
from tempograph.errors import QueryError
from tempograph.evaluation.evaluator import query_batches
from tempograph.prediction.completion import best_candidates, score_relations, score_times
from tempograph.prediction.questions import MISSING, Questions, Texts
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.prediction.scoring import log_probabilities
from tempograph.typing import Progress


class Answers(NamedTuple):
    """The question [n], completed fact [n, 4], rank, score and log probability of each answer."""

    question: Tensor
    facts: Tensor
    rank: Tensor
    score: Tensor
    log_probability: Tensor


@torch.inference_mode()
def answer_questions(
    scenario: Scenario,
    questions: Questions,
    top: int,
    budget: int | None = None,
    progress: Progress | None = None,
    strict: bool = False,
) -> pa.Table:
    """The best answers to each question, by question and rank; its error where it has none.

    Questions for entities are answered in batches, those for relations and times one by one. If
    strict, the first question with an error is raised, before any is answered if it is malformed.
    """
    errors, asked = questions.errors.copy(), questions.asked
    if strict:
        _refuse_errors(errors)
    parts = [*_entity_answers(scenario, questions.ids, asked, top, budget, progress)]
    for row in np.flatnonzero((asked == 1) | (asked == 3)).tolist():
        try:
            parts.append(_other_answers(scenario, questions.ids, row, top))
        except QueryError as error:
            errors[row] = str(error)
    if strict:
        _refuse_errors(errors)
    empty = torch.empty(0)
    parts.append(Answers(empty.long(), torch.empty(0, 4).long(), empty.long(), empty, empty))
    answers = Answers(
        *(torch.cat([each.cpu() for each in column]) for column in zip(*parts, strict=True))
    )
    unanswered = np.setdiff1d(np.arange(len(errors)), answers.question.numpy())
    for row in unanswered:
        errors[row] = errors[row] or "no candidate has any evidence"
    named = _answer_table(scenario.graph, answers, asked)
    wrong = questions.given.take(unanswered).append_column("question", pa.array(unanswered))
    wrong = wrong.append_column("error", pa.array(errors[unanswered], pa.string()))
    table = pa.concat_tables([named, wrong], promote_options="default")
    return table.take(np.argsort(table["question"].to_numpy(), kind="stable"))


def _refuse_errors(errors: Texts) -> None:
    for row, error in enumerate(errors):
        if error is not None:
            raise QueryError(f"question {row}: {error}")


def _entity_answers(
    scenario: Scenario,
    ids: Facts,
    asked: NDArray[np.int64],
    top: int,
    budget: int | None,
    progress: Progress | None,
) -> Iterator[Answers]:
    """Answers to the questions for subjects and objects, batch by batch."""
    model, known, temperature = scenario.model, scenario.known, scenario.temperature
    rows = torch.from_numpy(np.flatnonzero((asked == 0) | (asked == 2))).to(model.device)
    if not len(rows):
        return
    facts = torch.from_numpy(ids).to(model.device)[rows]
    inverse = facts[:, 0] < 0
    entity = torch.where(inverse, facts[:, 2], facts[:, 0])
    queries = Queries(entity, facts[:, 1] + inverse * known.num_relations, facts[:, 3])
    for index in query_batches(model, queries, known, budget, progress):
        batch = queries.take(index)
        scores = model.scores(batch)
        best = scores.topk(min(top, scores.shape[1]), dim=1)
        # All higher scores are among the best, so the first of equal ones has their rank.
        rank = 1 + torch.searchsorted(-best.values, -best.values)
        log_probs = torch.full_like(best.values, math.nan, dtype=torch.float64)
        if temperature is not None:
            every = log_probabilities(scores, known(batch), temperature)
            log_probs = every.gather(1, best.indices)
        row, place = (best.values > -math.inf).nonzero().unbind(1)
        candidate = best.indices[row, place]
        directed = torch.stack(
            [batch.entity[row], batch.relation[row], candidate, batch.time[row]], dim=1
        )
        yield Answers(
            rows[index[row]],
            undirected_facts(directed, known.num_relations),
            rank[row, place],
            best.values[row, place].double(),
            log_probs[row, place],
        )


def _other_answers(scenario: Scenario, ids: Facts, row: int, top: int) -> Answers:
    """Answers to a question for the relation or the time."""
    fact: Fact = tuple(ids[row].tolist())
    part = fact.index(MISSING)
    if part == 1:
        scores, log_probs = score_relations(scenario, fact)
    else:
        scores, log_probs = score_times(scenario, fact, range(len(scenario.graph.times)))
    best = torch.tensor(best_candidates(scores, top), dtype=torch.int64)
    scores, facts = scores.cpu().double(), torch.tensor(fact).repeat(len(best), 1)
    facts[:, part] = best
    unknown = torch.full((len(best),), math.nan, dtype=torch.float64)
    return Answers(
        torch.full_like(best, row),
        facts,
        1 + (scores > scores[best, None]).sum(1),
        scores[best],
        unknown if log_probs is None else log_probs.cpu()[best],
    )


def _answer_table(graph: TemporalGraph, answers: Answers, asked: NDArray[np.int64]) -> pa.Table:
    """Answers in names."""
    question, facts = answers.question.numpy(), answers.facts.numpy()
    names, part = name_columns(graph, facts), asked[question]
    own = part * len(facts) + np.arange(len(facts))
    probability = answers.log_probability.exp().double().numpy()
    return pa.table(
        {
            "question": question,
            **names,
            "asked": pa.array(list(COLUMNS)).take(pa.array(part)),
            "answer": pa.concat_arrays(list(names.values())).take(pa.array(own)),
            "rank": answers.rank.numpy(),
            "score": answers.score.double().numpy(),
            "probability": pa.array(probability, pa.float64(), from_pandas=True),
            "known": pa.array(graph.find_splits(facts), pa.string()),
            "error": pa.nulls(len(facts), pa.string()),
        }
    )
