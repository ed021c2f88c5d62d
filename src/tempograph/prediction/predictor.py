"""Predictor: ask a trained run who, what, when and why; find missing and surprising facts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, get_args

import numpy as np
import pyarrow as pa
from torch import Tensor

from tempograph.data.added_facts import AddedFacts
from tempograph.data.arrow_tables import TableLike
from tempograph.data.fact_ids import FactBatch, FactsLike, read_facts
from tempograph.data.graph import COLUMNS, Name, When
from tempograph.data.html_table import html_block, html_properties, html_title
from tempograph.data.importers.options import ImportOptions
from tempograph.data.result_table import ResultTable
from tempograph.data.table_files import write_table
from tempograph.device import resolve_device
from tempograph.errors import ConfigError, TempographWarning
from tempograph.evaluation.calibration import Calibration
from tempograph.models.heads.fact_candidates import Search
from tempograph.prediction.answers import Completion
from tempograph.prediction.batch_answers import answer_questions
from tempograph.prediction.completion import complete, name_and_explain, score_candidates
from tempograph.prediction.forecast import Forecast
from tempograph.prediction.interval_answers import complete_interval
from tempograph.prediction.missing import find_missing
from tempograph.prediction.outlook import forecast, make_search
from tempograph.prediction.period import rank_period, score_period
from tempograph.prediction.questions import read_questions, refuse_unranked
from tempograph.prediction.scenario import Fact, Scenario
from tempograph.prediction.scoring import SIDES, measured_scenario, most_surprising, score_columns
from tempograph.progress import show_progress
from tempograph.training.runs import Run
from tempograph.training.update_storage import save_run
from tempograph.typing import SPLITS, Asked, NewNamesOption, ProgressOption, Split

MEMORY: Final = 5 * 2**28
"""Default cache in bytes: enough for all days of ICEWS14."""


class Predictor:
    """Answers questions about a run; entities, relations and time steps are given by name or id.

    `add` and `remove` change the train facts that the model uses, without training. `memory` bounds
    the cache of what queries at one time share, in bytes: a second question about a time is fast.
    Long work shows a bar in a terminal or notebook; with `progress=False` there is none, and a
    function as `progress` is called with (done, total) instead.
    """

    def __init__(self, run: Run | str | Path, device: str = "auto", memory: int = MEMORY) -> None:
        self.run = run if isinstance(run, Run) else Run.load(run, resolve_device(device))
        self._use(Scenario(self.run, memory))

    def __repr__(self) -> str:
        return f"Predictor({self.model.name} on {self.graph.describe_size()})"

    def _repr_html_(self) -> str:
        """The model, its data, and what it can be asked."""
        times, questions, scans = self.graph.times, "relations, times, why, ask", "missing"
        if self.timeline.past_only:
            questions, scans = "why, ask", "forecast"
        elif self.timeline.has_intervals:
            questions = "relations, when, why, ask"
        properties = {
            "data": self.graph.describe_size(),
            "time": f"{times[0]} to {times[-1]}",
            "facts in use": f"{len(self.graph.train):,}",
            "questions": f"objects, subjects, {questions}",
            "many facts": f"score, {scans}, surprising",
            "what if": "add, remove, save",
        }
        title = f"Predictor: {self.model.name} on {self.graph.name}"
        return html_block(html_title(title), html_properties(properties))

    def _use(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.graph, self.timeline, self.model = scenario.graph, scenario.timeline, scenario.model

    def objects(
        self,
        subject: Name,
        relation: Name,
        time: When,
        top: int = 10,
        evidence: int = 3,
        new: bool = False,
        *,
        until: When | None = None,
    ) -> Completion:
        """The best objects for (subject, relation, ?, time); with `new`, those not known yet.

        With `until`, those at any step from the time on until then, by their probability at the
        step where it is highest.
        """
        return self._complete((subject, relation, None, time), top, evidence, new, until=until)

    def subjects(
        self,
        relation: Name,
        object: Name,
        time: When,
        top: int = 10,
        evidence: int = 3,
        new: bool = False,
        *,
        until: When | None = None,
    ) -> Completion:
        """The best subjects for (?, relation, object, time); with `new`, those not known yet.

        With `until`, those at any step from the time on until then, as `objects` does.
        """
        return self._complete((None, relation, object, time), top, evidence, new, until=until)

    def relations(
        self,
        subject: Name,
        object: Name,
        time: When,
        top: int = 10,
        evidence: int = 3,
        new: bool = False,
        progress: ProgressOption = True,
    ) -> Completion:
        """The best relations for (subject, ?, object, time); with `new`, those not known yet."""
        self._prepare_heads(progress)
        return self._complete((subject, None, object, time), top, evidence, new)

    def times(
        self,
        subject: Name,
        relation: Name,
        object: Name,
        top: int = 10,
        evidence: int = 3,
        first: When | None = None,
        last: When | None = None,
        new: bool = False,
        progress: ProgressOption = True,
    ) -> Completion:
        """The best time steps from first to last for (subject, relation, object, ?).

        The probability of a step is that of this step, if the fact happened at one of the period.
        With `new`, steps at which it is known are left out. If facts hold for a while, the answers
        are those of `when`.
        """
        period = self.scenario.period(first, last)
        if self.timeline.has_intervals:
            if new:
                raise ConfigError(
                    "new leaves out steps, but the answers are intervals; leave it out"
                )
            return self._when((subject, relation, object), top, evidence, period, progress)
        self._prepare_heads(progress)
        return self._complete((subject, relation, object, None), top, evidence, new, period)

    def when(
        self,
        subject: Name,
        relation: Name,
        object: Name,
        top: int = 3,
        evidence: int = 3,
        first: When | None = None,
        last: When | None = None,
        progress: ProgressOption = True,
    ) -> Completion:
        """The best intervals from first to last for (subject, relation, object), best first.

        For facts that hold for a while. `score` is the overlap (aeIOU) with the true interval to
        expect, and `probability` that of exactly this interval.
        """
        period = self.scenario.period(first, last)
        return self._when((subject, relation, object), top, evidence, period, progress)

    def _when(
        self,
        triple: tuple[Name, Name, Name],
        top: int,
        evidence: int,
        period: range,
        progress: ProgressOption,
    ) -> Completion:
        scenario, fact = self.scenario.locate(*triple, None)
        with show_progress("learning how long facts hold", progress) as advance:
            self.run.questions.interval_chooser(self.model, advance)
        return complete_interval(scenario, fact, top, evidence, period=period)

    def _prepare_heads(self, progress: ProgressOption) -> None:
        """Fit what ranks relations and times, if no question has needed it yet."""
        if not self.run.questions.has_heads:
            with show_progress("learning to rank relations and times", progress) as advance:
                self.run.questions.heads(advance)

    def _complete(
        self,
        parts: tuple[Name | None, Name | None, Name | None, When | None],
        top: int,
        evidence: int,
        new: bool,
        period: range | None = None,
        until: When | None = None,
    ) -> Completion:
        scenario, fact = self.scenario.locate(*parts)
        if until is not None:
            # Both are counted from the last step of the data.
            ahead, last = self.scenario.at(until)
            scenario = scenario if ahead is self.scenario else ahead
            scenario.check_period(fact, last)
            ranking = rank_period(score_period(scenario, fact, last, new), fact, last, top)
            return name_and_explain(scenario, ranking, evidence)
        scores = score_candidates(scenario, fact)
        return complete(scenario, fact, scores, top, evidence, new=new, period=period)

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
        scenario, whole = self.scenario.locate(subject, relation, object, time)
        part = COLUMNS.index(side)
        fact: Fact = (*whole[:part], -1, *whole[part + 1 :])  # type: ignore[assignment]
        scores = score_candidates(scenario, fact)
        return complete(scenario, fact, scores, 1, evidence, candidate=whole[part])

    def complete(
        self,
        fact: Fact,
        scores: Tensor,
        top: int = 10,
        evidence: int = 3,
        candidate: int | None = None,
        new: bool = False,
    ) -> Completion:
        """The best answers, or one candidate, for a fact in ids with -1 for the missing part.

        `scores` [candidates] are those of all candidates: a caller with many queries can score
        them in one batch.
        """
        return complete(self.scenario, fact, scores, top, evidence, candidate=candidate, new=new)

    def candidate_scores(self, fact: Fact) -> Tensor:
        """Scores of all candidates for the missing part of a fact in ids, [candidates]."""
        return score_candidates(self.scenario, fact)

    def ask(
        self,
        questions: TableLike,
        top: int = 10,
        *,
        new: bool = False,
        strict: bool = False,
        options: ImportOptions | None = None,
        progress: ProgressOption = True,
        budget: int | None = None,
    ) -> ResultTable:
        """The best answers to every question of a table, in batches; with `new`, unknown ones.

        A question has the columns subject, relation, object and time, or those that the options
        name, or those of the import that made the run's data, with exactly one of them null or
        absent. The rows of the result are the answers in the order of the questions: `question` is
        the row number from 0, then come the completed fact, the part `asked` for, the `answer`, its
        rank, score and probability, and the split in which it is known. A question that has no
        answer, because a name is unknown or the run does not rank what is missing for example, has
        one row with the reason in `error`. If `strict`, the first question with an unknown name, or
        that is wrong in another way, is an error.
        """
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        given = options.given if options else {}
        remembered, forecasts = self.run.import_options, self.timeline.past_only
        read = read_questions(self.graph, questions, given, remembered, extend=forecasts)
        read = refuse_unranked(read, self.run.questions)
        scenario = self.scenario.reaching(read.times)
        with show_progress("answering questions", progress) as advance:
            table = answer_questions(scenario, read, top, budget, advance, strict, new)
        return ResultTable(table)

    def score(
        self,
        facts: FactsLike,
        progress: ProgressOption = True,
        budget: int | None = None,
        ranks: bool = True,
        options: ImportOptions | None = None,
        *,
        strict: bool = False,
    ) -> ResultTable:
        """Score, probability and rank of many facts as objects and as subjects, in bounded memory.

        Facts are rows (subject, relation, object, time) of names or ids, an array of ids, a
        DataFrame or Arrow table, or a file; columns that the options do not name are those of the
        import that made the run's data, or else guessed. Other known answers are filtered out, as
        in an evaluation; `known` is the split that holds the fact. Without ranks the table has
        scores alone, and a model that can scores no other candidates. A fact that cannot be scored,
        because a name is unknown for example, has no scores and the reason in `error`. If `strict`,
        the first such fact is an error.

        Facts that hold for a while may have a start and an end, in a table or as rows (subject,
        relation, object, start, end). Their score, log probability and rank are means over the
        steps at which they hold.
        """
        batch = self._read(facts, options, extend=self.timeline.past_only)
        if strict:
            batch.refuse_errors()
        return self.score_batch(batch, progress, budget, ranks)

    def score_batch(
        self,
        batch: FactBatch,
        progress: ProgressOption = True,
        budget: int | None = None,
        ranks: bool = True,
    ) -> ResultTable:
        """The table of `score`, for facts that are read already."""
        valid, scenario = batch.valid, self.scenario.reaching(batch.graph.times)
        rows = batch.ids[valid]
        with show_progress("scoring facts", progress) as advance:
            columns = {"known": pa.array(scenario.find_splits(rows), pa.string())}
            columns |= score_columns(scenario, rows, budget, advance, ranks)
        table = pa.table(columns)
        if not valid.all():
            # A null index makes a row of nulls.
            table = table.take(pa.array(np.cumsum(valid) - 1, mask=~valid))
        columns = dict(zip(table.column_names, table.columns, strict=True))
        return ResultTable(pa.table(batch.names() | columns | {"error": batch.errors.texts}))

    def missing(
        self,
        entity: Name | None = None,
        relations: Sequence[Name] | None = None,
        first: When | None = None,
        last: When | None = None,
        top: int = 100,
        at_least: float | None = None,
        out: str | Path | None = None,
        progress: ProgressOption = True,
        budget: int | None = None,
    ) -> ResultTable | int:
        """The facts that are most likely missing from the data, from step `first` to `last`.

        `probability` is that of the fact having happened, if as many facts are missing as were held
        out for validation. There is one row for each triple (subject, relation, object) at its best
        step; `other_times` and `other_probabilities` are its next best steps. Returns the best
        `top` as a table, and writes it to the Parquet file `out`, if given. With `at_least`, writes
        every fact with at least this probability to `out`, one row for each step, in the order of
        time, and returns the number of facts.

        If facts hold for a while, `probability` is that such a fact exists, whenever it holds, and
        each triple has one row with its best interval inside the period, as `when` finds it.
        Triples that are known to hold at some time are not proposed.
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
        graph, scenario = self.graph, self.scenario
        search = Search(
            None if entity is None else graph.entity_id(entity),
            None if relations is None else [graph.relation_id(name) for name in relations],
            scenario.period(first, last),
        )
        with show_progress("searching for missing facts", progress) as advance:
            limit = None if at_least is not None else top
            found = find_missing(scenario, search, limit, advance, budget, at_least)
        if at_least is not None and out is not None:
            write_table(found.table(graph), Path(out))
            return len(found.facts)
        table = found.by_triple(graph, top)
        if out is not None:
            write_table(table, Path(out))
        return ResultTable(table)

    def forecast(
        self,
        date: When | None = None,
        days: int = 1,
        entity: Name | None = None,
        relations: Sequence[Name] | None = None,
        top: int = 20,
        min_probability: float = 0.0,
        evidence: int = 0,
        out: str | Path | None = None,
        progress: ProgressOption = True,
        budget: int | None = None,
    ) -> Forecast:
        """What is likely to happen, by default at the step after the data; for forecasters.

        Each of the `days` steps from `date` on has its `top` most likely facts, of an entity and of
        some relations if these are given. Facts happened before, or are new for an active subject
        or object. `probability` is that of the fact at that step, given what is known before the
        first step; inside the data, that is everything before each step. `last` is when the fact
        happened last. The table is also written to the file `out`, as CSV or Parquet.
        """
        search = make_search(self.scenario, entity, relations)
        if not self.run.questions.has_occurrence:
            with show_progress("learning to tell what will happen", progress) as advance:
                self.run.questions.occurrence(advance)
        with show_progress("forecasting", progress) as advance:
            found = forecast(
                self.scenario, date, days, search, top, min_probability, evidence, advance, budget
            )
        if out is not None:
            write_table(found.to_arrow(), Path(out))
        return found

    def surprising(
        self,
        splits: Sequence[Split] = SPLITS,
        top: int = 100,
        progress: ProgressOption = True,
        budget: int | None = None,
    ) -> ResultTable:
        """The known facts of some splits that the model finds least plausible, worst first.

        `surprise` is the mean of -log p of both sides. Held-out facts are scored by the model as it
        was measured, from train facts alone. Train facts were used in training, so they surprise
        less than others.
        """
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}")
        scenario = measured_scenario(self.scenario)
        graph = scenario.graph
        rows = np.concatenate([graph.train[:0], *(graph.facts(split) for split in splits)])
        with show_progress("searching for surprising facts", progress) as advance:
            scores = pa.table(score_columns(scenario, rows, budget, advance))
        return ResultTable(most_surprising(graph, rows, scores, top))

    def calibration(self, asked: Asked = "entity", progress: ProgressOption = True) -> Calibration:
        """How far the probabilities of entities, relations or times can be trusted.

        They are calibrated once, on valid facts, which the run must have.
        """
        with show_progress("scoring the valid split", progress) as advance:
            return self.run.questions.calibration(asked, advance)

    def add(
        self,
        facts: FactsLike,
        options: ImportOptions | None = None,
        *,
        strict: bool = False,
        new: NewNamesOption = "refuse",
    ) -> AddedFacts:
        """Let the model use further train facts, at known time steps or later ones.

        Facts and options are those of `score`. Answers change at once. A step after the last one
        takes the weights of the last one. Returns the facts that were not added, because a name is
        unknown or the model uses them already: their `row` from 0, the fact, and the `error`; there
        is a warning if there are any. If `strict`, the first one is an error, and no fact is added.

        With `new="add"`, unknown names are new entities and relations, whose weights are estimated
        as in `update`; spellings that differ are then different names. `save` keeps what was added.

        A fact with an end replaces the same fact, from the same start, if its end was open or
        unknown. The result has these facts as `closed`.
        """
        if new not in get_args(NewNamesOption):
            raise ConfigError(f"new must be refuse or add, found '{new}'")
        read = self._read(facts, options, extend=True, new_names=new == "add")
        batch = self.scenario.refuse_known(read)
        closed = batch.select(self.scenario.find_closing(batch))
        rejected = self._change(batch, "added", strict, self.scenario.add)
        return AddedFacts(rejected, closed)

    def remove(
        self, facts: FactsLike, options: ImportOptions | None = None, *, strict: bool = False
    ) -> ResultTable:
        """Take away facts that the model uses: train facts, or facts that were added.

        Returns the facts that were not removed, as `add` does. If `strict`, the first one is an
        error, and no fact is removed.
        """
        batch = self.scenario.refuse_unknown(self._read(facts, options))
        return ResultTable(self._change(batch, "removed", strict, self.scenario.remove))

    def save(self, path: str | Path | None = None, overwrite: bool = False) -> Run:
        """Write the run with the facts that were added, and return it; the predictor uses it.

        By default, they are written into the folder of the run, as one more update. Another path
        is that of a copy. Either is written as a whole or not at all. Figures stay those from
        before, and are marked so.
        """
        if path is None and self.run.path is None:
            raise ConfigError("the run has no folder yet; pass the path of one")
        updated = self.run
        if (updates := self.scenario.updates()) is not self.run.updates and updates is not None:
            updated = self.run.with_updates(updates)
        self.run = save_run(updated, None if path is None else Path(path), overwrite)
        self._use(Scenario(self.run, self.scenario.cache_bytes))
        return self.run

    def _change(
        self, batch: FactBatch, done: str, strict: bool, change: Callable[[FactBatch], Scenario]
    ) -> pa.Table:
        """Use the valid facts of a batch, all or none, and return the others."""
        if strict:
            batch.refuse_errors()
        if not batch.valid.all():
            # Before the change: where warnings are errors, nothing changes.
            count, first = batch.describe_errors(done, limit=1)
            _warn(f"{count}; the first is {first}")
        if batch.valid.any():
            self._use(change(batch))
        return batch.rejected()

    def _read(
        self,
        facts: FactsLike,
        options: ImportOptions | None,
        extend: bool = False,
        new_names: bool = False,
    ) -> FactBatch:
        """Facts in ids, read as the import that made the run's data."""
        given, remembered = options.given if options else {}, self.run.import_options
        notes: list[str] = []
        batch = read_facts(self.graph, facts, given, remembered, extend, notes.append, new_names)
        for note in notes if remembered is not None else ():
            _warn(note)
        return batch


def _warn(text: str) -> None:
    """Warn the caller of a public method, which called the caller of this function."""
    warnings.warn(text, TempographWarning, stacklevel=4)
