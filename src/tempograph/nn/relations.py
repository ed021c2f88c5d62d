"""Relation embeddings: constant, shifted, projected, factored, read from dates, or Gaussian."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tempograph.data.timeline import Queries
from tempograph.nn.decoders import Decoder
from tempograph.nn.entities import AdditiveTimeSeries, Hyperplanes, SeriesOptions


class Relations(nn.Module):
    """Embeddings of the relations of queries at their times; relation r + |R| is r inverted.

    Reciprocal relations have one embedding for each direction; otherwise the decoder inverts the
    only one.
    """

    def __init__(self, decoder: Decoder, count: int, reciprocal: bool = False) -> None:
        super().__init__()
        self.decoder = decoder
        self.count = count
        self.rows = 2 * count if reciprocal else count

    def forward(self, queries: Queries) -> Tensor:
        return sum_terms(self.terms(queries))

    def terms(self, queries: Queries) -> list[Tensor]:
        """The terms that sum to the embeddings, [n, width] each; N3 penalizes each one."""
        terms = self.embed(queries.relation % self.rows, queries.time)
        if self.rows > self.count:
            return terms
        inverted = (queries.relation >= self.count)[:, None]
        return [torch.where(inverted, self.decoder.inverse(term), term) for term in terms]

    def embed(self, relation: Tensor, time: Tensor) -> list[Tensor]:
        """The terms of relations [n] at times [n] before any inversion, [n, width] each."""
        raise NotImplementedError

    def time_embeddings(self) -> Tensor | None:
        """Embeddings of consecutive steps, which a smoothness penalty compares, [steps, width]."""
        return None

    def season_amplitudes(self) -> Tensor | None:
        """Amplitudes of the seasons, which a penalty keeps small, [rows, dim]."""
        return None


def sum_terms(terms: list[Tensor]) -> Tensor:
    """The sum of terms, [n, width]."""
    return sum(terms[1:], terms[0])


class FixedRelations(Relations):
    """r."""

    def __init__(
        self, decoder: Decoder, count: int, width: int, scale: float, *, reciprocal: bool = False
    ) -> None:
        super().__init__(decoder, count, reciprocal)
        self.relation = nn.Parameter(torch.randn(self.rows, width) * scale)

    def embed(self, relation: Tensor, time: Tensor) -> list[Tensor]:
        return [self.relation.index_select(0, relation)]


class ShiftedRelations(FixedRelations):
    """r + tau_t (TTransE)."""

    def __init__(self, decoder: Decoder, count: int, width: int, scale: float, steps: int) -> None:
        super().__init__(decoder, count, width, scale)
        self.time = nn.Parameter(torch.randn(steps, width) * scale)

    def embed(self, relation: Tensor, time: Tensor) -> list[Tensor]:
        (fixed,) = super().embed(relation, time)
        return [fixed + self.time.index_select(0, time)]

    def time_embeddings(self) -> Tensor:
        return self.time


class ProjectedRelations(FixedRelations):
    """P_t r: relations on the hyperplane of the time (HyTE)."""

    def __init__(
        self, decoder: Decoder, count: int, width: int, scale: float, planes: Hyperplanes
    ) -> None:
        super().__init__(decoder, count, width, scale)
        # Not a submodule here: the weights of the hyperplanes belong to the entities.
        self.project = planes.project

    def embed(self, relation: Tensor, time: Tensor) -> list[Tensor]:
        (fixed,) = super().embed(relation, time)
        return [self.project(fixed, time)]


class FactoredRelations(Relations):
    """r' * tau_t + r (TNTComplEx), or without r (TComplEx); * is the product of the decoder."""

    def __init__(
        self,
        decoder: Decoder,
        count: int,
        width: int,
        scale: float,
        steps: int,
        *,
        constant: bool,
        reciprocal: bool,
    ) -> None:
        super().__init__(decoder, count, reciprocal)
        self.relation = nn.Parameter(torch.randn(self.rows, width) * scale)
        self.time = nn.Parameter(torch.randn(steps, width) * scale)
        self.constant = nn.Parameter(torch.randn(self.rows, width) * scale) if constant else None

    def embed(self, relation: Tensor, time: Tensor) -> list[Tensor]:
        """[r' * tau_t, r], or only the first."""
        temporal = self.decoder.compose(
            self.relation.index_select(0, relation), self.time.index_select(0, time)
        )
        if self.constant is None:
            return [temporal]
        return [temporal, self.constant.index_select(0, relation)]

    def time_embeddings(self) -> Tensor:
        return self.time


class TokenRelations(Relations):
    """LSTM(r, tokens of the date of t), its last state (TA-DistMult)."""

    def __init__(
        self, decoder: Decoder, count: int, width: int, scale: float, tokens: Tensor
    ) -> None:
        super().__init__(decoder, count)
        self.relation = nn.Parameter(torch.randn(count, width) * scale)
        self.token = nn.Parameter(torch.randn(int(tokens.max()) + 1, width) * scale)
        self.tokens: Tensor
        self.register_buffer("tokens", tokens, persistent=False)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        # A large forget bias lets the relation, which is read first, reach the last state.
        bias = self.lstm.get_parameter("bias_ih_l0")
        nn.init.constant_(bias[width : 2 * width], 2.0)

    def embed(self, relation: Tensor, time: Tensor) -> list[Tensor]:
        # Each distinct (relation, time) is read once.
        steps = len(self.tokens)
        distinct, index = torch.unique(relation * steps + time, return_inverse=True)
        tokens = self.tokens[distinct % steps]
        words = self.token.index_select(0, tokens.flatten()).view(*tokens.shape, -1)
        read = torch.cat([self.relation.index_select(0, distinct // steps)[:, None], words], dim=1)
        states: Tensor = self.lstm(read)[1][0][0]
        return [states.index_select(0, index)]


class GaussianRelations(Relations):
    """(mean, variance); the mean may drift with time (ATiSE)."""

    def __init__(
        self,
        decoder: Decoder,
        count: int,
        dim: int,
        scale: float,
        options: SeriesOptions,
        *,
        drift: bool,
        reciprocal: bool,
    ) -> None:
        super().__init__(decoder, count, reciprocal)
        self.series = AdditiveTimeSeries(self.rows, dim, scale, options, drift=drift)

    def embed(self, relation: Tensor, time: Tensor) -> list[Tensor]:
        vectors: Tensor = self.series(relation, time)
        return [vectors]

    def season_amplitudes(self) -> Tensor | None:
        return self.series.season_amplitudes()
