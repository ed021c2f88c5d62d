"""Questions about facts that hold for a while: who at a moment, in a period, and when."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import tempograph
from conftest import as_json
from intervals import interval_graph
from live_service import KINDS, Answerer, answerer_of, live_service
from messages import message, raises
from tempograph import ImportOptions, Predictor, TemporalGraph
from tempograph.data.spans import Bounds
from tempograph.errors import ConfigError, DataError, QueryError, RunError, TempographWarning
from tempograph.evaluation.rank_table import read_run_ranks
from tempograph.training.run_card import run_card
from tempograph.training.run_protocol import evaluation_protocol

FIRST = 1901
OFFICES = ("President", "Speaker", "Mayor")
HOLDERS = [
    ("President", "Aal", 1919, 1925, 0),
    ("President", "Bek", 1926, 1929, 0),
    ("President", "Cid", 1934, 1937, 0),
    ("President", "Dov", 1938, 1950, Bounds.OPEN_END),
    ("Speaker", "Cid", 1901, 1914, Bounds.OPEN_START),
    ("Speaker", "Eva", 1915, 1928, 0),
    ("Speaker", "Aal", 1929, 1929, Bounds.UNKNOWN_END),
    ("Mayor", "Eva", 1903, 1910, 0),
    ("Mayor", "Dov", 1911, 1924, 0),
    ("Mayor", "Eva", 1933, 1936, 0),
]
HELD_OUT = [("Mayor", "Bek", 1937, 1944, 0), ("Speaker", "Dov", 1932, 1940, 0)]
NAMES = (*OFFICES, *sorted({name for _, name, *_ in HOLDERS}))


def office_graph() -> TemporalGraph:
    """Offices and who held them, as an import would write them."""

    def rows(facts: list[tuple[Any, ...]]) -> list[tuple[int, ...]]:
        return [
            (NAMES.index(office), 0, NAMES.index(name), start - FIRST, end - FIRST, bounds)
            for office, name, start, end, bounds in facts
        ]

    graph = interval_graph(
        rows(HOLDERS), rows(HELD_OUT[:1]), rows(HELD_OUT[1:]), len(NAMES), 1, 50, FIRST
    )
    return TemporalGraph(
        "offices", NAMES, ("held by",), graph.times, graph.train, graph.valid, graph.test
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "offices"
    tempograph.train(office_graph(), "ted", device="cpu", overrides=["model.sigma=0.5"], out=out)
    return out


@pytest.fixture(scope="module")
def predictor(folder: Path) -> Predictor:
    return Predictor(folder, device="cpu")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A live service with the run."""
    with live_service({"offices": Predictor(folder, device="cpu")}) as url:
        yield url


@pytest.fixture(params=KINDS)
def answerer(request: pytest.FixtureRequest, predictor: Predictor, url: str) -> Iterator[Answerer]:
    """The predictor, or a client of a service with the same run."""
    with answerer_of(request.param, predictor, url) as answerer:
        yield answerer


def test_who_held_it_in_1928(predictor: Predictor) -> None:
    best = predictor.objects("President", "held by", "1928", top=1, evidence=2).answers[0]
    assert best.name == "Bek"
    assert (best.known, best.since, best.until) == ("train", "1926", "1929")
    assert best.known_text == "known since 1926 until 1929 (train)"
    assert best.evidence[0].when == "1926 to 1929"
    assert (best.evidence[0].start, best.evidence[0].end) == ("1926", "1929")


@pytest.mark.parametrize(
    ("office", "year", "name", "known"),
    [
        ("President", "1945", "Dov", "known since 1938 until now (train)"),
        ("Speaker", "1905", "Cid", "known since the beginning until 1914 (train)"),
        ("Speaker", "1929", "Aal", "known since 1929, end unknown (train)"),
        ("Speaker", "1930", "Aal", ""),
        ("Mayor", "1940", "Bek", "known since 1937 until 1944 (valid)"),
        ("Mayor", "1934", "Eva", "known since 1933 until 1936 (train)"),
        ("Mayor", "1928", "Eva", ""),
    ],
)
def test_answers_say_since_when_until_when(
    predictor: Predictor, office: str, year: str, name: str, known: str
) -> None:
    answers = predictor.objects(office, "held by", year, top=8, evidence=0).answers
    found = {answer.name: answer for answer in answers}
    assert (found[name].known_text if name in found else "") == known
    new = predictor.objects(office, "held by", year, top=8, evidence=0, new=True).answers
    assert [answer.name for answer in new] == [
        answer.name for answer in answers if answer.known is None
    ]


