"""The loss of an embedding method on a batch of facts: both directions, with penalties."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tempograph.data.timeline import Queries, fact_queries
from tempograph.device import memory_budget
from tempograph.errors import ConfigError
from tempograph.models.embedding.embedding_model import Embedding
from tempograph.nn.dropout import dropout
from tempograph.nn.loss_functions import (
    corrected_loss,
    logistic_loss,
    margin_loss,
    sampled_loss,
    softmax_loss,
)
from tempograph.nn.relations import sum_terms
from tempograph.training.distributed import Processes
from tempograph.training.losses.negative_sampling import NegativeSampler, columns_of
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.settings import FactTrainSettings


class EmbeddingLoss(TrainingLoss):
    """The mean loss over the queries of a batch of facts, in both directions."""

    def __init__(self, model: Embedding, settings: FactTrainSettings) -> None:
        super().__init__(model.timeline)
        self.model = model
        self.settings = settings
        if settings.dropout and model.settings.decoder == "gaussian":
            raise ConfigError(
                "decoder gaussian takes no dropout, which would set variances to 0; "
                "set train.dropout=0"
            )
        if settings.smoothness and model.relations.time_embeddings() is None:
            raise ConfigError(
                f"smoothness is for relations shifted or factored, not {model.settings.relations}; "
                "set train.smoothness=0"
            )
        drifting = "drifting" in (model.settings.entities, model.settings.relations)
        if settings.season_penalty and not drifting:
            raise ConfigError(
                "season_penalty is for drifting entities or relations, found entities "
                f"{model.settings.entities} and relations {model.settings.relations}; "
                "set train.season_penalty=0"
            )
        if settings.negatives == "all":
            if settings.loss != "softmax":
                raise ConfigError(f"loss {settings.loss} needs a number of negatives, found 'all'")
            if model.entities.time_dependent and settings.batch == "facts":
                raise ConfigError(
                    f"{model.name}'s entities change with time, so scoring all of them "
                    "needs batches of whole time steps; set train.batch=times or train.negatives"
                )
        self.sampler = self._make_sampler()
        # Copies of a model in several processes exchange dense gradients; the weights are the same.
        if settings.sparse_gradients and (Processes.from_environment().size == 1 or model.shards):
            model.entities.use_sparse_gradients()

    def _make_sampler(self) -> NegativeSampler | None:
        """Draws negatives that are corrected for; None if all entities or uncorrected ones are."""
        s, timeline = self.settings, self.timeline
        if s.negatives == "all" or s.negative_sampling == "uncorrected":
            return None
        if self.model.entities.time_dependent and s.negative_sampling in ("batch", "mixed"):
            raise ConfigError(
                f"{self.model.name}'s entities change with time, so each time needs negatives of "
                "its own; set train.negative_sampling=uniform"
            )
        return NegativeSampler(
            timeline.facts, timeline.num_entities, s.negatives, s.negative_sampling
        )

    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """Positions of train facts; the facts of some times may take several steps."""
        timeline, s = self.timeline, self.settings
        if s.batch == "facts":
            return self.shuffled_facts(s.facts_per_step, generator)
        negatives = timeline.num_entities if s.negatives == "all" else s.negatives
        # Each fact makes two queries.
        max_facts = max(1, memory_budget("embedding_loss", timeline.device) // (2 * 4 * negatives))
        return [
            part
            for times in self.shuffled_times(s.times_per_step, generator)
            for facts in [self.facts_asked_at(times)[1]]
            for part in torch.tensor_split(facts, -(-len(facts) // max_facts))
        ]

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Positions of facts [n] -> the loss, a scalar."""
        s, timeline = self.settings, self.timeline
        facts = self.asked_facts(batch)
        queries, answer = fact_queries(facts, timeline.num_relations)
        terms = self.model.relations.terms(queries)
        entity = self.model.entities(queries.entity, queries.time)
        query = self.model.decoder.compose(entity, sum_terms(terms))
        if s.dropout:
            query = dropout(query, s.dropout, generator)
        if s.negatives == "all":
            scores = self.model.score_all(query, queries.time)
            row = torch.arange(len(answer), device=answer.device)
            known = self.true_answers(queries, answer)
            loss = softmax_loss(scores.float(), row, answer, known).mean()
        elif self.sampler is not None:
            loss = self._corrected(self.sampler, query, entity, facts, queries, generator)
        else:
            loss = self._sampled(query, queries, answer, s.negatives, generator)
        return loss + self._penalty(queries, answer, terms, entity)

    def draw_negatives(
        self, time: Tensor, count: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Random entities [groups, count], the time of each group, and the group of each query.

        Queries of one time [n] share a sample; all queries do if entities ignore the time.
        """
        times, group = self._groups(time)
        size = len(times), count
        negatives = torch.randint(
            self.timeline.num_entities, size, device=time.device, generator=generator
        )
        return negatives, times, group

    def _groups(self, time: Tensor) -> tuple[Tensor, Tensor]:
        """The times at which queries share candidates, [groups], and the group of each query."""
        if not self.model.entities.time_dependent:
            return time[:1], torch.zeros_like(time)
        times, group = torch.unique(time, return_inverse=True)
        return times, group

    def _corrected(
        self,
        sampler: NegativeSampler,
        query: Tensor,
        entity: Tensor,
        facts: Tensor,
        queries: Queries,
        generator: torch.Generator,
    ) -> Tensor:
        """The loss of each answer against negatives in place of all entities.

        A fact's answer to one query is the entity of its other query, whose vector is looked up.
        """
        times, group = self._groups(queries.time)
        negatives = sampler.draw(facts, len(times), generator)
        scores = self._shared_scores(query, group, negatives.entity, times).float()
        answer_vectors = entity.roll(len(facts), 0)
        positive = self.model.decoder.score(query[:, None], answer_vectors[:, None])[:, 0, 0]
        known = columns_of(*self.known(queries), group, negatives.entity, sampler.num_entities)
        row, column = (torch.cat(pair) for pair in zip(known, negatives.own, strict=True))
        log_expected = negatives.log_expected.to(scores.dtype)
        if len(log_expected) > 1:
            log_expected = log_expected[group]
        return corrected_loss(positive.float(), scores, log_expected, (row, column)).mean()

    def _shared_scores(
        self, query: Tensor, group: Tensor, entities: Tensor, times: Tensor
    ) -> Tensor:
        """`Embedding.score_candidates`, without the copies for several groups if there is one."""
        if len(times) > 1:
            return self.model.score_candidates(query, group, entities, times)
        vectors = self.model.entities(entities[0], times.expand(entities.shape[1]))
        return self.model.decoder.score(query, vectors)

    def _sampled(
        self,
        query: Tensor,
        queries: Queries,
        answer: Tensor,
        count: int,
        generator: torch.Generator,
    ) -> Tensor:
        """The loss of each answer against negatives; true answers among them are excluded."""
        negatives, times, group = self.draw_negatives(queries.time, count, generator)
        scores = self.model.score_candidates(query, group, negatives, times)
        positive = self.model.score_pairs(query, queries.time, answer).float()
        negative, excluded = scores.float(), self.known.contains(queries, negatives[group])
        if self.settings.loss == "margin":
            return margin_loss(positive, negative, excluded, self.settings.margin)
        if self.settings.loss == "logistic":
            return logistic_loss(positive, negative, excluded, self.settings.margin)
        return sampled_loss(positive, negative, excluded).mean()

    def _penalty(
        self, queries: Queries, answer: Tensor, terms: list[Tensor], entity: Tensor
    ) -> Tensor | float:
        """The penalties: N3, smoothness of consecutive times, and squared season amplitudes."""
        s, decoder = self.settings, self.model.decoder
        penalty: Tensor | float = 0.0
        if s.n3:
            relations = torch.stack([decoder.cubed_moduli(term).sum() for term in terms]).sum()
            # Each entity of a step is asked about once and is an answer once. Looked up anew,
            # each distinct one needs its gradient once.
            entities = (
                2 * decoder.cubed_moduli(entity).sum()
                if self.sampler is not None
                else self._entity_n3(queries, answer)
            )
            penalty = s.n3 * (relations + entities) / len(answer)
        times = self.model.relations.time_embeddings()
        if s.smoothness and times is not None and len(times) > 1:
            change = decoder.cubed_moduli(times[1:] - times[:-1])
            penalty = penalty + s.smoothness * change.sum() / len(change)
        if s.season_penalty:
            penalty = penalty + s.season_penalty * self._squared_seasons(queries, answer)
        return penalty

    def _entity_n3(self, queries: Queries, answer: Tensor) -> Tensor:
        """Sum of cubed moduli over the entities of queries and answers, each distinct one once."""
        steps = self.timeline.num_steps
        entity, time = torch.cat([queries.entity, answer]), queries.time.repeat(2)
        pair, count = torch.unique(
            entity * steps + (time if self.model.entities.time_dependent else 0), return_counts=True
        )
        vectors = self.model.entities(pair // steps, pair % steps)
        cubes = self.model.decoder.cubed_moduli(vectors)
        total: Tensor = cubes.sum(1) @ count.to(cubes.dtype)
        return total

    def _squared_seasons(self, queries: Queries, answer: Tensor) -> Tensor:
        """Squared season amplitudes of a query's entity, answer and relation, mean over queries."""
        relations = self.model.relations
        seasons = [
            (self.model.entities.season_amplitudes(), torch.cat([queries.entity, answer])),
            (relations.season_amplitudes(), queries.relation % relations.rows),
        ]
        sums = [
            (amplitudes.square().sum(1) * torch.bincount(index, minlength=len(amplitudes))).sum()
            for amplitudes, index in seasons
            if amplitudes is not None
        ]
        return torch.stack(sums).sum() / len(answer)
