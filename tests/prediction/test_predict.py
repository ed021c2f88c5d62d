"""The Predictor: every question against slow twins, evidence against a full rescore, facts that come and go."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tempograph
from graphs import make_graph
from tempograph import Predictor, Run, TemporalGraph
from tempograph.data.graph import rows_in
from tempograph.data.importers.time_parsing import labels, steps_at
from tempograph.data.names import extend_times, to_fact_ids
from tempograph.data.synthetic.world import make_world
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import ConfigError, DataError, QueryError
from tempograph.typing import SPLITS, Granularity

WORLD = make_world(entities=12, relations=4, steps=20, facts=300)
GRAPH = WORLD.graph
SETTINGS = {
    "ted": ["model.sigma=0.5"],
    "pointer": ["train.epochs=3"],
    "temp-gru": ["model.dim=8", "model.window=3", "train.epochs=5"],
    "complex": ["model.dim=8", "train.epochs=5"],
}


@pytest.fixture(scope="module", params=SETTINGS)
def run(request: pytest.FixtureRequest) -> Run:
    return tempograph.train(GRAPH, request.param, device="cpu", overrides=SETTINGS[request.param])


@pytest.fixture
def predictor(run: Run) -> Predictor:
    return Predictor(run)


def scores_of(model: object, entity: int, relation: int, time: int) -> list[float]:
    with torch.inference_mode():
        query = Queries(*(torch.tensor([value]) for value in (entity, relation, time)))
        return model.scores(query)[0].double().tolist()  # type: ignore[attr-defined, no-any-return]


def slow_side(
    predictor: Predictor, fact: tuple[int, ...], side: str
) -> tuple[float, float | None, float]:
    """Score, probability and rank of one side, by loops over candidates and facts."""
    subject, relation, object_, time = fact
    inverse = relation + len(predictor.graph.relations)
    given, asked, right = (
        (subject, relation, object_) if side == "object" else (object_, inverse, subject)
    )
    scores = scores_of(predictor.model, given, asked, time)
    known = set()
    for s, r, o, t in np.concatenate([predictor.graph.facts(split) for split in SPLITS]).tolist():
        if (r, t) == (relation, time) and (s if side == "object" else o) == given:
            known.add(o if side == "object" else s)
    rivals = [
        score
        for candidate, score in enumerate(scores)
        if candidate not in known and candidate != right
    ]
    own = scores[right]
    rank = 1 + sum(score > own for score in rivals) + sum(score == own for score in rivals) / 2
    if predictor.temperature is None:
        return own, None, rank
    weights = [math.exp((score - own) / predictor.temperature) for score in rivals]
    return own, 1 / (1 + sum(weights)), rank


def test_many_facts_equal_a_loop(predictor: Predictor) -> None:
    facts = np.concatenate([GRAPH.test[:10], GRAPH.train[:5], [[0, 1, 2, 3], [3, 0, 3, 19]]])
    table = predictor.score(facts, budget=4000)
    splits = {
        tuple(fact): split for split in reversed(SPLITS) for fact in GRAPH.facts(split).tolist()
    }
    for row, fact in zip(table.to_pylist(), facts.tolist(), strict=True):
        assert {name: row[name] for name in GRAPH.describe(GRAPH.test[0])} == GRAPH.describe(
            np.array(fact)
        )
        assert row["known"] == splits.get(tuple(fact))
        for side in ("object", "subject"):
            score, probability, rank = slow_side(predictor, tuple(fact), side)
            assert row[f"{side}_score"] == pytest.approx(score, rel=1e-4, abs=1e-4)
            assert row[f"{side}_probability"] == (
                None if probability is None else pytest.approx(probability, rel=1e-3)
            )
            assert row[f"{side}_rank"] == pytest.approx(rank, abs=0.5)


def test_scores_alone_are_those_with_ranks(predictor: Predictor) -> None:
    facts = np.concatenate([GRAPH.test[:10], GRAPH.train[:5], [[0, 1, 2, 3], [3, 0, 3, 19]]])
    alone, ranked = predictor.score(facts, ranks=False), predictor.score(facts)
    assert alone.column_names == [*ranked.column_names[:5], "object_score", "subject_score"]
    for side in ("object", "subject"):
        found, expected = (table[f"{side}_score"].to_pylist() for table in (alone, ranked))
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert len(predictor.score(facts[:0], ranks=False)) == 0


def test_a_question_gives_the_same_probabilities(predictor: Predictor) -> None:
    subject, relation, _, time = GRAPH.test[0].tolist()
    found = predictor.objects(subject, relation, time, top=len(GRAPH.entities))
    for answer in found.answers:
        fact = (subject, relation, GRAPH.entities.index(answer.name), time)
        score, probability, _ = slow_side(predictor, fact, "object")
        assert answer.score == pytest.approx(score, rel=1e-4, abs=1e-4)
        assert answer.probability == (
            None if probability is None else pytest.approx(probability, rel=1e-3)
        )
    if predictor.temperature is not None:
        fresh = [answer.probability or 0 for answer in found.answers if answer.known is None]
        assert sum(fresh) == pytest.approx(1)


def test_names_ids_and_dates_ask_the_same(predictor: Predictor) -> None:
    subject, relation, object_, time = GRAPH.test[0].tolist()
    names = (
        GRAPH.entities[subject],
        GRAPH.relations[relation],
        date.fromisoformat(GRAPH.times[time]),
    )
    assert predictor.objects(*names) == predictor.objects(subject, relation, time)
    fact = GRAPH.describe(GRAPH.test[0])
    rows = [
        fact,
        tuple(fact.values()),
        (subject, relation, object_, time),
        (*names[:2], object_, names[2]),
    ]
    table = predictor.score(pa.Table.from_pylist([fact] * 4))
    assert predictor.score(rows).equals(table) and predictor.score(GRAPH.test[[0] * 4]).equals(
        table
    )


def test_times_are_ranked_by_both_sides(predictor: Predictor) -> None:
    subject, relation, object_, _ = GRAPH.test[0].tolist()
    period = range(4, 15)
    found = predictor.times(subject, relation, object_, top=30, first=GRAPH.times[4], last=14)
    assert found.asked == "time" and found.time is None and "?" in found.question
    expected = {}
    for time in period:
        sides = [
            slow_side(predictor, (subject, relation, object_, time), side)
            for side in ("object", "subject")
        ]
        probabilities = [probability for _, probability, _ in sides if probability is not None]
        values = [math.log(value) for value in probabilities] or [score for score, _, _ in sides]
        expected[GRAPH.times[time]] = sum(values) / 2
    expected = {label: value for label, value in expected.items() if value > -math.inf}
    assert {answer.name: answer.score for answer in found.answers} == pytest.approx(
        expected, rel=1e-3, abs=1e-3
    )
    if predictor.temperature is not None:
        total = sum(math.exp(value) for value in expected.values())
        for answer in found.answers:
            assert answer.probability == pytest.approx(
                math.exp(expected[answer.name]) / total, rel=1e-3
            )


def test_missing_facts_are_the_best_of_all(predictor: Predictor, tmp_path: Path) -> None:
    known = {tuple(fact) for split in SPLITS for fact in GRAPH.facts(split).tolist()}
    every = {}
    for subject, relation in {tuple(pair) for pair in GRAPH.train[:, :2].tolist()}:
        for time in range(5, 8):
            for object_ in range(len(GRAPH.entities)):
                fact = (subject, relation, object_, time)
                if fact not in known:
                    score, probability, _ = slow_side(predictor, fact, "object")
                    every[tuple(GRAPH.describe(np.array(fact)).values())] = (
                        score if probability is None else probability
                    )
    best = sorted(every.values(), reverse=True)
    out = tmp_path / "best.parquet"
    table = predictor.missing(first=5, last=7, top=15, out=out, budget=3000)
    assert isinstance(table, pa.Table) and pq.read_table(out).equals(table)
    column = "score" if predictor.temperature is None else "probability"
    assert table[column].to_pylist() == pytest.approx(best[:15], rel=1e-3)
    for row in table.to_pylist():
        key = row["subject"], row["relation"], row["object"], row["time"]
        assert every[key] == pytest.approx(row[column], rel=1e-3)
    if predictor.temperature is None:
        return
    bar = (best[20] + best[21]) / 2
    count = predictor.missing(first=5, last=7, at_least=bar, out=out, budget=3000)
    assert count == sum(value >= bar for value in every.values()) == pq.read_metadata(out).num_rows


def test_nothing_to_ask_finds_nothing(predictor: Predictor, tmp_path: Path) -> None:
    assert len(predictor.missing(relations=[], first=3, last=6)) == 0  # type: ignore[arg-type]
    assert len(predictor.score([])) == 0
    if predictor.temperature is not None:
        assert predictor.missing(relations=[], at_least=0.5, out=tmp_path / "none.parquet") == 0
        assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_nothing_to_ask_of_a_model_with_tables_for_each_time() -> None:
    run = tempograph.train(
        GRAPH, "de-simple", device="cpu", overrides=["model.dim=8", "train.epochs=1"]
    )
    assert len(Predictor(run).score([])) == 0


def test_missing_facts_of_one_entity_are_its_own(predictor: Predictor) -> None:
    table = predictor.missing(
        entity=GRAPH.entities[0], relations=[GRAPH.relations[0]], first=3, last=6, top=50
    )
    assert isinstance(table, pa.Table) and len(table)
    rows = table.to_pylist()
    assert all(GRAPH.entities[0] in (row["subject"], row["object"]) for row in rows)
    assert {row["relation"] for row in rows} == {GRAPH.relations[0]}
    assert len(
        {tuple(row[name] for name in ("subject", "relation", "object", "time")) for row in rows}
    ) == len(rows)


@pytest.mark.parametrize(
    ("objects", "told"), [(1, "only 1 candidate has"), (2, "only 2 candidates have")]
)
def test_it_is_said_when_few_candidates_have_evidence(objects: int, told: str) -> None:
    facts = [(0, 0, 1 + number, number) for number in range(objects)]
    run = tempograph.train(
        make_graph(facts, valid=[(0, 0, 1, 3)], entities=5), "ted", overrides=["model.sigma=1"]
    )
    assert any(
        note.startswith(f"{told} anything") for note in Predictor(run).objects(0, 0, 3).notes
    )


def test_surprising_facts_are_the_least_plausible(predictor: Predictor) -> None:
    found = predictor.surprising(("test",), top=7)
    sides = [
        [slow_side(predictor, fact, side) for side in ("object", "subject")]
        for fact in GRAPH.test.tolist()
    ]
    surprise = [
        sum(
            math.log(rank) if probability is None else -math.log(probability)
            for _, probability, rank in both
        )
        / 2
        for both in sides
    ]
    assert found["surprise"].to_pylist() == pytest.approx(
        sorted(surprise, reverse=True)[:7], rel=1e-2
    )


def test_an_effect_is_a_full_rescore_without_the_fact(run: Run) -> None:
    predictor = Predictor(run)
    subject, relation, _, time = GRAPH.test[2].tolist()
    found = predictor.objects(subject, relation, time, top=3, evidence=5)
    seen = 0
    for answer in found.answers:
        candidate = GRAPH.entities.index(answer.name)
        before = scores_of(run.model, subject, relation, time)[candidate]
        effects = [fact.effect for fact in answer.evidence]
        assert effects == sorted(effects, reverse=True)
        for fact in answer.evidence:
            row = to_fact_ids(GRAPH, [(fact.subject, fact.relation, fact.object, fact.time)])
            without = replace(GRAPH, train=GRAPH.train[~rows_in(GRAPH.train, row)])
            after = scores_of(run.model.with_timeline(Timeline(without)), subject, relation, time)[
                candidate
            ]
            assert fact.effect == pytest.approx(
                before - max(after, 0 if after == -math.inf else after), abs=2e-4
            )
            seen += bool(fact.effect)
    assert seen if run.model.uses_train_facts else not seen
    if not run.model.uses_train_facts:
        assert any("does not look at facts" in note for note in found.notes)


def test_why_not_shows_what_speaks_for_and_against(predictor: Predictor) -> None:
    fact = GRAPH.describe(GRAPH.test[2])
    for side in ("object", "subject"):
        (answer,) = predictor.why(*fact.values(), side=side, evidence=20).answers
        every = predictor.objects(
            fact["subject"], fact["relation"], fact["time"], top=12, evidence=0
        )
        assert answer.name == fact[side] and answer.known == "test"
        sizes = [abs(item.effect or 0) for item in answer.evidence]
        assert sizes == sorted(sizes, reverse=True)
        if side == "object":
            assert answer.rank == next(
                (a.rank for a in every.answers if a.name == answer.name), answer.rank
            )
    with pytest.raises(ConfigError, match="side must be object or subject, found 'relation'"):
        predictor.why(*fact.values(), side="relation")


def everything(predictor: Predictor) -> list[list[float]]:
    return [
        scores_of(predictor.model, entity, relation, time)
        for entity in (0, 3, 7)
        for relation in (0, 5)
        for time in (0, 9, 19)
    ]


def test_added_then_removed_facts_leave_no_trace(predictor: Predictor) -> None:
    before, asked = everything(predictor), predictor.objects(0, 0, 9)
    new = [("2030-01-22", 3), ("2030-01-05", 4)]
    rows = [(GRAPH.entities[0], GRAPH.relations[0], GRAPH.entities[o], label) for label, o in new]
    rows = [
        row
        for row in rows
        if not rows_in(to_fact_ids(extend_times(GRAPH, [row[3]]), [row]), GRAPH.train).any()
    ]
    predictor.add(rows)
    assert len(predictor.graph.train) == len(GRAPH.train) + len(rows)
    if predictor.model.uses_train_facts:
        assert everything(predictor) != before
    predictor.remove(rows)
    assert everything(predictor) == before and predictor.objects(0, 0, 9) == asked
    gone = [tuple(GRAPH.describe(fact).values()) for fact in GRAPH.train[:3]]
    predictor.remove(gone)
    assert len(predictor.graph.train) == len(GRAPH.train) - 3
    predictor.add(gone[:1])
    predictor.add(gone[1:])
    assert everything(predictor) == before and predictor.graph is GRAPH


@pytest.mark.parametrize("model", ["pointer", "ted"])
def test_facts_that_train_repeats_still_count_as_often(model: str) -> None:
    twice = replace(GRAPH, train=np.concatenate([GRAPH.train, GRAPH.train[:40]]))
    predictor = Predictor(tempograph.train(twice, model, device="cpu", overrides=SETTINGS[model]))
    before = everything(predictor)
    other = np.array([[0, 0, 3, 5]])
    assert not rows_in(other, twice.train).any()
    predictor.add(np.concatenate([other, other]))
    assert len(predictor.graph.train) == len(twice.train) + 1
    predictor.remove(other)
    assert predictor.graph is predictor.run.graph and everything(predictor) == before


@pytest.mark.parametrize("model", ["pointer", "ted", "temp-gru"])
def test_a_new_fact_moves_the_answer_where_it_should(model: str) -> None:
    """The pair has dealt with each other for days: one more such day makes the answer more plausible."""
    graph = make_world(entities=30, relations=6, steps=40, facts=1500).graph
    settings = {
        "temp-gru": ["model.dim=16", "model.window=4", "train.epochs=40", "train.validate_every=20"]
    }
    run = tempograph.train(graph, model, device="cpu", overrides=settings.get(model, []))
    predictor, better = Predictor(run), 0
    for fact in graph.test[:20]:
        s, r, o, t = fact.tolist()
        near = t + 1 if t + 1 < len(graph.times) else t - 1
        if model != "ted":
            near = t
        beside = (s, r, o, near)
        if rows_in(np.array([beside]), graph.train)[0]:
            continue
        before = scores_of(predictor.model, s, r, t)
        predictor.add(np.array([beside]))
        after = scores_of(predictor.model, s, r, t)
        predictor.remove(np.array([beside]))
        better += (after[o] - max(after)) > (before[o] - max(before)) or after[o] == max(after)
    assert better >= 15


def test_later_steps_can_be_added_and_asked_about(predictor: Predictor) -> None:
    with pytest.raises(QueryError, match="'2030-01-23' is not on the time grid"):
        predictor.objects(0, 0, "2030-01-23")
    predictor.add([(0, 0, 1, "2030-01-23"), (1, 0, 2, date(2030, 1, 22))])
    assert predictor.graph.times[-3:] == ("2030-01-21", "2030-01-22", "2030-01-23")
    found = predictor.objects(0, 0, "2030-01-23", evidence=2)
    assert found.answers and any(
        "after 2030-01-20, the last step of training" in note for note in found.notes
    )
    assert (
        next(answer for answer in found.answers if answer.name == GRAPH.entities[1]).known
        == "train"
    )
    predictor.remove([(0, 0, 1, "2030-01-23")])
    assert predictor.graph.times[-1] == "2030-01-22"


BAD = {
    "unknown entity": ([("Nobody", 0, 1, 0)], "fact 0: there is no entity 'Nobody'"),
    "unknown relation": (
        [(0, "vists", 1, 0)],
        "fact 0: there is no relation 'vists'; did you mean 'visits'",
    ),
    "a time before the first": (
        [(0, 0, 1, "2029-01-01")],
        "'2029-01-01' is not on the time grid of demo",
    ),
    "a far time": (
        [(0, 0, 1, "3030-01-01")],
        "365,223 steps after the last one, 2030-01-20; is it a typo?",
    ),
    "an id out of range": ([(0, 0, 99, 0)], "fact 0: there is no entity 99; ids run from 0 to 11"),
    "three parts": ([(0, 0, 1)], "fact 0 must be a subject, a relation, an object and a time"),
    "no name": ([(0, 0, None, 0)], "fact 0: the object must be a name or an id, found None"),
    "a list for a name": (
        [([0], 0, 0, 0)],
        r"fact 0: the subject must be a name or an id, found \[0\]",
    ),
}


@pytest.mark.parametrize(("facts", "message"), BAD.values(), ids=BAD)
def test_wrong_facts_are_refused_in_one_line(facts: list[tuple[object, ...]], message: str) -> None:
    predictor = Predictor(tempograph.train(GRAPH, "ted", overrides=["model.sigma=1"]))
    for ask in (predictor.add, predictor.remove, predictor.score):
        if ask != predictor.add and "typo" in message:
            continue
        with pytest.raises((QueryError, DataError), match=message.replace("?", r"\?")) as caught:
            ask(facts)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    assert predictor.graph is GRAPH
    there = [tuple(GRAPH.train[0].tolist())]
    with pytest.raises(QueryError, match="is there already"):
        predictor.add(there)
    with pytest.raises(QueryError, match="is not among the facts that the model looks at"):
        predictor.remove(GRAPH.test[:1])
    with pytest.raises(DataError, match="found no 'time'"):
        predictor.score(pa.table({"subject": ["a"], "relation": ["b"], "object": ["c"]}))


def test_tables_of_every_kind_of_column_are_looked_up() -> None:
    rows = GRAPH.test[:40]
    subject, relation, object_ = (
        [names[number] for number in rows[:, place]]
        for place, names in enumerate((GRAPH.entities, GRAPH.relations, GRAPH.entities))
    )
    days = [date.fromisoformat(GRAPH.times[step]) for step in rows[:, 3]]
    kinds = {
        "text in chunks, dates": (pa.chunked_array([subject[:7], [], subject[7:]]), pa.array(days)),
        "categories, labels": (
            pa.chunked_array([subject[:7], subject[7:]]).dictionary_encode(),
            list(map(str, days)),
        ),
        "ids": (rows[:, 0], rows[:, 3]),
    }
    for kind, (who, when) in kinds.items():
        table = pa.table({"subject": who, "relation": relation, "object": object_, "time": when})
        assert np.array_equal(to_fact_ids(GRAPH, table), rows), kind
        assert to_fact_ids(GRAPH, table[:0]).shape == (0, 4)
    lacking = [*subject[:5], None]
    categories = pa.array(lacking).dictionary_encode()
    for wrong, found in (
        (lacking, "None"),
        (categories, "None"),
        ([[1]] * 6, r"\[1\]"),
        ([0.5] * 6, "0.5"),
    ):
        table = pa.table(
            {"subject": wrong, "relation": relation[:6], "object": object_[:6], "time": days[:6]}
        )
        row = 5 if found == "None" else 0
        with pytest.raises(
            QueryError, match=f"^fact {row}: the subject must be a name or an id, found {found}$"
        ):
            to_fact_ids(GRAPH, table)
    table = pa.table(
        {
            "subject": [0] * 3,
            "relation": ["visits", "visits", "x"],
            "object": [0] * 3,
            "time": [0] * 3,
        }
    )
    with pytest.raises(QueryError, match="^fact 2: there is no relation 'x'"):
        to_fact_ids(GRAPH, table)


@pytest.mark.parametrize("granularity", ["day", "week", "month", "year"])
def test_a_date_is_found_in_the_step_it_lies_in(granularity: Granularity) -> None:
    days = np.arange("2019-12-20", "2021-01-20", dtype="M8[D]")
    steps = steps_at(days, granularity)
    graph = replace(
        make_graph([(0, 0, 1, 0)]), times=labels(int(steps[0]), int(steps[-1]), granularity)
    )
    assert [graph.time_id(day) for day in days.tolist()] == (steps - steps[0]).tolist()
    if granularity == "day":
        assert (
            replace(graph, times=("2020-01-01T22", "2020-01-01T23")).time_id(
                datetime(2020, 1, 1, 23, 59)
            )
            == 1
        )
    if granularity == "week":
        assert extend_times(graph, [date(2021, 1, 31)]).times[-2:] == ("2021-W03", "2021-W04")


def test_a_grid_that_does_not_tell_how_it_goes_on_is_not_continued() -> None:
    graph = make_graph([(0, 0, 1, 0)])
    with pytest.raises(
        QueryError, match="'day 9' is not on the time grid of small, and how its labels"
    ):
        extend_times(graph, ["day 9"])
    for last, new, made in (
        (("2020-11", "2020-12"), "2021-02", ("2021-01", "2021-02")),
        (("2020-W52", "2020-W53"), "2021-W01", ("2021-W01",)),
        (("7", "8"), "10", ("9", "10")),
        (("2020-01-01T22", "2020-01-01T23"), "2020-01-02T00", ("2020-01-02T00",)),
    ):
        short = TemporalGraph(
            "x", ("a",), ("r",), last, np.zeros((1, 4), np.int64), *[np.zeros((0, 4), np.int64)] * 2
        )
        assert extend_times(short, [new]).times == (*last, *made)
    with pytest.raises(QueryError, match="'2020-W54' is not on the time grid"):
        extend_times(replace(short, times=("2020-W52", "2020-W53")), ["2020-W54"])


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.integers(0, 12))
def test_rows_are_found_among_others(seed: int, some: int, others: int) -> None:
    rng = np.random.default_rng(seed)
    rows, facts = (rng.integers(0, 3, (count, 4)) for count in (some, others))
    among = {tuple(fact) for fact in facts.tolist()}
    assert rows_in(rows, facts).tolist() == [tuple(row) in among for row in rows.tolist()]


def test_evidence_names_the_rule_behind_a_fact() -> None:
    """In a made world most right answers show a fact of the rule that made them."""
    world = make_world(entities=40, relations=20, steps=60, facts=3000)
    run = tempograph.train(world.graph, "pointer", device="cpu", overrides=["train.epochs=8"])
    predictor, asked, found = Predictor(run), 0, 0
    for fact, (number, cause) in zip(
        world.graph.test.tolist(), world.origins["test"].tolist(), strict=True
    ):
        if world.rules[number].kind not in ("reciprocal", "chain") or not 0 <= cause < len(
            world.graph.train
        ):
            continue
        subject, relation, object_, time = fact
        answer = predictor.objects(subject, relation, time, top=1).answers[0]
        if answer.name == world.graph.entities[object_]:
            shown = [(e.subject, e.relation, e.object, e.time) for e in answer.evidence]
            asked += 1
            found += tuple(world.graph.describe(world.graph.train[cause]).values()) in shown
    assert asked >= 20 and found >= 0.8 * asked


def test_a_loop_is_found_once_whatever_the_budget(tmp_path: Path) -> None:
    graph = make_graph(
        [(0, 0, 1, 0), (1, 0, 0, 1), (0, 0, 0, 2), (0, 1, 2, 3), (2, 1, 0, 4)], valid=[(0, 0, 1, 2)]
    )
    predictor = Predictor(
        tempograph.train(graph, "pointer", overrides=["train.epochs=1"], device="cpu")
    )
    found = []
    for budget in (None, 1):
        count = predictor.missing(
            "e0", at_least=1e-9, out=tmp_path / "found.parquet", budget=budget
        )
        rows = [
            tuple(row.values())[:4] for row in pq.read_table(tmp_path / "found.parquet").to_pylist()
        ]
        assert count == len(rows) == len(set(rows))
        found.append(sorted(rows))
    assert found[0] == found[1] and any(row[0] == row[2] for row in found[0])


def test_a_date_is_no_step_of_a_grid_of_numbers() -> None:
    graph = replace(GRAPH, times=tuple(str(number) for number in range(1, 1 + len(GRAPH.times))))
    with pytest.raises(
        QueryError, match="^the time 2024-01-05 is a date, but the steps are called as 1 is"
    ):
        graph.time_id(date(2024, 1, 5))
    late = datetime(2030, 1, 5, 23, tzinfo=timezone(timedelta(hours=-5)))
    assert (
        GRAPH.times[GRAPH.time_id(late)]
        == "2030-01-06"
        == GRAPH.times[GRAPH.time_id(late.isoformat())]
    )


@pytest.mark.parametrize("model", ["ted", "pointer", "temp-gru"])
def test_many_steps_are_scanned_together_as_one_by_one(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {
        "ted": ["model.sigma=1"],
        "pointer": ["train.epochs=1"],
        "temp-gru": ["model.dim=8", "train.epochs=1"],
    }
    predictor = Predictor(tempograph.train(GRAPH, model, overrides=few[model], device="cpu"))
    found = []
    for together in (1, 50, 100_000):
        monkeypatch.setattr("tempograph.prediction.scan._TOGETHER", together)
        told: list[tuple[int, int]] = []
        table = predictor.missing(
            top=40, progress=lambda done, of, told=told: told.append((done, of))
        )  # type: ignore[misc]
        assert isinstance(table, pa.Table) and told[-1] == (20, 20)
        found.append(
            table.drop_columns(["score", *(["probability"] if model != "ted" else [])]).to_pylist()
        )
        if model != "ted":
            predictor.missing(at_least=0.05, out=tmp_path / f"{together}.parquet")
            times = pq.read_table(tmp_path / f"{together}.parquet")["time"].to_pylist()
            assert times == sorted(times) and len(times) > 100
    assert found[0] == found[1] == found[2]


def test_two_unknown_parts_are_no_question() -> None:
    predictor = Predictor(tempograph.train(GRAPH, "ted", overrides=["model.sigma=1"]))
    with pytest.raises(QueryError, match="the other three must be given, found None"):
        predictor.objects(None, 0, 0)  # type: ignore[arg-type]


def test_names_that_differ_by_case_are_all_offered() -> None:
    graph = replace(make_graph([(0, 0, 1, 0)]), entities=("ANN", "Ann", "ann", "nan"))
    with pytest.raises(
        QueryError, match="there is no entity 'aNN'; did you mean 'ANN', 'Ann' or 'ann'"
    ):
        graph.entity_id("aNN")