def test_open_ends_hold_after_the_data(predictor: Predictor) -> None:
    for late in ("1955", "+3"):
        answers = predictor.objects("President", "held by", late, top=8, evidence=0).answers
        known = {answer.name: answer.known_text for answer in answers if answer.known}
        assert known == {"Dov": "known since 1938 until now (train)"}


def test_a_period_takes_the_best_of_its_steps(predictor: Predictor) -> None:
    graph, model = predictor.graph, predictor.model
    office, years = graph.entity_id("President"), range(1924, 1936)
    calibrator = predictor.scenario.calibrator("entity")
    steps = torch.tensor([graph.time_id(str(year)) for year in years])
    query = predictor.scenario.query((office, 0, -1, 0))
    queries = query.take(torch.zeros_like(steps))._replace(time=steps)
    log_probs, scores = calibrator.log_probs(model.scores(queries)), model.scores(queries)
    highest = log_probs.masked_fill(scores == -math.inf, -math.inf).max(0).values.exp()
    completion = predictor.objects("President", "held by", "1924", 8, until="1935", evidence=1)
    assert completion.question == "(President, held by, ?, 1924 to 1935)"
    found = {answer.name: answer.probability for answer in completion.answers}
    expected = {graph.entities[each]: float(highest[each]) for each in range(len(highest))}
    assert found == pytest.approx({name: p for name, p in expected.items() if p > 0})
    assert [each.probability for each in completion.answers] == sorted(found.values())[::-1]
    held = {each.name: each.known_text for each in completion.answers if each.known}
    assert held == {
        "Aal": "known since 1919 until 1925 (train)",
        "Bek": "known since 1926 until 1929 (train)",
        "Cid": "known since 1934 until 1937 (train)",
    }
    new = predictor.objects("President", "held by", "1924", 8, until="1935", new=True).answers
    assert {each.name for each in new} == found.keys() - held.keys()


def test_a_period_of_one_step_is_that_moment(predictor: Predictor) -> None:
    moment = predictor.subjects("held by", "Eva", "1934", 5, evidence=2).answers
    period = predictor.subjects("held by", "Eva", "1934", 5, evidence=2, until="1934").answers
    assert [each.name for each in moment] == [each.name for each in period]
    for one, other in zip(moment, period, strict=True):
        assert one.probability == pytest.approx(other.probability)
        assert (one.evidence, one.known_text) == (other.evidence, other.known_text)


def test_when_ranks_intervals(predictor: Predictor) -> None:
    completion = predictor.when("President", "held by", "Bek", top=4, evidence=1)
    assert completion.asked == "time" and len(completion.answers) == 4
    overlaps = [answer.score for answer in completion.answers]
    assert overlaps == sorted(overlaps, reverse=True) and 0 < overlaps[0] <= 1
    assert 0 < sum(answer.probability for answer in completion.answers) <= 1
    best = completion.answers[0]
    assert best.name == f"{best.start} to {best.end}" or best.start == best.end == best.name
    for answer in completion.answers:
        meets = int(answer.start or 0) <= 1929 and int(answer.end or 0) >= 1926
        known = ("1926", "1929", "train") if meets else (None, None, None)
        assert (answer.since, answer.until, answer.known) == known
    assert completion.answers == predictor.times("President", "held by", "Bek", 4, 1).answers
    limited = predictor.when("President", "held by", "Bek", first="1940", last="1945")
    assert all(
        1940 <= int(each.start or 0) <= int(each.end or 0) <= 1945 for each in limited.answers
    )
    table = completion.to_arrow()
    assert table["start"].to_pylist() == [each.start for each in completion.answers]
    assert "1926" in completion._repr_html_()


