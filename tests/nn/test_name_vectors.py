"""Vectors of names against a loop over tokens."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch.testing import assert_close

from graphs import make_graph
from tempograph.data.name_similarity import NameSimilarity
from tempograph.data.timeline import Timeline
from tempograph.nn.name_vectors import NameVectors

NAMES = ("Police (India)", "Citizen (India)", "Police (Spain)", "Zebra", "", "Spain")


def named_timeline() -> Timeline:
    graph = make_graph([(0, 0, 1, 2), (2, 1, 0, 3), (3, 0, 3, 1)], entities=len(NAMES))
    return Timeline(dataclasses.replace(graph, entities=NAMES))


def tokens_of(timeline: Timeline, entity: int) -> list[int]:
    start, token, _ = timeline.name_tokens
    return token[start[entity] : start[entity + 1]].tolist()


def test_a_vector_is_the_sum_of_its_tokens() -> None:
    timeline = named_timeline()
    names = NameVectors(timeline, width=3, scale=1.0).double()
    table = names.table()
    assert tokens_of(timeline, 0) and not tokens_of(timeline, 3)
    for entity in range(len(NAMES)):
        tokens = tokens_of(timeline, entity)
        expected = names.token[tokens].sum(0) / math.sqrt(max(1, len(tokens)))
        assert_close(table[entity], expected)
    some = torch.tensor([5, 0, 3, 0])
    assert_close(names(some), table[some])


def test_names_that_share_no_token_have_no_vector() -> None:
    graph = make_graph([(0, 0, 1, 2)], entities=2)
    names = NameVectors(Timeline(dataclasses.replace(graph, entities=("a", "b"))), 3, 1.0)
    assert names.table().tolist() == [[0.0] * 3] * 2
    assert names(torch.tensor([1])).tolist() == [[0.0] * 3]


def test_similarity_is_a_cosine_of_rare_tokens() -> None:
    timeline = named_timeline()
    similarity = NameSimilarity(timeline)(torch.arange(len(NAMES)))
    owners: dict[int, set[int]] = {}
    for entity in range(len(NAMES)):
        for token in tokens_of(timeline, entity):
            owners.setdefault(token, set()).add(entity)

    def bag(entity: int) -> dict[int, float]:
        return {
            token: math.log(len(NAMES) / len(owners[token]))
            for token in tokens_of(timeline, entity)
        }

    for first in range(len(NAMES)):
        for second in range(len(NAMES)):
            one, other = bag(first), bag(second)
            dot = sum(one[token] * other[token] for token in one.keys() & other.keys())
            norms = math.sqrt(sum(x**2 for x in one.values()) * sum(x**2 for x in other.values()))
            expected = torch.tensor(dot / norms if norms else 0.0)
            assert_close(similarity[first, second], expected, rtol=1e-5, atol=1e-6)
    assert similarity[0, 2] > similarity[0, 3]
