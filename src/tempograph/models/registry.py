"""Every model by its name: what it computes, who published it, its settings and how it is built.

Another package adds a model as a `ModelKind` in the entry point group `tempograph.models`:

    [project.entry-points."tempograph.models"]
    popular = "mypackage.popular:KIND"

The same module registers how the model is trained, with `training.recipes.register_recipe`. An
entry point that cannot be used is an error where its model is asked for, and else a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from tempograph.data.suggestions import refuse_unknown
from tempograph.errors import ConfigError, TempographWarning
from tempograph.models.base import Model
from tempograph.models.embedding.embedding_model import Embedding, can_shard
from tempograph.models.embedding.embedding_settings import EmbeddingSettings
from tempograph.models.embedding.methods import METHODS
from tempograph.models.ensemble.ensemble_model import Ensemble
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.models.pointer.pointer_model import Pointer, PointerSettings
from tempograph.models.recurrency import Recurrency, RecurrencySettings
from tempograph.models.ted import TED, TEDSettings
from tempograph.models.temp.temp_model import TeMP
from tempograph.models.temp.temp_settings import TeMPSettings
from tempograph.typing import MODEL_ENTRY_POINTS

_PAPER: Final = "Wu et al., EMNLP 2020"
_RECURRENCY: Final = "Gastinger et al., IJCAI 2024"
_EDGEBANK: Final = "Poursafaei et al., NeurIPS 2022"
_MAX_REASON: Final = 300
"""How much of the reason why a module cannot be loaded is shown."""


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
    can_shard: Callable[[Any], bool] | None = None
    """Called with settings: whether `build` takes `shards` to build a model with sharded tables."""
    has_parts: bool = False
    """Whether it combines other trained models, which its setting `parts` names."""


class ModelRegistry(Mapping[str, ModelKind]):
    """Kinds of models by name: those of this package, then those of entry points, loaded once.

    Entry points that cannot be used are left out, with one warning for each.
    """

    def __init__(self, kinds: Iterable[ModelKind]) -> None:
        self._own = {kind.name: kind for kind in kinds}
        self._packages: dict[str, str] = {}
        self._problems: dict[str, str] = {}
        self._warned = False

    @cached_property
    def _kinds(self) -> dict[str, ModelKind]:
        kinds, packages, problems = dict(self._own), dict[str, str](), dict[str, str]()
        for entry in entry_points(group=MODEL_ENTRY_POINTS):
            try:
                kind = _load(entry)
                if kind.name in kinds:
                    raise ConfigError(
                        f"{_source(entry)} adds a model '{kind.name}', which exists already; "
                        "rename it, or uninstall the package"
                    )
            except ConfigError as error:
                problems[entry.name] = str(error)
                continue
            kinds[kind.name], packages[kind.name] = kind, _package(entry)
        # A module may use the registry while it is loaded from here: what is found last is whole.
        self._packages, self._problems, self._warned = packages, problems, False
        return kinds

    def problem(self, name: str) -> str | None:
        """Why the model of an entry point cannot be used; None if it can, or is not known."""
        return None if name in self._kinds else self._problems.get(name)

    def package(self, name: str) -> str | None:
        """The package that adds a model, as messages name it; None for our own."""
        return self._packages.get(name) if name in self._kinds else None

    def _usable(self) -> dict[str, ModelKind]:
        kinds = self._kinds
        if not self._warned:
            self._warned = True
            for problem in self._problems.values():
                warnings.warn(problem, TempographWarning, stacklevel=3)
        return kinds

    def __getitem__(self, name: str) -> ModelKind:
        return self._usable()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._usable())

    def __len__(self) -> int:
        return len(self._usable())


def _load(entry: EntryPoint) -> ModelKind:
    """The kind of model behind an entry point."""
    way_out = "update or uninstall the package"
    try:
        kind = entry.load()
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"{_source(entry)} cannot be loaded ({reason[:_MAX_REASON]}); {way_out}"
        ) from error
    if not isinstance(kind, ModelKind):
        raise ConfigError(
            f"{_source(entry)} is not a ModelKind but {type(kind).__name__}; {way_out}"
        )
    if kind.name != entry.name:
        raise ConfigError(
            f"{_source(entry)} adds a model of another name, '{kind.name}'; "
            "give both the same name, or uninstall the package"
        )
    if not (isinstance(kind.settings, type) and is_dataclass(kind.settings)):
        raise ConfigError(
            f"{_source(entry)}: the settings of a model must be a dataclass, "
            f"found {kind.settings!r}; {way_out}"
        )
    return kind


def _package(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else f"package '{entry.dist.name}'"


def _source(entry: EntryPoint) -> str:
    return f"{_package(entry)}: entry point {entry.name} = {entry.value}"


def _embedding(method: type[Embedding]) -> ModelKind:
    return ModelKind(
        name=method.name,
        summary=method.summary,
        formula=method.formula,
        time_dependent=method.time_dependent,
        reference=method.reference,
        settings=EmbeddingSettings,
        build=lambda settings, timeline, shards=None: method(timeline, settings, shards=shards),
        can_shard=can_shard,
        defaults=vars(method.settings),
        train_defaults=method.train_defaults,
    )


def _recurrency(name: str, summary: str, **defaults: Any) -> ModelKind:
    formula = "sum of 2^(-decay_r (t - t')) + w_r share(o)"
    if not defaults.get("fit", True):
        formula = "1 if it is a past fact" if "repeats" in defaults else "number of past facts"
    return ModelKind(
        name=name,
        summary=summary,
        formula=formula,
        time_dependent="counts",
        reference=_EDGEBANK if name == "edgebank" else _RECURRENCY,
        settings=RecurrencySettings,
        build=lambda settings, timeline: Recurrency(timeline, settings, name),
        defaults=defaults,
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
        _recurrency("recurrency", "repeats past facts, weighted by age; chosen for each relation"),
        _recurrency(
            "edgebank", "repeats past facts, whenever and however often", repeats="any", fit=False
        ),
        _recurrency("history-frequency", "repeats the most frequent past facts", fit=False),
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
    if problem := MODELS.problem(name):
        raise ConfigError(problem)
    refuse_unknown("model", name, MODELS)
    return MODELS[name]
