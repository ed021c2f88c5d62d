"""A service knows the names, facts and steps that an update added to a run."""

from __future__ import annotations

import httpx2

import tempograph
from live_service import live_service
from tempograph import Client, Predictor
from updating import NEXT_DAY, WORLD, drawn_run, named, new_facts


def test_a_service_answers_about_new_names() -> None:
    run = drawn_run(WORLD, "pointer")
    who, held_out = WORLD.entities[0], named(WORLD, WORLD.test[:1])
    facts = [("Zoe", "visits", who, NEXT_DAY), *named(WORLD, new_facts(WORLD, 3)), *held_out]
    updated = tempograph.update(run, facts).run
    with live_service({"run": Predictor(updated)}) as url:
        with Client(url) as client:
            found = client.objects("Zoe", "visits", NEXT_DAY, top=15)
            assert who in {answer.name for answer in found.answers if answer.known == "train"}
        (info,) = httpx2.get(f"{url}/api/v1/info").json()["runs"]
        assert (info["entities"], info["steps"], info["last"]) == (15, 21, NEXT_DAY)
        # The fact that is held out stays where it is.
        assert info["facts"] == {
            **{"train": len(WORLD.train) + 4, "valid": len(WORLD.valid), "test": len(WORLD.test)}
        }
        names = httpx2.get(f"{url}/api/v1/entities", params={"q": "zo"}).json()
        assert "Zoe" in str(names)
