"""All snapshots as one graph on one device: who is active when, edges by time, windows as contiguous ranges."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tempograph.data.graph import Facts, TemporalGraph, in_order_of_time
from tempograph.data.sorted_ranges import Ranges, key_range
from tempograph.errors import refuse_unknown
from tempograph.typing import PROTOCOLS, Protocol


class Queries(NamedTuple):
    """Questions (entity, relation, ?, time), [n] each; relation r + |R| is r inverted and asks for the subject."""

    entity: Tensor
    relation: Tensor
    time: Tensor

    def take(self, index: Tensor) -> Queries:
        """Some of the questions."""
        return Queries(self.entity[index], self.relation[index], self.time[index])


def both_directions(facts: Tensor, num_relations: int) -> Tensor:
    """Each fact as an object question with its answer, then each inverted, asking its subject.   [n, 4] -> [2n, 4]."""
    subject, relation, object_, time = facts.unbind(1)
    return torch.cat(
        [facts, torch.stack([object_, relation + num_relations, subject, time], dim=1)]
    )


def both_questions(facts: Tensor, num_relations: int) -> tuple[Queries, Tensor]:
    """Both questions of each fact, objects first, and their answers.   [n, 4] -> [2n] each."""
    given, relation, answer, time = both_directions(facts, num_relations).unbind(1)
    return Queries(given, relation, time), answer


def answered(asked: Tensor, num_relations: int) -> Tensor:
    """The facts that rows (given, relation, answer, time) stand for, of either direction.   [n, 4] -> [n, 4]."""
    given, relation, answer, time = asked.unbind(1)
    inverted = relation >= num_relations
    subject, object_ = torch.where(inverted, answer, given), torch.where(inverted, given, answer)
    return torch.stack([subject, relation % num_relations, object_, time], dim=1)


class Timeline:
    """Everything a model may know of a dataset: the train facts, and which entity is active at which step.

    Under `strict` an entity is active at t when a train fact at t names it. Under `paper` facts of valid and test
    count as well, as they do in the authors' code: a leak, kept only to stand beside the published table.

    A pair (entity, step) has the key entity * steps + step. `pair_keys` holds the active ones in order, so the active
    steps of one entity inside any window are a contiguous range of `pair_entity` and `pair_time`.
    """

    def __init__(
        self,
        graph: TemporalGraph,
        protocol: Protocol = "strict",
        device: torch.device | str = "cpu",
    ) -> None:
        refuse_unknown("protocol", protocol, PROTOCOLS)
        self.protocol: Protocol = protocol
        self.device = torch.device(device)
        self.sizes = graph.sizes
        self.num_entities, self.num_relations, _, self.num_steps = graph.sizes
        self.labels = graph.times

        self.facts = torch.from_numpy(in_order_of_time(graph.train)).to(self.device)
        """Train facts ordered by time, each once, [facts, 4]: the edges of all snapshots."""
        steps = torch.arange(self.num_steps + 1, device=self.device)
        self.step_start = torch.searchsorted(self.facts[:, 3].contiguous(), steps)
        """Edges of step t are facts[step_start[t]:step_start[t + 1]], [steps + 1]."""

        named = _named_pairs(graph.train, self.num_steps)
        hidden = np.concatenate(
            [
                graph.train[:0] if protocol == "strict" else facts
                for facts in (graph.valid, graph.test)
            ]
        )
        also = _named_pairs(hidden, self.num_steps)
        self.also_active = torch.from_numpy(also).to(self.device)
        """Keys of the pairs that are active whatever the train facts are: those of valid and test under `paper`."""
        self.pair_keys = torch.from_numpy(np.union1d(named, also)).to(self.device)
        self.pair_entity = self.pair_keys // self.num_steps
        self.pair_time = self.pair_keys % self.num_steps

        subject, _, object_, time = self.facts.unbind(1)
        self.subject_pair = torch.searchsorted(self.pair_keys, self._key(subject, time))
        """The active pair of each train fact's subject at its time, [facts]."""
        self.object_pair = torch.searchsorted(self.pair_keys, self._key(object_, time))
        """The active pair of each train fact's object at its time, [facts]."""

    @cached_property
    def busiest(self) -> int:
        """The most train facts of a step."""
        return int(self.step_start.diff().max())

    def edges(self, times: Tensor) -> tuple[Tensor, Tensor]:
        """The edges of some snapshots as (row in times, position in facts), each [edges]."""
        return Ranges(self.step_start[times], self.step_start[times + 1]).expand()

    def window(self, entity: Tensor, first: Tensor, last: Tensor) -> Ranges:
        """The active steps of each entity from first to last, both included, as ranges of pair_time, [n]."""
        return key_range(
            self.pair_keys,
            self._key(entity, first.clamp(min=0)),
            self._key(entity, last.clamp(max=self.num_steps - 1)),
        )

    def _key(self, entity: Tensor, time: Tensor) -> Tensor:
        return entity * self.num_steps + time


def _named_pairs(facts: Facts, num_steps: int) -> Facts:
    """The keys of all (entity, step) that some fact names, sorted, [pairs]."""
    return np.unique(facts[:, [0, 2]] * num_steps + facts[:, [3]])
