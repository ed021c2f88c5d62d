"""Questions for entities, which are answered in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tempograph.prediction.answers import Completion
from tempograph.prediction.candidate_ranking import Ranking, rank_questions
from tempograph.prediction.completion import name_answers
from tempograph.prediction.scenario import Fact, Scenario


@dataclass(frozen=True)
class EntityQuestion:
    """A fact whose subject or object is missing, and which answers to return."""

    fact: Fact
    top: int
    new: bool
    """Whether known answers are left out."""
    in_names: bool
    """Whether the answers are returned in names, or only in ids."""


@dataclass(frozen=True)
class EntityAnswer:
    """The best candidates for the missing part of a fact, in ids and perhaps in names."""

    ranking: Ranking
    completion: Completion | None


def answer_questions(
    scenario: Scenario, questions: Sequence[EntityQuestion]
) -> Iterator[EntityAnswer | Exception]:
    """The answer to each question, or its exception; candidates are scored and ranked together."""
    facts = [question.fact for question in questions]
    rankings = rank_questions(
        scenario,
        facts,
        scenario.model.scores(scenario.queries(facts)),
        [question.top for question in questions],
        [question.new for question in questions],
    )
    for question, ranking in zip(questions, rankings, strict=True):
        try:
            named = name_answers(scenario, ranking, None, 0) if question.in_names else None
        except Exception as error:
            yield error
        else:
            yield EntityAnswer(ranking, named)
