"""The loss of an embedding method on some facts: both sides, against all entities or a sample, with penalties."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tempograph.data.timeline import Queries, fact_queries
from tempograph.device import memory_budget
from tempograph.errors import ConfigError
from tempograph.models.embedding.embedding import Embedding
from tempograph.nn.losses import leave_out, logistic_loss, margin_loss, sampled_loss, softmax_loss
from tempograph.nn.relations import total
from tempograph.training.objective import Objective
from tempograph.training.settings import FactTraining


class EmbeddingLoss(Objective):
    """The mean loss of the questions of some facts, both sides."""

    def __init__(self, model: Embedding, settings: FactTraining) -> None:
        super().__init__(model.timeline)
        self.model = model
        self.settings = settings
        if settings.dropout and model.settings.decoder == "gaussian":
            raise ConfigError(
                "decoder gaussian takes no dropout: a variance cannot be left out; set train.dropout=0"
            )
        if settings.smoothness and model.relations.moments() is None:
            raise ConfigError(
                f"smoothness is for relations shifted or factored, not {model.settings.relations}; "
                "set train.smoothness=0"
            )
        if settings.negatives == "all":
            if settings.loss != "softmax":
                raise ConfigError(f"loss {settings.loss} needs a number of negatives, found 'all'")
            if model.entities.timed and settings.batch == "facts":
                raise ConfigError(
                    f"{model.name}'s entities change with time: against all of them, batches are of whole times; "
                    "set train.batch=times or a number of negatives"
                )

    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """Positions of train facts; where those of some times are too many for one step, several steps take them."""
        timeline, s = self.timeline, self.settings
        if s.batch == "facts":
            return self.shuffled_facts(s.facts_per_step, generator)
        negatives = timeline.num_entities if s.negatives == "all" else s.negatives
        # Of every fact both sides are asked for.
        most = max(1, memory_budget("embedding_loss", timeline.device) // (2 * 4 * negatives))
        whole = [
            timeline.edges(times)[1] for times in self.shuffled_times(s.times_per_step, generator)
        ]
        return [
            part for facts in whole for part in torch.tensor_split(facts, -(-len(facts) // most))
        ]

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Positions of facts [n] -> a scalar."""
        s, timeline = self.settings, self.timeline
        queries, answer = fact_queries(timeline.facts[batch], timeline.num_relations)
        factors = self.model.relations.factors(queries)
        questions = self.model.ask(queries, total(factors))
        if s.dropout:
            questions = leave_out(questions, s.dropout, generator)
        if s.negatives == "all":
            scores = self.model.score_all(questions, queries.time)
            every = torch.arange(len(answer), device=answer.device)
            loss = softmax_loss(scores.float(), every, answer, self.true_answers(queries, answer))
        else:
            loss = self._sampled(questions, queries, answer, s.negatives, generator)
        return loss + self._penalty(queries, answer, factors)

    def _sampled(
        self,
        questions: Tensor,
        queries: Queries,
        answer: Tensor,
        count: int,
        generator: torch.Generator,
    ) -> Tensor:
        drawn, scores = self.model.score_some(questions, queries.time, count, generator)
        positive, negative = (
            self.model.score_own(questions, queries.time, answer).float(),
            scores.float(),
        )
        excluded = self.known.contains(queries, drawn)
        if self.settings.loss == "margin":
            return margin_loss(positive, negative, excluded, self.settings.margin)
        if self.settings.loss == "logistic":
            return logistic_loss(positive, negative, excluded, self.settings.margin)
        return sampled_loss(positive, negative, excluded)

    def _penalty(self, queries: Queries, answer: Tensor, relations: list[Tensor]) -> Tensor | float:
        s, model = self.settings, self.model
        penalty: Tensor | float = 0.0
        if s.n3:
            cubes = [model.decoder.cubes(part).sum() for part in relations]
            penalty = (
                s.n3
                * (torch.stack(cubes).sum() + self._entity_cubes(queries, answer))
                / len(answer)
            )
        moments = model.relations.moments()
        if s.smoothness and moments is not None and len(moments) > 1:
            change = model.decoder.cubes(moments[1:] - moments[:-1])
            penalty = penalty + s.smoothness * change.sum() / len(change)
        return penalty

    def _entity_cubes(self, queries: Queries, answer: Tensor) -> Tensor:
        """Of the entities given and asked for, each as often as it is one; few distinct ones make up many."""
        steps = self.timeline.num_steps
        entity, time = torch.cat([queries.entity, answer]), queries.time.repeat(2)
        pair, count = torch.unique(
            entity * steps + (time if self.model.entities.timed else 0), return_counts=True
        )
        cubes = self.model.decoder.cubes(self.model.entities.take(pair // steps, pair % steps))
        counted: Tensor = cubes.sum(1) @ count.to(cubes.dtype)
        return counted
