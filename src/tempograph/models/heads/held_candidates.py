"""Facts that hold for a while and may be missing: answers of a model, and related relations."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from tempograph.data.filters import KnownAnswers
from tempograph.data.timeline import Queries, Timeline, both_directions, undirected_facts
from tempograph.models.base import Model
from tempograph.models.heads.fact_candidates import Search
from tempograph.models.heads.new_answers import best_of_triples, new_answers, triple_keys
from tempograph.models.heads.occurrence_candidates import LogProbs
from tempograph.models.heads.relation_rates import RelationRates
from tempograph.typing import Progress

_MAX_QUESTIONS: Final = 50_000
"""Questions that the model is asked; of more, some that are spread evenly over time."""
_RELATIONS_PER_FACT: Final = 4
"""Relations that are proposed for the two entities of one fact."""


class HeldCandidates:
    """Proposes triples that are not among the known facts, each with a step to ask about it.

    A triple that is known to hold at some time is not proposed for another one.
    """

    def __init__(self, timeline: Timeline, known_facts: Tensor) -> None:
        """`known_facts` [n, 4 or 6] are those that are not proposed; train facts are among them."""
        self.timeline, self.rates = timeline, RelationRates(timeline)
        self._known = KnownAnswers(known_facts, timeline.sizes, "static")
        self._known_keys = torch.unique(triple_keys(known_facts, timeline))

    def propose(
        self,
        model: Model,
        log_probs: LogProbs,
        limit: int,
        search: Search,
        progress: Progress | None = None,
    ) -> Tensor:
        """Facts (s, r, o, step) of distinct triples that are not known, at most twice the limit.

        One half are the model's best answers to the questions (s, r, ?) and (?, r, o) of train
        facts, each asked at the middle of a fact; the other half relations that often go with one
        that two entities have. With an entity, only its own questions are asked.
        """
        answers = self._answers(model, log_probs, limit, search, progress)
        facts = torch.cat([answers, self._related(limit, search)])
        first = -torch.arange(len(facts), device=facts.device)
        return best_of_triples(facts, first, len(facts))

    def _answers(
        self,
        model: Model,
        log_probs: LogProbs,
        limit: int,
        search: Search,
        progress: Progress | None,
    ) -> Tensor:
        directed = self._middles(search)
        entity, relation = directed[:, 0], directed[:, 1]
        asked = search.allows_pair(entity, entity)
        asked &= search.allows("relation", relation % self.timeline.num_relations)
        # By time, so that models that encode a step once can.
        distinct = torch.unique(directed[asked][:, [3, 0, 1]], dim=0)
        count = min(len(distinct), _MAX_QUESTIONS)
        spread = torch.linspace(0, max(0, len(distinct) - 1), count, dtype=torch.float64)
        distinct = distinct[spread.round().long().to(distinct.device)]
        time, entity, relation = (column.contiguous() for column in distinct.unbind(1))
        queries = Queries(entity, relation, time)

        def scores(index: Tensor) -> Tensor:
            batch = queries.take(index)
            found = log_probs(model.scores(batch))
            found[self._known(batch)] = -torch.inf
            return found

        weight = torch.zeros(count, dtype=torch.float64, device=time.device)
        return new_answers(model, queries, weight, scores, limit, progress)

    def _related(self, limit: int, search: Search) -> Tensor:
        directed, timeline = self._middles(search), self.timeline
        allowed = search.allows_pair(directed[:, 0], directed[:, 2])
        directed = directed[allowed]
        row, relation, rate = self.rates.related(directed[:, 1], _RELATIONS_PER_FACT)
        facts = directed[row]
        facts[:, 1] = relation
        facts = undirected_facts(facts, timeline.num_relations)
        new = ~torch.isin(triple_keys(facts, timeline), self._known_keys)
        new &= search.allows("relation", facts[:, 1])
        return best_of_triples(facts[new], rate[new], limit)

    def _middles(self, search: Search) -> Tensor:
        """The train facts of the period in both directions, at their middle step, [n, 4]."""
        timeline, facts = self.timeline, self.timeline.facts
        steps = search.steps or range(timeline.num_steps)
        start = facts[:, 3].clamp(min=steps.start)
        end = timeline.fact_end.clamp(max=steps.stop - 1)
        held = start <= end
        middle = (start[held] + end[held]) // 2
        asked = torch.column_stack([facts[held, :3], middle])
        return both_directions(asked, timeline.num_relations)
