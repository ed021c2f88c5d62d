"""Relations: two directions, parts by hand, words read once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tempograph.data.timeline import Queries
from tempograph.nn.decoders import ComplExDecoder, DistMultDecoder, TranslationDecoder
from tempograph.nn.entities import Hyperplanes
from tempograph.nn.relations import (
    FactoredRelations,
    FixedRelations,
    ProjectedRelations,
    ShiftedRelations,
    TokenRelations,
)

EXACT = {"rtol": 1e-11, "atol": 1e-11}
COUNT = 2


def make_queries(relation: list[int], time: list[int]) -> Queries:
    return Queries(
        torch.zeros(len(time), dtype=torch.int64), torch.tensor(relation), torch.tensor(time)
    )


def numbers(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_a_reciprocal_relation_has_a_vector_for_each_direction() -> None:
    torch.manual_seed(0)
    own = FixedRelations(ComplExDecoder(), COUNT, 4, 1.0, reciprocal=True)
    assert own.relation.shape == (4, 4)
    assert torch.equal(own(make_queries([3, 0, 1, 2], [0] * 4)), own.relation[[3, 0, 1, 2]])
    one = FixedRelations(ComplExDecoder(), COUNT, 4, 1.0)
    assert one.relation.shape == (2, 4)
    conjugate = one.relation * torch.tensor([1, 1, -1, -1])
    assert torch.equal(
        one(make_queries([3, 0, 1, 2], [0] * 4)),
        torch.stack([conjugate[1], *one.relation, conjugate[0]]),
    )


def test_inverse_shifted_relations_negate_the_time_as_well() -> None:
    made = ShiftedRelations(TranslationDecoder(), 1, 2, 1.0, 2).double()
    made.load_state_dict(
        {"relation": numbers([[1.0, 2.0]]), "time": numbers([[10.0, 20.0], [0.0, -5.0]])}
    )
    assert made(make_queries([0, 1, 0], [0, 0, 1])).tolist() == [
        [11.0, 22.0],
        [-11.0, -22.0],
        [1.0, -3.0],
    ]
    assert made.time_embeddings() is made.time


@pytest.mark.parametrize("constant", [True, False])
def test_factored_relations_by_hand(constant: bool) -> None:
    made = FactoredRelations(
        ComplExDecoder(), 1, 2, 1.0, 2, constant=constant, reciprocal=True
    ).double()
    # 1 + 2i and 3 along and against, times i and 2, plus 5 - i and 1.
    weights = {
        "relation": numbers([[1.0, 2.0], [3.0, 0.0]]),
        "time": numbers([[0.0, 1.0], [2.0, 0.0]]),
    }
    made.load_state_dict(
        weights | ({"constant": numbers([[5.0, -1.0], [1.0, 0.0]])} if constant else {})
    )
    queries = make_queries([0, 0, 1, 1], [0, 1, 0, 1])
    moving, still = (
        [[-2.0, 1.0], [2.0, 4.0], [0.0, 3.0], [6.0, 0.0]],
        [[5.0, -1.0]] * 2 + [[1.0, 0.0]] * 2,
    )
    parts = [numbers(moving), numbers(still)] if constant else [numbers(moving)]
    assert torch.equal(made(queries), sum(parts, torch.zeros(4, 2, dtype=torch.float64)))
    assert all(
        torch.equal(one, other) for one, other in zip(made.terms(queries), parts, strict=True)
    )
    assert made.time_embeddings() is made.time


def test_fixed_relations_have_one_term_and_no_time_embeddings() -> None:
    made = FixedRelations(DistMultDecoder(), COUNT, 3, 1.0)
    queries = make_queries([0, 3], [0, 0])
    (part,) = made.terms(queries)
    assert torch.equal(part, made(queries)) and made.time_embeddings() is None


def test_projected_relations_share_the_hyperplanes_of_the_entities() -> None:
    torch.manual_seed(0)
    planes = Hyperplanes(3, 4).double()
    made = ProjectedRelations(TranslationDecoder(), COUNT, 4, 1.0, planes).double()
    queries = make_queries([0, 1, 2, 3], [0, 1, 2, 0])
    vectors = made(queries)
    assert_close(
        (vectors * planes.normal[queries.time]).sum(1), torch.zeros(4, dtype=torch.float64), **EXACT
    )
    assert_close(vectors[3], -made(make_queries([1], [0]))[0], **EXACT)
    assert list(made.state_dict()) == ["relation"], "or the planes would be saved twice"
    with torch.no_grad():
        planes.normal.copy_(torch.randn(3, 4))
    assert not torch.allclose(made(queries), vectors)


TOKENS = torch.tensor([[0, 3, 4], [1, 3, 4], [0, 3, 4], [2, 3, 5]])
"""Steps 0 and 2 have the same words."""


def test_each_relation_and_time_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    made = TokenRelations(DistMultDecoder(), COUNT, 4, 1.0, TOKENS).double()
    assert made.token.shape == (6, 4)
    read: list[tuple[int, ...]] = []
    made.lstm.register_forward_pre_hook(lambda module, inputs: read.append(tuple(inputs[0].shape)))
    queries = make_queries([0, 1, 2, 0, 3, 1, 0, 0], [0, 1, 0, 2, 1, 1, 0, 3])
    vectors = made(queries)
    # (0, 0), (1, 1), (0, 2) and (0, 3); a relation inverted is read as itself.
    assert read == [(4, 4, 4)]
    for number, (relation, time) in enumerate(
        zip(queries.relation.tolist(), queries.time.tolist(), strict=True)
    ):
        words = torch.cat([made.relation[relation % COUNT][None], made.token[TOKENS[time]]])
        assert_close(vectors[number], made.lstm(words[None])[0][0, -1], **EXACT)
    assert_close(vectors[0], vectors[3], **EXACT)
    assert not torch.allclose(vectors[0], vectors[7])


def test_the_forget_gates_start_open() -> None:
    torch.manual_seed(0)
    made = TokenRelations(DistMultDecoder(), COUNT, 4, 0.1, TOKENS)
    bias = made.lstm.bias_ih_l0.detach()
    assert bool((bias[4:8] == 2).all()) and bool((bias[[*range(4), *range(8, 16)]].abs() < 1).all())
    assert set(made.state_dict()) == {name for name, _ in made.named_parameters()}