def test_scores_and_surprise_of_intervals(predictor: Predictor) -> None:
    scored = predictor.score([("President", "held by", "Bek", "1928")]).to_pylist()[0]
    assert scored["known"] == "train" and scored["object_rank"] == 1
    surprising = predictor.surprising(top=100).to_pylist()
    assert len(surprising) == len(HOLDERS) + len(HELD_OUT)
    own = next(row for row in surprising if (row["object"], row["start"]) == ("Bek", "1926"))
    at_steps = predictor.score(
        [("President", "held by", "Bek", str(year)) for year in range(1926, 1930)]
    ).to_pylist()
    for side in ("object", "subject"):
        mean = np.mean([math.log(row[f"{side}_probability"]) for row in at_steps])
        assert math.log(own[f"{side}_probability"]) == pytest.approx(mean)
        assert own[f"{side}_rank"] == pytest.approx(
            np.mean([row[f"{side}_rank"] for row in at_steps])
        )
    assert own["surprise"] == pytest.approx(
        -np.mean([math.log(own[f"{side}_probability"]) for side in ("object", "subject")])
    )
    assert own["end"] == "1929"


def test_scores_of_intervals_are_means_over_steps(predictor: Predictor, answerer: Answerer) -> None:
    held = {
        ("1926", "1929"): (range(1926, 1930), "train"),
        ("1938", ".."): (range(1938, 1951), None),
        ("..", "1903-05"): (range(1901, 1904), None),
        ("####", "1930"): (range(1930, 1931), None),
        (27, 28): (range(1928, 1930), None),
    }
    facts = [("President", "held by", "Bek", *bounds) for bounds in held]
    wrong = ("President", "held by", "Bek", "1890", "1929")
    table = answerer.score([*facts, wrong])
    names = ["subject", "relation", "object", "time", "start", "end", "known"]
    assert table.column_names[:7] == names
    rows = table.to_pylist()
    for row, (steps, known) in zip(rows, held.values(), strict=False):
        at_steps = predictor.score(
            [("President", "held by", "Bek", str(year)) for year in steps]
        ).to_pylist()
        assert row["known"] == known and row["error"] is None and row["time"] == str(steps[0])
        for side in ("object", "subject"):
            mean = np.mean([math.log(each[f"{side}_probability"]) for each in at_steps])
            assert math.log(row[f"{side}_probability"]) == pytest.approx(mean)
            for name in ("score", "rank"):
                values = [each[f"{side}_{name}"] for each in at_steps]
                assert row[f"{side}_{name}"] == pytest.approx(np.mean(values))
    spans = [(row["start"], row["end"]) for row in rows]
    assert spans == [
        *(("1926", "1929"), ("1938", ".."), ("..", "1903"), ("", "1930"), ("1928", "1929")),
        ("1890", "1929"),
    ]
    problem = {"part": "start", "text": "1890", "graph": "offices", "first": "1901"}
    assert rows[-1]["error"] == message("bound_lookup.before", **problem)
    assert rows[-1]["object_score"] is None and rows[-1]["time"] is None
    scores = answerer.score(facts, ranks=False)
    assert scores["object_score"].to_pylist() == pytest.approx(
        table["object_score"].to_pylist()[:-1]
    )
    with pytest.raises((DataError, QueryError), match=r"the start '1890' is before"):
        answerer.score([*facts, wrong], strict=True)


def test_facts_with_an_end_are_scored_in_any_form(predictor: Predictor, answerer: Answerer) -> None:
    ids = predictor.graph.all_facts
    columns = ["subject", "relation", "object", "time", "known"]
    columns += [f"{side}_{name}" for side in ("object", "subject") for name in ("score", "rank")]
    wanted = predictor.score(ids).to_pylist()
    named = [predictor.graph.describe(row) for row in ids]
    assert "" in {row["end"] for row in named} and ".." in {row["end"] for row in named}
    # Without a time, an empty end is open.
    known = [{**row, "end": row["end"] or "####"} for row in named]
    for row in known:
        del row["time"]
    given = [
        *(ids, named, pa.Table.from_pylist(named), known, pa.Table.from_pylist(known)),
        [tuple(row.values()) for row in known],
    ]
    for facts in given:
        table = answerer.score(facts)
        for found, row in zip(table.to_pylist(), wanted, strict=True):
            for name in ("start", "end", *columns[:5]):
                assert found[name] == row[name]
            for name in columns[5:]:
                assert found[name] == pytest.approx(row[name], rel=1e-4, abs=1e-5)
    still = answerer.score([("Mayor", "held by", "Eva", "1933", None)])
    assert still["end"].to_pylist() == [".."]
    at_moments = answerer.score(ids[:, :4]).to_pylist()
    moments = [{name: row[name] for name in columns[:4]} for row in named]
    assert "start" not in at_moments[0]
    assert [row["known"] for row in at_moments] == [
        row["known"] for row in answerer.score(moments).to_pylist()
    ]
    five = tuple(known[0].values())
    for faulty in ([five[:2]], [five[:4], five]):
        with pytest.raises(DataError, match="must be a subject, a relation, an object and a time"):
            answerer.score(faulty)


