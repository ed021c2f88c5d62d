"""Names of runs, and limits."""

from __future__ import annotations

import tempograph
from messages import raises
from predicting import GRAPH
from serving import client_of
from tempograph import Predictor
from tempograph.errors import ConfigError
from tempograph.server.limits import Limits
from tempograph.server.service import Service, named_runs
from tempograph.training.callbacks import Callbacks
from tempograph.training.final_fit import answer_from_all_facts


def test_runs_are_named_after_their_folders_unless_renamed() -> None:
    named = {name: str(path) for name, path in named_runs(["a/one", "two=b/one"]).items()}
    assert named == {"one": "a/one", "two": "b/one"}
    with raises(ConfigError, "service.same_name", run="one", folder="b/one"):
        named_runs(["a/one", "b/one"])


def test_a_service_needs_runs_and_positive_limits() -> None:
    with raises(ConfigError, "limits.above_0", limit="top", value=0):
        Limits(top=0)
    with raises(ConfigError, "service.no_runs"):
        Service({}, Limits())


def test_a_run_that_answers_from_all_facts_names_their_splits() -> None:
    run = tempograph.train(GRAPH, "ted", overrides=["model.sigma=1"], device="cpu")
    assert answer_from_all_facts(run, Callbacks(None, None)) is not None
    with client_of({"run": Predictor(run)}) as client:
        (info,) = client.get("/api/v1/info").json()["runs"]
    assert info["facts"] == {
        "train": len(GRAPH.train),
        "valid": len(GRAPH.valid),
        "test": len(GRAPH.test),
    }
