"""Settings of TeMP: its parts and their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tempograph.data.suggestions import refuse_unknown
from tempograph.errors import ConfigError
from tempograph.nn.decoders import DECODERS
from tempograph.nn.structure import STRUCTURES, Composition, Norm
from tempograph.typing import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ProperFraction,
    check_bounds,
)

Activation = Literal["none", "relu", "tanh"]


@dataclass(frozen=True)
class TeMPSettings:
    """The parts of TeMP and their sizes."""

    dim: PositiveInt = 128
    structure: str = "rgcn"
    """rgcn, compgcn, rgat or none, or a name added to `nn.structure.STRUCTURES`."""
    layers: PositiveInt = 2
    inactive: Literal["isolated", "embedding"] = "isolated"
    """An inactive entity goes through the layers without edges, or keeps its embedding."""
    blocks: NonNegativeInt = 0
    """Blocks of W_r; 0 for as many as dimensions, which makes W_r diagonal."""
    norm: Norm = "relation"
    inverse_edges: bool = True
    composition: Composition = "multiply"
    inner_activation: Activation = "none"
    last_activation: Activation = "none"
    temporal: Literal["gru", "attention", "none"] = "gru"
    window: PositiveInt = 8
    """Steps on each side of a query."""
    bidirectional: bool = True
    heads: PositiveInt = 8
    imputation: bool = True
    gate: bool = True
    time_embedding: bool = False
    decoder: str = "complex"
    """transe, distmult, complex or simple, or a name added to `nn.decoders.DECODERS`."""
    initial_scale: NonNegativeFloat = 0.1
    """Standard deviation of the initial embeddings."""
    feature_dropout: ProperFraction = 0.1
    edge_dropout: ProperFraction = 0.5
    context_dropout: ProperFraction = 0.2
    dropout_by_frequency: bool = False

    def __post_init__(self) -> None:
        refuse_unknown("structure", self.structure, (*STRUCTURES, "none"))
        refuse_unknown("decoder", self.decoder, DECODERS)
        check_bounds(self)
        if self.blocks and self.dim % self.blocks:
            raise ConfigError(f"blocks must divide dim = {self.dim}, found {self.blocks}")
        if self.decoder in ("complex", "simple") and self.dim % 2:
            raise ConfigError(f"decoder {self.decoder} needs an even dim, found {self.dim}")
        if (self.temporal == "attention" or self.structure == "rgat") and self.dim % self.heads:
            raise ConfigError(f"heads must divide dim = {self.dim}, found {self.heads}")
        if self.temporal == "none" and (self.gate or self.imputation):
            raise ConfigError(
                "gate and imputation need a temporal encoder; set gate=false and imputation=false"
            )
        if self.temporal == "attention" and not self.imputation:
            raise ConfigError("imputation is a part of attention; set imputation=true")