def test_the_command_scores_intervals(
    folder: Path, predictor: Predictor, call: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    rows = ["President,held by,Bek,1926,1929", "Mayor,held by,Eva,1933,", "Mayor,held by,Eva,1999,"]
    path = tmp_path / "new.csv"
    path.write_text("\n".join(["subject,relation,object,start,end", *rows]))
    out = tmp_path / "scored.csv"
    code, printed, errors = call("score", str(folder), str(path), "--json", "--out", str(out))
    facts = json.loads(printed)["facts"]
    assert code == 0 and errors.startswith("warning: 1 of 3 rows cannot be scored")
    assert [(fact["start"], fact["end"]) for fact in facts] == [
        *(("1926", "1929"), ("1933", ".."), ("1999", ""))
    ]
    assert facts[:2] == predictor.score(path).to_pylist()[:2]
    columns = ["subject", "relation", "object", "time", "start", "end", "known"]
    assert next(csv.reader(out.read_text().splitlines()))[:7] == columns
    code, printed, errors = call("score", str(folder), str(path))
    assert code == 0 and "1926 to 1929" in printed and "since 1933" in printed
    assert "taken at their start" not in errors
    path.write_text("\n".join(["subject,relation,object,start", "President,held by,Bek,1926"]))
    _, printed, _ = call("score", str(folder), str(path), "--json")
    (fact,) = json.loads(printed)["facts"]
    assert "end" not in fact and fact["time"] == "1926"


def test_results_are_read_again(
    folder: Path,
    predictor: Predictor,
    answerer: Answerer,
    call: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
) -> None:
    table = answerer.surprising(top=100)
    assert "" in table["end"].to_pylist()
    again = answerer.score(table)
    assert again["known"].to_pylist() == table["known"].to_pylist()
    for column in ("start", "end", "object_rank", "subject_rank"):
        assert again[column].to_pylist() == table[column].to_pylist()
    path = tmp_path / "odd.csv"
    call("surprising", str(folder), "--top", "100", "--out", str(path))
    _, printed, _ = call("score", str(folder), str(path), "--json")
    known = [fact["known"] for fact in json.loads(printed)["facts"]]
    assert known == table["known"].to_pylist()
    renamed = {"subject": "who", "start": "from", "end": "to"}
    remembered = replace(predictor.run, import_options=ImportOptions(**renamed))
    assert Predictor(remembered).score(table)["known"].to_pylist() == known


def test_facts_with_an_end_are_added_and_removed(predictor: Predictor) -> None:
    before = predictor.objects("Mayor", "held by", "1942", top=8).answers
    fact = ("Mayor", "held by", "Aal", "1940", "1952")
    still = ("Mayor", "held by", "Cid", "1948", "..")
    try:
        predictor.add([fact, still])
        assert predictor.graph.times[-1] == "1952"
        answers = predictor.objects("Mayor", "held by", "1952", top=8).answers
        since = {each.name: (each.since, each.until) for each in answers if each.known}
        assert since == {"Aal": ("1940", "1952"), "Cid": ("1948", "..")}
        # A fact that is known from 1938 on holds on the longer axis as well.
        dov = predictor.objects("President", "held by", "1952", top=1).answers[0]
        assert (dov.name, dov.since, dov.until, dov.known) == ("Dov", "1938", "..", "train")
        with pytest.warns(TempographWarning, match="Mayor, held by, Aal, 1940 to 1952"):
            assert len(predictor.add([fact])) == 1
        other = ("Mayor", "held by", "Aal", "1940", "1951")
        with pytest.warns(TempographWarning, match="not among the facts"):
            assert len(predictor.remove([other])) == 1
        assert len(predictor.remove([fact])) == 0
        assert predictor.graph.times[-1] == "1950"
        assert len(predictor.remove([still])) == 0
        assert predictor.graph is predictor.run.graph
        assert predictor.objects("Mayor", "held by", "1942", top=8).answers == before
    finally:
        predictor._use(type(predictor.scenario)(predictor.run, predictor.scenario.cache_bytes))


def test_an_end_that_becomes_known_replaces_the_open_one(folder: Path, tmp_path: Path) -> None:
    graph = office_graph()
    open_end = ("President", "held by", "Dov", "1938", "1945")
    unknown = ("Speaker", "held by", "Aal", "1929", "1931")
    other = ("Mayor", "held by", "Dov", "1938", "1945")
    predictor = Predictor(folder, device="cpu")
    with pytest.warns(TempographWarning, match="1 of 5 rows cannot be added"):
        rejected = predictor.add(
            [other, open_end, open_end, ("Mayor", "held by", "Eva", "1933", "1936"), unknown]
        )
    assert rejected["row"].to_pylist() == [3]
    assert rejected.closed.to_pylist() == [
        {
            "row": row,
            **dict(zip(("subject", "relation", "object", "start", "end"), fact, strict=True)),
            "time": fact[3],
        }
        for row, fact in ((1, open_end), (2, open_end), (4, unknown))
    ]
    closed = graph.train.copy()
    closed[HOLDERS.index(("President", "Dov", 1938, 1950, Bounds.OPEN_END)), 4:] = 1945 - FIRST, 0
    closed[HOLDERS.index(("Speaker", "Aal", 1929, 1929, Bounds.UNKNOWN_END)), 4:] = 1931 - FIRST, 0
    new = (NAMES.index("Mayor"), 0, NAMES.index("Dov"), 1938 - FIRST, 1945 - FIRST, 0)
    wanted = np.concatenate([closed, [new]])
    assert np.array_equal(predictor.graph.train, wanted)
    answers = {
        each.name: each.known_text
        for each in predictor.objects("President", "held by", "1940", top=8, evidence=0).answers
    }
    assert answers["Dov"] == "known since 1938 until 1945 (train)"
    late = predictor.objects("President", "held by", "1948", top=8, evidence=0).answers
    assert not any(each.known for each in late)
    saved = predictor.save(tmp_path / "copy")
    assert np.array_equal(saved.known_graph.train, wanted)
    again = Predictor(tmp_path / "copy", device="cpu")
    assert np.array_equal(again.graph.train, wanted)
    # An end that is known stays; the same fact with another end is a second one.
    later = again.add([("President", "held by", "Dov", "1938", "1946")])
    assert len(later.closed) == 0 and len(again.graph.train) == len(wanted) + 1
    again.remove([open_end])
    with raises(QueryError, "scenario.removed"):
        again.save()


def test_facts_can_be_added_and_removed_at_a_moment(predictor: Predictor) -> None:
    fact = ("President", "held by", "Bek", "1927")
    try:
        predictor.remove([fact])
        after = predictor.objects("President", "held by", "1928", top=8, evidence=0).answers
        assert "Bek" not in {answer.name for answer in after if answer.known}
        predictor.add([fact])
        again = predictor.objects("President", "held by", "1928", top=8, evidence=4).answers
        evidence = next(each.evidence for each in again if each.name == "Bek")
        assert ("1927", "1927", "1927") in {(each.time, each.start, each.end) for each in evidence}
    finally:
        predictor._use(type(predictor.scenario)(predictor.run, predictor.scenario.cache_bytes))


@pytest.fixture(scope="module")
def relation_predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """A run on pairs that are engaged, then married, then divorced."""
    rng = np.random.default_rng(0)
    rows = []
    for one in range(60):
        for other in rng.choice(60, 3, replace=False) + 60:
            first, second = np.sort(rng.choice(np.arange(3, 27), 2, replace=False))
            spans = [(0, first - 1, 0), (first, second, 0), (second + 1, 29, Bounds.OPEN_END)]
            rows += [(one, r, other, *span) for r, span in enumerate(spans)]
    facts = rng.permutation(np.array(rows))
    graph = interval_graph(facts[:500], facts[500:510], facts[510:], 120, 3, 30, 1990)
    graph = replace(graph, relations=("engaged to", "married to", "divorced from"))
    folder = tmp_path_factory.mktemp("runs") / "marriages"
    return Predictor(tempograph.train(graph, "ted", device="cpu", out=folder), "cpu")


def test_relations_are_ranked_at_a_moment(relation_predictor: Predictor) -> None:
    predictor, graph = relation_predictor, relation_predictor.graph
    with live_service({"run": predictor}) as address:
        for kind in KINDS:
            with answerer_of(kind, predictor, address) as answerer:
                for s, r, o, start, end, bounds in graph.train[:4].tolist():
                    found = answerer.relations(s, o, graph.times[end], top=3, evidence=2)
                    assert sum(each.probability for each in found.answers) == pytest.approx(1)
                    (known,) = [each for each in found.answers if each.known]
                    assert known.name == graph.relations[r] and known.evidence
                    until = ".." if bounds & Bounds.OPEN_END else graph.times[end]
                    assert (known.since, known.until) == (graph.times[start], until)
                    new = answerer.relations(s, o, graph.times[end], top=3, new=True)
                    assert {each.name for each in new.answers} == {*graph.relations} - {known.name}
                row = (graph.entities[s], None, graph.entities[o], graph.times[end])
                asked = answerer.ask([row], top=3).to_pylist()
                assert [each["answer"] for each in asked] == [each.name for each in found.answers]
    # Who was engaged before and divorced later was married in between.
    summary = tempograph.evaluate(predictor.run, ask="relation", progress=False).summary()
    assert summary["metrics"]["mrr"] > 0.8 and "calibration_error" in summary
    assert predictor.calibration("relation")["facts"] == 10


def test_evaluations_of_relations_are_kept(
    relation_predictor: Predictor, call: Callable[..., tuple[int, str, str]]
) -> None:
    folder = relation_predictor.run.path
    every = as_json(call("evaluate", str(folder), "--ask", "all", "--json"))
    found = as_json(call("evaluate", str(folder), "--ask", "relation", "--json"))
    for summary in (every["relation"], found):
        lengths = relation_predictor.graph.test[:, 4] - relation_predictor.graph.test[:, 3] + 1
        assert (summary["facts"], summary["queries"]) == (30, int(lengths.sum()))
        assert summary["asked"] == "relation" and summary["metrics"]["mr"] <= 3
        assert summary["metrics"]["hits@3"] == 1
    results = tempograph.Run.load(folder).results
    assert results.relation["test"]["metrics"] == pytest.approx(found["metrics"])
    ranks = read_run_ranks(folder, asked="relation")["test"]
    assert len(ranks.facts) == 30 and float(ranks.values("mrr").mean()) == pytest.approx(
        found["metrics"]["mrr"]
    )
    code, printed, _ = call("evaluate", str(folder), "--ask", "relation")
    assert code == 0 and "baseline: counts of the pair" in printed
    table = tempograph.evaluate(folder, "test", ask="relation").to_arrow()
    assert {"start", "end", "steps", "reciprocal_rank"} <= set(table.column_names)
    code, _, errors = call("report", str(folder), "--out", str(folder / "report.md"))
    assert code == 0, errors


def test_what_cannot_work_yet_says_so(predictor: Predictor) -> None:
    with raises(ConfigError, "predictor.new_intervals"):
        predictor.times("President", "held by", "Bek", new=True)
    page = predictor._repr_html_()
    assert (
        "objects, subjects, relations, when, why, ask" in page
        and "score, missing, surprising" in page
    )
    with raises(QueryError, "scenario.period_backwards", first="1930", last="1928"):
        predictor.objects("President", "held by", "1930", until="1928")
    notes = predictor.objects("President", "held by", "1955", top=1, evidence=0).notes
    assert "takes the weights of 1950 for later steps" in notes[1] and "forecast" not in notes[1]
    card = run_card(predictor.run.config, predictor.graph, predictor.run.results, [])
    assert "`score`, `missing` or `surprising`" in card


def test_a_table_marks_the_questions_that_have_no_answer_in_it(predictor: Predictor) -> None:
    who = {"subject": "President", "relation": "held by", "object": None, "time": "1928"}
    table = [who, who | {"object": "Bek", "relation": None}, who | {"object": "Bek", "time": None}]
    rows = predictor.ask(table, top=1).to_pylist()
    assert rows[0]["answer"] == "Bek" and rows[0]["error"] is None
    assert rows[1]["answer"] == "held by" and rows[1]["known"] == "train"
    assert [row["error"] for row in rows[1:]] == [
        None,
        message("questions.no_intervals", graph="offices"),
    ]
    with pytest.raises(QueryError, match="^question 2: offices: its facts hold for a while"):
        predictor.ask(table, strict=True)


def test_forecasts_of_intervals_are_not_evaluated(folder: Path) -> None:
    run = tempograph.Run.load(folder)
    config = replace(run.config, protocol="forecast-single")
    results = replace(run.results, protocol="forecast-single")
    forecaster = replace(run, config=config, results=results)
    with raises(RunError, "run_protocol.intervals", about=config.about):
        evaluation_protocol(forecaster)


def test_the_command_asks_about_moments_periods_and_intervals(
    folder: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    who = ("complete", str(folder), "--subject", "President", "--relation", "held by")
    code, printed, _ = call(*who, "--time", "1928", "--top", "1")
    assert code == 0 and "Bek" in printed and "known since 1926 until 1929" in printed
    answer = as_json(call(*who, "--from", "1924", "--to", "1935", "--json"))
    assert (answer["time"], answer["until"]) == ("1924", "1935")
    assert answer["answers"][0]["since"] is not None
    when = as_json(call(*who, "--object", "Bek", "--json", "--top", "1"))
    assert when["asked"] == "time" and when["answers"][0]["start"] <= when["answers"][0]["end"]
    assert call(*who, "--from", "1924")[0] == 2
    assert call(*who, "--time", "1924", "--to", "1935")[0] == 2
    assert call("surprising", str(folder))[0] == 0


def test_reports_of_intervals_are_written(
    folder: Path, call: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    call("evaluate", str(folder), "--ask", "all")
    call("evaluate", str(folder), "--protocol", "paper")
    code, _, errors = call("report", str(folder), "--out", str(tmp_path / "report.md"))
    assert code == 0, errors
    code, _, errors = call("report", str(folder), "--trust", "--out", str(tmp_path / "trust.md"))
    assert code == 0, errors
    assert "1937 to 1944" in (tmp_path / "trust.md").read_text()
    for page in ("report.md", "trust.md"):
        text = (tmp_path / page).read_text()
        assert "| test | paper | both sides |" in text and "| test | strict | closed | 1 |" in text
    who = ("complete", str(folder), "--subject", "President", "--relation", "held by")
    for when in (("--time", "1928"), ("--from", "1924", "--to", "1935"), ("--object", "Bek")):
        code, _, errors = call(*who, *when, "--plot", str(tmp_path / "plot.png"))
        assert code == 0, errors


def test_evaluations_of_a_run_are_kept(
    folder: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    strict = as_json(call("evaluate", str(folder), "--json"))
    assert strict["protocol"] == "strict" and strict["kinds"].keys() == {"closed"}
    assert strict["queries"] == 2 * 9
    paper = as_json(call("evaluate", str(folder), "--protocol", "paper", "--json"))
    assert paper["protocol"] == "paper" and paper["queries"] == 2 * 2
    time = as_json(call("evaluate", str(folder), "--ask", "time", "--json"))
    assert time["metrics"].keys() == {"aeiou@1", "giou@1", "tac"}
    code, printed, _ = call("evaluate", str(folder), "--ask", "all")
    assert code == 0 and "aeIOU@1" in printed and "every step asked" in printed
    results = tempograph.Run.load(folder).results
    assert results.test["protocol"] == "strict" and results.paper["test"]["protocol"] == "paper"
    assert results.intervals["test"]["facts"] == 1 and results.interval_choice["facts"] == 1
    assert call("evaluate", str(folder), "--protocol", "tgb")[0] == 2
    for asked in ("entity", "time", "all"):
        code, _, errors = call("evaluate", str(folder), "--ask", asked, "--hits", "1,20")
        # Nothing is ranked before that is refused.
        assert code == 2 and errors == f"error: {message('ranking.step_hits', k=20)}\n"
    with raises(DataError, "run_audit.intervals", path=folder, graph="offices"):
        tempograph.audit(folder)
    assert asdict(tempograph.Run.load(folder).config)["protocol"] == "strict"
