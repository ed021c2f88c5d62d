"""The parts of an embedding method as settings, and which of them fit together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tempograph.data.suggestions import refuse_unknown
from tempograph.errors import ConfigError
from tempograph.nn.decoders import DECODERS
from tempograph.typing import Fraction, NonNegativeFloat, PositiveFloat, PositiveInt, check_bounds


@dataclass(frozen=True)
class EmbeddingSettings:
    """The entities, the relations and the decoder; every method is a combination of these."""

    dim: PositiveInt = 128
    decoder: str = "complex"
    """transe, distmult, complex, simple, gaussian, or a name added to `nn.decoders.DECODERS`."""
    distance: Literal["l1", "l2"] = "l2"
    """The distance of TransE and its variants."""
    entities: Literal["fixed", "diachronic", "projected", "drifting"] = "fixed"
    relations: Literal["fixed", "shifted", "factored", "projected", "tokens", "drifting"] = "fixed"
    constant: bool = True
    """Whether factored relations have a part that does not depend on time."""
    reciprocal: bool = False
    """Whether the two directions of a relation have vectors of their own."""
    wave_share: Fraction = 0.64
    """Share of a diachronic entity's numbers that depend on time."""
    smallest_variance: PositiveFloat = 0.005
    largest_variance: float = 0.3
    """Bounds of every variance of decoder gaussian."""
    longest_mean: NonNegativeFloat = 0.0
    """Largest norm of the constant part of a mean of decoder gaussian; 0 sets no limit."""
    initial_scale: NonNegativeFloat = 0.1
    """Standard deviation of the vectors at the start."""
    names: bool = False
    """Whether the words in an entity's name add to its vector."""

    def __post_init__(self) -> None:
        refuse_unknown("decoder", self.decoder, (*DECODERS, "gaussian"))
        check_bounds(self)
        if self.decoder in ("complex", "simple") and self.dim % 2:
            raise ConfigError(f"decoder {self.decoder} needs an even dim, found {self.dim}")
        if self.distance == "l1" and self.decoder != "transe":
            raise ConfigError(f"distance l1 is for decoder transe, not {self.decoder}")
        if not self.smallest_variance <= self.largest_variance:
            raise ConfigError(
                "smallest_variance must be at most largest_variance, "
                f"found {self.smallest_variance} and {self.largest_variance}"
            )
        self._check_parts()

    def _check_parts(self) -> None:
        if "drifting" in (self.entities, self.relations) and self.decoder != "gaussian":
            raise ConfigError(f"drifting vectors are for decoder gaussian, not {self.decoder}")
        if self.decoder == "gaussian":
            for part, kind in (("entities", self.entities), ("relations", self.relations)):
                if kind not in ("fixed", "drifting"):
                    raise ConfigError(
                        f"decoder gaussian takes {part} fixed or drifting, found {kind}"
                    )
            if self.names:
                raise ConfigError("decoder gaussian takes no names; set names=false")
        if self.relations == "projected" and self.entities != "projected":
            raise ConfigError(
                "projected relations share the planes of projected entities; set entities=projected"
            )
        if self.relations == "factored" and self.decoder not in ("complex", "distmult"):
            raise ConfigError(
                f"factored relations are for decoder complex or distmult, not {self.decoder}"
            )
        if self.reciprocal and self.relations not in ("fixed", "factored", "drifting"):
            raise ConfigError(
                f"reciprocal relations are fixed, factored or drifting, found {self.relations}"
            )
