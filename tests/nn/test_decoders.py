"""Decoders by hand, against their formulas, and the two sides of a query against each other."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tempograph.data.timeline import Queries
from tempograph.device import MEMORY_BUDGETS, Budget
from tempograph.nn.decoders import (
    DECODERS,
    ComplExDecoder,
    Decoder,
    DistMultDecoder,
    L1TranslationDecoder,
    SimplEDecoder,
    TranslationDecoder,
    in_chunks,
)
from tempograph.nn.relations import FixedRelations

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
EXACT = {"rtol": 1e-11, "atol": 1e-11}
RELATIONS = 3
KINDS = pytest.mark.parametrize(
    "kind",
    [DistMultDecoder, ComplExDecoder, SimplEDecoder, TranslationDecoder, L1TranslationDecoder],
)


def numbers(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


S, R, O = numbers([1, 2, 3, 4]), numbers([1, -1, 2, 0]), numbers([2, 1, 1, 5])  # noqa: E741


def relations(kind: type[Decoder], relation: Tensor) -> FixedRelations:
    made = FixedRelations(kind(), len(relation), relation.shape[1], 0.1).double()
    with torch.no_grad():
        made.relation.copy_(relation)
    return made


def ask(made: FixedRelations, entity: Tensor, relation: Tensor) -> Tensor:
    """Questions as a model makes them, [n, dim]."""
    return made.decoder.compose(
        entity, made(Queries(relation, relation, torch.zeros_like(relation)))
    )


def scores(made: FixedRelations, entity: Tensor, relation: Tensor, candidates: Tensor) -> Tensor:
    """Every candidate's score for every query, as a model computes it, [n, candidates]."""
    return made.decoder.score(ask(made, entity, relation), candidates)


def random_case(kind: type[Decoder]) -> tuple[FixedRelations, Tensor, Tensor, Tensor]:
    """A decoder with its relations, five entities s, a relation for each, and five entities o."""
    torch.manual_seed(0)
    made = relations(kind, torch.randn(RELATIONS, 4, dtype=torch.float64))
    s, o = torch.randn(2, 5, 4, dtype=torch.float64)
    return made, s, torch.tensor([0, 1, 2, 1, 0]), o


def test_every_name_has_a_decoder() -> None:
    assert set(DECODERS) == {"transe", "distmult", "complex", "simple"}


@pytest.mark.parametrize(
    ("kind", "query", "inverted", "score"),
    [
        # 1*1*2 - 2*1*1 + 3*2*1 + 0
        (DistMultDecoder, [1, -2, 6, 0], [2, -1, 2, 0], 6.0),
        # (1+3i)(1+2i) = -5+5i and (2+4i)(-1) = -2-4i, times 2-i and 1-5i: real parts -5 and -22;
        # inverted, (2+i)(1-2i) = 4-3i and (1+5i)(-1) = -1-5i.
        (ComplExDecoder, [-5, -2, 5, -4], [4, -1, -3, -5], -27.0),
        # The mean of 1*1*1 - 2*1*5 and 2*2*3 + 1*0*4;
        # inverted, tail * r = (1, -5) and head * r' = (4, 0), halved.
        (SimplEDecoder, [3, 0, 0.5, -1], [0.5, -2.5, 2, 0], 1.5),
        # |(0, 0, 4, -1)|
        (TranslationDecoder, [2, 1, 5, 4], [1, 2, -1, 5], -math.sqrt(17)),
        (L1TranslationDecoder, [2, 1, 5, 4], [1, 2, -1, 5], -5.0),
    ],
)
def test_by_hand(
    kind: type[Decoder], query: list[float], inverted: list[float], score: float
) -> None:
    made = relations(kind, R)
    assert ask(made, S, torch.tensor([0])).tolist() == [query]
    assert ask(made, O, torch.tensor([1])).tolist() == [inverted]
    assert scores(made, S, torch.tensor([0]), O).item() == pytest.approx(score, rel=1e-12)
    assert scores(made, O, torch.tensor([1]), S).item() == pytest.approx(score, rel=1e-12)


@KINDS
def test_a_subject_query_is_an_object_query_of_the_inverse_relation(kind: type[Decoder]) -> None:
    made, s, relation, o = random_case(kind)
    forward = scores(made, s, relation, o).diagonal()
    assert_close(scores(made, o, relation + RELATIONS, s).diagonal(), forward, **EXACT)
    # It is no accident of a score that is the same for every relation.
    assert not torch.allclose(scores(made, s, (relation + 1) % RELATIONS, o).diagonal(), forward)


@KINDS
def test_inverting_twice_changes_nothing(kind: type[Decoder]) -> None:
    made, *_ = random_case(kind)
    assert torch.equal(made.decoder.inverse(made.decoder.inverse(made.relation)), made.relation)


