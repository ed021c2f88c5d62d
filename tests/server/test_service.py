"""Names of runs, and limits."""

from __future__ import annotations

from messages import raises
from tempograph.errors import ConfigError
from tempograph.server.limits import Limits
from tempograph.server.service import Service, named_runs


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
