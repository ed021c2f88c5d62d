"""Models: `base` is their contract, `registry` lists them; each can be imported from here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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
    "SimplE",
    "TADistMult",
    "TComplEx",
    "TNTComplEx",
    "TTransE",
    "TeMP",
    "TransE",
]

_HOMES: Final = {
    "Ensemble": "ensemble.ensemble_model",
    "Pointer": "pointer.pointer_model",
    "TED": "ted",
    "TeMP": "temp.temp_model",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the command line must not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module 'tempograph.models' has no attribute '{name}'")
    home = _HOMES.get(name, "embedding.methods")
    return getattr(importlib.import_module(f"tempograph.models.{home}"), name)
