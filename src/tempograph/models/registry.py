"""Every model by its name: its settings, how it is built, how it is fitted, what it computes and who published it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tempograph.errors import refuse_unknown
from tempograph.models.base import Model
from tempograph.models.embedding.embedding import Embedding
from tempograph.models.embedding.embedding_settings import EmbeddingSettings
from tempograph.models.embedding.methods import METHODS
from tempograph.models.ensemble.ensemble import Ensemble
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.models.pointer.pointer import Pointer, PointerSettings
from tempograph.models.ted import TED, TEDSettings
from tempograph.models.temp.temp_model import TeMP
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


def _embedding(method: type[Embedding]) -> ModelKind:
    return ModelKind(
        name=method.name,
        summary=method.summary,
        score=method.formula,
        timed=method.time_dependent,
        reference=method.reference,
        settings=EmbeddingSettings,
        build=lambda settings, timeline: method(timeline, settings),
        defaults=vars(method.settings),
        train_defaults=method.train_defaults,
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
        *map(_embedding, METHODS),
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
