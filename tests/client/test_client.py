"""What a client does beside answering as a Predictor, which is tested with the Predictor."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pyarrow as pa
import pytest

from live_service import live_service
from messages import message, raises
from tempograph import AsyncClient, Client, Predictor
from tempograph.data.graph import COLUMNS
from tempograph.errors import ConfigError, DataError, QueryError, ServiceError
from tempograph.server.limits import Limits

pytest_plugins = ("serving_fixtures",)
FACT = ("Corenne", "visits", "Velessa", "2030-01-05")
TOKEN = "s3cret-s3cret-s3cret"


@pytest.fixture(scope="module")
def url(predictors: dict[str, Predictor]) -> Iterator[str]:
    with live_service(predictors, Limits(facts=7), TOKEN) as url:
        yield url


def test_a_client_asks_the_run_that_it_names(url: str, predictors: dict[str, Predictor]) -> None:
    for run in ("ted", "pointer"):
        with Client(url, run, TOKEN) as client:
            found = client.objects(*FACT[:2], FACT[3], evidence=2)
            wanted = predictors[run].objects(*FACT[:2], FACT[3], evidence=2)
            assert [each.name for each in found.answers] == [each.name for each in wanted.answers]
            assert found.notes == wanted.notes and found.question == wanted.question
            assert [each.why for each in found.answers] == [each.why for each in wanted.answers]
            assert client.calibration("time") == predictors[run].calibration("time")
    with Client(url, "tde", TOKEN) as client, pytest.raises(QueryError, match="no run 'tde'"):
        client.objects(*FACT[:2], FACT[3])


@pytest.mark.parametrize("side", ["object", "subject"])
def test_why_is_that_of_the_predictor(
    url: str, predictors: dict[str, Predictor], side: str
) -> None:
    with Client(url, token=TOKEN) as client:
        assert client.why(*FACT, side=side, evidence=0).evidence == ()
        found = client.why(*FACT, side=side)
    wanted = predictors["temp-gru"].why(*FACT, side=side)
    (one,), (other,) = found.answers, wanted.answers
    assert found.question == wanted.question and one.name == other.name
    assert (one.rank, one.why, one.known) == (other.rank, other.why, other.known)
    assert one.probability == pytest.approx(other.probability, rel=1e-4)
    effects = [[fact.effect for fact in answer.evidence] for answer in (one, other)]
    assert effects[0] == pytest.approx(effects[1], abs=1e-4)


def test_a_candidate_that_is_ruled_out_has_no_finite_score(
    predictors: dict[str, Predictor],
) -> None:
    graph = predictors["ted"].graph
    for fact in graph.all_facts:
        subject, relation, _, time = (int(part) for part in fact)
        scores = predictors["ted"].candidate_scores((subject, relation, -1, time)).tolist()
        if -np.inf in scores:
            break
    ruled_out = scores.index(-np.inf)
    with live_service({"ted": predictors["ted"]}) as address, Client(address) as client:
        (answer,) = client.why(subject, relation, ruled_out, time).answers
        row = (subject, relation, ruled_out, time)
        (scored,) = client.score([row]).to_pylist()
    assert answer.score == scored["object_score"] == -np.inf


def test_more_rows_than_a_request_may_have_are_sent_in_several(
    url: str, predictors: dict[str, Predictor]
) -> None:
    predictor = predictors["temp-gru"]
    facts = predictor.graph.all_facts[:20]
    done: list[tuple[float, float]] = []
    with Client(url, token=TOKEN) as client:
        table = client.score(facts, progress=lambda *each: done.append(each))
        answers = client.ask([(*fact[:2], None, fact[3]) for fact in facts.tolist()], top=2)
    assert done == [(7, 20), (14, 20), (20, 20)]
    wanted = predictor.score(facts)
    assert table["object_rank"].to_pylist() == wanted["object_rank"].to_pylist()
    assert sorted(set(answers["question"].to_pylist())) == list(range(20))


def test_a_scan_reports_its_progress(url: str) -> None:
    done: list[tuple[float, float]] = []
    with Client(url, token=TOKEN) as client:
        table = client.surprising(top=3, progress=lambda *each: done.append(each))
        assert len(table) == 3 and done[0] == (0, 150) and done[-1] == (150, 150)
        # The service sends at most seven facts, and says which probability gives so few.
        with pytest.raises(QueryError, match="a response has at most 7; search") as refused:
            client.missing(at_least=0.01)
        highest = float(str(refused.value).rpartition(" ")[2])
        every = client.missing(at_least=highest + 0.001)
        assert every.column_names == [*COLUMNS, "probability"] and 1 <= len(every) <= 7


def test_one_client_asks_several_questions_at_once(url: str) -> None:
    async def ask() -> list[str]:
        async with AsyncClient(url, "ted", TOKEN) as client:
            questions = (client.objects(*FACT[:2], FACT[3], top=1, evidence=0) for _ in range(20))
            found = await asyncio.gather(*questions, client.relations(FACT[0], FACT[2], FACT[3]))
            return [each.answers[0].name for each in found]

    names = asyncio.run(ask())
    assert len(set(names[:20])) == 1 and len(names) == 21


def test_the_clients_have_the_questions_of_the_predictor() -> None:
    other = {"add", "remove", "save", "complete", "candidate_scores", "question", "score_batch"}
    questions = {
        name
        for name, member in vars(Predictor).items()
        if inspect.isfunction(member) and not name.startswith("_")
    } - other
    absent = {"budget", "options", "out"}
    for kind in (Client, AsyncClient):
        methods = {name for name in vars(kind) if not name.startswith("_")} - {"close"}
        assert methods == questions
        for name in questions:
            ours = inspect.signature(getattr(kind, name)).parameters
            wanted = inspect.signature(getattr(Predictor, name)).parameters
            kept = {key: each.default for key, each in wanted.items() if key not in absent}
            if "progress" not in ours:
                kept.pop("progress", None)
            assert {key: each.default for key, each in ours.items()} == kept


def test_a_wrong_token_and_a_missing_service_are_errors_of_the_service(url: str) -> None:
    for token in (None, "wrong"):
        with Client(url, token=token) as client, pytest.raises(ServiceError) as caught:
            client.objects(*FACT[:2], FACT[3])
        assert "Authorization: Bearer TOKEN (status 401)" in str(caught.value)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with Client(address) as client, pytest.raises(ServiceError, match="does not answer"):
        client.surprising()


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://localhost", "http://", "http://["])
def test_what_is_no_address_is_refused(address: str) -> None:
    for kind in (Client, AsyncClient):
        with raises(ConfigError, "requests.no_address", url=address):
            kind(address)


def test_addresses_may_have_a_path_and_be_of_version_6() -> None:
    for address in ("http://[::1]:8000", "https://example.org/tempograph/", "http://localhost"):
        with Client(address) as client:
            wanted = f"{address.rstrip('/')}/api/v1/"
            assert str(client._http.base_url) == wanted and repr(client) == f"Client({address!r})"


class Proxy(BaseHTTPRequestHandler):
    """Answers as the test tells it to."""

    status, body = 200, b""

    def do_POST(self) -> None:
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def proxy() -> Iterator[tuple[type[Proxy], str]]:
    handler = type("Handler", (Proxy,), {})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield handler, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_is_not_of_the_service_is_said_to_be_so(proxy: tuple[type[Proxy], str]) -> None:
    handler, address = proxy
    with Client(address) as client:
        for handler.status, handler.body in ((502, b"<html>"), (200, b"<html>"), (500, b"[]")):
            with pytest.raises(ServiceError, match="is not from tempograph"):
                client.objects(0, 0, 0)
        handler.status, handler.body = 200, b"<html>\n"
        with raises(ServiceError, "replies.no_json", line="<html>"):
            client.missing()
        line = {"event": "progress", "done": 0, "total": 3}
        handler.status, handler.body = 200, json.dumps(line).encode() + b"\n"
        with raises(ServiceError, "replies.unfinished"):
            client.missing()


def test_tables_that_cannot_be_sent_are_refused(url: str) -> None:
    with Client(url, token=TOKEN) as client:
        with raises(DataError, "rows.no_column", column="relation", columns="'subject', 'time'"):
            client.score(pa.table({"subject": ["a"], "time": ["b"]}))
        with raises(DataError, "arrow_tables.four_parts", row=0, value=("a", "b")):
            client.score([("a", "b")])
        with raises(DataError, "rows.not_a_part", row=1, value=True):
            client.score([FACT, (*FACT[:3], True)])


def test_without_the_extra_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['httpx2'] = None; import tempograph\n"
        "try: tempograph.Client('http://localhost')\n"
        "except tempograph.ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == message("requests.no_httpx")
