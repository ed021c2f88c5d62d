"""The loss of an embedding method whose entities are shared out over processes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tempograph.data.timeline import Queries, fact_queries
from tempograph.models.embedding.embedding_model import Embedding
from tempograph.nn.dropout import dropout
from tempograph.nn.loss_functions import masked_logsumexp
from tempograph.nn.relations import sum_terms
from tempograph.nn.row_shards import RowShards, exchange
from tempograph.nn.sharded_entities import ShardedEntities
from tempograph.training.losses.embedding_loss import EmbeddingLoss
from tempograph.training.losses.negative_sampling import Negatives, columns_of
from tempograph.training.losses.training_loss import TrainingLoss
from tempograph.training.settings import FactTrainSettings


class ShardedLoss(TrainingLoss):
    """The part of `EmbeddingLoss` that one process computes: the parts of all processes sum to it.

    All processes get the same batch. Each composes the queries of its share of the facts, scores
    the queries of all of them against the entities that it holds, and sends back one logsumexp for
    each query. What a step sends does not depend on the number of entities.
    """

    shares_batches = True

    def __init__(self, model: Embedding, settings: FactTrainSettings) -> None:
        super().__init__(model.timeline)
        # Refuses settings that do not fit together.
        self.sampler = EmbeddingLoss(model, settings).sampler
        assert model.shards is not None and isinstance(model.entities, ShardedEntities)
        self.model, self.settings, self.shards = model, settings, model.shards
        self.entities = model.entities
        self.entities.sparse = (
            settings.negatives != "all"
            and settings.optimizer == "adagrad"
            and not settings.weight_decay
            and not settings.clip
        )
        if self.entities.sparse:
            # torch warns unless it is told whether to check indices in every step.
            torch.sparse.check_sparse_tensor_invariants.disable()

    def batches(self, generator: torch.Generator) -> Sequence[Tensor]:
        """Positions of train facts, the same in all processes."""
        return self.shuffled_facts(self.settings.facts_per_step, generator)

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Positions of the facts of all processes [n] -> this process's part of the loss."""
        s, shards, timeline = self.settings, self.shards, self.timeline
        facts = self.asked_facts(batch)
        queries, answer = fact_queries(facts, timeline.num_relations)
        position, counts = _shares(len(batch), shards, batch.device)
        queries, answer = queries.take(position), answer[position]
        first = sum(counts[: shards.rank])
        own = slice(first, first + counts[shards.rank])
        mine, my_answer = Queries(*(part[own] for part in queries)), answer[own]
        vectors = self.entities(torch.cat([mine.entity, my_answer]), mine.time.repeat(2))
        entity, target = vectors.chunk(2)
        terms = self.model.relations.terms(mine)
        query = self.model.decoder.compose(entity, sum_terms(terms))
        if s.dropout:
            # Drawn for all processes, as a single one draws it.
            ones = dropout(query.new_ones(len(answer), query.shape[1]), s.dropout, generator)
            query = query * ones[position[own]]
        query_of_all = shards.gather(query, counts)
        if s.negatives == "all":
            totals = self._log_sums(query_of_all, queries)
        else:
            negatives = self._draw(s.negatives, facts, position, generator)
            totals = self._sampled_log_sums(query_of_all, queries, negatives)
        shared = exchange(totals, counts, [counts[shards.rank]] * shards.size)
        positive = self.model.decoder.score(query[:, None], target[:, None])[:, 0, 0].float()
        logits = torch.cat([shared.view(shards.size, -1), positive[None]])
        loss = (torch.logsumexp(logits, 0) - positive).sum() / len(answer)
        return loss + self._penalty(vectors, terms, len(answer))

    def _log_sums(self, query: Tensor, queries: Queries) -> Tensor:
        """logsumexp of each query's scores of the own entities that are no true answers, [n]."""
        scores = self.model.decoder.score(query, self.entities.entity).float()
        row, known = self.known(queries)
        held = self.shards.owned(known)
        return masked_logsumexp(scores, (row[held], known[held] // self.shards.size))

    def _sampled_log_sums(self, query: Tensor, queries: Queries, negatives: Negatives) -> Tensor:
        """The same for the negatives that this process holds, corrected for how they are drawn."""
        held = self.shards.owned(negatives.entity[0])
        drawn = negatives.entity[:, held]
        rows = torch.nn.functional.embedding(
            drawn[0] // self.shards.size, self.entities.entity, sparse=self.entities.sparse
        )
        scores = self.model.decoder.score(query, rows).float()
        scores = scores - negatives.log_expected[:, held].to(scores.dtype)
        group = torch.zeros_like(queries.time)
        known = columns_of(*self.known(queries), group, drawn, self.timeline.num_entities)
        row, column = negatives.own
        mine = held[column]
        own = row[mine], (held.cumsum(0) - 1)[column[mine]]
        row, column = (torch.cat(pair) for pair in zip(known, own, strict=True))
        return masked_logsumexp(scores, (row, column))

    def _draw(
        self, count: int, facts: Tensor, position: Tensor, generator: torch.Generator
    ) -> Negatives:
        """The negatives of a single process: all processes draw the same ones.

        position [queries]: the number that each query has there.
        """
        if self.sampler is None:
            size = 1, count
            entity = torch.randint(
                self.timeline.num_entities, size, device=facts.device, generator=generator
            )
            return Negatives(entity, torch.zeros(size, device=facts.device), (position[:0],) * 2)
        negatives = self.sampler.draw(facts, 1, generator)
        query, column = negatives.own
        return negatives._replace(own=(torch.argsort(position)[query], column))

    def _penalty(self, vectors: Tensor, terms: list[Tensor], count: int) -> Tensor | float:
        """The part of N3 and of the smoothness of consecutive times that one process adds."""
        s, decoder = self.settings, self.model.decoder
        penalty: Tensor | float = 0.0
        if s.n3:
            cubes = [decoder.cubed_moduli(part).sum() for part in (vectors, *terms)]
            penalty = s.n3 * torch.stack(cubes).sum() / count
        times = self.model.relations.time_embeddings()
        if s.smoothness and times is not None and len(times) > 1:
            change = decoder.cubed_moduli(times[1:] - times[:-1])
            # Every process has all times.
            penalty = penalty + s.smoothness * change.sum() / len(change) / self.shards.size
        return penalty


def _shares(facts: int, shards: RowShards, device: torch.device) -> tuple[Tensor, list[int]]:
    """The queries of facts by the process that composes them: their positions, and how many each.

    `fact_queries` puts the queries for objects first, then those for subjects.
    """
    shares = torch.arange(facts, device=device).tensor_split(shards.size)
    position = torch.cat([torch.cat([share, share + facts]) for share in shares])
    return position, [2 * len(share) for share in shares]
