"""The figures of the TeMP paper, to stand beside ours."""

from __future__ import annotations

from typing import Final

Figures = tuple[float, float, float, float]
"""MRR, then Hits@1, 3 and 10 in per cent."""

Published = tuple[float | None, float | None, float | None, float | None]
"""The same of a printed table, which has a dash here and there."""

PAPER_TED_VALID: Final[dict[str, dict[float, Figures]]] = {
    "icews14": {
        1e-5: (0.434, 36.2, 48.9, 60.5),
        1e-2: (0.445, 35.5, 49.9, 61.2),
        1e-1: (0.455, 36.7, 50.7, 61.6),
        1e0: (0.449, 35.9, 50.3, 61.4),
        1e1: (0.449, 35.9, 50.3, 61.5),
        1e2: (0.446, 35.5, 50.0, 61.2),
        1e5: (0.359, 24.9, 41.7, 57.2),
    },
    "icews05-15": {
        1e-5: (0.466, 36.2, 52.4, 66.6),
        1e-2: (0.498, 39.7, 55.9, 68.8),
        1e-1: (0.505, 40.8, 56.3, 68.7),
        1e0: (0.500, 40.1, 55.9, 68.5),
        1e1: (0.496, 39.8, 55.4, 68.1),
        1e2: (0.482, 38.3, 53.9, 66.8),
        1e5: (0.362, 23.8, 42.8, 60.6),
    },
}
"""The paper's sensitivity table of TED, on valid."""

PAPER_TEST: Final[dict[str, dict[str, Published]]] = {
    "icews14": {
        "transe": (0.326, 15.4, 43.0, 64.4),
        "distmult": (0.441, 32.5, 49.8, 66.8),
        "complex": (0.442, 40.0, 43.0, 66.4),
        "simple": (0.458, 34.1, 51.6, 68.7),
        "ttranse": (0.255, 7.4, None, 60.1),
        "hyte": (0.297, 10.8, 41.6, 65.5),
        "ta-distmult": (0.477, 36.3, None, 68.6),
        "de-transe": (0.326, 12.4, 46.7, 68.6),
        "de-distmult": (0.501, 39.2, 56.9, 70.8),
        "de-simple": (0.526, 41.8, 59.2, 72.5),
        "atise-ee": (0.569, 46.3, 63.9, 76.3),
        "atise-er": (0.571, 46.5, 64.3, 75.5),
        "tntcomplex": (0.620, 52.0, 66.0, 76.0),
        "ted": (0.441, 35.3, 49.1, 60.8),
        "srgcn": (0.604, 48.3, 68.0, 83.0),
        "temp-gru": (0.601, 47.8, 68.1, 82.8),
        "temp-sa": (0.607, 48.4, 68.4, 84.0),
    },
    "icews05-15": {
        "transe": (0.330, 15.2, 44.0, 66.0),
        "distmult": (0.457, 33.8, 51.5, 69.1),
        "complex": (0.464, 34.7, 52.4, 69.6),
        "simple": (0.478, 35.9, 53.9, 70.8),
        "ttranse": (0.271, 8.4, None, 61.6),
        "hyte": (0.316, 11.6, 44.5, 68.1),
        "ta-distmult": (0.474, 34.6, None, 72.8),
        "de-transe": (0.314, 10.8, 45.3, 68.5),
        "de-distmult": (0.484, 36.6, 54.6, 71.8),
        "de-simple": (0.513, 39.2, 57.8, 74.8),
        "atise-ee": (0.520, 39.7, 59.5, 77.3),
        "atise-er": (0.484, 35.0, 55.8, 74.9),
        "tntcomplex": (0.670, 59.0, 71.0, 81.0),
        "ted": (0.503, 40.8, 56.1, 68.4),
        "srgcn": (0.662, 53.5, 74.7, 89.9),
        "temp-gru": (0.691, 56.6, 78.2, 91.7),
        "temp-sa": (0.680, 55.3, 76.9, 91.3),
    },
    "gdelt": {
        "transe": (0.155, 6.0, 17.8, 33.5),
        "distmult": (0.210, 13.3, 22.4, 36.5),
        "complex": (0.213, 13.3, 22.5, 36.6),
        "simple": (0.206, 12.4, 22.0, 36.6),
        "ttranse": (0.115, 0.0, 16.0, 31.8),
        "hyte": (0.118, 0.0, 16.5, 32.6),
        "ta-distmult": (0.206, 12.4, 21.9, 36.5),
        "de-transe": (0.126, 0.0, 18.1, 35.0),
        "de-distmult": (0.213, 13.0, 22.8, 37.6),
        "de-simple": (0.230, 14.1, 24.8, 40.3),
        "atise-ee": (None, None, None, None),
        "atise-er": (None, None, None, None),
        "tntcomplex": (None, None, None, None),
        "ted": (0.237, 14.9, 26.3, 40.7),
        "srgcn": (0.239, 15.7, 25.6, 39.8),
        "temp-gru": (0.275, 19.1, 29.7, 43.7),
        "temp-sa": (0.232, 15.2, 24.5, 37.7),
    },
}
"""The comparative table, on test."""

PAPER_ABLATION: Final[dict[str, dict[tuple[bool, bool], dict[str, float]]]] = {
    "temp-gru": {
        (True, True): {"icews14": 0.610, "icews05-15": 0.680, "gdelt": 0.269},
        (False, True): {"icews14": 0.599, "icews05-15": 0.689, "gdelt": 0.270},
        (True, False): {"icews14": 0.593, "icews05-15": 0.670, "gdelt": 0.275},
        (False, False): {"icews14": 0.577, "icews05-15": 0.673, "gdelt": 0.274},
    },
    "temp-sa": {
        (True, True): {"icews14": 0.623, "icews05-15": 0.676, "gdelt": 0.233},
        (True, False): {"icews14": 0.619, "icews05-15": 0.670, "gdelt": 0.235},
    },
}
"""The MRR on valid with and without imputation and gate, in this order; attention always imputes."""

PAPER_SIZES: Final[dict[str, tuple[int, ...]]] = {
    "icews14": (7_128, 230, 365, 72_826, 8_941, 8_963),
    "icews05-15": (10_488, 251, 4_017, 386_962, 46_275, 46_092),
    "gdelt": (500, 20, 366, 2_735_685, 341_961, 341_961),
}
"""The table of datasets: entities, relations and time steps, then facts of train, valid and test."""

NAMES: Final = {
    "transe": "TransE",
    "distmult": "DistMult",
    "complex": "ComplEx",
    "simple": "SimplE",
    "ttranse": "TTransE",
    "hyte": "HyTE",
    "ta-distmult": "TA-DistMult",
    "de-transe": "DE-TransE",
    "de-distmult": "DE-DistMult",
    "de-simple": "DE-SimplE",
    "tntcomplex": "TNTComplEx",
    "ted": "TED",
    "srgcn": "SRGCN",
    "temp-gru": "TeMP-GRU",
    "temp-sa": "TeMP-SA",
}
"""How the paper writes the names of models, for legends."""

SEES_WHO_IS_ACTIVE: Final = ("srgcn", "temp-gru", "temp-sa")
"""Models whose figures depend on the protocol."""


def published(dataset: str, model: str, protocol: str) -> Published:
    """What the paper prints for a model on test, as far as it prints anything that holds under this protocol.

    The figures of models that see who is active are those of protocol paper; the others depend on no protocol.
    """
    if model in SEES_WHO_IS_ACTIVE and protocol != "paper":
        return None, None, None, None
    return PAPER_TEST.get(dataset, {}).get(model, (None, None, None, None))
