"""Ranks by the rules of TGB 2.0 against a loop, and against the evaluator of py-tgb itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from make_tgb_files import make_tgb_files

import oracle
from hash_model import Hash
from tempograph import Queries, TemporalGraph
from tempograph.data.filters import KnownAnswers
from tempograph.data.importers.tgb_reader import read_tgb
from tempograph.data.tgb_datasets import TGB_DATASETS
from tempograph.data.timeline import both_directions
from tempograph.evaluation import tgb_rules
from tempograph.evaluation.ranking import metrics, sampled_ranks
from tempograph.evaluation.relation_negatives import RelationNegatives
from tempograph.evaluation.tgb_rules import evaluate_by_tgb
from tempograph.typing import SPLITS, Split
from tgb_package import import_tgb

COUNT = 10
"""Sampled candidates in these tests; the published number is for many more entities."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> TemporalGraph:
    """A small dataset; one of its relations has three objects only."""
    folder = make_tgb_files("tkgl-wikidata", tmp_path_factory.mktemp("tgb"), entities=45)
    return read_tgb(folder, "tkgl-wikidata", "year")


@pytest.fixture(autouse=True)
def few_negatives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up dataset has fewer entities than tkgl-wikidata has sampled candidates."""
    small = SimpleNamespace(negatives=COUNT)
    monkeypatch.setattr(
        tgb_rules,
        "TGB_DATASETS",
        {"tkgl-wikidata": small, "tkgl-icews": TGB_DATASETS["tkgl-icews"]},
    )


def named(graph: TemporalGraph, name: str) -> TemporalGraph:
    splits = graph.train, graph.valid, graph.test
    return TemporalGraph(name, graph.entities, graph.relations, graph.times, *splits)


def directed(graph: TemporalGraph, split: Split) -> torch.Tensor:
    """The facts of a split and their inverses, (entity, relation, answer, time), [2n, 4]."""
    return both_directions(torch.from_numpy(graph.facts(split)), len(graph.relations))


def scored(graph: TemporalGraph, split: Split) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Each question of a split with the scores of all entities."""
    model = Hash(len(graph.entities))
    for question in directed(graph, split):
        entity, relation, _, time = question[:, None]
        yield question.tolist(), model.scores(Queries(entity, relation, time))[0]


@pytest.mark.parametrize("split", ["valid", "test"])
def test_all_entities_are_candidates_unless_the_dataset_samples(
    graph: TemporalGraph, split: Split
) -> None:
    graph = named(graph, "tkgl-icews")
    found = evaluate_by_tgb(Hash(len(graph.entities)), graph, split, "strict")
    assert (found.rules, found.negatives, found.filter) == ("tgb", None, "time")
    expected = [
        oracle.ranks(scores.tolist(), answer, answers_at(graph, split, entity, relation, time))[0]
        for (entity, relation, answer, time), scores in scored(graph, split)
    ]
    assert found.ranks.realistic.tolist() == expected


def answers_at(
    graph: TemporalGraph, split: Split, entity: int, relation: int, time: int
) -> set[int]:
    """The answers to a question among the facts of the split alone, as py-tgb collects them."""
    return {
        o for s, r, o, t in directed(graph, split).tolist() if (s, r, t) == (entity, relation, time)
    }


@pytest.mark.parametrize("split", ["valid", "test"])
def test_sampled_ranks_count_the_sampled_candidates(graph: TemporalGraph, split: Split) -> None:
    found = evaluate_by_tgb(Hash(len(graph.entities)), graph, split, "strict", budget=1_000)
    assert (found.rules, found.negatives) == ("tgb", COUNT)
    draw = RelationNegatives(KnownAnswers.from_graph(graph), COUNT)
    rows = zip(scored(graph, split), zip(*found.ranks, strict=True), strict=True)
    for ((entity, relation, answer, time), scores), ranks in rows:
        query = Queries(*torch.tensor([[entity], [relation], [time]]))
        others = [scores[candidate] for candidate in draw(query)[0].tolist()]
        best = 1 + sum(other > scores[answer] for other in others)
        worst = 1 + sum(other >= scores[answer] for other in others)
        assert [float(rank) for rank in ranks] == [(best + worst) / 2, best, worst]
    more = evaluate_by_tgb(Hash(len(graph.entities)), graph, split, "strict", negatives=40)
    assert more.negatives == 40
    assert more.summary()["metrics"]["mr"] > found.summary()["metrics"]["mr"]


def test_sampled_ranks_are_named_in_every_output(graph: TemporalGraph) -> None:
    found = evaluate_by_tgb(Hash(len(graph.entities)), graph, "test", "strict")
    summary = found.summary()
    assert (summary["rules"], summary["negatives"], summary["protocol"]) == ("tgb", COUNT, "strict")
    assert "71 facts, sampled ranks, MRR" in repr(found)
    html = found._repr_html_()
    assert "sampled ranks" in html and "among 10 sampled entities" in html
    assert set(found.to_arrow()["negatives"].to_pylist()) == {COUNT}
    plain = evaluate_by_tgb(Hash(len(graph.entities)), named(graph, "other"), "test", "strict")
    assert "sampled" not in repr(plain) + plain._repr_html_()
    assert "negatives" not in plain.summary() and "negatives" not in plain.to_arrow().column_names


