"""What a service is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tempograph.prediction.predictor import Predictor
from tempograph.server.limits import Limits


@dataclass(frozen=True)
class ServiceSettings:
    """The runs of a service, who may ask them, and what a request may use."""

    runs: Mapping[str, Path]
    """Run folders by name; the first is the default."""
    limits: Limits = field(default_factory=Limits)
    device: str = "auto"
    token: str | None = None
    """What clients must send, unless only this machine can connect."""
    origins: Sequence[str] = ()
    """Web pages of these origins may use the API."""
    trusted_proxies: Sequence[str] = ()
    """Addresses whose headers say where a request comes from."""
    shutdown_seconds: int = 10
    """Seconds that open requests have to finish at shutdown."""

    def load(self) -> dict[str, Predictor]:
        """The runs, loaded from their folders."""
        return {
            name: Predictor(folder, self.device, self.limits.cache)
            for name, folder in self.runs.items()
        }
