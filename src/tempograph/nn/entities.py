"""Entities as vectors: the same at all times, or partly waves, projected, or drifting with time."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Entities(nn.Module):
    """Vectors of entities at times. `timed` tells whether they depend on the time at all."""

    timed = True

    def take(self, entity: Tensor, time: Tensor) -> Tensor:
        """Some entities at their times, [n] each -> [n, width]."""
        raise NotImplementedError

    def tables(self, times: Tensor) -> Tensor:
        """Every entity at each time, [times, entities, width]; [1, entities, width] when times do not matter."""
        raise NotImplementedError


class FixedEntities(Entities):
    """One vector each."""

    timed = False

    def __init__(self, count: int, width: int, scale: float) -> None:
        super().__init__()
        self.entity = nn.Parameter(torch.randn(count, width) * scale)

    def take(self, entity: Tensor, time: Tensor) -> Tensor:
        """Rows of the table."""
        return self.entity.index_select(0, entity)

    def tables(self, times: Tensor) -> Tensor:
        """The table."""
        return self.entity[None]


class DiachronicEntities(Entities):
    """Some of the numbers are sums of waves a * sin(w * x + b) over x the year, the month and the day (DE).

    A vector has `parts` equal parts, each with its share of waves, so that parts that a decoder multiplies with one
    another meet like with like.
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

    def take(self, entity: Tensor, time: Tensor) -> Tensor:
        """Waves of some entities, each at its time."""
        moment = self.dates[time]
        waves = [
            amplitude.index_select(0, entity)
            * torch.sin(
                frequency.index_select(0, entity) * moment[:, unit, None, None]
                + phase.index_select(0, entity)
            )
            for unit, (amplitude, frequency, phase) in enumerate(self._units())
        ]
        return torch.cat(
            [self.still.index_select(0, entity), torch.stack(waves).sum(0)], dim=-1
        ).flatten(-2)

    def tables(self, times: Tensor) -> Tensor:
        """Waves of all entities at each time."""
        moment = self.dates[times]
        waves = [
            amplitude * torch.sin(frequency * moment[:, unit, None, None, None] + phase)
            for unit, (amplitude, frequency, phase) in enumerate(self._units())
        ]
        still = self.still.expand(len(times), *self.still.shape)
        return torch.cat([still, torch.stack(waves).sum(0)], dim=-1).flatten(-2)

    def _units(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Amplitude, frequency and phase for the year, the month and the day."""
        return list(zip(self.amplitude, self.frequency, self.phase, strict=True))


class Planes(nn.Module):
    """A hyperplane for each time step."""

    def __init__(self, steps: int, width: int) -> None:
        super().__init__()
        self.normal = nn.Parameter(torch.randn(steps, width))

    def normals(self, times: Tensor) -> Tensor:
        """Unit normals, [n, width]."""
        return nn.functional.normalize(self.normal.index_select(0, times), dim=-1)

    def project(self, vectors: Tensor, times: Tensor) -> Tensor:
        """Vectors without what is normal to the plane of their times, [n, width]."""
        normal = self.normals(times)
        return vectors - (vectors * normal).sum(-1, keepdim=True) * normal


class ProjectedEntities(FixedEntities):
    """e on the hyperplane of t (HyTE)."""

    timed = True

    def __init__(self, count: int, width: int, scale: float, planes: Planes) -> None:
        super().__init__(count, width, scale)
        self.planes = planes

    def take(self, entity: Tensor, time: Tensor) -> Tensor:
        """Each on the plane of its time."""
        return self.planes.project(super().take(entity, time), time)

    def tables(self, times: Tensor) -> Tensor:
        """All on the plane of each time."""
        normal = self.planes.normals(times)
        return self.entity - (normal @ self.entity.T)[..., None] * normal[:, None]


class Span(NamedTuple):
    """What bounds a series: its steps, its variances, and the length of its constant part, 0 for any length."""

    steps: int
    variances: tuple[float, float]
    longest: float


class Series(Entities):
    """Means as sums of a constant, a trend and a season, with a variance that does not change (ATiSE).

    mean(t) = m + a * u * d + b * sin(2 pi f u), u the share of all time that has passed, a one number for each member;
    without a drift mean(t) = m. The variance of each dimension stays within bounds, and m within a ball if that is
    asked for. A row is (mean, variance).
    """

    def __init__(self, count: int, dim: int, scale: float, span: Span, *, drift: bool) -> None:
        super().__init__()
        self.timed = drift
        self.span = span
        self.constant = nn.Parameter(torch.randn(count, dim) * scale)
        self.spread = nn.Parameter(torch.randn(count, dim))
        if drift:
            self.trend = nn.Parameter(torch.randn(count, dim) * scale)
            self.slope = nn.Parameter(torch.zeros(count, 1))
            self.season = nn.Parameter(torch.zeros(count, dim))
            # Periods from the whole span down to a few steps.
            self.frequency = nn.Parameter(
                torch.exp(torch.rand(count, dim) * math.log(max(2.0, span.steps / 4)))
            )

    def take(self, entity: Tensor, time: Tensor) -> Tensor:
        """Means of some at their times, and their variances."""
        mean = self._within(self.constant.index_select(0, entity))
        if self.timed:
            passed = self._passed(time)[:, None]
            trend = self.slope.index_select(0, entity) * self.trend.index_select(0, entity)
            season = self.season.index_select(0, entity)
            wave = torch.sin(2 * math.pi * self.frequency.index_select(0, entity) * passed)
            mean = mean + trend * passed + season * wave
        return torch.cat([mean, self.variances.index_select(0, entity)], dim=-1)

    def tables(self, times: Tensor) -> Tensor:
        """Means of all at each time, and their variances."""
        if not self.timed:
            return torch.cat([self._within(self.constant), self.variances], dim=-1)[None]
        passed = self._passed(times)[:, None, None]
        wave = torch.sin(2 * math.pi * self.frequency * passed)
        mean = self._within(self.constant) + self.slope * self.trend * passed + self.season * wave
        return torch.cat([mean, self.variances.expand_as(mean)], dim=-1)

    @property
    def variances(self) -> Tensor:
        """Between their bounds, which they never reach, so that all of them go on learning, [members, dim]."""
        low, high = self.span.variances
        return low * (high / low) ** torch.sigmoid(self.spread)

    def _within(self, constant: Tensor) -> Tensor:
        """Constant parts, those that are too long shortened, [n, dim]."""
        if not self.span.longest:
            return constant
        length: Tensor = torch.linalg.vector_norm(constant, dim=-1, keepdim=True)
        return constant * (self.span.longest / length).clamp(max=1)

    def _passed(self, time: Tensor) -> Tensor:
        """The share of all time that has passed, as exact as the weights are, [n]."""
        return time.to(self.constant.dtype) / self.span.steps
