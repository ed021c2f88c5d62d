"""Answers to a table of questions, in batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograph.data.graph import COLUMNS, Facts
from tempograph.data.known_parts import KnownParts
from tempograph.data.result_table import name_columns
from tempograph.data.timeline import Queries, undirected_facts
from tempograph.evaluation.evaluator import query_batches
from tempograph.evaluation.probabilities import Calibrator
from tempograph.evaluation.question_evaluator import question_batches
from tempograph.models.sparse_scores import SparseScores
from tempograph.prediction.questions import Questions
from tempograph.prediction.scenario import Scenario
from tempograph.typing import HEAD_ASKED, Progress


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
    new: bool = False,
) -> pa.Table:
    """The best answers to each question, by question and rank; its error where it has none.

    With `new`, known answers are left out. If strict, the first question with an error is raised,
    before any is answered.
    """
    errors = questions.errors.texts.to_numpy(zero_copy_only=False).copy()
    asked = questions.asked
    if strict:
        questions.errors.refuse(lambda row: f"question {row}")
    total, done = int((asked >= 0).sum()), 0
    empty = torch.empty(0)
    parts = [Answers(empty.long(), torch.empty(0, 4).long(), empty.long(), empty, empty)]
    for count, answers in (
        *_entity_answers(scenario, questions.ids, asked, top, budget, new),
        *_head_answers(scenario, questions.ids, asked, top, new),
    ):
        parts.append(Answers(*(column.cpu() for column in answers)))
        done += count
        if progress is not None:
            progress(done, total)
    found = Answers(*(torch.cat(column) for column in zip(*parts, strict=True)))
    unanswered = np.setdiff1d(np.arange(len(errors)), found.question.numpy())
    for row in unanswered:
        errors[row] = errors[row] or "no candidate has any evidence"
    named = _answer_table(scenario, found, asked)
    wrong = questions.given.take(unanswered).append_column("question", pa.array(unanswered))
    wrong = wrong.append_column("error", pa.array(errors[unanswered], pa.string()))
    table = pa.concat_tables([named, wrong], promote_options="default")
    return table.take(np.argsort(table["question"].to_numpy(), kind="stable"))


def _entity_answers(
    scenario: Scenario,
    ids: Facts,
    asked: NDArray[np.int64],
    top: int,
    budget: int | None,
    new: bool,
) -> Iterator[tuple[int, Answers]]:
    """Answers to the questions for subjects and objects, with the number of questions answered."""
    model, known = scenario.model, scenario.known
    rows = torch.from_numpy(np.flatnonzero((asked == 0) | (asked == 2))).to(model.device)
    if not len(rows):
        return
    facts = torch.from_numpy(ids).to(model.device)[rows]
    inverse = facts[:, 0] < 0
    entity = torch.where(inverse, facts[:, 2], facts[:, 0])
    queries = Queries(entity, facts[:, 1] + inverse * known.num_relations, facts[:, 3])
    calibrator = scenario.calibrator("entity")
    sizes = model.sparse_sizes(queries)
    for index in query_batches(model, queries, known, budget, sizes=sizes):
        batch = queries.take(index)
        excluded = known(batch) if new else None
        if sizes is None:
            best = _best(model.scores(batch), top, calibrator, excluded)
        else:
            best = _sparse_best(model.sparse_scores(batch), top, calibrator, excluded)
        directed = torch.stack(
            [batch.entity[best.row], batch.relation[best.row], best.answer, batch.time[best.row]],
            dim=1,
        )
        completed = undirected_facts(directed, known.num_relations)
        yield len(index), Answers(rows[index[best.row]], completed, *best[2:])


def _head_answers(
    scenario: Scenario, ids: Facts, asked: NDArray[np.int64], top: int, new: bool
) -> Iterator[tuple[int, Answers]]:
    """Answers to the questions for relations and times, with the number of questions answered."""
    for kind in HEAD_ASKED:
        device = scenario.model.device
        column = COLUMNS.index(kind)
        rows = torch.from_numpy(np.flatnonzero(asked == column)).to(device)
        if not len(rows):
            continue
        head, calibrator = scenario.heads().head(kind), scenario.calibrator(kind)
        known = KnownParts(scenario.known_facts, scenario.graph.sizes, column)
        facts, start = torch.from_numpy(ids).to(device)[rows].clamp(min=0), 0
        for batch in question_batches(head, facts):
            excluded = known(batch) if new else None
            best = _best(head.scores(batch), top, calibrator, excluded)
            completed = batch[best.row]
            completed[:, column] = best.answer
            yield len(batch), Answers(rows[start + best.row], completed, *best[2:])
            start += len(batch)


class _Best(NamedTuple):
    """The row and candidate of each answer, its rank, score and log probability, [answers] each."""

    row: Tensor
    answer: Tensor
    rank: Tensor
    score: Tensor
    log_probability: Tensor


def _best(
    scores: Tensor, top: int, calibrator: Calibrator, excluded: tuple[Tensor, Tensor] | None
) -> _Best:
    """The best candidates of each row of scores [n, candidates] that are possible at all."""
    log_probs = calibrator.log_probs(scores, excluded)
    if excluded is not None:
        scores[excluded] = -math.inf
    best = scores.topk(min(top, scores.shape[1]), dim=1)
    return _ranked(best.values, best.indices, log_probs.gather(1, best.indices))


def _sparse_best(
    scores: SparseScores, top: int, calibrator: Calibrator, excluded: tuple[Tensor, Tensor] | None
) -> _Best:
    """`_best` without the scores of all candidates."""
    nothing = scores.row[:0], scores.row[:0]
    values, candidates = scores.top(top, excluded or nothing)
    log_probs = calibrator.sparse_log_probs(scores, values, excluded or nothing)
    return _ranked(values, candidates, log_probs)


def _ranked(values: Tensor, candidates: Tensor, log_probs: Tensor) -> _Best:
    """The possible ones among the best candidates, with scores that descend, [n, top] each."""
    # All higher scores are among the best, so the first of equal ones has their rank.
    rank = 1 + torch.searchsorted(-values, -values)
    row, place = (values > -math.inf).nonzero().unbind(1)
    return _Best(
        row,
        candidates[row, place],
        rank[row, place],
        values[row, place].double(),
        log_probs[row, place],
    )


def _answer_table(scenario: Scenario, answers: Answers, asked: NDArray[np.int64]) -> pa.Table:
    """Answers in names."""
    question, facts = answers.question.numpy(), answers.facts.numpy()
    names, part = name_columns(scenario.graph, facts), asked[question]
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
            "probability": pa.array(probability, pa.float64()),
            "known": pa.array(scenario.find_splits(facts), pa.string()),
            "error": pa.nulls(len(facts), pa.string()),
        }
    )
