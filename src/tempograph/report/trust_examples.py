"""Examples for a trust report: test facts by a stated rule, asked as they were measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tempograph.data.graph import COLUMNS, rows_in
from tempograph.evaluation.rank_table import Integers, RankTable
from tempograph.prediction.answer import Answer
from tempograph.prediction.answers import Completion
from tempograph.prediction.completion import complete, score_candidates
from tempograph.prediction.predictor import MEMORY
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.training.answering import measured_answering
from tempograph.training.question_models import Answering
from tempograph.training.runs import Run
from tempograph.typing import Asked, Progress

EXAMPLES: Final[dict[Asked, int]] = {"entity": 6, "relation": 2, "time": 2}
"""How many examples there are of each kind of question."""
RULE: Final = (
    "They were not picked by hand. Of each kind of question, one half has the right answer first "
    "and one half has not; within each half, the questions are in the order of time and spread "
    "evenly over all of them. The model answers as it was measured: from train facts or, if it "
    "forecasts, from the facts before each question."
)
_TOP: Final = 3
_EVIDENCE: Final = 3


@dataclass(frozen=True)
class ExampleAnswer:
    """A question about a test fact, its best answers, and the right one."""

    asked: Asked
    completion: Completion
    """Its answers are without evidence."""
    best: Answer
    """The first answer, with evidence."""
    right: Answer
    """The right answer, with evidence; its rank is among those not known to be right as well."""
    is_right: bool
    """Whether the right answer is first, alone."""


def find_examples(
    run: Run, ranks: Mapping[Asked, RankTable], progress: Progress | None = None
) -> list[ExampleAnswer]:
    """Questions about test facts, the kinds one after another; `ranks` are those of test."""
    chosen = [
        (asked, ranked, row)
        for asked, ranked in ranks.items()
        for row in choose_rows(ranked, EXAMPLES[asked]).tolist()
    ]
    examples = []
    for number, (asked, ranked, row) in enumerate(chosen, 1):
        side = 0 if ranked.asks_subject[row] else 2
        part = {"entity": side, "relation": 1, "time": 3}[asked]
        is_right = bool(ranked.rank[row] <= 1)
        examples.append(_ask(run, asked, ranked.facts[row].tolist(), part, is_right))
        if progress is not None:
            progress(number, len(chosen))
    return examples


def choose_rows(ranked: RankTable, count: int) -> Integers:
    """Rows of a table of ranks: half of them right, half wrong, each spread evenly over time."""
    order = np.lexsort((*ranked.facts.T[:3], ranked.facts[:, 3]))
    first = ranked.rank[order] <= 1
    right, wrong = order[first], order[~first]
    wanted = min(len(right), max(count - count // 2, count - len(wrong)))
    halves = (_spread(right, wanted), _spread(wrong, count - wanted))
    return np.concatenate(halves).astype(np.int64)


def _spread(rows: Integers, count: int) -> Integers:
    """Rows at the middles of equal parts."""
    count = min(count, len(rows))
    middles = (np.arange(count) + 0.5) * len(rows) / max(1, count)
    return rows[middles.astype(np.int64)]


def _ask(run: Run, asked: Asked, ids: list[int], part: int, is_right: bool) -> ExampleAnswer:
    """Ask for one part of a test fact; other known answers are left out, as in the evaluation."""
    whole = np.array([ids])
    known, timeline, model = measured_answering(run)
    graph = dataclasses.replace(known, test=known.test[~rows_in(known.test, whole)])
    scenario = Scenario(run, MEMORY, Answering(graph, timeline, model))
    answer, asked_ids = ids[part], ids[: len(COLUMNS)]
    fact: Fact = tuple(-1 if index == part else id_ for index, id_ in enumerate(asked_ids))  # type: ignore[assignment]
    scores = score_candidates(scenario, fact)
    completion = complete(scenario, fact, scores, _TOP, 0, new=True)

    def explained(candidate: int) -> Answer:
        found = complete(scenario, fact, scores, 1, _EVIDENCE, candidate=candidate, new=True)
        return found.answers[0]

    right = explained(answer)
    best = completion.answers[0] if completion.answers else right
    if best.name != right.name:
        names = (graph.entities, graph.relations, graph.entities, graph.times)[part]
        best = explained(names.index(best.name))
    else:
        best = right
    if graph.has_intervals:
        # The rank in the table is a mean over the steps of the fact; the first one is asked here.
        is_right = right.rank == 1
    return ExampleAnswer(asked, completion, best, right, is_right)
