"""Entities that change with time: some of them as all of them, and what time may and may not do."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tempograph.nn.entities import (
    AdditiveTimeSeries,
    DiachronicEntities,
    Entities,
    FixedEntities,
    Hyperplanes,
    ProjectedEntities,
    SeriesOptions,
)

EXACT = {"rtol": 1e-11, "atol": 1e-11}
COUNT, WIDTH, STEPS = 5, 6, 8
BOUNDS = 0.005, 0.3
DATES = torch.tensor(
    [(step // 3, 1 + step % 4, 1 + 3 * step) for step in range(STEPS)], dtype=torch.float32
)


def made(kind: str) -> Entities:
    torch.manual_seed(0)
    entities: Entities = {
        "fixed": lambda: FixedEntities(COUNT, WIDTH, 1.0),
        "diachronic": lambda: DiachronicEntities(COUNT, WIDTH, 1.0, DATES, 0.5, 1),
        "diachronic, two parts": lambda: DiachronicEntities(COUNT, WIDTH, 1.0, DATES, 0.5, 2),
        "diachronic, no waves": lambda: DiachronicEntities(COUNT, WIDTH, 1.0, DATES, 0.0, 1),
        "projected": lambda: ProjectedEntities(COUNT, WIDTH, 1.0, Hyperplanes(STEPS, WIDTH)),
        "series": lambda: AdditiveTimeSeries(
            COUNT, WIDTH // 2, 1.0, SeriesOptions(STEPS, BOUNDS, 0.0), drift=False
        ),
        "series, drifting": lambda: AdditiveTimeSeries(
            COUNT, WIDTH // 2, 1.0, SeriesOptions(STEPS, BOUNDS, 0.0), drift=True
        ),
    }[kind]()
    for weight in entities.parameters():
        torch.nn.init.normal_(weight)
    return entities.double()


KINDS = [
    "fixed",
    "diachronic",
    "diachronic, two parts",
    "diachronic, no waves",
    "projected",
    "series",
    "series, drifting",
]


@pytest.mark.parametrize("kind", KINDS)
def test_some_entities_are_rows_of_the_tables(kind: str) -> None:
    entities = made(kind)
    assert entities.time_dependent == (kind not in ("fixed", "series"))
    entity, time = torch.randint(COUNT, (40,)), torch.randint(STEPS, (40,))
    tables = entities.tables(torch.arange(STEPS))
    assert tables.shape == (STEPS if entities.time_dependent else 1, COUNT, WIDTH)
    assert_close(
        entities(entity, time), tables[time if entities.time_dependent else 0, entity], **EXACT
    )
    # Times in any order.
    order = torch.randperm(STEPS)[:3]
    assert_close(
        entities.tables(order), tables[order] if entities.time_dependent else tables, **EXACT
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_has_a_gradient(kind: str) -> None:
    entities = made(kind)
    (entities.tables(torch.arange(STEPS)) * torch.randn(COUNT, WIDTH)).sum().backward()
    for name, weight in entities.named_parameters():
        used = (weight.grad != 0) if weight.numel() else torch.tensor([True])
        assert used.all(), name


def test_only_weights_are_saved() -> None:
    for kind in KINDS:
        entities = made(kind)
        assert set(entities.state_dict()) == {name for name, _ in entities.named_parameters()}


def test_a_projection_by_hand() -> None:
    planes = Hyperplanes(2, 2).double()
    with torch.no_grad():
        planes.normal.copy_(torch.tensor([[3.0, 4.0], [0.0, -2.0]]))
    actual = planes.project(
        torch.tensor([[5.0, 0.0], [5.0, 1.0]], dtype=torch.float64), torch.tensor([0, 1])
    )
    assert_close(actual, torch.tensor([[3.2, -2.4], [5.0, 0.0]], dtype=torch.float64), **EXACT)


def test_projected_entities_are_on_their_hyperplane() -> None:
    entities = made("projected")
    assert isinstance(entities, ProjectedEntities)
    times = torch.arange(STEPS)
    tables = entities.tables(times)
    normals = entities.planes.normal
    assert_close(
        tables @ normals[:, :, None], torch.zeros(STEPS, COUNT, 1, dtype=torch.float64), **EXACT
    )
    # Projecting again, longer normals, and what is added across the plane all change nothing.
    for number in range(COUNT):
        assert_close(entities.planes.project(tables[:, number], times), tables[:, number], **EXACT)
    with torch.no_grad():
        normals *= -7
        assert_close(entities.tables(times), tables, **EXACT)
        entities.entity += 3 * normals[2]
    assert_close(entities.tables(times[2:3]), tables[2:3], **EXACT)
    assert not torch.allclose(entities.tables(times[3:4]), tables[3:4])


def drifting() -> AdditiveTimeSeries:
    entities = made("series, drifting")
    assert isinstance(entities, AdditiveTimeSeries)
    return entities


@torch.no_grad()
def test_variances_are_bounded_and_constant() -> None:
    entities = drifting()
    _, variances = entities.tables(torch.arange(STEPS)).chunk(2, -1)
    assert torch.equal(variances, variances[:1].expand_as(variances))
    assert bool(((variances > BOUNDS[0]) & (variances < BOUNDS[1])).all())
    entities.spread.copy_(torch.linspace(-9, 9, entities.spread.numel()).view_as(entities.spread))
    spread = entities.variances.flatten()
    assert bool((spread[1:] > spread[:-1]).all())
    assert spread[[0, -1]].tolist() == pytest.approx(list(BOUNDS), rel=0.01)


@torch.no_grad()
def test_a_trend_without_a_season_is_linear() -> None:
    entities = drifting()
    entities.season.zero_()
    means, _ = entities.tables(torch.arange(STEPS)).chunk(2, -1)
    assert_close(means[0], entities.constant, **EXACT)
    each = entities.slope * entities.trend / STEPS
    assert_close(means.diff(dim=0), each.expand(STEPS - 1, COUNT, WIDTH // 2), **EXACT)


@torch.no_grad()
def test_a_season_without_a_trend_is_periodic() -> None:
    entities = drifting()
    entities.slope.zero_()
    entities.frequency.fill_(2.0)
    means, _ = entities.tables(torch.arange(STEPS)).chunk(2, -1)
    assert_close(means[0], entities.constant, **EXACT)
    # Two periods in eight steps: highest after one step, back after two, lowest after three.
    assert_close(means[1], entities.constant + entities.season, **EXACT)
    assert_close(means[3], entities.constant - entities.season, **EXACT)
    assert_close(means[:4], means[4:], **EXACT)


def test_seasons_start_with_log_uniform_periods_from_all_time_to_four_steps() -> None:
    torch.manual_seed(0)
    frequency = AdditiveTimeSeries(
        50, 20, 1.0, SeriesOptions(400, BOUNDS, 0.0), drift=True
    ).frequency
    assert 1 <= frequency.min() < 1.1 and 90 < frequency.max() <= 100
    quartiles = torch.quantile(frequency.detach().log10(), torch.tensor([0.25, 0.5, 0.75]))
    assert quartiles.tolist() == pytest.approx([0.5, 1.0, 1.5], abs=0.1)
    few = AdditiveTimeSeries(50, 20, 1.0, SeriesOptions(2, BOUNDS, 0.0), drift=True).frequency
    assert few.min() >= 1 and few.max() <= 2


def waves(entities: DiachronicEntities, unit: int, x: float) -> Tensor:
    return entities.amplitude[unit] * torch.sin(entities.frequency[unit] * x + entities.phase[unit])


@torch.no_grad()
@pytest.mark.parametrize("unit", range(3))
def test_year_month_and_day_have_their_own_waves(unit: int) -> None:
    entities = made("diachronic")
    assert isinstance(entities, DiachronicEntities)
    for other in {0, 1, 2} - {unit}:
        entities.amplitude[other] = 0
    tables = entities.tables(torch.arange(STEPS))
    for step in range(STEPS):
        assert_close(
            tables[step, :, 3:], waves(entities, unit, float(DATES[step, unit]))[:, 0], **EXACT
        )
        assert_close(tables[step, :, :3], entities.still[:, 0], **EXACT)


@torch.no_grad()
def test_waves_are_periodic() -> None:
    entities = DiachronicEntities(
        COUNT, WIDTH, 1.0, torch.arange(STEPS)[:, None].double(), 1.0, 1
    ).double()
    entities.frequency.fill_(2 * math.pi / 4)
    tables = entities.tables(torch.arange(STEPS))
    assert_close(tables[:4], tables[4:], **EXACT)
    assert not torch.allclose(tables[0], tables[1])
