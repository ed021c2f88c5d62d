"""Models: `base` is their contract, `registry` lists them; each can be imported from here."""

from tempograph.models.embedding.methods import (
    ATiSE_EE,
    ATiSE_ER,
    ComplEx,
    DEDistMult,
    DESimplE,
    DETransE,
    DistMult,
    HyTE,
    SimplE,
    TADistMult,
    TComplEx,
    TNTComplEx,
    TransE,
    TTransE,
)
from tempograph.models.ensemble.ensemble_model import Ensemble
from tempograph.models.pointer.pointer_model import Pointer
from tempograph.models.recurrency import Recurrency
from tempograph.models.ted import TED
from tempograph.models.temp.temp_model import TeMP

__all__ = [
    "TED",
    "ATiSE_EE",
    "ATiSE_ER",
    "ComplEx",
    "DEDistMult",
    "DESimplE",
    "DETransE",
    "DistMult",
    "Ensemble",
    "HyTE",
    "Pointer",
    "Recurrency",
    "SimplE",
    "TADistMult",
    "TComplEx",
    "TNTComplEx",
    "TTransE",
    "TeMP",
    "TransE",
]
