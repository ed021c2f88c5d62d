"""A ensemble: trained models side by side, weighed anew for each question by what it is like and how sure they are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, cast

import torch
from torch import Tensor, nn

from tempograph.cache import TensorCache
from tempograph.data.candidate_features import CandidateFeatures
from tempograph.data.frequency import PatternFrequencies
from tempograph.data.timeline import Queries, Timeline
from tempograph.errors import ConfigError
from tempograph.models.base import CrossFitted, Evidence, Model, within_budget
from tempograph.models.ensemble.ensemble_settings import EnsembleSettings
from tempograph.nn.shared_weights import copy_sharing_weights
from tempograph.typing import Split

_LOWEST: Final = -1e4
"""A part that rules an answer out leaves it to the others to compare it with the rest: no weight times infinity."""
_UNLIKELY: Final = -20.0
"""Log-probabilities below are all the same to what looks at candidates."""
_NOTE: Final = (
    "cross-fitted: each half of valid is ranked by a gate that was fitted on the other half"
)


class EnsembleGate(nn.Module):
    """How much the log-probabilities l of each part count, and what is added for a candidate by what is told of it.

    score(o) = sum over parts of w l(o) + v tanh(l(o), what is told of o, what is seen of the question)
    w = sharpness * softmax(MLP(what is seen of the question))

    A gate that is not fitted yet gives equal shares and adds nothing; one without width for candidates never does.
    """

    def __init__(
        self,
        seen: int,
        parts: int,
        hidden: int,
        seed: int = 0,
        candidate_hidden: int = 0,
        told: int = 0,
    ) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(seen, hidden))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Parameter(torch.zeros(hidden, parts))
        self.second_bias = nn.Parameter(torch.zeros(parts))
        self.log_sharpness = nn.Parameter(torch.zeros(()))
        self.centre: Tensor
        self.spread: Tensor
        self.register_buffer("centre", torch.zeros(seen))
        self.register_buffer("spread", torch.ones(seen))
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.first, std=seen**-0.5, generator=generator)
        self.of_candidate: nn.ParameterDict | None = None
        if candidate_hidden:
            widths = {"part_log_probs": parts, "told": told, "seen": seen}
            self.of_candidate = nn.ParameterDict(
                {
                    name: torch.randn(width, candidate_hidden, generator=generator) / width**0.5 / 2
                    for name, width in widths.items()
                }
            )
            self.of_candidate["bias"] = torch.zeros(candidate_hidden)
            self.of_candidate["out"] = torch.zeros(candidate_hidden)

    def forward(self, seen: Tensor) -> Tensor:
        """Weights of the parts, [n, seen] -> [n, parts]."""
        hidden = torch.tanh(self._scaled(seen) @ self.first + self.first_bias)
        return (
            torch.softmax(hidden @ self.second + self.second_bias, dim=-1)
            * self.log_sharpness.exp()
        )

    def mix(self, seen: Tensor, part_log_probs: Tensor, told: Tensor | None) -> Tensor:
        """Scores of candidates from seen [n, seen], part_log_probs [n, candidates, parts] and told [n, candidates, told]."""
        mixed: Tensor = (part_log_probs @ self(seen)[:, :, None])[:, :, 0]
        if self.of_candidate is None or told is None:
            return mixed
        weights = self.of_candidate
        # Of an order of magnitude with what is seen; below, a part has nothing more to tell.
        part_log_probs, told = part_log_probs.clamp(min=_UNLIKELY) / 5, told / 3
        hidden = part_log_probs @ weights["part_log_probs"] + told @ weights["told"]
        hidden = hidden.add_((self._scaled(seen) @ weights["seen"] + weights["bias"])[:, None])
        added: Tensor = torch.tanh(hidden) @ weights["out"]
        return mixed + added

    def _scaled(self, seen: Tensor) -> Tensor:
        return (seen - self.centre) / self.spread


class PartOutputs(NamedTuple):
    """What parts and train facts say about questions."""

    part_log_probs: Tensor
    """The log-probabilities that each part gives, [n, entities, parts]."""
    seen: Tensor
    """What a gate sees of each question, [n, seen]."""
    told: Tensor | None
    """What is told of each candidate, [n, entities, told], where a gate looks at it."""


class Ensemble(Model):
    """Trained models before a gate that weighs their log-probabilities.

    The parts are not the ensemble's own: its weights are those of the gates, fitted on valid by `fit_ensemble`, one on
    all of it and one without each half.
    """

    probabilistic = True

    def __init__(
        self, timeline: Timeline, settings: EnsembleSettings, name: str, *parts: Model
    ) -> None:
        super().__init__()
        for part in parts:
            if not part.probabilistic:
                raise ConfigError(
                    f"{name} mixes probabilities, and the scores of {part.name} are none; leave it out"
                )
            if isinstance(part, Ensemble):
                raise ConfigError(
                    f"{name} is fitted on valid, and so was its part {part.name}; name the parts of it"
                )
        self.name = name
        self.timeline = timeline
        self.settings = settings
        self.parts = parts
        self._count(timeline)
        of_gate = 8 * len(parts) + 12 * settings.candidate_hidden + 64 * self.told
        self.bytes_per_candidate = sum(part.bytes_per_candidate for part in parts) + of_gate
        self.gate = self.new_gate()
        self.without = nn.ModuleList([self.new_gate(), self.new_gate()])
        """Gates that were fitted without each half of valid."""
        self.usual: Tensor
        self.seed: Tensor
        self.register_buffer("usual", torch.full((len(parts),), 1 / len(parts)))
        self.register_buffer("seed", torch.tensor(0))
        self.to(timeline.device)

    def new_gate(self, seed: int = 0) -> EnsembleGate:
        """A gate that is not fitted yet."""
        settings, parts = self.settings, len(self.parts)
        gate = EnsembleGate(
            7 + 2 * parts, parts, settings.hidden, seed, settings.candidate_hidden, self.told
        )
        return gate.to(self.device)

    @property
    def told(self) -> int:
        """How many numbers are told of a candidate."""
        return 0 if self.meetings is None else self.meetings.num_features

    def _count(self, timeline: Timeline) -> None:
        self.frequencies = PatternFrequencies(timeline)
        settings = self.settings
        self.meetings = (
            CandidateFeatures(timeline, settings.through_others)
            if settings.candidate_hidden
            else None
        )

    @property
    def device(self) -> torch.device:
        """Where the timeline and the parts lie."""
        return self.timeline.device

    @property
    def window(self) -> tuple[int, int] | None:
        """The widest window of the parts; None if one of them has no bound."""
        windows = [window for part in self.parts if (window := part.window) is not None]
        if len(windows) < len(self.parts):
            return None
        return max(past for past, _ in windows), max(future for _, future in windows)

    @property
    def caches(self) -> tuple[TensorCache, ...]:
        """The caches of the parts."""
        return tuple(cache for part in self.parts for cache in part.caches)

    @property
    def ranks_relations(self) -> bool:
        """Whether all parts rank relations."""
        return all(part.ranks_relations for part in self.parts)

    @property
    def num_parameters(self) -> int:
        """Number of weights of the gates and of the parts."""
        return super().num_parameters + sum(part.num_parameters for part in self.parts)

    @torch.no_grad()
    def consult(self, queries: Queries) -> PartOutputs:
        """What the parts and the train facts say about questions."""
        return self._consulted(queries, [part.scores(queries) for part in self.parts])

    def _consulted(
        self, queries: Queries, scores: list[Tensor], left_out: Tensor | None = None
    ) -> PartOutputs:
        """What `consult` gives, from the scores of the parts, as if the facts at left_out [n] were not there.

        A gate sees log(1 + frequencies) of the entity, the relation and both, over the whole time and near; the side;
        and for each part the log-probability of its best answer, and how far the second is behind.
        """
        facts = None
        if left_out is not None:
            facts = torch.where(left_out[:, None] < 0, -1, self.timeline.facts[left_out])
        part_log_probs = [torch.log_softmax(each.float(), 1).clamp_(min=_LOWEST) for each in scores]
        counts = [
            self.frequencies.count_queries(queries, reach, reach, facts) for reach in self._reaches
        ]
        side = queries.relation // self.timeline.num_relations
        seen = [torch.cat(counts, 1).float().log1p(), side[:, None].float()]
        for opinion in part_log_probs:
            best = opinion.topk(min(2, opinion.shape[1]), dim=1).values
            seen += [best[:, :1], best[:, :1] - best[:, -1:]]
        told = None if self.meetings is None else self.meetings.compute(queries, left_out)
        return PartOutputs(torch.stack(part_log_probs, 2), torch.cat(seen, 1), told)

    @property
    def _reaches(self) -> tuple[int, int]:
        """Steps on each side in which frequencies are counted: all, and some."""
        return self.timeline.num_steps, self.settings.window

    def scores(self, queries: Queries) -> Tensor:
        """Scores of every entity for each question, [queries, entities]."""
        return self.mix(queries, self.gate)

    @torch.no_grad()
    def mix(self, queries: Queries, gate: EnsembleGate) -> Tensor:
        """Scores by a gate, [queries, entities]."""
        part_log_probs, seen, told = self.consult(queries)
        return gate.mix(seen, part_log_probs, told)

    @torch.no_grad()
    def relation_scores(self, subject: int, object_: int, time: int) -> Tensor:
        """Scores of every relation, [relations], with the mean weights: a gate looks at a relation that is given."""
        part_log_probs = [
            torch.log_softmax(part.relation_scores(subject, object_, time).float(), 0)
            for part in self.parts
        ]
        return self.usual @ torch.stack(part_log_probs).clamp(min=_LOWEST)

    def cross_fitted(self, split: Split, num_facts: int) -> CrossFitted | None:
        """The gates that were fitted without each half of valid rank that half."""
        if split != "valid":
            return None
        ways = tuple(partial(self.mix, gate=cast(EnsembleGate, gate)) for gate in self.without)
        return CrossFitted(ways, halves(num_facts, int(self.seed)).to(self.device), _NOTE)

    def evidence(self, query: Queries, answer: int) -> Evidence:
        """What the part with the largest weight for this question has to say."""
        weights = self.gate(self.consult(query).seen)[0]
        part = self.parts[int(weights.argmax())]
        evidence = part.evidence(query, answer)
        return replace(evidence, reason=f"{part.name}: {evidence.reason}")

    def with_timeline(self, timeline: Timeline, cache_bytes: int = 0) -> Ensemble:
        """The same gate before the same parts over other facts; the parts share the memory equally."""
        twin = copy_sharing_weights(self)
        twin.timeline = timeline
        twin.parts = tuple(
            part.with_timeline(timeline, cache_bytes // len(self.parts)) for part in self.parts
        )
        if timeline is not self.timeline:
            twin._count(timeline)
        return twin

    @torch.no_grad()
    def counterfactual_scores(
        self, query: Queries, left_out: Tensor, candidates: Tensor
    ) -> Tensor | None:
        """Every part without each fact in turn, and the frequencies without it, [1 + n, candidates]."""
        everyone, mixed = torch.arange(self.timeline.num_entities, device=self.device), []
        each = self.bytes_per_candidate * self.timeline.num_entities
        for number, some in enumerate(within_budget(left_out, each)):
            repeated = Queries(*(column.expand(1 + len(some)) for column in query))
            scores = [part.counterfactual_scores(query, some, everyone) for part in self.parts]
            known = [each for each in scores if each is not None]
            if len(known) < len(scores):
                return None
            part_log_probs, seen, told = self._consulted(
                repeated, known, torch.cat([some.new_full((1,), -1), some])
            )
            found = self.gate.mix(seen, part_log_probs, told)[:, candidates]
            mixed.append(found[min(1, number) :])
        return torch.cat(mixed)


def deal(facts: int, seed: int) -> Tensor:
    """The positions of facts in an order of chance, [facts]; every beginning of it has as many facts of each half."""
    return torch.randperm(facts, generator=torch.Generator().manual_seed(seed))


def halves(facts: int, seed: int) -> Tensor:
    """The half of each fact, 0 or 1, [facts]."""
    return torch.empty(facts, dtype=torch.int64).scatter_(
        0, deal(facts, seed), torch.arange(facts) % 2
    )
