"""Entity embeddings: constant, diachronic, projected on hyperplanes, or Gaussian with a drift."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tempograph.errors import ConfigError
from tempograph.nn.name_vectors import NameVectors


class Entities(nn.Module):
    """Embeddings of entities at times."""

    time_dependent = True

    def forward(self, entity: Tensor, time: Tensor) -> Tensor:
        """Embeddings of entities [n] at times [n]: [n, width]."""
        raise NotImplementedError

    def tables(self, times: Tensor) -> Tensor:
        """All entities at each time, [times, entities, width]; one table if constant."""
        raise NotImplementedError

    def season_amplitudes(self) -> Tensor | None:
        """Amplitudes of the seasons, which a penalty keeps small, [entities, dim]."""
        return None

    def use_sparse_gradients(self) -> None:
        """Let `forward` give a gradient to the rows that it reads, and not to all entities."""
        raise ConfigError(
            "sparse_gradients are for entities fixed or projected, not those with several vectors; "
            "set train.sparse_gradients=false"
        )


class FixedEntities(Entities):
    """e: one vector for each entity."""

    time_dependent = False
    sparse_gradients = False

    def __init__(self, count: int, width: int, scale: float) -> None:
        super().__init__()
        self.entity = nn.Parameter(torch.randn(count, width) * scale)

    def forward(self, entity: Tensor, time: Tensor) -> Tensor:
        if self.sparse_gradients:
            return nn.functional.embedding(entity, self.entity, sparse=True)
        return self.entity.index_select(0, entity)

    def tables(self, times: Tensor) -> Tensor:
        return self.entity[None]

    def use_sparse_gradients(self) -> None:
        self.sparse_gradients = True


class NamedEntities(Entities):
    """e_t + n_e: other embeddings, and a vector of the entity's name."""

    def __init__(self, entities: Entities, names: NameVectors) -> None:
        super().__init__()
        self.own = entities
        self.names = names
        self.time_dependent = entities.time_dependent

    def forward(self, entity: Tensor, time: Tensor) -> Tensor:
        vectors: Tensor = self.own(entity, time) + self.names(entity)
        return vectors

    def tables(self, times: Tensor) -> Tensor:
        return self.own.tables(times) + self.names.table()

    def use_sparse_gradients(self) -> None:
        self.own.use_sparse_gradients()


