"""Slow, obvious twins of the embedding methods: the score of one fact as the papers write it.

Weights are nested lists by the name of the parameter. With reciprocal relations, a subject query is
the reversed fact with the relation's other row; otherwise it is the same fact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

from torch import nn

from oracle import Fact

Vector = list[float]
Weights = dict[str, Any]
Twin = Callable[[Weights, Fact, tuple[str, ...]], float]
"""The score of a fact; labels of time steps are days, such as 2014-01-31."""


def weights_of(model: nn.Module) -> Weights:
    return {name: value.tolist() for name, value in model.state_dict().items()}


def distance(difference: Vector, norm: int) -> float:
    return math.fsum(abs(x) ** norm for x in difference) ** (1 / norm)


def transe(w: Weights, fact: Fact, labels: tuple[str, ...], norm: int = 2) -> float:
    s, r, o, _ = fact
    entity, relation = w["entities.entity"], w["relations.relation"]
    return -distance(
        [a + b - c for a, b, c in zip(entity[s], relation[r], entity[o], strict=True)], norm
    )


def ttranse(w: Weights, fact: Fact, labels: tuple[str, ...], norm: int = 2) -> float:
    s, r, o, t = fact
    rows = (
        w["entities.entity"][s],
        w["relations.relation"][r],
        w["relations.time"][t],
        w["entities.entity"][o],
    )
    return -distance([a + b + tau - c for a, b, tau, c in zip(*rows, strict=True)], norm)


def hyte(
    w: Weights, fact: Fact, labels: tuple[str, ...], norm: int = 2, flat: bool = True
) -> float:
    """Without `flat`, the relation stays off the plane."""
    s, r, o, t = fact
    normal = w["entities.planes.normal"][t]
    length = distance(normal, 2)
    unit = [x / length for x in normal]

    def projected(vector: Vector) -> Vector:
        along = math.fsum(x * n for x, n in zip(vector, unit, strict=True))
        return [x - along * n for x, n in zip(vector, unit, strict=True)]

    subject, relation, object_ = (
        w["entities.entity"][s],
        w["relations.relation"][r],
        w["entities.entity"][o],
    )
    rows = projected(subject), projected(relation) if flat else relation, projected(object_)
    return -distance([a + b - c for a, b, c in zip(*rows, strict=True)], norm)


def product(*rows: Vector) -> float:
    return math.fsum(math.prod(numbers) for numbers in zip(*rows, strict=True))


def distmult(w: Weights, fact: Fact, labels: tuple[str, ...]) -> float:
    s, r, o, _ = fact
    return product(w["entities.entity"][s], w["relations.relation"][r], w["entities.entity"][o])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def lstm(w: Weights, read: list[Vector]) -> Vector:
    """The last hidden state; the gates lie one after the other: input, forget, cell, output."""
    dim = len(read[0])
    hidden, cell = [0.0] * dim, [0.0] * dim

    def gate(number: int, k: int, x: Vector, before: Vector) -> float:
        row = number * dim + k
        from_input = math.fsum(
            a * b for a, b in zip(w["relations.lstm.weight_ih_l0"][row], x, strict=True)
        )
        from_state = math.fsum(
            a * b for a, b in zip(w["relations.lstm.weight_hh_l0"][row], before, strict=True)
        )
        return (
            from_input
            + from_state
            + w["relations.lstm.bias_ih_l0"][row]
            + w["relations.lstm.bias_hh_l0"][row]
        )

    for x in read:
        before = hidden
        for k in range(dim):
            cell[k] = sigmoid(gate(1, k, x, before)) * cell[k] + sigmoid(
                gate(0, k, x, before)
            ) * math.tanh(gate(2, k, x, before))
        hidden = [sigmoid(gate(3, k, x, before)) * math.tanh(cell[k]) for k in range(dim)]
    return hidden


def ta_distmult(w: Weights, fact: Fact, labels: tuple[str, ...]) -> float:
    """Words are the digits 0y to 9y, the months 01m to 12m and the digits 0d to 9d."""
    s, r, o, t = fact
    year, month, day = labels[t].split("-")
    words = [
        *(int(digit) for digit in year),
        10 + int(month) - 1,
        *(22 + int(digit) for digit in day),
    ]
    read = [w["relations.relation"][r], *(w["relations.token"][word] for word in words)]
    return product(w["entities.entity"][s], lstm(w, read), w["entities.entity"][o])


def diachronic(w: Weights, entity: int, t: int, labels: tuple[str, ...]) -> list[Vector]:
    """The parts of an entity, each first what stays and then the waves of year, month and day."""
    day = date.fromisoformat(labels[t])
    moment = day.year - date.fromisoformat(min(labels)).year, day.month, day.day
    parts = []
    for part, still in enumerate(w["entities.still"][entity]):
        vector = list(still)
        for k in range(len(w["entities.amplitude"][0][entity][part])):
            wave = 0.0
            for unit, x in enumerate(moment):
                a, f, b = (
                    w[f"entities.{name}"][unit][entity][part][k]
                    for name in ("amplitude", "frequency", "phase")
                )
                wave += a * math.sin(f * x + b)
            vector.append(wave)
        parts.append(vector)
    return parts


def de_transe(w: Weights, fact: Fact, labels: tuple[str, ...], norm: int = 2) -> float:
    s, r, o, t = fact
    (subject,), (object_,) = diachronic(w, s, t, labels), diachronic(w, o, t, labels)
    return -distance(
        [a + b - c for a, b, c in zip(subject, w["relations.relation"][r], object_, strict=True)],
        norm,
    )


def de_distmult(w: Weights, fact: Fact, labels: tuple[str, ...]) -> float:
    s, r, o, t = fact
    (subject,), (object_,) = diachronic(w, s, t, labels), diachronic(w, o, t, labels)
    return product(subject, w["relations.relation"][r], object_)


def halves(vector: Vector) -> tuple[Vector, Vector]:
    return vector[: len(vector) // 2], vector[len(vector) // 2 :]


def simple_score(
    subject: tuple[Vector, Vector], relation: Vector, object_: tuple[Vector, Vector]
) -> float:
    forward, backward = halves(relation)
    return (
        product(subject[0], forward, object_[1]) + product(object_[0], backward, subject[1])
    ) / 2


def simple(w: Weights, fact: Fact, labels: tuple[str, ...]) -> float:
    s, r, o, _ = fact
    entity = w["entities.entity"]
    return simple_score(halves(entity[s]), w["relations.relation"][r], halves(entity[o]))


def de_simple(w: Weights, fact: Fact, labels: tuple[str, ...]) -> float:
    s, r, o, t = fact
    (head_s, tail_s), (head_o, tail_o) = diachronic(w, s, t, labels), diachronic(w, o, t, labels)
    return simple_score((head_s, tail_s), w["relations.relation"][r], (head_o, tail_o))


def as_complex(real: Vector, imaginary: Vector) -> list[complex]:
    return [complex(a, b) for a, b in zip(real, imaginary, strict=True)]


def complex_score(subject: list[complex], relation: list[complex], object_: list[complex]) -> float:
    return math.fsum(
        (a * b * c.conjugate()).real for a, b, c in zip(subject, relation, object_, strict=True)
    )


def complex_(w: Weights, fact: Fact, labels: tuple[str, ...]) -> float:
    s, r, o, _ = fact
    rows = w["entities.entity"][s], w["relations.relation"][r], w["entities.entity"][o]
    return complex_score(*(as_complex(*halves(row)) for row in rows))


def de_complex(w: Weights, fact: Fact, labels: tuple[str, ...]) -> float:
    s, r, o, t = fact
    subject, object_ = (as_complex(*diachronic(w, entity, t, labels)) for entity in (s, o))
    return complex_score(subject, as_complex(*halves(w["relations.relation"][r])), object_)


def tntcomplex(w: Weights, fact: Fact, labels: tuple[str, ...], constant: bool = True) -> float:
    """TComplEx is the same without the part of the relation that is constant."""
    s, r, o, t = fact
    rows = (
        w["entities.entity"][s],
        w["relations.relation"][r],
        w["relations.time"][t],
        w["entities.entity"][o],
    )
    subject, moving, tau, object_ = (as_complex(*halves(row)) for row in rows)
    still = as_complex(*halves(w["relations.constant"][r])) if constant else [0j] * len(tau)
    return complex_score(
        subject, [a * b + c for a, b, c in zip(moving, tau, still, strict=True)], object_
    )


def tntdistmult(w: Weights, fact: Fact, labels: tuple[str, ...]) -> float:
    s, r, o, t = fact
    moving, tau, still = (
        w["relations.relation"][r],
        w["relations.time"][t],
        w["relations.constant"][r],
    )
    relation = [a * b + c for a, b, c in zip(moving, tau, still, strict=True)]
    return product(w["entities.entity"][s], relation, w["entities.entity"][o])


def divergence(mean: float, variance: float, other: float, width: float) -> float:
    """KL(N(mean, variance) || N(other, width))."""
    return (math.log(width / variance) + (variance + (mean - other) ** 2) / width - 1) / 2


def gaussian(
    w: Weights,
    owner: str,
    member: int,
    t: int,
    steps: int,
    bounds: tuple[float, float],
    longest: float,
) -> list[tuple[float, float]]:
    """(mean, variance) by dimension; mean = constant + slope trend u + season sin(2 pi f u)."""
    actual = []
    u = t / steps
    length = math.hypot(*w[f"{owner}.constant"][member])
    for k, constant in enumerate(w[f"{owner}.constant"][member]):
        mean = constant * longest / length if length > longest else constant
        if f"{owner}.slope" in w:
            mean += w[f"{owner}.slope"][member][0] * w[f"{owner}.trend"][member][k] * u
            mean += w[f"{owner}.season"][member][k] * math.sin(
                2 * math.pi * w[f"{owner}.frequency"][member][k] * u
            )
        share = 1 / (1 + math.exp(-w[f"{owner}.spread"][member][k]))
        actual.append((mean, bounds[0] ** (1 - share) * bounds[1] ** share))
    return actual


def atise(
    w: Weights,
    fact: Fact,
    labels: tuple[str, ...],
    bounds: tuple[float, float] = (0.005, 0.3),
    longest: float = math.inf,
) -> float:
    s, r, o, t = fact
    subject, object_ = (
        gaussian(w, "entities", entity, t, len(labels), bounds, longest) for entity in (s, o)
    )
    relation = gaussian(w, "relations.series", r, t, len(labels), bounds, longest)
    total = 0.0
    for (mean_s, var_s), (mean_r, var_r), (mean_o, var_o) in zip(
        subject, relation, object_, strict=True
    ):
        difference = mean_o - mean_s, var_s + var_o
        total += (
            divergence(*difference, mean_r, var_r) + divergence(mean_r, var_r, *difference)
        ) / 2
    return -total


TWINS: dict[str, Twin] = {
    "transe": transe,
    "distmult": distmult,
    "complex": complex_,
    "simple": simple,
    "ttranse": ttranse,
    "hyte": hyte,
    "ta-distmult": ta_distmult,
    "de-transe": de_transe,
    "de-distmult": de_distmult,
    "de-simple": de_simple,
    "atise-ee": atise,
    "atise-er": atise,
    "tcomplex": partial(tntcomplex, constant=False),
    "tntcomplex": tntcomplex,
}
"""The methods of the registry."""
