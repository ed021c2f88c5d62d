"""Relations as vectors: the same at all times, or moved, multiplied, projected, read or drifting with time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tempograph.data.timeline import Queries
from tempograph.nn.decoders import Decoder
from tempograph.nn.entities import Planes, Series, Span


class Relations(nn.Module):
    """A vector for each question's relation at its time; relation r + |R| is r inverted.

    A reciprocal relation has a vector of its own for each direction; otherwise the decoder inverts the one vector.
    """

    def __init__(self, decoder: Decoder, count: int, reciprocal: bool = False) -> None:
        super().__init__()
        self.decoder = decoder
        self.count = count
        self.rows = 2 * count if reciprocal else count

    def forward(self, queries: Queries) -> Tensor:
        """[n] each -> [n, width]."""
        return total(self.factors(queries))

    def factors(self, queries: Queries) -> list[Tensor]:
        """The parts that add up to the vectors, of which a penalty counts each by itself, [n, width] each."""
        parts = self.parts(queries.relation % self.rows, queries.time)
        if self.rows > self.count:
            return parts
        inverted = (queries.relation >= self.count)[:, None]
        return [torch.where(inverted, self.decoder.inverse(part), part) for part in parts]

    def parts(self, relation: Tensor, time: Tensor) -> list[Tensor]:
        """The parts of relations at times, before they are inverted, [n, width] each."""
        return [self.vectors(relation, time)]

    def vectors(self, relation: Tensor, time: Tensor) -> Tensor:
        """Relations of one part at times, before they are inverted, [n, width]."""
        raise NotImplementedError

    def moments(self) -> Tensor | None:
        """Vectors of consecutive steps that a penalty may keep close, [steps, width]."""
        return None


def total(factors: list[Tensor]) -> Tensor:
    """The vectors that factors are the parts of, [n, width]."""
    return sum(factors[1:], factors[0])


class FixedRelations(Relations):
    """r."""

    def __init__(
        self, decoder: Decoder, count: int, width: int, scale: float, *, reciprocal: bool = False
    ) -> None:
        super().__init__(decoder, count, reciprocal)
        self.relation = nn.Parameter(torch.randn(self.rows, width) * scale)

    def vectors(self, relation: Tensor, time: Tensor) -> Tensor:
        """One row of the table for each."""
        return self.relation.index_select(0, relation)


class ShiftedRelations(FixedRelations):
    """r + tau_t (TTransE)."""

    def __init__(self, decoder: Decoder, count: int, width: int, scale: float, steps: int) -> None:
        super().__init__(decoder, count, width, scale)
        self.time = nn.Parameter(torch.randn(steps, width) * scale)

    def vectors(self, relation: Tensor, time: Tensor) -> Tensor:
        """The relation moved by its time."""
        return super().vectors(relation, time) + self.time.index_select(0, time)

    def moments(self) -> Tensor:
        """The vectors of the steps."""
        return self.time


class ProjectedRelations(FixedRelations):
    """r on the hyperplane of t (HyTE)."""

    def __init__(
        self, decoder: Decoder, count: int, width: int, scale: float, planes: Planes
    ) -> None:
        super().__init__(decoder, count, width, scale)
        # The planes are a part of the entities; were they one here too, their weights would have two names.
        self.project = planes.project

    def vectors(self, relation: Tensor, time: Tensor) -> Tensor:
        """The relation without what is normal to the plane."""
        return self.project(super().vectors(relation, time), time)


class FactoredRelations(Relations):
    """r' * tau_t + r as complex numbers (TNTComplEx), or without r (TComplEx)."""

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

    def moments(self) -> Tensor:
        """The vectors of the steps."""
        return self.time

    def parts(self, relation: Tensor, time: Tensor) -> list[Tensor]:
        """What changes with time, and what does not."""
        moving = self.decoder.join(
            self.relation.index_select(0, relation), self.time.index_select(0, time)
        )
        return (
            [moving] if self.constant is None else [moving, self.constant.index_select(0, relation)]
        )


class TokenRelations(Relations):
    """The last state of an LSTM that reads the relation and the digits of the date (TA-DistMult)."""

    def __init__(
        self, decoder: Decoder, count: int, width: int, scale: float, tokens: Tensor
    ) -> None:
        super().__init__(decoder, count)
        self.relation = nn.Parameter(torch.randn(count, width) * scale)
        self.token = nn.Parameter(torch.randn(int(tokens.max()) + 1, width) * scale)
        self.tokens: Tensor
        self.register_buffer("tokens", tokens, persistent=False)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        # Gates that keep what they hold let the relation, read first, reach the end of the date.
        bias = self.lstm.get_parameter("bias_ih_l0")
        nn.init.constant_(bias[width : 2 * width], 2.0)

    def vectors(self, relation: Tensor, time: Tensor) -> Tensor:
        """Each distinct (relation, time) is read once."""
        steps = len(self.tokens)
        distinct, place = torch.unique(relation * steps + time, return_inverse=True)
        tokens = self.tokens[distinct % steps]
        words = self.token.index_select(0, tokens.flatten()).view(*tokens.shape, -1)
        read = torch.cat([self.relation.index_select(0, distinct // steps)[:, None], words], dim=1)
        states: Tensor = self.lstm(read)[1][0][0]
        return states.index_select(0, place)


class GaussianRelations(Relations):
    """Mean and variance; the mean may drift with time (ATiSE)."""

    def __init__(
        self,
        decoder: Decoder,
        count: int,
        dim: int,
        scale: float,
        span: Span,
        *,
        drift: bool,
        reciprocal: bool,
    ) -> None:
        super().__init__(decoder, count, reciprocal)
        self.series = Series(self.rows, dim, scale, span, drift=drift)

    def vectors(self, relation: Tensor, time: Tensor) -> Tensor:
        """[n, 2 dim]."""
        return self.series.take(relation, time)
