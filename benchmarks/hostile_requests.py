"""Random requests that a service should survive: nonsense, and questions that take long."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from tempograph.data.graph import Facts, TemporalGraph
from tempograph.data.importers.later_steps import MAX_NEW_STEPS

QUESTIONS: Final = (
    "complete",
    "complete/batch",
    "score",
    "evidence",
    "what-if",
    "missing",
    "surprising",
    "forecast",
    "admin/reload",
)
LOOKUPS: Final = (
    "info",
    "entities",
    "relations",
    "examples",
    "timeline",
    "entity",
    "snapshot",
    "neighborhood",
    "calibration",
)
_HEAVY_SHARE: Final = 0.0005
"""How many requests are in order and as large as the limits allow."""


class HostileRequests:
    """Draws requests at random; valid ones are about the facts of a graph."""

    def __init__(self, graph: TemporalGraph, seed: int) -> None:
        self.graph = graph
        self.random = random.Random(seed)

    def draw(self) -> bytes:
        """The bytes of a request."""
        if self.random.random() < _HEAVY_SHARE:
            return self._heavy()
        kinds: list[Callable[[], bytes]] = [
            self._question,
            self._question,
            self._nonsense,
            self._broken,
            self._lookup,
            self._odd_http,
        ]
        return self.random.choice(kinds)()

    def each_kind(self) -> list[bytes]:
        """A question in order for each part of a fact, one about the farthest time, heavy ones."""
        fact = self._fact()
        facts = [(missing, fact) for missing in fact]
        # A later time is answered with a time grid that reaches so far, which is kept.
        facts.append(("object", fact | {"time": f"+{MAX_NEW_STEPS}"}))
        light = [
            ("complete", {part: name for part, name in fact.items() if part != missing})
            for missing, fact in facts
        ]
        return [post(path, json.dumps(body)) for path, body in [*light, *self._heavy_bodies()]]

    def _fact(self, facts: Facts | None = None) -> dict[str, Any]:
        """A fact, by default of any split."""
        facts = self.graph.all_facts if facts is None else facts
        s, r, o, t = facts[self.random.randrange(len(facts))]
        names = self.graph.entities[s], self.graph.relations[r], self.graph.entities[o]
        return dict(
            zip(("subject", "relation", "object"), names, strict=True), time=self.graph.times[t]
        )

    def _question(self) -> bytes:
        """A question in order that does not take long."""
        fact = self._fact()
        del fact[self.random.choice(("subject", "object", "relation", "time"))]
        top, evidence = self.random.choice(((1, 0), (10, 0), (100, 0), (1, 3), (5, 1)))
        return post("complete", json.dumps(fact | {"top": top, "evidence": evidence}))

    def _heavy(self) -> bytes:
        """A question in order that takes long to answer."""
        path, body = self.random.choice(self._heavy_bodies())
        return post(path, json.dumps(body))

    def _heavy_bodies(self) -> Sequence[tuple[str, Any]]:
        """The path and the body of each kind of question that takes long."""
        questions = [self._fact() for _ in range(1000)]
        for question in questions:
            del question[self.random.choice(("subject", "object"))]
        whole, times = self._fact(), self.graph.times
        long = {"time": times[0], "until": times[-1], "top": 100, "evidence": 10}
        part = self.random.choice(("relation", "time"))
        return (
            ("complete/batch", {"questions": questions, "top": 100}),
            ("score", {"facts": [self._fact() for _ in range(5000)]}),
            ("complete", questions[0] | {"top": 100, "evidence": 100}),
            ("complete", questions[0] | {"top": 1000}),
            ("complete", questions[0] | long),
            ("complete", whole | {part: None, "top": 100, "evidence": 100}),
            ("complete", questions[0] | {"time": f"+{self.random.randrange(1, 10_000)}"}),
            ("evidence", whole | {"time": times[0], "until": times[-1], "most": 1000}),
            ("what-if", questions[0] | {"removed": [self._fact(self.graph.train)], "top": 100}),
            ("missing", {"top": 10}),
            ("surprising", {"top": 10}),
            ("forecast", {"days": 30, "top": 100, "evidence": 3}),
        )

    def _value(self, depth: int = 0) -> Any:
        """Something that no part of a question should be."""
        values: list[Any] = [
            None,
            -1,
            10**30,
            1e308,
            "",
            "\x00",
            "'; drop table facts; --",
            "<script>alert(1)</script>",
            "\u202e" + "x" * self.random.choice((1, 300, 5000)),
            "é" * self.random.randrange(100),
            True,
            [],
            {},
        ]
        if depth < 3 and self.random.random() < 0.3:
            return [self._value(depth + 1) for _ in range(self.random.randrange(4))]
        return self.random.choice(values)

    def _nonsense(self) -> bytes:
        """JSON of the right shape with wrong values, or very many of them."""
        path, fact = self.random.choice(QUESTIONS), self._fact()
        for part in self.random.sample(sorted(fact), 2):
            fact[part] = self._value()
        body: Any = fact | {"top": self._value(), "run": self._value()}
        if path in ("complete/batch", "score"):
            count = self.random.choice((0, 1, 50, 20_000))
            body = {"facts": [fact] * count, "questions": [{}] * count}
        return post(path, json.dumps(body))

    def _broken(self) -> bytes:
        """Bodies that are not JSON, or too deep or too large."""
        depth = self.random.choice((10, 1000, 50_000))
        bodies = (
            "{",
            "[" * depth + "]" * depth,
            '{"subject": ' * 500,
            "\xff\xfe",
            "null",
            "1e999",
            '{"top": NaN}',
            "x" * self.random.choice((10, 10**6, 3 * 10**6)),
        )
        return post(self.random.choice(QUESTIONS), self.random.choice(bodies))

    def _lookup(self) -> bytes:
        """Look-ups with odd parameters."""
        names = ("query", "entity", "time", "limit", "run", "q")
        fact = self._fact()
        values = (
            "%00",
            "%ff",
            "-1",
            "9" * 40,
            "a%20" * 300,
            "../../etc/passwd",
            quote(fact["subject"]),
            quote(fact["subject"][1:]),
            quote(fact["time"]),
        )
        pairs = "&".join(
            f"{self.random.choice(names)}={self.random.choice(values)}"
            for _ in range(self.random.randrange(4))
        )
        return http("GET", f"/api/v1/{self.random.choice(LOOKUPS)}?{pairs}")

    def _odd_http(self) -> bytes:
        """Requests that are hardly HTTP."""
        return self.random.choice(
            (
                http("DELETE", "/api/v1/complete"),
                http("GET", "/" + "a/" * 2000),
                http("GET", "/static/../../pyproject.toml"),
                http("POST", "/api/v1/complete", "content-length: 5\r\ncontent-length: 7\r\n"),
                http("POST", "/api/v1/complete", "content-length: -1\r\n"),
                http("POST", "/api/v1/complete", "transfer-encoding: chunked\r\n") + b"zz\r\n",
                http("GET", "/health", f"x-long: {'a' * 70_000}\r\n"),
                http("GET", "/health", "host: a\r\n"),
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\r\n\r\n",
                b"GET\r\n\r\n",
                post("complete", '{"subject": "cut') + CUT,
            )
        )


CUT: Final = b"\x00cut"
"""After these bytes the client leaves without reading the answer."""


def http(method: str, path: str, headers: str = "") -> bytes:
    """A request without a body."""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    return f"{head}{headers}\r\n".encode()


def post(path: str, body: str) -> bytes:
    """A request with a body of JSON, or not."""
    data = body.encode("utf-8", "surrogatepass")
    headers = f"content-type: application/json\r\ncontent-length: {len(data)}\r\n"
    return http("POST", f"/api/v1/{path}", headers) + data
