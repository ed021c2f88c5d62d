"""Losses against torch, against loops and by hand; settings of training that cannot be."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

import oracle_layers as oracle
from messages import raises
from tempograph.data.timeline import Queries
from tempograph.errors import ConfigError
from tempograph.nn import inplace as cells
from tempograph.nn.decoders import DECODERS
from tempograph.nn.dropout import dropout
from tempograph.nn.loss_functions import logistic_loss, margin_loss, sampled_loss, softmax_loss
from tempograph.nn.relations import FixedRelations
from tempograph.training.setting_values import make_settings
from tempograph.training.settings import FactTrainSettings, SnapshotTrainSettings

NOBODY = torch.empty(0, dtype=torch.int64)
SEEDS = st.integers(0, 2**32 - 1)


def pairs_of(known: set[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    question, entity = torch.tensor(sorted(known), dtype=torch.int64).reshape(-1, 2).unbind(1)
    return question, entity


def some_questions(
    questions: int, entities: int, seed: int
) -> tuple[Tensor, Tensor, Tensor, set[tuple[int, int]]]:
    """Scores with unused rows, the row of each query in any order, answers and known answers."""
    torch.manual_seed(seed)
    scores = 3 * torch.randn(questions + 2, entities, dtype=torch.float64)
    row, answer = torch.randperm(questions + 2)[:questions], torch.randint(entities, (questions,))
    drawn = torch.stack(
        [torch.randint(questions, (2 * questions,)), torch.randint(entities, (2 * questions,))],
        dim=1,
    )
    known = {(question, entity) for question, entity in drawn.tolist()}
    # As in a dataset, where all answers of a question are known; here most are.
    return scores, row, answer, known | set(list(enumerate(answer.tolist()))[1:])


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 6), SEEDS)
def test_nothing_known_is_cross_entropy(questions: int, entities: int, seed: int) -> None:
    scores, row, answer, _ = some_questions(questions, entities, seed)
    expected = cross_entropy(scores[row], answer, reduction="none")
    assert_close(softmax_loss(scores.clone(), row, answer, (NOBODY, NOBODY)), expected)
    own = torch.arange(questions), answer
    assert_close(softmax_loss(scores.clone(), row, answer, own), expected)


def test_softmax_loss_by_hand() -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 2.0]], dtype=torch.float64).log()
    row, answer = torch.tensor([1, 0]), torch.tensor([2, 0])
    # Question 0 is 2 of 1 + 1 + 2. Question 1 is 1 of 1 + 2 + 3; without entity 2, 1 of 1 + 2.
    plain = softmax_loss(scores.clone(), row, answer, (NOBODY, NOBODY)).mean()
    assert plain.item() == pytest.approx((math.log(2) + math.log(6)) / 2)
    masked = softmax_loss(scores.clone(), row, answer, pairs_of({(0, 2), (1, 0), (1, 2)})).mean()
    assert masked.item() == pytest.approx((math.log(2) + math.log(3)) / 2)


@settings(max_examples=150)
@given(st.integers(1, 6), st.integers(1, 6), SEEDS)
def test_known_answers_do_not_count_and_get_no_gradient(
    questions: int, entities: int, seed: int
) -> None:
    scores, row, answer, known = some_questions(questions, entities, seed)
    scores.requires_grad_()
    # The scores are used up, so a copy is given.
    loss = softmax_loss(scores.clone(), row, answer, pairs_of(known)).mean()
    expected = oracle.softmax_loss(scores.tolist(), row.tolist(), answer.tolist(), known)
    assert loss.item() == pytest.approx(expected, rel=1e-10, abs=1e-10)
    (gradient,) = torch.autograd.grad(loss, scores)
    for question, place in enumerate(row.tolist()):
        target = int(answer[question])
        others = {entity for number, entity in known if number == question and entity != target}
        rivals = set(range(entities)) - others - {target}
        assert all(gradient[place, entity] == 0 for entity in others)
        assert all(gradient[place, entity] > 0 for entity in rivals)
        assert gradient[place, target] < 0 if rivals else gradient[place, target] == 0
    unused = sorted(set(range(len(scores))) - set(row.tolist()))
    assert not gradient[unused].any()


@pytest.mark.parametrize("name", sorted(DECODERS))
def test_scores_may_be_used_up_behind_every_decoder(name: str) -> None:
    torch.manual_seed(0)
    relations = FixedRelations(DECODERS[name], 2, 4, 1.0).double()
    entities = torch.randn(5, 4, dtype=torch.float64)
    asked, relation, answer = (
        torch.tensor([0, 1, 2]),
        torch.tensor([0, 3, 1]),
        torch.tensor([3, 4, 0]),
    )
    known = pairs_of({(0, 3), (0, 1), (2, 0), (2, 2), (2, 4)})

    def gradient_of(copied: bool) -> Tensor:
        question = relations.decoder.compose(
            entities[asked], relations(Queries(asked, relation, asked))
        )
        scores = relations.decoder.score(question, entities)
        losses = softmax_loss(scores.clone() if copied else scores, torch.arange(3), answer, known)
        return torch.autograd.grad(losses.mean(), relations.relation)[0]

    assert_close(gradient_of(copied=False), gradient_of(copied=True))
    assert gradient_of(copied=True).any()


@pytest.mark.parametrize("near", [1, 10, 23])
def test_the_loss_is_the_same_by_blocks_of_rows(near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, row, answer, known = some_questions(6, 5, seed=0)
    scores.requires_grad_()

    def loss_and_slopes() -> tuple[Tensor, Tensor]:
        loss = softmax_loss(scores.clone(), row, answer, pairs_of(known)).mean()
        return loss.detach(), torch.autograd.grad(loss, scores)[0]

    wanted = loss_and_slopes()
    monkeypatch.setattr(cells, "_CACHE_NUMBERS", near)
    assert_close(loss_and_slopes(), wanted)


def test_large_scores_do_not_overflow() -> None:
    scores = torch.tensor([[1e4, 0.0], [-1e4, 0.0]])
    both = softmax_loss(
        scores.clone(), torch.tensor([0, 1]), torch.tensor([0, 0]), (NOBODY, NOBODY)
    )
    sampled = sampled_loss(scores[:, 0], scores[:, 1:], torch.zeros(2, 1, dtype=torch.bool))
    assert both.tolist() == sampled.tolist() == [0.0, 1e4]


def test_sampled_loss_by_hand() -> None:
    positive = torch.tensor([0.0, math.log(2)], dtype=torch.float64)
    negative = torch.tensor(
        [[0.0, math.log(2), 50.0], [math.log(3), math.log(3), 0.0]], dtype=torch.float64
    )
    excluded = torch.tensor([[False, False, True], [True, True, True]])
    # 1 of 1 + 1 + 2; all of itself.
    losses = sampled_loss(positive, negative, excluded)
    assert losses.tolist() == pytest.approx([math.log(4), 0.0])
    # 2 of 2 + 3 + 1 when one of the two threes is a true answer.
    one = sampled_loss(positive[1:], negative[1:], torch.tensor([[False, True, False]]))
    assert one.item() == pytest.approx(math.log(3))


@settings(max_examples=100)
@given(st.integers(1, 6), st.integers(1, 6), SEEDS)
def test_sampled_loss_equals_a_loop(questions: int, count: int, seed: int) -> None:
    torch.manual_seed(seed)
    positive = (3 * torch.randn(questions, dtype=torch.float64)).requires_grad_()
    negative = (3 * torch.randn(questions, count, dtype=torch.float64)).requires_grad_()
    excluded = torch.rand(questions, count) < 0.4
    loss = sampled_loss(positive, negative, excluded).mean()
    expected = oracle.sampled_loss(positive.tolist(), negative.tolist(), excluded.tolist())
    assert loss.item() == pytest.approx(expected, rel=1e-10, abs=1e-10)
    _, gradient = torch.autograd.grad(loss, (positive, negative))
    assert bool((gradient[excluded] == 0).all()) and bool((gradient[~excluded] > 0).all())


def test_margin_loss_by_hand() -> None:
    positive = torch.tensor([3.0, 1.0])
    negative = torch.tensor([[2.5, 0.0, 9.0], [1.0, -4.0, 2.0]])
    excluded = torch.tensor([[False, False, True], [False, False, False]])
    # A margin of 1 lacks 0.5 and nothing; 1, nothing and 2: of five that count.
    assert margin_loss(positive, negative, excluded, 1.0).item() == pytest.approx(3.5 / 5)
    assert margin_loss(positive, negative, excluded, 0.0).item() == pytest.approx(1 / 5)
    assert margin_loss(positive, negative, torch.ones_like(excluded), 1.0).item() == 0


def test_logistic_loss_by_hand() -> None:
    positive = torch.tensor([math.log(3), 0.0], dtype=torch.float64)
    negative = torch.tensor([[0.0, math.log(7), 50.0], [50.0, 50.0, 50.0]], dtype=torch.float64)
    excluded = torch.tensor([[False, False, True], [True, True, True]])
    # -log of 3/4 and the mean of -log 1/2 and -log 1/8, halved; -log of 1/2 and nothing, halved.
    first, second = math.log(4 / 3) + (math.log(2) + math.log(8)) / 2, math.log(2)
    assert logistic_loss(positive, negative, excluded, 0.0).item() == pytest.approx(
        (first + second) / 4
    )
    # A margin is added to every score.
    moved = logistic_loss(positive - 2, negative - 2, excluded, 2.0)
    assert moved.item() == pytest.approx((first + second) / 4)


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([0.0, 0.5, 3.0]), SEEDS)
def test_losses_with_a_margin_equal_a_loop(
    questions: int, count: int, margin: float, seed: int
) -> None:
    torch.manual_seed(seed)
    positive = (3 * torch.randn(questions, dtype=torch.float64)).requires_grad_()
    negative = (3 * torch.randn(questions, count, dtype=torch.float64)).requires_grad_()
    excluded = torch.rand(questions, count) < 0.4
    for fast, slow in ((margin_loss, oracle.margin_loss), (logistic_loss, oracle.logistic_loss)):
        loss = fast(positive, negative, excluded, margin)
        expected = slow(positive.tolist(), negative.tolist(), excluded.tolist(), margin)
        assert loss.item() == pytest.approx(expected, rel=1e-10, abs=1e-10)
        up, down = torch.autograd.grad(loss, (positive, negative))
        assert (
            bool((up <= 0).all()) and bool((down >= 0).all()) and bool((down[excluded] == 0).all())
        )
        behind = positive[:, None] - negative >= margin
        assert bool(
            ((down == 0) == (excluded | behind)).all()
            if fast is margin_loss
            else (down[~excluded] > 0).all()
        )


def test_losses_of_large_scores_are_finite() -> None:
    score, nobody = torch.tensor([1e4, -1e4]), torch.zeros(2, 1, dtype=torch.bool)
    assert logistic_loss(score, score[:, None], nobody, 0.0).item() == pytest.approx(1e4 / 2)
    assert margin_loss(score, score.flip(0)[:, None], nobody, 1.0).item() == pytest.approx(
        (2e4 + 1) / 2
    )


def test_dropout_rescales_what_remains() -> None:
    x = torch.full((200, 100), 3.0, requires_grad=True)
    found = dropout(x, 0.25, torch.Generator().manual_seed(0))
    assert set(found.unique().tolist()) == {0.0, 4.0}
    assert found.mean().item() == pytest.approx(3, abs=0.05)
    (grad,) = torch.autograd.grad(found.sum(), x)
    assert torch.equal(grad, found.detach() / 3)
    again, other = (dropout(x, 0.25, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert torch.equal(again, found) and not torch.equal(other, found)


def test_sampling_every_other_entity_is_the_whole_softmax() -> None:
    torch.manual_seed(0)
    scores, answer = torch.randn(4, 6, dtype=torch.float64), torch.tensor([0, 3, 5, 3])
    positive = scores[torch.arange(4), answer]
    excluded = torch.arange(6) == answer[:, None]
    expected = softmax_loss(scores.clone(), torch.arange(4), answer, (NOBODY, NOBODY))
    assert_close(sampled_loss(positive, scores, excluded), expected)


@pytest.mark.parametrize(
    ("setting", "value", "bounds"),
    [
        *((name, 0, "at least 1") for name in ("epochs", "times_per_step", "max_facts")),
        *((name, -3, "at least 1") for name in ("patience", "validate_every")),
        ("negatives", 0, "'all' or at least 1"),
        ("learning_rate", 0.0, "above 0"),
        ("learning_rate", math.nan, "above 0"),
        ("clip", -1.0, "at least 0"),
        ("average", 1.0, "at least 0 and below 1"),
        ("average", -0.1, "at least 0 and below 1"),
        ("average", math.nan, "at least 0 and below 1"),
        ("weight_decay", -0.1, "at least 0"),
        ("weight_decay", math.nan, "at least 0"),
    ],
)
def test_invalid_values_are_refused(setting: str, value: float, bounds: str) -> None:
    with raises(ConfigError, "typing.bounds", setting=setting, bounds=bounds, value=value):
        SnapshotTrainSettings(**{setting: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "value", "bounds"),
    [
        *((name, 0, "at least 1") for name in ("facts_per_step", "times_per_step", "epochs")),
        *((name, -0.1, "at least 0") for name in ("n3", "smoothness", "season_penalty", "margin")),
        ("n3", math.nan, "at least 0"),
        ("dropout", 1.0, "at least 0 and below 1"),
        ("dropout", -0.5, "at least 0 and below 1"),
        ("dropout", math.nan, "at least 0 and below 1"),
        ("negatives", 0, "'all' or at least 1"),
    ],
)
def test_invalid_values_are_refused_by_training_by_facts(
    setting: str, value: float, bounds: str
) -> None:
    with raises(ConfigError, "typing.bounds", setting=setting, bounds=bounds, value=value):
        FactTrainSettings(**{setting: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "value", "kind"),
    [
        ("batch", "snapshots", "'facts' or 'times'"),
        ("loss", "hinge", "'softmax' or 'margin' or 'logistic'"),
        ("optimizer", "sgd", "'adam' or 'adagrad'"),
    ],
)
def test_training_by_facts_checks_its_own_choices(setting: str, value: str, kind: str) -> None:
    fault = {"owner": "train", "setting": setting, "kind": kind, "value": value}
    with raises(ConfigError, "setting_values.wrong_type", **fault):
        make_settings(FactTrainSettings, {setting: value}, "train")


def test_training_by_facts_has_no_settings_of_snapshots() -> None:
    with raises(ConfigError, "setting_values.unknown", owner="train", setting="max_facts"):
        make_settings(FactTrainSettings, {"max_facts": 10}, "train")


@pytest.mark.parametrize(
    ("setting", "value", "kind"),
    [
        ("negatives", "some", "a whole number or 'all'"),
        ("negatives", 2.5, "a whole number or 'all'"),
        ("targets", "none", "'all' or 'dropped'"),
        ("precision", "64", "'32-true' or 'tf32' or 'bf16-mixed'"),
        ("epochs", "ten", "a whole number"),
        ("epochs", True, "a whole number"),
        ("learning_rate", "fast", "a number"),
    ],
)
def test_values_of_the_wrong_type_are_refused_by_a_configuration(
    setting: str, value: object, kind: str
) -> None:
    fault = {"owner": "train", "setting": setting, "kind": kind, "value": value}
    with raises(ConfigError, "setting_values.wrong_type", **fault):
        make_settings(SnapshotTrainSettings, {setting: value}, "train")


def test_values_at_the_bounds_are_accepted() -> None:
    settings = SnapshotTrainSettings(
        epochs=1, times_per_step=1, max_facts=1, negatives=1, patience=1, average=0.0
    )
    assert settings.negatives == 1
    assert SnapshotTrainSettings().negatives == "all"
