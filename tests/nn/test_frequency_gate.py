"""The frequency gate by hand."""

from __future__ import annotations

import math

import pytest
import torch

from tempograph.nn.frequency_gate import FrequencyGate

OBJECT, SUBJECT, GIVEN, CANDIDATES = 0, 1, 0, 1
ALPHAS = {
    (OBJECT, GIVEN): 3 / 4,
    (OBJECT, CANDIDATES): 1 / 4,
    (SUBJECT, GIVEN): 4 / 5,
    (SUBJECT, CANDIDATES): 1 / 2,
}


def gate_by_hand() -> FrequencyGate:
    """Each role reads the frequencies in its own way; of 1, 3 and 7 it makes ALPHAS."""
    gate = FrequencyGate(hidden=2).double()
    # log(1 + f) is (1, 2, 3) log 2, each row maps (1, 2, 3) to 1, and tanh(log(3) / 2) is 1/2.
    reads = {
        (OBJECT, GIVEN): [1, 0, 0],
        (OBJECT, CANDIDATES): [0, 1 / 2, 0],
        (SUBJECT, GIVEN): [0, 0, 1 / 3],
        (SUBJECT, CANDIDATES): [1, -3 / 2, 1],
    }
    # The second unit is -1/2 whatever it reads; log odds are (first - second weight) / 2 + bias.
    second = {
        (OBJECT, GIVEN): (2 * math.log(3), 0.0, 0.0),
        (OBJECT, CANDIDATES): (math.log(3), math.log(9), -math.log(3) / 2),
        (SUBJECT, GIVEN): (2 * math.log(2), 0.0, math.log(2)),
        (SUBJECT, CANDIDATES): (2.0, 4.0, 1.0),
    }
    with torch.no_grad():
        gate.first.zero_()
        for role in ALPHAS:
            gate.first[role][:, 0] = (
                torch.tensor(reads[role], dtype=torch.float64) * math.log(3) / 2 / math.log(2)
            )
            gate.first_bias[role] = torch.tensor([0, -math.log(3) / 2], dtype=torch.float64)
            gate.second[role] = torch.tensor(second[role][:2], dtype=torch.float64)
            gate.second_bias[role] = second[role][2]
    return gate


def test_all_four_roles_by_hand() -> None:
    frequencies = torch.tensor([[1, 3, 7], [1, 3, 7]])
    given, candidates = gate_by_hand()(frequencies, torch.tensor([OBJECT, SUBJECT]))
    assert given.tolist() == pytest.approx(
        [ALPHAS[OBJECT, GIVEN], ALPHAS[SUBJECT, GIVEN]], rel=1e-12
    )
    assert candidates.tolist() == pytest.approx(
        [ALPHAS[OBJECT, CANDIDATES], ALPHAS[SUBJECT, CANDIDATES]], rel=1e-12
    )


def test_frequencies_of_zero_leave_the_biases() -> None:
    given, candidates = gate_by_hand()(torch.tensor([[0, 0, 0]]), torch.tensor([OBJECT]))
    # The first unit is 0, the second -1/2: log odds 0, and -log(9) / 2 - log(3) / 2.
    assert given.tolist() == pytest.approx([1 / 2], rel=1e-12)
    assert candidates.tolist() == pytest.approx([1 / (1 + 3**1.5)], rel=1e-12)


def test_queries_are_independent() -> None:
    torch.manual_seed(0)
    gate = FrequencyGate().double()
    frequencies, side = torch.randint(20, (50, 3)), torch.randint(2, (50,))
    given, candidates = gate(frequencies, side)
    for index in range(50):
        one, other = gate(frequencies[index : index + 1], side[index : index + 1])
        assert (one.item(), other.item()) == pytest.approx(
            (given[index].item(), candidates[index].item()), rel=1e-12
        )


@pytest.mark.parametrize("side", [OBJECT, SUBJECT])
@pytest.mark.parametrize("role", [GIVEN, CANDIDATES])
def test_each_side_and_role_has_its_own_weights(side: int, role: int) -> None:
    torch.manual_seed(0)
    gate = FrequencyGate()
    gate(torch.tensor([[2, 5, 1]]), torch.tensor([side]))[role].sum().backward()
    for parameter in gate.parameters():
        for other in ALPHAS:
            touched = bool(parameter.grad[other].abs().sum() > 0)  # type: ignore[index]
            assert touched == (other == (side, role))


def test_alphas_are_strictly_between_0_and_1() -> None:
    torch.manual_seed(0)
    frequencies = torch.tensor([[0, 0, 0], [1, 0, 0], [10**3, 10**5, 10], [10**9, 10**9, 10**9]])
    for side in (OBJECT, SUBJECT):
        for alpha in FrequencyGate()(frequencies, torch.full((4,), side)):
            assert alpha.shape == (4,)
            assert bool(((alpha > 0) & (alpha < 1)).all())


def test_no_queries() -> None:
    given, candidates = FrequencyGate()(
        torch.empty(0, 3, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    )
    assert given.shape == candidates.shape == (0,)
