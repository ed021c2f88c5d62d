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
    inactive: Literal["isolated", "residual", "embedding"] = "isolated"
    """What an inactive entity is: h' = W_s h in each layer, h' = h + W_s h, or its embedding."""
    blocks: NonNegativeInt = 0
    """Blocks of W_r; 0 for as many as dimensions, which makes W_r diagonal."""
    norm: Norm = "relation"
    inverse_edges: bool = True
    composition: Composition = "multiply"
    bias: bool = False
    """Whether a layer of structure rgcn adds a bias."""
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
    names: bool = False
    """Whether the words in an entity's name add to its embedding."""
    decoder: str = "complex"
    """transe, distmult, complex or simple, or a name added to `nn.decoders.DECODERS`."""
    initial_scale: NonNegativeFloat = 0.1
    """Standard deviation of the initial embeddings."""
    initialization: Literal["normal", "xavier"] = "normal"
    """Xavier, as in the authors' code, replaces initial_scale and the scale of W_r and W_s."""
    feature_dropout: ProperFraction = 0.1
    dropout_on: Literal["output", "self_loop"] = "output"
    """Whether feature dropout acts on the output of a layer, or on W_s h alone."""
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
        rgcn_only = {
            "bias=true": self.bias,
            "initialization=xavier": self.initialization == "xavier",
            "dropout_on=self_loop": self.dropout_on == "self_loop",
        }
        for setting, chosen in rgcn_only.items():
            if chosen and self.structure != "rgcn":
                raise ConfigError(f"{setting} is for structure rgcn, not {self.structure}")