class DiachronicEntities(Entities):
    """e_t = (a, sum over units u of A_u * sin(w_u * u(t) + b_u)), u the year, month and day (DE).

    A `share` of the components are waves. A vector has `parts` equal parts, each with its own
    waves, so that decoders that multiply parts pair constants with constants and waves with waves.
    """

    def __init__(
        self, count: int, width: int, scale: float, dates: Tensor, share: float, parts: int
    ) -> None:
        super().__init__()
        size = width // parts
        waves = round(share * size)
        self.dates: Tensor
        self.register_buffer("dates", dates, persistent=False)
        self.still = nn.Parameter(torch.randn(count, parts, size - waves) * scale)
        self.amplitude = nn.Parameter(torch.randn(dates.shape[1], count, parts, waves) * scale)
        self.frequency = nn.Parameter(torch.randn(dates.shape[1], count, parts, waves) * 0.05)
        self.phase = nn.Parameter(torch.randn(dates.shape[1], count, parts, waves) * 0.05)

    def forward(self, entity: Tensor, time: Tensor) -> Tensor:
        date = self.dates[time]
        waves = [
            amplitude.index_select(0, entity)
            * torch.sin(
                frequency.index_select(0, entity) * date[:, unit, None, None]
                + phase.index_select(0, entity)
            )
            for unit, (amplitude, frequency, phase) in enumerate(self._units())
        ]
        constant = self.still.index_select(0, entity)
        return torch.cat([constant, torch.stack(waves).sum(0)], dim=-1).flatten(-2)

    def tables(self, times: Tensor) -> Tensor:
        date = self.dates[times]
        waves = [
            amplitude * torch.sin(frequency * date[:, unit, None, None, None] + phase)
            for unit, (amplitude, frequency, phase) in enumerate(self._units())
        ]
        constant = self.still.expand(len(times), *self.still.shape)
        return torch.cat([constant, torch.stack(waves).sum(0)], dim=-1).flatten(-2)

    def _units(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Amplitude, frequency and phase for the year, the month and the day."""
        return list(zip(self.amplitude, self.frequency, self.phase, strict=True))


class Hyperplanes(nn.Module):
    """A hyperplane with unit normal n_t for each time step; P_t x = x - (n_t . x) n_t."""

    def __init__(self, steps: int, width: int) -> None:
        super().__init__()
        self.normal = nn.Parameter(torch.randn(steps, width))

    def normals(self, times: Tensor) -> Tensor:
        """Unit normals, [n, width]."""
        return nn.functional.normalize(self.normal.index_select(0, times), dim=-1)

    def project(self, vectors: Tensor, times: Tensor) -> Tensor:
        """Vectors [n, width] on the hyperplanes of their times [n]."""
        normal = self.normals(times)
        return vectors - (vectors * normal).sum(-1, keepdim=True) * normal


class ProjectedEntities(FixedEntities):
    """P_t e: entities on the hyperplane of the time (HyTE)."""

    time_dependent = True

    def __init__(self, count: int, width: int, scale: float, planes: Hyperplanes) -> None:
        super().__init__(count, width, scale)
        self.planes = planes

    def forward(self, entity: Tensor, time: Tensor) -> Tensor:
        return self.planes.project(super().forward(entity, time), time)

    def tables(self, times: Tensor) -> Tensor:
        normal = self.planes.normals(times)
        return self.entity - (normal @ self.entity.T)[..., None] * normal[:, None]


class SeriesOptions(NamedTuple):
    """Time steps, bounds of the variances, and the largest norm of m (0: no limit)."""

    steps: int
    variances: tuple[float, float]
    max_norm: float


class AdditiveTimeSeries(Entities):
    """Gaussians with mean(t) = m + a u d + b * sin(2 pi f u) and a constant variance (ATiSE).

    u = t / steps, a is a scalar; without a drift, mean(t) = m. Variances stay within their bounds.
    An embedding is (mean, variance), [2 dim].
    """

    def __init__(
        self, count: int, dim: int, scale: float, options: SeriesOptions, *, drift: bool
    ) -> None:
        super().__init__()
        self.time_dependent = drift
        self.options = options
        self.constant = nn.Parameter(torch.randn(count, dim) * scale)
        self.spread = nn.Parameter(torch.randn(count, dim))
        if drift:
            self.trend = nn.Parameter(torch.randn(count, dim) * scale)
            self.slope = nn.Parameter(torch.zeros(count, 1))
            self.season = nn.Parameter(torch.zeros(count, dim))
            # Periods from all time down to four steps.
            self.frequency = nn.Parameter(
                torch.exp(torch.rand(count, dim) * math.log(max(2.0, options.steps / 4)))
            )

    def forward(self, entity: Tensor, time: Tensor) -> Tensor:
        mean = self._bounded(self.constant.index_select(0, entity))
        if self.time_dependent:
            u = self._elapsed(time)[:, None]
            trend = self.slope.index_select(0, entity) * self.trend.index_select(0, entity)
            season = self.season.index_select(0, entity)
            wave = torch.sin(2 * math.pi * self.frequency.index_select(0, entity) * u)
            mean = mean + trend * u + season * wave
        return torch.cat([mean, self.variances.index_select(0, entity)], dim=-1)

    def tables(self, times: Tensor) -> Tensor:
        if not self.time_dependent:
            return torch.cat([self._bounded(self.constant), self.variances], dim=-1)[None]
        u = self._elapsed(times)[:, None, None]
        wave = torch.sin(2 * math.pi * self.frequency * u)
        mean = self._bounded(self.constant) + self.slope * self.trend * u + self.season * wave
        return torch.cat([mean, self.variances.expand_as(mean)], dim=-1)

    def season_amplitudes(self) -> Tensor | None:
        return self.season if self.time_dependent else None

    @property
    def variances(self) -> Tensor:
        """Variances strictly between their bounds, so that gradients never vanish, [count, dim]."""
        low, high = self.options.variances
        return low * (high / low) ** torch.sigmoid(self.spread)

    def _bounded(self, constant: Tensor) -> Tensor:
        """Constant parts scaled down to the largest norm, [n, dim]."""
        if not self.options.max_norm:
            return constant
        norm: Tensor = torch.linalg.vector_norm(constant, dim=-1, keepdim=True)
        return constant * (self.options.max_norm / norm).clamp(max=1)

    def _elapsed(self, time: Tensor) -> Tensor:
        """u, the share of all time that has passed, in the precision of the weights, [n]."""
        return time.to(self.constant.dtype) / self.options.steps
