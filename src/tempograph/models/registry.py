"""Every model by its name: its settings, how it is built, how it is fitted, what it computes and who published it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tempograph.errors import refuse_unknown
from tempograph.models.base import Model
from tempograph.models.embedding.embedding import Embedding
from tempograph.models.embedding.embedding_settings import EmbeddingSettings
from tempograph.models.ensemble.ensemble import Ensemble
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.models.pointer.pointer import Pointer, PointerSettings
from tempograph.models.ted import TED, TEDSettings
from tempograph.models.temp.temp import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings


@dataclass(frozen=True)
class ModelKind:
    """What the rest of the package needs to know of a kind of model.

    How it is trained is in `training.recipes`, by the type of its settings.
    """

    name: str
    summary: str
    score: str
    """The score of (s, r, o, t), for the table of models."""
    timed: str
    """What depends on time."""
    reference: str
    settings: type[Any]
    build: Callable[..., Model]
    """From settings, timeline and, where it is made of parts, each of these."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Where the settings of this model differ from the defaults of their class."""
    train_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Where its training differs from the defaults of the training settings."""
    has_parts: bool = False
    """Whether it is made of other trained models, which its setting `parts` names."""


def _temp(name: str, summary: str, timed: str, **defaults: Any) -> ModelKind:
    return ModelKind(
        name=name,
        summary=summary,
        score="Re <s_t, r, conj(o_t)>",
        timed=timed,
        reference="Wu et al., EMNLP 2020",
        settings=TeMPSettings,
        build=lambda settings, timeline: TeMP(timeline, settings, name),
        defaults=defaults,
    )


def _embedding(
    name: str,
    summary: str,
    score: str,
    timed: str,
    reference: str,
    *,
    by_time: bool = False,
    **defaults: Any,
) -> ModelKind:
    return ModelKind(
        name=name,
        summary=summary,
        score=score,
        timed=timed,
        reference=reference,
        settings=EmbeddingSettings,
        build=lambda settings, timeline: Embedding(timeline, settings, name),
        train_defaults={"batch": "times"} if by_time else {},
        defaults=defaults,
    )


def _ensemble(
    name: str, summary: str, timed: str, reference: str, *parts: str, candidate_hidden: int = 0
) -> ModelKind:
    return ModelKind(
        name=name,
        summary=summary,
        score="sum of w_part(s, r, t) log p_part(o)"
        + (" + g(s, r, o, t)" if candidate_hidden else ""),
        timed=timed,
        reference=reference,
        settings=EnsembleSettings,
        build=lambda settings, timeline, *models: Ensemble(timeline, settings, name, *models),
        has_parts=True,
        defaults={
            "parts": parts,
            "candidate_hidden": candidate_hidden,
            "through_others": candidate_hidden > 0,
        },
    )


_TRANSE: Final = "Bordes et al., NIPS 2013"
_DE: Final = "Goel et al., AAAI 2020"
_ATISE: Final = "Xu et al., ISWC 2020"
_TNT: Final = "Lacroix et al., ICLR 2020"

MODELS: Final = {
    kind.name: kind
    for kind in (
        ModelKind(
            name="ted",
            summary="copy what happened near in time: counts that decay exponentially",
            score="sum of exp(-sigma |t - t'|)",
            timed="counts",
            reference="Wu et al., EMNLP 2020",
            settings=TEDSettings,
            build=lambda settings, timeline: TED(timeline, settings.sigma),
        ),
        _embedding(
            "transe",
            "a relation is a translation",
            "-|s + r - o|",
            "nothing",
            _TRANSE,
            decoder="transe",
        ),
        _embedding(
            "distmult",
            "a relation weighs the product of two entities",
            "<s, r, o>",
            "nothing",
            "Yang et al., ICLR 2015",
            decoder="distmult",
        ),
        _embedding(
            "complex",
            "a relation weighs and turns the product of two entities",
            "Re <s, r, conj(o)>",
            "nothing",
            "Trouillon et al., ICML 2016",
            decoder="complex",
        ),
        _embedding(
            "simple",
            "an entity has a vector as subject and one as object",
            "(<s_head, r, o_tail> + <o_head, r', s_tail>) / 2",
            "nothing",
            "Kazemi and Poole, NeurIPS 2018",
            decoder="simple",
        ),
        _embedding(
            "ttranse",
            "a relation and a time are translations",
            "-|s + r + tau_t - o|",
            "relations",
            "Leblay and Chekol, WWW 2018",
            decoder="transe",
            relations="shifted",
        ),
        _embedding(
            "hyte",
            "translation on a plane of each time",
            "-|P_t (s + r - o)|",
            "entities, relations",
            "Dasgupta et al., EMNLP 2018",
            by_time=True,
            decoder="transe",
            entities="projected",
            relations="projected",
        ),
        _embedding(
            "ta-distmult",
            "an LSTM reads the relation and the digits of the date",
            "<s, LSTM(r, date), o>",
            "relations",
            "Garcia-Duran et al., EMNLP 2018",
            decoder="distmult",
            relations="tokens",
        ),
        _embedding(
            "de-transe",
            "entities are partly waves of year, month and day; translation",
            "-|s_t + r - o_t|",
            "entities",
            _DE,
            by_time=True,
            decoder="transe",
            entities="diachronic",
        ),
        _embedding(
            "de-distmult",
            "entities are partly waves of year, month and day; products",
            "<s_t, r, o_t>",
            "entities",
            _DE,
            by_time=True,
            decoder="distmult",
            entities="diachronic",
        ),
        _embedding(
            "de-simple",
            "entities are partly waves of year, month and day; a vector for each side",
            "(<s_head_t, r, o_tail_t> + <o_head_t, r', s_tail_t>) / 2",
            "entities",
            _DE,
            by_time=True,
            decoder="simple",
            entities="diachronic",
        ),
        _embedding(
            "atise-ee",
            "entities are Gaussians whose means drift by trend and season",
            "-KL(o_t - s_t, r), both ways",
            "entities",
            _ATISE,
            by_time=True,
            decoder="gaussian",
            entities="drifting",
        ),
        _embedding(
            "atise-er",
            "relations are Gaussians whose means drift by trend and season",
            "-KL(o - s, r_t), both ways",
            "relations",
            _ATISE,
            decoder="gaussian",
            relations="drifting",
        ),
        _embedding(
            "tcomplex",
            "each time turns the relations",
            "Re <s, r tau_t, conj(o)>",
            "relations",
            _TNT,
            decoder="complex",
            relations="factored",
            constant=False,
            reciprocal=True,
        ),
        _embedding(
            "tntcomplex",
            "a part of each relation turns with time, another does not",
            "Re <s, r' tau_t + r, conj(o)>",
            "relations",
            _TNT,
            decoder="complex",
            relations="factored",
            reciprocal=True,
        ),
        ModelKind(
            name="pointer",
            summary="learned copying: facts near the question vote for their candidates",
            score="P[r, o] + sum over sources of u_r log(1 + c_r sum of exp(A[r, r'] + B[r, t' - t] + ...))",
            timed="votes",
            reference="ours, after the outlook of Wu et al., EMNLP 2020",
            settings=PointerSettings,
            build=lambda settings, timeline: Pointer(timeline, settings),
        ),
        _temp(
            "srgcn",
            "message passing in the snapshot asked about, and nothing else",
            "entities, in their snapshot",
            temporal="none",
            gate=False,
            imputation=False,
        ),
        _temp(
            "temp-gru",
            "message passing in each snapshot, a recurrent memory across them",
            "entities, in their window",
            temporal="gru",
        ),
        _temp(
            "temp-sa",
            "message passing in each snapshot, attention across them",
            "entities, in their window",
            temporal="attention",
        ),
        _ensemble(
            "ensemble",
            "a static and a temporal model, weighed by the frequencies of the question",
            "weights, one of two parts",
            "Wu et al., EMNLP 2020",
            "complex",
            "temp-gru",
        ),
        _ensemble(
            "temp-pointer",
            "copying, message passing and factors of time, weighed by the frequencies of the question",
            "weights, all parts",
            "ours",
            "pointer",
            "temp-gru",
            "tntcomplex",
            candidate_hidden=32,
        ),
    )
}


def model_kind(name: str) -> ModelKind:
    """The kind of model with this name."""
    refuse_unknown("model", name, MODELS)
    return MODELS[name]
