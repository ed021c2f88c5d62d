"""What HTTP itself offers: conditional requests, compression, other origins."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from messages import raises
from serving import client_of, page_file
from tempograph import Predictor
from tempograph.errors import ConfigError
from tempograph.server.cross_origin import check_origins
from tempograph.server.json_responses import accepts_gzip
from tempograph.server.page_files import FOLDER, PageFiles

pytest_plugins = ("serving_fixtures",)
CONDITIONAL = (
    "info",
    "entities?q=vel",
    "relations",
    "examples",
    "timeline?entity=Corenne",
    "snapshot?entity=Corenne&time=2030-01-03",
    "neighborhood?entity=Corenne&time=2030-01-03",
    "calibration",
)
QUERY = {"subject": "Corenne", "relation": "visits", "time": "2030-01-05"}


@pytest.mark.parametrize("path", CONDITIONAL)
def test_a_response_is_not_sent_twice(client: TestClient, path: str) -> None:
    first = client.get(f"/api/v1/{path}")
    etag = first.headers["etag"]
    assert first.status_code == 200 and first.headers["cache-control"] == "private, no-cache"
    for condition in (etag, etag.removeprefix("W/"), f'"other", {etag}', "*"):
        again = client.get(f"/api/v1/{path}", headers={"if-none-match": condition})
        assert again.status_code == 304 and again.content == b""
        assert again.headers["etag"] == etag
    for condition in ('"other"', etag.strip('"'), ""):
        again = client.get(f"/api/v1/{path}", headers={"if-none-match": condition})
        assert again.status_code == 200 and again.content == first.content


def test_different_responses_have_different_tags(client: TestClient) -> None:
    paths = (*CONDITIONAL, "entities?q=cor", "entities?q=vel&run=ted")
    tags = {client.get(f"/api/v1/{path}").headers["etag"] for path in paths}
    assert len(tags) == len(paths)


def test_other_responses_are_not_kept(client: TestClient) -> None:
    responses = [
        client.get("/health"),
        client.get("/metrics"),
        client.post("/api/v1/complete", json=QUERY),
        client.get("/api/v1/timeline?entity=x", headers={"if-none-match": "*"}),
    ]
    for response in responses:
        assert response.status_code != 304 and "etag" not in response.headers
        assert response.headers["cache-control"] == "no-store"


def test_large_responses_are_compressed(client: TestClient) -> None:
    everyone = client.get("/api/v1/entities?limit=20").json()["names"]
    entities = "&".join(f"entity={quote(each['name'])}" for each in everyone)
    path = f"/api/v1/neighborhood?{entities}&time=2030-01-05&reach=9"
    plain = client.get(path, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers and len(plain.content) > 2**13
    with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as response:
        assert response.headers["content-encoding"] == "gzip"
        body = b"".join(response.iter_raw())
    assert len(body) < len(plain.content) / 3 and gzip.decompress(body) == plain.content
    assert response.headers["vary"].lower() == "accept-encoding"
    assert response.headers["etag"] == plain.headers["etag"]
    small = client.get("/api/v1/info", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in small.headers
    lines = client.post("/api/v1/surprising", json={}, headers={"accept-encoding": "gzip"})
    assert lines.headers["content-encoding"] == "gzip"
    assert json.loads(lines.text.splitlines()[-1])["event"] == "end"


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("br, gzip; q=0.000", False),
        ("x-gzipped", False),
        ("", False),
    ],
)
def test_only_clients_that_accept_gzip_get_it(
    client: TestClient, header: str, accepted: bool
) -> None:
    assert accepts_gzip(header) == accepted
    everyone = client.get("/api/v1/entities?limit=20").json()["names"]
    entities = "&".join(f"entity={quote(each['name'])}" for each in everyone)
    path = f"/api/v1/neighborhood?{entities}&time=2030-01-05&reach=9"
    batch = {"questions": [QUERY] * 20, "top": 12}
    for response in (
        client.get(path, headers={"accept-encoding": header}),
        client.post("/api/v1/complete/batch", json=batch, headers={"accept-encoding": header}),
    ):
        assert response.status_code == 200 and len(response.content) > 2**13
        assert ("content-encoding" in response.headers) == accepted


def test_only_listed_origins_may_use_the_service(predictors: dict[str, Predictor]) -> None:
    token, friend = "s3cret-s3cret-s3cret", "https://example.org"
    runs = {"ted": predictors["ted"]}
    preflight = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    with client_of(runs, token=token, origins=[friend, "http://localhost:3000"]) as client:
        for origin in (friend, "http://localhost:3000"):
            asked = client.options("/api/v1/complete", headers=preflight | {"origin": origin})
            assert asked.status_code == 200
            assert asked.headers["access-control-allow-origin"] == origin
            assert "authorization" in asked.headers["access-control-allow-headers"]
        headers = {"origin": friend, "authorization": f"Bearer {token}"}
        answer = client.post("/api/v1/complete", json=QUERY, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == friend
        assert "x-request-id" in answer.headers["access-control-expose-headers"].lower()
        refused = client.post("/api/v1/complete", json=QUERY, headers={"origin": friend})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == friend
        for origin in ("https://evil.example", "https://example.org.evil.example", "null"):
            asked = client.options("/api/v1/complete", headers=preflight | {"origin": origin})
            assert asked.status_code == 400
            answer = client.get("/health", headers={"origin": origin})
            assert "access-control-allow-origin" not in answer.headers
    with client_of(runs) as client:
        answer = client.get("/health", headers={"origin": friend})
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["*", "example.org", "https://example.org/", "https://Example.org", "null", ""]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with raises(ConfigError, "cross_origin.no_origin", origin=origin):
        check_origins(["https://example.org", "http://[::1]:8000", origin])


def test_files_of_the_page_may_be_kept_until_they_change(
    client: TestClient, tmp_path: Path
) -> None:
    page = client.get("/")
    assert page.headers["cache-control"] == "no-store"
    addresses = re.findall(r'(?:src|href)="(static/[^"]+)"', page.text)
    assert len(addresses) >= 4 and {each.split("/")[1] for each in addresses} == {
        PageFiles().address.partition("/")[2]
    }
    for address in [*addresses, page_file("api.js"), page_file("vendor/cytoscape.esm.min.mjs")]:
        response = client.get(f"/{address.lstrip('/')}")
        assert response.status_code == 200
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert page_file("docs.css") in client.get("/docs").text
    assert client.get("/static/app.js").status_code == 404
    assert client.get("/static/0123456789abcdef/app.js").status_code == 404
    folder = Path(shutil.copytree(FOLDER, tmp_path / "static"))
    assert PageFiles(folder).address == PageFiles().address
    (folder / "vendor" / "cytoscape.LICENSE").write_text("changed")
    changed = PageFiles(folder).address
    (folder / "api.js").rename(folder / "apj.js")
    assert len({PageFiles().address, changed, PageFiles(folder).address}) == 3
