"""Fixtures: a service with several runs, and tabs of its explorer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest

from exploring import EVIL, HOURS, LONG, Open
from serving import STORED, Served
from tempograph import TemporalGraph, train

REFUSED = "Failed to load resource"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Three stored runs of the same facts, one with hostile names and undated steps, and one with
    names of 900 letters and steps of an hour.
    """
    facts = np.array([(0, 0, 1, 0), (1, 0, 2, 1), (2, 0, 0, 2)])
    names = ("Ann", EVIL, "Cai", "Newcomer")
    graph = TemporalGraph(
        "small",
        names,
        ("meets", "greets"),
        ("early", "later", "last"),
        facts,
        np.array([(3, 1, 0, 1)]),
        facts[:0],
    )
    plain = tmp_path_factory.mktemp("runs") / "plain"
    train(graph, "ted", out=plain, device="cpu")
    long_names = replace(graph, entities=(*LONG, "Newcomer"), times=HOURS)
    train(long_names, "ted", out=plain.with_name("long"), device="cpu")
    runs = [STORED / name for name in ("temp-gru", "pointer", "ted")]
    with Served(*map(str, [*runs, plain, plain.with_name("long")])) as service:
        yield service


@pytest.fixture
def page(browser: Any, service: Served) -> Iterator[Open]:
    """Opens views; afterwards the console is empty and no other host has been contacted.

    `refused` ignores the console messages of browsers about error responses.
    """
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    messages: list[str] = []
    contacted: set[str] = set()

    def start(refused: bool = False, at: Served = service, **view: str) -> Any:
        tab = context.new_page()
        tab.on(
            "console",
            lambda line: (
                messages.append(line.text) if not (refused and REFUSED in line.text) else None
            ),
        )
        tab.on("pageerror", lambda error: messages.append(str(error)))
        tab.on("dialog", lambda dialog: messages.append(dialog.message))
        tab.on("request", lambda request: contacted.add(urlsplit(request.url).netloc))
        tab.goto(f"http://localhost:{at.port}/?{urlencode(view)}")
        hosts.add(f"localhost:{at.port}")
        return tab

    hosts: set[str] = set()
    yield start
    context.close()
    assert messages == [] and contacted == hosts
