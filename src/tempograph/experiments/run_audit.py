"""An audit of a run folder: what its figures rest on, checked again from the stored weights.

The audit can only check what is computed from the weights. Which facts the weights were trained on
is not visible in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.graph import Facts, TemporalGraph, rows_in
from tempograph.data.timeline import Queries, Timeline, fact_queries
from tempograph.errors import DataError, QueryError, RunError, TempographError
from tempograph.evaluation.audit_checks import (
    TOLERANCE,
    AuditCheck,
    SampledRanks,
    check_each_alone,
    check_filter,
    check_ranks,
    describe,
    largest_difference,
    rank_sample,
)
from tempograph.evaluation.evaluator import evaluate_model, query_batches
from tempograph.evaluation.independent_ranks import RawDataset
from tempograph.evaluation.rank_table import RankTable, read_run_ranks
from tempograph.evaluation.result_checks import check_figures, check_stored_ranks
from tempograph.models.base import Model
from tempograph.training.run_folder import dataset_folder
from tempograph.training.runs import Run
from tempograph.typing import SPLITS, Split

_MAX_REMOVED: Final = 10
"""Train facts that are removed one by one: the run is built again without each of them."""
_KNOWN_LEAK: Final = (
    "known leak of protocol paper: test decides which entities are active, so scores change"
)


def audit_run(
    folder: str | Path,
    num_facts: int = 200,
    device: torch.device | str = "cpu",
    report: Callable[[AuditCheck], None] | None = None,
) -> list[AuditCheck]:
    """Check a run, asking about `num_facts` test facts on both sides.

    `report` is called with each check when it is done.
    """
    run = Run.load(folder, device)
    if not len(run.graph.test):
        raise DataError(f"{folder}: its test split has no facts, so there is nothing to ask about")
    if not run.results.evaluations:
        raise RunError(f"{folder}: it has no figures yet; run 'tempograph evaluate {folder}' first")
    checks = []
    for check in _Audit(run, Path(folder), num_facts).checks():
        checks.append(check)
        if report is not None:
            report(check)
    return checks


class _Audit:
    """A loaded run and the facts that the audit asks about."""

    def __init__(self, run: Run, folder: Path, num_facts: int) -> None:
        self.run, self.folder, self.num_facts = run, folder, num_facts
        self.graph, self.model = run.graph, run.model
        sampled = self.graph.test[self.sample("test", num_facts)]
        self.facts = torch.from_numpy(sampled).to(self.model.device)

    def sample(self, split: Split, count: int) -> NDArray[np.int64]:
        """Random positions of a split's facts in ascending order."""
        total = len(self.graph.facts(split))
        return np.sort(np.random.default_rng(0).permutation(total)[:count])

    def checks(self) -> Iterator[AuditCheck]:
        """All checks, one after another."""
        yield self.check_held_out("Test is not seen", "test")
        if len(self.graph.valid):
            yield self.check_held_out("Valid is not seen", "valid", "test")
        yield self.check_asked_fact()
        yield check_each_alone(self.model, self.facts, len(self.graph.relations))
        raw = RawDataset(dataset_folder(self.folder))
        files = self.check_files(raw)
        yield files
        if files.holds:
            sample = self.rank("test", raw)
            yield check_ranks(sample)
            yield check_filter(sample)
            for split in self.run.results.evaluations:
                yield self.check_results(
                    split, sample if split == "test" else self.rank(split, raw)
                )

    def rank(self, split: Split, raw: RawDataset) -> SampledRanks:
        """Ranks of a sample of a split."""
        position = self.sample(split, self.num_facts)
        return rank_sample(self.model, self.graph, split, position, raw)

    def rebuild(self, graph: TemporalGraph) -> Model:
        """The model of the run folder, built over another graph as training and `load` do."""
        timeline = Timeline(graph, self.run.config.protocol, self.model.device)
        return Run.load_with(self.folder, graph, timeline).model

    def check_held_out(self, name: str, *splits: Split) -> AuditCheck:
        """Scores stay the same if all facts of some splits are replaced by random ones."""
        rng, graph, count = np.random.default_rng(0), self.graph, 0
        for split in splits:
            random = rng.integers(0, graph.sizes, (len(graph.facts(split)), 4))
            graph, count = _with_facts(graph, split, random), count + len(random)
        try:
            changed = self.rebuild(graph)
        except TempographError as error:
            return AuditCheck(name, False, f"with random facts it cannot be built: {error}")
        queries, _ = fact_queries(self.facts, len(self.graph.relations))
        difference = self.compare(self.model, changed, queries)
        holds = difference == 0
        detail = f"{count:,} facts of {' and '.join(splits)} replaced by random ones: "
        detail += f"scores of {len(queries.time):,} queries are {describe(difference)}"
        if not holds and self.compare(self.model, self.rebuild(self.graph), queries) > 0:
            holds = difference <= TOLERANCE
            detail += ", but a model built twice from the same facts differs as well"
        if not holds and self.run.config.protocol == "paper":
            detail = f"{_KNOWN_LEAK} ({describe(difference)})"
        return AuditCheck(name, holds, detail)

    @torch.inference_mode()
    def compare(self, one: Model, other: Model, queries: Queries) -> float:
        """The largest difference of the scores of two models, in the same batches."""
        known = KnownAnswers.from_graph(self.graph, "raw", one.device)
        return max(
            largest_difference(one.scores(batch), other.scores(batch))
            for batch in map(queries.take, query_batches(one, queries, known))
        )

    @torch.inference_mode()
    def check_asked_fact(self) -> AuditCheck:
        """Scores that leave a fact out equal those of a run built without this fact.

        The scores that a model gives beside them, with all facts, are those of a usual query.
        """
        name, graph = "The asked fact is not seen", self.graph
        shared = int(rows_in(graph.test, graph.train).sum())
        if shared:
            detail = f"{shared:,} of {len(graph.test):,} test facts are in train as well"
            return AuditCheck(name, False, detail)
        try:
            model = self.model.with_timeline(self.run.timeline)
        except QueryError:
            model = self.model
        everyone = torch.arange(len(graph.entities), device=model.device)
        difference = effect = 0.0
        facts = graph.train[self.sample("train", min(self.num_facts, _MAX_REMOVED))]
        for fact in facts:
            row = torch.from_numpy(fact).to(model.device)
            left_out = (self.run.timeline.facts == row).all(1).nonzero()[:, 0]
            score_without = self.scorer_without(fact)
            queries, _ = fact_queries(row[None], len(graph.relations))
            for side in everyone.new_tensor([[0], [1]]):
                query = queries.take(side)
                claimed = model.counterfactual_scores(query, left_out, everyone)
                if claimed is None:
                    detail = f"no test fact is in train; {model.name} leaves no facts out of scores"
                    return AuditCheck(name, True, detail)
                actual = torch.cat([self.model.scores(query), score_without(query)]).to(claimed)
                difference = max(difference, largest_difference(claimed, actual))
                effect = max(effect, largest_difference(claimed[1:], claimed[:1]))
        detail = f"no test fact is in train; {2 * len(facts)} queries about train facts, with the "
        detail += f"fact left out and in a run built without it: {describe(difference)}; "
        detail += "leaving it out changes "
        detail += f"scores by up to {effect:.1e}" if effect else "no score"
        if not model.uses_train_facts:
            detail += ", because scores do not look facts up"
        return AuditCheck(name, difference <= TOLERANCE, detail)

    def scorer_without(self, fact: Facts) -> Callable[[Queries], Tensor]:
        """Scores by the run built again without one train fact.

        Built again, a model may lack weights, if they belong to a pair that only this fact had, and
        may scale its scores by the number of facts. `with_timeline` does neither, so its scores are
        used in the first case and, if they put the candidates in the same order, in the second.
        """
        graph = replace(self.graph, train=self.graph.train[(self.graph.train != fact).any(1)])
        timeline = Timeline(graph, self.run.config.protocol, self.model.device)
        moved = rebuilt = None
        with suppress(QueryError):
            moved = self.model.with_timeline(timeline)
        try:
            rebuilt = self.rebuild(graph)
        except RunError:
            if moved is None:
                raise

        def score(queries: Queries) -> Tensor:
            scores = [model.scores(queries) for model in (moved, rebuilt) if model is not None]
            return scores[0] if _same_order(scores[0], scores[-1]) else scores[-1]

        return score

    def check_files(self, raw: RawDataset) -> AuditCheck:
        """The graph holds the facts in the files of the dataset folder."""
        wrong = [
            split
            for split in SPLITS
            if raw.facts[split] != [tuple(fact) for fact in self.graph.facts(split).tolist()]
        ]
        total = sum(len(facts) for facts in raw.facts.values())
        detail = f"{total:,} facts read with plain Python are equal"
        if wrong:
            detail = f"the facts of {' and '.join(wrong)} differ from those in the files"
        return AuditCheck("The graph is what the files hold", not wrong, detail)

    def check_results(self, split: Split, sample: SampledRanks) -> AuditCheck:
        """The figures in results.json are those of the ranks, and the ranks are found again."""
        reported = self.run.results.evaluations[split]["metrics"]
        stored = read_run_ranks(self.folder).get(split)
        if stored is None:
            # A folder that was made to be sent holds no ranks.
            protocol = self.run.config.protocol
            evaluation = evaluate_model(self.model, self.graph, split, protocol)
            return check_figures(split, reported, RankTable.from_evaluation(evaluation), sample)
        return check_stored_ranks(split, reported, stored, self.graph.facts(split), sample)


def _same_order(one: Tensor, other: Tensor) -> bool:
    """Whether two tables of one query's scores, [1, candidates], put them in the same order."""
    orders = (torch.unique(scores, return_inverse=True)[1] for scores in (one, other))
    return torch.equal(*orders)


def _with_facts(graph: TemporalGraph, split: Split, facts: Facts) -> TemporalGraph:
    """The graph with other facts in one split."""
    changes: dict[str, Any] = {split: facts}
    return replace(graph, **changes)