def temporal_data(rows: torch.Tensor) -> Any:
    """Edges as py-tgb takes them, with the time steps as time stamps."""
    data = import_tgb("tkg_negative_generator").TemporalData
    entity, relation, answer, time = rows.unbind(1)
    return data(src=entity, dst=answer, t=time, edge_type=relation)


def their_negatives(
    graph: TemporalGraph, split: Split, strategy: str, folder: Path
) -> list[np.ndarray]:
    """The negatives of each question, generated, stored and loaded by py-tgb."""
    rows = {each: directed(graph, each) for each in SPLITS}
    last, mode = len(graph.entities) - 1, {"valid": "val"}.get(split, split)
    generator = import_tgb("tkg_negative_generator").TKGNegativeEdgeGenerator(
        "tkgl-wikidata",
        0,
        last,
        strategy=strategy,
        num_neg_e=COUNT,
        rnd_seed=42,
        partial_path=str(folder),
        edge_data=temporal_data(torch.cat(list(rows.values()))),
    )
    generator.generate_negative_samples(temporal_data(rows[split]), mode, str(folder))
    sampler = import_tgb("tkg_negative_sampler").TKGNegativeEdgeSampler(
        "tkgl-wikidata", 0, last, strategy=strategy
    )
    sampler.load_eval_set(str(folder / f"tkgl-wikidata_{mode}_ns.pkl"), mode)
    entity, relation, answer, time = rows[split].unbind(1)
    negatives: list[np.ndarray] = sampler.query_batch(entity, answer, time, relation, mode)
    return negatives


def their_figures(
    graph: TemporalGraph, split: Split, negatives: list[np.ndarray]
) -> dict[str, float]:
    """What the evaluator of py-tgb finds, question by question, and the means."""
    evaluator = import_tgb("evaluate").Evaluator("tkgl-wikidata", k_value=3)
    figures = [
        evaluator.eval(
            {
                "y_pred_pos": scores[[answer]].numpy(),
                "y_pred_neg": scores[others].numpy()[None],
                "eval_metric": ["mrr", "hits@"],
            }
        )
        for ((_, _, answer, _), scores), others in zip(scored(graph, split), negatives, strict=True)
    ]
    return {name: fmean(float(each[name]) for each in figures) for name in ("mrr", "hits@3")}


@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_evaluator_of_py_tgb_finds_the_same_among_all(
    graph: TemporalGraph, split: Split, tmp_path: Path
) -> None:
    negatives = their_negatives(graph, split, "time-filtered", tmp_path)
    theirs = their_figures(graph, split, negatives)
    ours = evaluate_by_tgb(
        Hash(len(graph.entities)), named(graph, "tkgl-icews"), split, "strict"
    ).summary()["metrics"]
    assert {name: ours[name] for name in theirs} == pytest.approx(theirs, abs=1e-7)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_evaluator_of_py_tgb_finds_the_same_among_its_own_samples(
    graph: TemporalGraph, split: Split, tmp_path: Path
) -> None:
    negatives = their_negatives(graph, split, "dst-time-filtered", tmp_path)
    theirs = their_figures(graph, split, negatives)
    scores = torch.stack([scores for _, scores in scored(graph, split)])
    ranks = sampled_ranks(
        scores, directed(graph, split)[:, 2], torch.from_numpy(np.stack(negatives))
    )
    ours = metrics(ranks.realistic)
    assert {name: ours[name] for name in theirs} == pytest.approx(theirs, abs=1e-7)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_py_tgb_samples_from_the_same_sets(
    graph: TemporalGraph, split: Split, tmp_path: Path
) -> None:
    """Its draws differ from ours, but the sets that must and may be drawn from are the same."""
    rows = directed(graph, split)
    entity, relation, _, time = rows.unbind(1)
    draw = RelationNegatives(KnownAnswers.from_graph(graph), COUNT)
    ours = draw(Queries(entity, relation, time)).tolist()
    theirs = [
        each.tolist() for each in their_negatives(graph, split, "dst-time-filtered", tmp_path)
    ]
    every = torch.cat([directed(graph, each) for each in SPLITS])
    pools = {r: set(every[every[:, 1] == r, 2].tolist()) for r in relation.unique().tolist()}
    small = 0
    for (s, r, _, t), mine, yours in zip(rows.tolist(), ours, theirs, strict=True):
        others = pools[r] - answers_at(graph, split, s, r, t)
        assert len(set(mine)) == len(set(yours)) == COUNT
        if len(others) < COUNT:
            small += 1
            assert set(mine) >= others and set(yours) >= others
        else:
            assert set(mine) <= others and set(yours) <= others
    assert 0 < small < len(rows), "both cases of the rule occur"