@KINDS
def test_directions_may_be_mixed(kind: type[Decoder]) -> None:
    made, s, relation, _ = random_case(kind)
    mixed = relation + RELATIONS * torch.tensor([0, 1, 0, 1, 1])
    expected = torch.cat(
        [ask(made, s[index : index + 1], mixed[index : index + 1]) for index in range(5)]
    )
    assert torch.equal(ask(made, s, mixed), expected)


def test_which_decoders_are_symmetric() -> None:
    for kind, symmetric in (
        (DistMultDecoder, True),
        (ComplExDecoder, False),
        (SimplEDecoder, False),
        (TranslationDecoder, False),
    ):
        made, s, relation, o = random_case(kind)
        there, back = (
            scores(made, s, relation, o).diagonal(),
            scores(made, o, relation, s).diagonal(),
        )
        assert torch.allclose(there, back) == symmetric


def test_distmult_equals_its_formula() -> None:
    made, s, relation, o = random_case(DistMultDecoder)
    expected = torch.einsum("nd,nd,md->nm", s, made.relation[relation], o)
    assert_close(scores(made, s, relation, o), expected, **EXACT)


def test_complex_equals_complex_arithmetic() -> None:
    made, s, relation, o = random_case(ComplExDecoder)
    as_complex = [torch.complex(*vector.chunk(2, -1)) for vector in (s, made.relation[relation], o)]
    expected = torch.einsum("nd,nd,md->nm", as_complex[0], as_complex[1], as_complex[2].conj()).real
    assert_close(scores(made, s, relation, o), expected, **EXACT)


def test_simple_equals_its_formula() -> None:
    made, s, relation, o = random_case(SimplEDecoder)
    (head_s, tail_s), (head_o, tail_o) = s.chunk(2, -1), o.chunk(2, -1)
    along, against = made.relation[relation].chunk(2, -1)
    expected = torch.einsum("nd,nd,md->nm", head_s, along, tail_o) + torch.einsum(
        "md,nd,nd->nm", head_o, against, tail_s
    )
    assert_close(scores(made, s, relation, o), expected / 2, **EXACT)


def test_transe_is_minus_the_distance() -> None:
    made, s, relation, o = random_case(TranslationDecoder)
    expected = -torch.linalg.vector_norm((s + made.relation[relation])[:, None] - o, dim=-1)
    assert_close(scores(made, s, relation, o), expected, **EXACT)


def test_transe_has_a_gradient_where_a_query_equals_its_answer() -> None:
    made = relations(TranslationDecoder, R)
    s = S.clone().requires_grad_()
    score = scores(made, s, torch.tensor([0]), S + R)
    assert score.item() == pytest.approx(0, abs=2e-3)
    score.sum().backward()
    assert bool(s.grad.isfinite().all()) and bool(made.relation.grad.isfinite().all())  # type: ignore[union-attr]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
def test_l1_has_no_gradient_where_a_query_equals_its_answer(device: str) -> None:
    query = torch.ones(1, 5, device=device, requires_grad=True)
    candidates = torch.stack([torch.ones(5), torch.arange(5.0)]).to(device).requires_grad_()
    score = L1TranslationDecoder().score(query, candidates)
    assert score.tolist() == [[0.0, -7.0]]
    grad_query, grad_candidates = torch.autograd.grad(-score.sum(), (query, candidates))
    assert grad_query.tolist() == [[1.0, 0.0, -1.0, -1.0, -1.0]]
    assert grad_candidates.tolist() == [[0.0] * 5, [-1.0, 0.0, 1.0, 1.0, 1.0]]


@NEEDS_GPU
def test_l1_stays_within_its_budget_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    query, candidates = (
        torch.randn(2, n, 16, device="cuda", requires_grad=True) for n in (100, 500)
    )
    expected = -torch.cdist(query, candidates, p=1)
    upstream = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (query, candidates), upstream)
    # The differences of ten queries; those of all would be ten times the budget.
    budget = 10 * 4 * 2 * 500 * 16
    monkeypatch.setitem(MEMORY_BUDGETS, "differences", Budget(0, budget))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    actual = L1TranslationDecoder().score(query, candidates)
    grads = torch.autograd.grad(actual, (query, candidates), upstream)
    assert torch.cuda.max_memory_allocated() - before < 4 * budget
    assert_close(actual, expected)
    assert_close(grads, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chunk", [1, 4, 9, 10])
def test_distances_in_chunks_equal_those_of_all_queries(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    query, candidates = (
        torch.randn(2, n, 6, dtype=torch.float64, requires_grad=True) for n in (9, 5)
    )
    monkeypatch.setitem(MEMORY_BUDGETS, "differences", Budget(chunk * 4 * 2 * 5 * 6, 0))
    distance = partial(torch.cdist, p=1)
    actual, expected = in_chunks(distance, query, candidates, 6), distance(query, candidates)
    assert_close(actual, expected)
    grad = torch.randn_like(expected)
    given = [query, candidates]
    assert_close(
        torch.autograd.grad(actual, given, grad), torch.autograd.grad(expected, given, grad)
    )
