"""Every model by its name: what it computes, who published it, its settings and how it is built.

Another package adds a model as a `ModelKind` in the entry point group `tempograph.models`:

    [project.entry-points."tempograph.models"]
    popular = "mypackage.popular:KIND"

The same module registers how the model is trained, with `training.recipes.register_recipe`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from tempograph.data.suggestions import refuse_unknown
from tempograph.errors import ConfigError
from tempograph.models.base import Model
from tempograph.models.embedding.embedding_model import Embedding
from tempograph.models.embedding.embedding_settings import EmbeddingSettings
from tempograph.models.embedding.methods import METHODS
from tempograph.models.ensemble.ensemble_model import Ensemble
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.ted import TED, TEDSettings
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings

ENTRY_POINTS: Final = "tempograph.models"
_PAPER: Final = "Wu et al., EMNLP 2020"


@dataclass(frozen=True)
class ModelKind:
    """A model in the registry; `training.recipes` says how it is trained, by its settings."""

    name: str
    summary: str
    formula: str
    """The score of (s, r, o, t), for the table of models."""
    time_dependent: str
    """What depends on time."""
    reference: str
    settings: type[Any]
    """A frozen dataclass; it may name earlier spellings of its settings in a ClassVar `aliases`."""
    build: Callable[..., Model]
    """Called with settings, timeline and, if it has parts, each of them."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the defaults of their class."""
    train_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Training settings that differ from the defaults of their class."""
    has_parts: bool = False
    """Whether it combines other trained models, which its setting `parts` names."""


class ModelRegistry(Mapping[str, ModelKind]):
    """Kinds of models by name: those of this package, then those of entry points, loaded once."""

    def __init__(self, kinds: Iterable[ModelKind]) -> None:
        self._own = {kind.name: kind for kind in kinds}

    @cached_property
    def _kinds(self) -> dict[str, ModelKind]:
        kinds = dict(self._own)
        for entry in entry_points(group=ENTRY_POINTS):
            kind = _load(entry)
            if kind.name in kinds:
                raise ConfigError(f"{_source(entry)} adds a model '{kind.name}', which exists")
            kinds[kind.name] = kind
        return kinds

    def __getitem__(self, name: str) -> ModelKind:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


def _load(entry: EntryPoint) -> ModelKind:
    try:
        kind = entry.load()
        if not isinstance(kind, ModelKind):
            raise TypeError(f"it is not a ModelKind but {type(kind).__name__}")
    except Exception as error:
        raise ConfigError(
            f"{_source(entry)} cannot be loaded ({type(error).__name__}: {error}); "
            "update or uninstall the package"
        ) from error
    return kind


def _source(entry: EntryPoint) -> str:
    package = "an unknown package" if entry.dist is None else f"package '{entry.dist.name}'"
    return f"{package}: entry point {entry.name} = {entry.value}"


def _embedding(method: type[Embedding]) -> ModelKind:
    return ModelKind(
        name=method.name,
        summary=method.summary,
        formula=method.formula,
        time_dependent=method.time_dependent,
        reference=method.reference,
        settings=EmbeddingSettings,
        build=lambda settings, timeline: method(timeline, settings),
        defaults=vars(method.settings),
        train_defaults=method.train_defaults,
    )


def _temp(name: str, summary: str, time_dependent: str, **defaults: Any) -> ModelKind:
    return ModelKind(
        name=name,
        summary=summary,
        formula="Re <s_t, r, conj(o_t)>",
        time_dependent=time_dependent,
        reference=_PAPER,
        settings=TeMPSettings,
        build=lambda settings, timeline: TeMP(timeline, settings, name),
        defaults=defaults,
    )


def _ensemble(
    name: str,
    summary: str,
    time_dependent: str,
    reference: str,
    *parts: str,
    candidate_hidden: int = 0,
) -> ModelKind:
    correction = " + g(s, r, o, t)" if candidate_hidden else ""
    return ModelKind(
        name=name,
        summary=summary,
        formula=f"sum of w_part(s, r, t) log p_part(o){correction}",
        time_dependent=time_dependent,
        reference=reference,
        settings=EnsembleSettings,
        build=lambda settings, timeline, *models: Ensemble(timeline, settings, name, *models),
        defaults={
            "parts": parts,
            "candidate_hidden": candidate_hidden,
            "common_neighbors": candidate_hidden > 0,
        },
        has_parts=True,
    )


MODELS: Final = ModelRegistry(
    (
        ModelKind(
            name="ted",
            summary="copies facts near in time, with counts that decay exponentially",
            formula="sum of exp(-sigma |t - t'|)",
            time_dependent="counts",
            reference=_PAPER,
            settings=TEDSettings,
            build=lambda settings, timeline: TED(timeline, settings.sigma),
        ),
        *map(_embedding, METHODS),
        ModelKind(
            name="pointer",
            summary="learns what to copy: facts related to the query vote for candidates",
            formula="P[r, o] + sum over sources of u_r log(1 + c_r sum of "
            "exp(A[r, r'] + B[r, t' - t] + ...))",
            time_dependent="votes",
            reference="ours, after an idea in Wu et al., EMNLP 2020",
            settings=PointerSettings,
            build=lambda settings, timeline: Pointer(timeline, settings),
        ),
        _temp(
            "srgcn",
            "message passing in the snapshot of the query only",
            "entities, by snapshot",
            temporal="none",
            gate=False,
            imputation=False,
        ),
        _temp(
            "temp-gru",
            "message passing in each snapshot, a GRU across snapshots",
            "entities, by window",
            temporal="gru",
        ),
        _temp(
            "temp-sa",
            "message passing in each snapshot, attention across snapshots",
            "entities, by window",
            temporal="attention",
        ),
        _ensemble(
            "ensemble",
            "a static and a temporal model, weighted by the frequencies of the query",
            "weights and one of two parts",
            _PAPER,
            "complex",
            "temp-gru",
        ),
        _ensemble(
            "temp-pointer",
            "pointer, TeMP-GRU and TNTComplEx, weighted by the frequencies of the query",
            "weights and all parts",
            "ours",
            "pointer",
            "temp-gru",
            "tntcomplex",
            candidate_hidden=32,
        ),
    )
)
"""Models by name."""


def model_kind(name: str) -> ModelKind:
    """The kind of model with this name."""
    refuse_unknown("model", name, MODELS)
    return MODELS[name]
