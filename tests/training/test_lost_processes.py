"""The limit after which a silent process counts as lost; test_sharded_training kills processes."""

from __future__ import annotations

import pytest

from messages import raises
from tempograph import ConfigError
from tempograph.training.distributed import Processes
from tempograph.training.lost_processes import TIMEOUT, watch_processes


@pytest.mark.parametrize("text", ["soon", "", "0", "-3", "nan", "inf"])
def test_a_limit_that_is_no_number_of_seconds_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT, text)
    refused = raises(ConfigError, "lost_processes.timeout", found=text)
    with refused, watch_processes(Processes(0, 2, 0, 2), None):
        raise AssertionError("nothing is watched")
