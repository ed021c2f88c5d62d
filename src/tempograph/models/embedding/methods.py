"""The published embedding methods: each is a choice of entities, relations and a decoder.

A method is an `Embedding` with other default settings, for example

    model = TNTComplEx(timeline)
    model = TNTComplEx(timeline, replace(TNTComplEx.settings, dim=64))

The parts are in `tempograph.nn`: `decoders`, `entities` and `relations`. In the formulas s, r and o
are embeddings, tau_t is the embedding of a time step, and `<a, b, c>` is the sum of a * b * c.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tempograph.models.embedding.embedding_model import Embedding
from tempograph.models.embedding.embedding_settings import EmbeddingSettings

_BY_TIME: Final = MappingProxyType({"batch": "times"})
"""Queries of one time share the table of entities, so a batch takes whole time steps."""
_DE: Final = "Goel et al., AAAI 2020"
_ATISE: Final = "Xu et al., ISWC 2020"
_TNT: Final = "Lacroix et al., ICLR 2020"


class TransE(Embedding):
    """`-||s + r - o||`. Parts: FixedEntities, FixedRelations, TranslationDecoder.

    Bordes, Usunier, Garcia-Duran, Weston, Yakhnenko: Translating Embeddings for Modeling
    Multi-relational Data. NIPS 2013.
    """

    name = "transe"
    summary = "a relation is a translation"
    formula = "-|s + r - o|"
    reference = "Bordes et al., NIPS 2013"
    settings = EmbeddingSettings(decoder="transe")


class DistMult(Embedding):
    """`<s, r, o>`. Parts: FixedEntities, FixedRelations, DistMultDecoder.

    Yang, Yih, He, Gao, Deng: Embedding Entities and Relations for Learning and Inference in
    Knowledge Bases. ICLR 2015.
    """

    name = "distmult"
    summary = "a relation weights the product of two entities"
    formula = "<s, r, o>"
    reference = "Yang et al., ICLR 2015"
    settings = EmbeddingSettings(decoder="distmult")


class ComplEx(Embedding):
    """`Re <s, r, conj(o)>`. Parts: FixedEntities, FixedRelations, ComplExDecoder.

    Trouillon, Welbl, Riedel, Gaussier, Bouchard: Complex Embeddings for Simple Link Prediction.
    ICML 2016.
    """

    name = "complex"
    summary = "a relation weights and rotates the product of two entities"
    formula = "Re <s, r, conj(o)>"
    reference = "Trouillon et al., ICML 2016"
    settings = EmbeddingSettings(decoder="complex")


class SimplE(Embedding):
    """`(<s_head, r, o_tail> + <o_head, r', s_tail>) / 2`.

    Parts: FixedEntities, FixedRelations, SimplEDecoder.

    Kazemi, Poole: SimplE Embedding for Link Prediction in Knowledge Graphs. NeurIPS 2018.
    """

    name = "simple"
    summary = "an entity has one vector as subject and one as object"
    formula = "(<s_head, r, o_tail> + <o_head, r', s_tail>) / 2"
    reference = "Kazemi and Poole, NeurIPS 2018"
    settings = EmbeddingSettings(decoder="simple")


class TTransE(Embedding):
    """`-||s + r + tau_t - o||`. Parts: FixedEntities, ShiftedRelations, TranslationDecoder.

    Leblay, Chekol: Deriving Validity Time in Knowledge Graph. WWW 2018 Companion.
    """

    name = "ttranse"
    summary = "a relation and a time are translations"
    formula = "-|s + r + tau_t - o|"
    time_dependent = "relations"
    reference = "Leblay and Chekol, WWW 2018"
    settings = EmbeddingSettings(decoder="transe", relations="shifted")


class HyTE(Embedding):
    """`-||P_t (s + r - o)||`, P_t the projection on the hyperplane of t.

    Parts: ProjectedEntities, ProjectedRelations, TranslationDecoder.

    Dasgupta, Ray, Talukdar: HyTE: Hyperplane-based Temporally Aware Knowledge Graph Embedding.
    EMNLP 2018.
    """

    name = "hyte"
    summary = "translation on a hyperplane per time step"
    formula = "-|P_t (s + r - o)|"
    time_dependent = "entities, relations"
    reference = "Dasgupta et al., EMNLP 2018"
    settings = EmbeddingSettings(decoder="transe", entities="projected", relations="projected")
    train_defaults = _BY_TIME


class TADistMult(Embedding):
    """`<s, LSTM(r, date), o>`. Parts: FixedEntities, TokenRelations, DistMultDecoder.

    Garcia-Duran, Dumancic, Niepert: Learning Sequence Encoders for Temporal Knowledge Graph
    Completion. EMNLP 2018.
    """

    name = "ta-distmult"
    summary = "an LSTM reads the relation and the digits of the date"
    formula = "<s, LSTM(r, date), o>"
    time_dependent = "relations"
    reference = "Garcia-Duran et al., EMNLP 2018"
    settings = EmbeddingSettings(decoder="distmult", relations="tokens")


class DETransE(Embedding):
    """`-||s_t + r - o_t||`. Parts: DiachronicEntities, FixedRelations, TranslationDecoder.

    Goel, Kazemi, Brubaker, Poupart: Diachronic Embedding for Temporal Knowledge Graph Completion.
    AAAI 2020. A share of the components of an entity are waves of the year, month and day.
    """

    name = "de-transe"
    summary = "diachronic entities (sine waves of year, month and day) with TransE"
    formula = "-|s_t + r - o_t|"
    time_dependent = "entities"
    reference = _DE
    settings = EmbeddingSettings(decoder="transe", entities="diachronic")
    train_defaults = _BY_TIME


class DEDistMult(Embedding):
    """`<s_t, r, o_t>`. Parts: DiachronicEntities, FixedRelations, DistMultDecoder.

    Goel, Kazemi, Brubaker, Poupart: Diachronic Embedding for Temporal Knowledge Graph Completion.
    AAAI 2020. A share of the components of an entity are waves of the year, month and day.
    """

    name = "de-distmult"
    summary = "diachronic entities (sine waves of year, month and day) with DistMult"
    formula = "<s_t, r, o_t>"
    time_dependent = "entities"
    reference = _DE
    settings = EmbeddingSettings(decoder="distmult", entities="diachronic")
    train_defaults = _BY_TIME


class DESimplE(Embedding):
    """`(<s_head_t, r, o_tail_t> + <o_head_t, r', s_tail_t>) / 2`.

    Parts: DiachronicEntities, FixedRelations, SimplEDecoder.

    Goel, Kazemi, Brubaker, Poupart: Diachronic Embedding for Temporal Knowledge Graph Completion.
    AAAI 2020. A share of the components of an entity are waves of the year, month and day.
    """

    name = "de-simple"
    summary = "diachronic entities (sine waves of year, month and day) with SimplE"
    formula = "(<s_head_t, r, o_tail_t> + <o_head_t, r', s_tail_t>) / 2"
    time_dependent = "entities"
    reference = _DE
    settings = EmbeddingSettings(decoder="simple", entities="diachronic")
    train_defaults = _BY_TIME


class ATiSE_EE(Embedding):  # noqa: N801
    """`-(KL(o_t - s_t, r) + KL(r, o_t - s_t)) / 2`, entities with a trend and a season.

    Parts: AdditiveTimeSeries, GaussianRelations, GaussianDecoder.

    Xu, Nayyeri, Alkhoury, Yazdi, Lehmann: Temporal Knowledge Graph Completion Based on Time Series
    Gaussian Embedding. ISWC 2020.
    """

    name = "atise-ee"
    summary = "entities are Gaussians whose means drift with trend and season"
    formula = "-KL(o_t - s_t, r), both ways"
    time_dependent = "entities"
    reference = _ATISE
    settings = EmbeddingSettings(decoder="gaussian", entities="drifting")
    train_defaults = _BY_TIME


class ATiSE_ER(Embedding):  # noqa: N801
    """`-(KL(o_t - s_t, r_t) + KL(r_t, o_t - s_t)) / 2`, both with a trend and a season.

    Parts: AdditiveTimeSeries, GaussianRelations, GaussianDecoder.

    Xu, Nayyeri, Alkhoury, Yazdi, Lehmann: Temporal Knowledge Graph Completion Based on Time Series
    Gaussian Embedding. ISWC 2020.
    """

    name = "atise-er"
    summary = "entities and relations are Gaussians whose means drift with trend and season"
    formula = "-KL(o_t - s_t, r_t), both ways"
    time_dependent = "entities, relations"
    reference = _ATISE
    settings = EmbeddingSettings(decoder="gaussian", entities="drifting", relations="drifting")
    train_defaults = _BY_TIME


class TComplEx(Embedding):
    """`Re <s, r * tau_t, conj(o)>`. Parts: FixedEntities, FactoredRelations, ComplExDecoder.

    Lacroix, Obozinski, Usunier: Tensor Decompositions for Temporal Knowledge Base Completion.
    ICLR 2020.
    """

    name = "tcomplex"
    summary = "each time step rotates the relations"
    formula = "Re <s, r tau_t, conj(o)>"
    time_dependent = "relations"
    reference = _TNT
    settings = EmbeddingSettings(
        decoder="complex", relations="factored", constant=False, reciprocal=True
    )


class TNTComplEx(Embedding):
    """`Re <s, r' * tau_t + r, conj(o)>`. Parts: FixedEntities, FactoredRelations, ComplExDecoder.

    Lacroix, Obozinski, Usunier: Tensor Decompositions for Temporal Knowledge Base Completion.
    ICLR 2020.
    """

    name = "tntcomplex"
    summary = "one part of each relation rotates with time, another is static"
    formula = "Re <s, r' tau_t + r, conj(o)>"
    time_dependent = "relations"
    reference = _TNT
    settings = EmbeddingSettings(decoder="complex", relations="factored", reciprocal=True)


METHODS: Final[tuple[type[Embedding], ...]] = (
    TransE,
    DistMult,
    ComplEx,
    SimplE,
    TTransE,
    HyTE,
    TADistMult,
    DETransE,
    DEDistMult,
    DESimplE,
    ATiSE_EE,
    ATiSE_ER,
    TComplEx,
    TNTComplEx,
)
"""All methods, in the order of the table of models."""
