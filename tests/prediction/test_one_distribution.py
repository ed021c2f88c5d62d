"""One distribution for each question: it falls with rank and adds up to 1, for every model."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs import graphs
from methods import dated
from tempograph import Completion, Predictor, Run, TemporalGraph
from tempograph.data.timeline import Timeline
from tempograph.models.registry import MODELS
from tempograph.training.callbacks import Callbacks
from tempograph.training.run_heads import build_heads
from tempograph.training.setup import configure, prepare_run


def untrained(graph: TemporalGraph, name: str, seed: int) -> Run:
    """A run whose model and heads have random weights, of which some are 0: that makes ties."""
    device, timeline = torch.device("cpu"), Timeline(graph)
    overrides = ["model.sigma=1"] if name == "ted" else []
    config = configure(graph, name, device, seed=seed, overrides=overrides)
    run = prepare_run(config, graph, timeline, Callbacks(None, None))
    heads = build_heads(timeline, seed)
    generator = torch.Generator().manual_seed(seed)
    for head in heads:
        for weight in head.parameters():
            drawn = torch.randn(weight.shape, generator=generator)
            weight.data = drawn * (torch.rand(weight.shape, generator=generator) < 0.7)
        head.requires_grad_(False)
    run.model.eval()
    run.questions._fitted["heads"] = heads
    return run


def check(completion: Completion, candidates: int, finite: bool) -> None:
    """`candidates` is how many there are: all are listed, but for those with a score of -inf."""
    answers = completion.answers
    assert len(answers) == candidates or (not finite and len(answers) < candidates)
    for one, other in pairwise(answers):
        assert one.probability >= other.probability and one.rank <= other.rank
        assert (one.score == other.score) == (one.rank == other.rank)
        if one.score == other.score:
            assert one.probability == other.probability
    total = math.fsum(answer.probability for answer in answers)
    assert total <= 1 + 1e-9
    if len(answers) == candidates > 0:
        assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=3, deadline=None)
@given(graph=graphs(), seed=st.integers(0, 2**16))
def test_probabilities_fall_with_rank_and_add_up_to_one(
    name: str, graph: TemporalGraph, seed: int
) -> None:
    graph = dated(graph)
    predictor = Predictor(untrained(graph, name, seed))
    known = {tuple(fact) for fact in graph.all_facts.tolist()}
    entities, relations, _, steps = graph.sizes
    for fact in [*graph.train[:2].tolist(), [0, relations - 1, entities - 1, steps - 1]]:
        subject, relation, object_, time = fact
        for new in (False, True):
            questions = (
                predictor.subjects(relation, object_, time, 100, 0, new),
                predictor.relations(subject, object_, time, 100, 0, new, progress=False),
                predictor.objects(subject, relation, time, 100, 0, new),
                predictor.times(subject, relation, object_, 100, 0, new=new, progress=False),
            )
            for part, (completion, size) in enumerate(zip(questions, graph.sizes, strict=True)):
                answered = {each[part] for each in known if _agree(each, fact, part)}
                # TED rules out entities that it has no reason for.
                check(completion, size - len(answered) * new, name != "ted" or part in (1, 3))
                marked = {answer.name for answer in completion.answers if answer.known}
                names = (graph.entities, graph.relations, graph.entities, graph.times)[part]
                assert marked <= {names[each] for each in answered} and not (new and marked)


def _agree(fact: tuple[int, ...], other: list[int], part: int) -> bool:
    """Whether two facts agree but for a part."""
    return all(fact[column] == other[column] for column in range(4) if column != part)
