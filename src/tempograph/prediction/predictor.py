"""Predictor: ask a trained run who, what, when and why; find missing and surprising facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from tempograph.data.arrow_tables import TableLike
from tempograph.data.fact_ids import FactsLike, to_fact_ids
from tempograph.data.graph import COLUMNS, Name, When
from tempograph.data.importers.options import ImportOptions
from tempograph.data.result_table import ResultTable, name_columns
from tempograph.device import resolve_device
from tempograph.errors import ConfigError, QueryError
from tempograph.prediction.answers import Completion
from tempograph.prediction.batch_answers import answer_questions
from tempograph.prediction.completion import complete, complete_time, score_candidates
from tempograph.prediction.questions import read_questions
from tempograph.prediction.scan import (
    Scan,
    best_of_batches,
    known_pairs,
    write_batches,
    write_table,
)
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.prediction.scoring import SIDES, score_facts
from tempograph.training.runs import Run
from tempograph.typing import SPLITS, Progress, Split

MEMORY: Final = 5 * 2**28
"""Default cache in bytes: enough for all days of ICEWS14."""


class Predictor:
    """Answers questions about a run; entities, relations and time steps are given by name or id.

    `add` and `remove` change the train facts that the model uses, without training. `memory` bounds
    the cache of what queries at one time share, in bytes: a second question about a time is fast.
    """

    def __init__(self, run: Run | str | Path, device: str = "auto", memory: int = MEMORY) -> None:
        self.run = run if isinstance(run, Run) else Run.load(run, resolve_device(device))
        self._use(Scenario(self.run, memory))

    def __repr__(self) -> str:
        return f"Predictor({self.model.name} on {self.graph.describe_size()})"

    def _use(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.graph, self.timeline, self.model = scenario.graph, scenario.timeline, scenario.model

    @property
    def temperature(self) -> float | None:
        """Softmax temperature, fitted on valid at the first use; None without probabilities."""
        return self._scenario.temperature

    def objects(
        self, subject: Name, relation: Name, time: When, top: int = 10, evidence: int = 3
    ) -> Completion:
        """The best objects for (subject, relation, ?, time)."""
        return self._complete((subject, relation, None, time), top, evidence)

    def subjects(
        self, relation: Name, object: Name, time: When, top: int = 10, evidence: int = 3
    ) -> Completion:
        """The best subjects for (?, relation, object, time)."""
        return self._complete((None, relation, object, time), top, evidence)

    def relations(
        self, subject: Name, object: Name, time: When, top: int = 10, evidence: int = 3
    ) -> Completion:
        """The best relations for (subject, ?, object, time); probabilities are not calibrated."""
        return self._complete((subject, None, object, time), top, evidence)

    def _complete(
        self, parts: tuple[Name | None, Name | None, Name | None, When], top: int, evidence: int
    ) -> Completion:
        fact = self._scenario.fact_ids(*parts)
        return self.complete(fact, score_candidates(self._scenario, fact), top, evidence)

    def times(
        self,
        subject: Name,
        relation: Name,
        object: Name,
        top: int = 10,
        evidence: int = 3,
        first: When | None = None,
        last: When | None = None,
        progress: Progress | None = None,
    ) -> Completion:
        """The best time steps from first to last for (subject, relation, object, ?).

        The score of a step is the mean of log p(object) and log p(subject) at that step, and
        `probability` is its softmax over the period: every step is equally likely beforehand.
        For a model without probabilities, the score of a step is the mean of both scores.
        """
        fact = self._scenario.fact_ids(subject, relation, object, None)
        period = self._scenario.period(first, last)
        return complete_time(self._scenario, fact, period, top, evidence, progress)

    def why(
        self,
        subject: Name,
        relation: Name,
        object: Name,
        time: When,
        side: str = "object",
        evidence: int = 10,
    ) -> Completion:
        """Why, or why not: the object (or subject) as the only candidate, with its evidence.

        The facts with the largest effect come first, whether they support the candidate or not.
        """
        if side not in SIDES:
            raise ConfigError(f"side must be object or subject, found '{side}'")
        whole = self._scenario.fact_ids(subject, relation, object, time)
        part = COLUMNS.index(side)
        fact: Fact = (*whole[:part], -1, *whole[part + 1 :])  # type: ignore[assignment]
        scores = score_candidates(self._scenario, fact)
        return self.complete(fact, scores, 1, evidence, candidate=whole[part])

    def complete(
        self,
        fact: Fact,
        scores: Tensor,
        top: int = 10,
        evidence: int = 3,
        candidate: int | None = None,
    ) -> Completion:
        """The best answers, or one candidate, for a fact in ids with -1 for the missing part.

        `scores` [candidates] are those of all candidates: a caller with many queries can score
        them in one batch.
        """
        return complete(self._scenario, fact, scores, top, evidence, candidate)

    def question(self, fact: Fact) -> tuple[int, int, int]:
        """The query (entity, relation or its inverse, time) for a missing subject or object."""
        entity, relation, time = self._scenario.query(fact)
        return int(entity), int(relation), int(time)

    def ask(
        self,
        questions: TableLike,
        top: int = 10,
        *,
        strict: bool = False,
        options: ImportOptions | None = None,
        progress: Progress | None = None,
        budget: int | None = None,
    ) -> ResultTable:
        """The best answers to every question of a table, in batches.

        A question has the columns subject, relation, object and time, or those that the options
        name, with exactly one of them null or absent. The rows of the result are the answers in the
        order of the questions: `question` is the row number from 0, then come the completed fact,
        the part `asked` for, the `answer`, its rank, score and probability, and the split in which
        it is known. A question that has no answer, because a name is unknown for example, has one
        row with the reason in `error`. If `strict`, the first question with an unknown name, or
        that is wrong in another way, is an error.
        """
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        read = read_questions(self.graph, questions, options or ImportOptions())
        table = answer_questions(self._scenario, read, top, budget, progress, strict)
        return ResultTable(table)

    def score(
        self,
        facts: FactsLike,
        progress: Progress | None = None,
        budget: int | None = None,
        ranks: bool = True,
        options: ImportOptions | None = None,
    ) -> ResultTable:
        """Score, probability and rank of many facts as objects and as subjects, in bounded memory.

        Facts are rows (subject, relation, object, time) of names or ids, an array of ids, a
        DataFrame or Arrow table, or a file; columns that the options do not name are guessed, as in
        an import. Other known answers are filtered out, as in an evaluation;
        `known` is the split that holds the fact. Without ranks the table has scores alone, and a
        model that can scores no other candidates.
        """
        rows = to_fact_ids(self.graph, facts, options)
        ids = torch.from_numpy(rows).to(self.model.device)
        scores = score_facts(self._scenario, ids, budget, progress, ranks)
        splits = pa.array(self.graph.find_splits(rows), pa.string())
        named = name_columns(self.graph, rows)
        return ResultTable(pa.table(named | {"known": splits} | scores.columns()))

    def missing(
        self,
        entity: Name | None = None,
        relations: Sequence[Name] | None = None,
        first: When | None = None,
        last: When | None = None,
        top: int = 100,
        at_least: float | None = None,
        out: str | Path | None = None,
        progress: Progress | None = None,
        budget: int | None = None,
    ) -> ResultTable | int:
        """The most plausible facts that are not in the data, from the step first to the step last.

        Candidates are the objects of every (subject, relation) of train at every step of the
        period; for one entity also its subjects. Returns the best `top` as a table, and writes it
        to the Parquet file `out`, if given. With `at_least`, writes every fact with at least this
        probability to `out` in the order of time, and returns the number of facts.
        """
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        if at_least is not None:
            if not 0 < at_least <= 1:
                raise ConfigError(f"at_least must be a probability above 0, found {at_least}")
            if out is None:
                raise ConfigError(
                    "at_least may find any number of facts; name a Parquet file for them with out"
                )
            if self.temperature is None:
                raise QueryError(
                    f"the scores of {self.model.name} are not probabilities; ask for the best "
                    "ones by top"
                )
        graph, scenario = self.graph, self._scenario
        pairs = known_pairs(
            graph,
            None if entity is None else graph.entity_id(entity),
            None if relations is None else [graph.relation_id(name) for name in relations],
        )
        scan = Scan(scenario, top, at_least, budget)
        batches = scan.batches(pairs, scenario.period(first, last), progress)
        if at_least is not None and out is not None:
            return write_batches(batches, graph, Path(out))
        table = best_of_batches(batches, top).table(graph, self.temperature is not None)
        if out is not None:
            write_table(table, Path(out))
        return ResultTable(table)

    def surprising(
        self,
        splits: Sequence[Split] = SPLITS,
        top: int = 100,
        progress: Progress | None = None,
        budget: int | None = None,
    ) -> ResultTable:
        """The known facts of some splits that the model finds least plausible, worst first.

        `surprise` is the mean of -log p of both sides, or of log rank for a model without
        probabilities. Train facts were used in training, so they surprise less than others.
        """
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        rows = [self.graph.train[:0], *(self.graph.facts(split) for split in splits)]
        table = self.score(np.concatenate(rows), progress, budget).to_arrow()
        if self.temperature is None:
            sides = [np.log(table[f"{side}_rank"].to_numpy()) for side in SIDES]
        else:
            probabilities = (table[f"{side}_probability"].to_numpy() for side in SIDES)
            sides = [-np.log(np.maximum(each, 1e-300)) for each in probabilities]
        surprise = (sides[0] + sides[1]) / 2
        order = np.argsort(-surprise, kind="stable")[:top]
        table = table.take(order).append_column("surprise", pa.array(surprise[order]))
        return ResultTable(table)

    def add(self, facts: FactsLike, options: ImportOptions | None = None) -> None:
        """Let the model use further train facts, at known time steps or later ones.

        Facts and options are those of `score`. Answers change at once. A step after the last one
        takes the weights of the last one.
        """
        self._use(self._scenario.add(facts, options))

    def remove(self, facts: FactsLike, options: ImportOptions | None = None) -> None:
        """Take away facts that the model uses: train facts, or facts that were added."""
        self._use(self._scenario.remove(facts, options))
