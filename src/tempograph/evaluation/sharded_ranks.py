"""Filtered ranks of answers among candidates that are shared out over processes."""

from __future__ import annotations

import torch
from torch import Tensor

from tempograph.evaluation.ranking import Ranks, ranks_from_counts, refuse_nan
from tempograph.nn.row_shards import RowShards


def sharded_ranks(
    scores: Tensor, answer: Tensor, known: tuple[Tensor, Tensor], shards: RowShards
) -> Ranks:
    """The ranks of `filtered_ranks`, from the scores of the own candidates in each process.

    scores [queries, own candidates], answer [queries]; `known` holds distinct pairs (query, known
    answer). The process that holds an answer tells its score, and all add up how many of their
    candidates score higher, or as high.
    """
    refuse_nan(scores)
    row = shards.owned(answer).nonzero()[:, 0]
    threshold = scores.new_zeros(len(answer))
    threshold[row] = scores[row, answer[row] // shards.size]
    threshold = shards.total(threshold)
    query, candidate = known
    left_out = shards.owned(candidate)
    query, candidate = query[left_out], candidate[left_out]
    # The answer itself is no rival of itself, whether or not it is among the known ones.
    rivals = candidate != answer[query]
    column = candidate[rivals] // shards.size
    removed, limit = scores[query[rivals], column], threshold[query[rivals]]
    above, level = scores > threshold[:, None], scores == threshold[:, None]
    counts = torch.stack([above.sum(1), level.sum(1)])
    counts[1, row] -= 1
    counts[0].index_add_(0, query[rivals], (removed > limit).long(), alpha=-1)
    counts[1].index_add_(0, query[rivals], (removed == limit).long(), alpha=-1)
    greater, equal = shards.total(counts)
    return ranks_from_counts(greater, equal)
