"""Ensembles: trained models whose log-probabilities a gate weighs for each query."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from tempograph.cache import TensorCache
from tempograph.data.candidate_features import CandidateFeatures
from tempograph.data.frequency import PatternFrequencies
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import ConfigError
from tempograph.models.base import CrossFitted, Evidence, Model, within_budget
from tempograph.models.ensemble.ensemble_gate import EnsembleGate, PartOutputs
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.typing import Split

_LOWEST: Final = -1e4
"""Log-probability of an answer that a part rules out: finite, so that others can rank it."""
_VALID_NOTE: Final = (
    "cross-fitted: each half of valid is ranked by a gate that was fitted on the other half"
)
_OTHER_NOTE: Final = "the gate of the ensemble was fitted on valid facts (fit_on=valid)"
_EARLIER_KEYS: Final = {
    "without.": "half_gates.",
    "of_candidate.opinions": "correction.part_log_probs",
    "of_candidate.told": "correction.candidate_features",
    "of_candidate.seen": "correction.query_features",
    "of_candidate.": "correction.",
}
"""Names of weights in files of earlier versions."""
_UNUSED_KEYS: Final = ("usual", "mean_weights")
"""Weights in files of earlier versions, which ranked relations by them."""


class Ensemble(Model):
    """score(o) = `EnsembleGate.combine` of the log-probabilities of trained parts.

    The parts are not submodules. The weights are those of the gate, which `fit_ensemble` fits on
    facts that the parts are not trained on. If these are the valid facts, there are two more gates,
    each fitted without one half of them, to rank that half.
    """

    probabilistic = True

    def __init__(
        self, timeline: Timeline, settings: EnsembleSettings, name: str, *parts: Model
    ) -> None:
        super().__init__()
        for part in parts:
            if not part.probabilistic:
                raise ConfigError(
                    f"{name} combines probabilities, and {part.name} does not give any; "
                    "leave it out"
                )
            if isinstance(part, Ensemble):
                raise ConfigError(
                    f"{name} cannot have another ensemble, {part.name}, as a part; "
                    "name the parts of it"
                )
        self.name = name
        self.timeline = timeline
        self.settings = settings
        self.parts = parts
        self._index(timeline)
        gate_bytes = (
            8 * len(parts) + 12 * settings.candidate_hidden + 64 * self._num_candidate_features
        )
        self.bytes_per_candidate = sum(part.bytes_per_candidate for part in parts) + gate_bytes
        self.gate = self.new_gate()
        on_valid = settings.fit_on == "valid"
        self.half_gates = nn.ModuleList([self.new_gate(), self.new_gate()] if on_valid else [])
        """Gates fitted without each half of valid."""
        self.note = _OTHER_NOTE if on_valid else None
        self.seed: Tensor
        self.register_buffer("seed", torch.tensor(0))
        self.register_load_state_dict_pre_hook(_rename_earlier_keys)
        self.to(timeline.device)

    def new_gate(self, seed: int = 0) -> EnsembleGate:
        """A gate that is not fitted yet."""
        gate = EnsembleGate(
            query_features=7 + 2 * len(self.parts),
            parts=len(self.parts),
            hidden=self.settings.hidden,
            seed=seed,
            candidate_hidden=self.settings.candidate_hidden,
            candidate_features=self._num_candidate_features,
        )
        return gate.to(self.device)

    def _index(self, timeline: Timeline) -> None:
        self.frequencies = PatternFrequencies(timeline)
        self.candidate_features = None
        if self.settings.candidate_hidden:
            neighbors = self.settings.common_neighbors and not timeline.past_only
            self.candidate_features = CandidateFeatures(timeline, neighbors, self.settings.names)

    @property
    def _num_candidate_features(self) -> int:
        return 0 if self.candidate_features is None else self.candidate_features.num_features

    @property
    def window(self) -> tuple[int, int] | None:
        """The widest window of the parts; None if one of them has no bound."""
        windows = [window for part in self.parts if (window := part.window) is not None]
        if len(windows) < len(self.parts):
            return None
        return max(past for past, _ in windows), max(future for _, future in windows)

    @property
    def caches(self) -> tuple[TensorCache, ...]:
        return tuple(cache for part in self.parts for cache in part.caches)

    @property
    def num_parameters(self) -> int:
        return super().num_parameters + sum(part.num_parameters for part in self.parts)

    def scores(self, queries: Queries) -> Tensor:
        return self.combine(queries, self.gate)

    @torch.no_grad()
    def combine(self, queries: Queries, gate: EnsembleGate) -> Tensor:
        """Scores by a gate, [queries, entities]."""
        return gate.combine(self.part_outputs(queries))

    @torch.no_grad()
    def part_outputs(self, queries: Queries) -> PartOutputs:
        """What a gate combines for each query, of all entities."""
        return self._part_outputs(queries, [part.scores(queries) for part in self.parts])

    def _part_outputs(
        self, queries: Queries, scores: list[Tensor], left_out: Tensor | None = None
    ) -> PartOutputs:
        """`part_outputs` from the scores of the parts, without the train facts left_out [n].

        Query features: log(1 + frequency) of the entity, the relation and both, over all time and
        in the window; the side; the best log-probability of each part and its lead.
        """
        timeline, facts = self.timeline, None
        if left_out is not None:
            facts = torch.where(left_out[:, None] < 0, -1, timeline.rows[left_out])
        log_probs = [torch.log_softmax(each.float(), 1).clamp_(min=_LOWEST) for each in scores]
        frequencies = [
            self.frequencies.count_queries(queries, window, future, facts)
            for window in (timeline.num_steps, self.settings.window)
            for future in (0 if timeline.past_only else window,)
        ]
        side = queries.relation // timeline.num_relations
        features = [torch.cat(frequencies, 1).float().log1p(), side[:, None].float()]
        for each in log_probs:
            best = each.topk(min(2, each.shape[1]), dim=1).values
            features += [best[:, :1], best[:, :1] - best[:, -1:]]
        candidate_features = None
        if self.candidate_features is not None:
            candidate_features = self.candidate_features.compute(queries, left_out)
        return PartOutputs(torch.stack(log_probs, 2), torch.cat(features, 1), candidate_features)

    def cross_fitted(self, split: Split, num_facts: int) -> CrossFitted | None:
        """For valid, if the gate was fitted on it: each half by the gate of the other half."""
        if split != "valid" or self.settings.fit_on != "valid":
            return None
        scorers = tuple(
            partial(self.combine, gate=cast(EnsembleGate, gate)) for gate in self.half_gates
        )
        half = assign_halves(num_facts, int(self.seed)).to(self.device)
        return CrossFitted(scorers, half, _VALID_NOTE)

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """The evidence of the part with the largest weight for this query."""
        weights = self.gate(self.part_outputs(query).query_features)[0]
        part = self.parts[int(weights.argmax())]
        evidence = part.evidence(query, answer)
        return replace(evidence, reason=f"{part.name}: {evidence.reason}")

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> Ensemble:
        """The same gates and parts over other facts; the parts share the cache equally."""
        twin = copy_sharing_weights(self)
        twin.timeline = timeline
        twin.parts = tuple(
            part.with_timeline(timeline, cache_bytes // len(self.parts)) for part in self.parts
        )
        if timeline is not self.timeline:
            twin._index(timeline)
        return twin

    @torch.no_grad()
    def counterfactual_scores(
        self, query: Queries, left_out: Tensor, candidates: Tensor
    ) -> Tensor | None:
        everyone, combined = torch.arange(self.timeline.num_entities, device=self.device), []
        bytes_each = self.bytes_per_candidate * self.timeline.num_entities
        for number, facts in enumerate(within_budget(left_out, bytes_each)):
            scores = [part.counterfactual_scores(query, facts, everyone) for part in self.parts]
            known = [each for each in scores if each is not None]
            if len(known) < len(scores):
                return None
            repeated = Queries(*(column.expand(1 + len(facts)) for column in query))
            with_all = torch.cat([facts.new_full((1,), -1), facts])
            outputs = self._part_outputs(repeated, known, with_all)
            # The scores with all facts are the first row of every chunk, and are needed once.
            combined.append(self.gate.combine(outputs)[min(1, number) :, candidates])
        return torch.cat(combined)


def shuffle_facts(num_facts: int, seed: int) -> Tensor:
    """Positions of facts in random order, [facts]; every prefix has as many facts of each half."""
    return torch.randperm(num_facts, generator=torch.Generator().manual_seed(seed))


def assign_halves(num_facts: int, seed: int) -> Tensor:
    """The random half of each fact, 0 or 1, [facts]."""
    order, half = shuffle_facts(num_facts, seed), torch.arange(num_facts) % 2
    return torch.empty(num_facts, dtype=torch.int64).scatter_(0, order, half)


def _rename_earlier_keys(_: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for key in _UNUSED_KEYS:
        state.pop(key, None)
    for key in list(state):
        renamed = key
        for old, new in _EARLIER_KEYS.items():
            renamed = renamed.replace(old, new)
        state[renamed] = state.pop(key)
