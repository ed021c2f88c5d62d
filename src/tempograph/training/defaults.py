"""Settings that suit the data and the device, for runs without a preset."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch

from tempograph.data.common_neighbors import pair_tables_fit
from tempograph.data.graph import TemporalGraph
from tempograph.data.name_tokens import share_words
from tempograph.device import memory_budget
from tempograph.models.registry import MODELS, ModelKind
from tempograph.models.sparse_scores import MANY_ENTITIES
from tempograph.training.setting_values import Setting, SettingTables
from tempograph.typing import Task

Suggest = Callable[[ModelKind, TemporalGraph, torch.device, Task], SettingTables]
"""From a kind of model, the data, the device and the task to the tables of a preset."""

_TEMP_STEPS: Final = 2270
"""Training steps of TeMP after which validation MRR hardly rises."""
_MANY_NEGATIVES: Final = 2000
"""Negatives of TeMP for each time and side with many entities."""
_ROWS_PER_FACT: Final = 8
"""Nodes of snapshots that a step of TeMP encodes for each fact it asks about, roughly."""
_CPU_FACTS: Final = 300_000
"""Facts, over all epochs, that the pointer is trained on on a CPU: some minutes on two cores."""
_CPU_CANDIDATE_FACTS: Final = 100_000
"""Facts up to which a CPU looks at what each candidate did: the time grows with their square."""
_MAX_FACTORED: Final = 5_000_000_000
"""Entities scored for train facts in an epoch, from which factored embeddings take most of the time
of an ensemble: it does without."""
_SAMPLED: Final = 4096
"""Negatives of a step on a GPU, if training samples them."""
_MAX_SAMPLED_DIM: Final = 1000
"""The widest factored embeddings of many entities, which have few facts each."""
_FEW_FACTS: Final = 5.0
"""Train facts for each entity below which a weight for each learns its only facts by heart."""
_SIMILAR: Final = 64
"""Entities like the query's whose facts vote, if facts hold for a while."""
_MAX_GATE_FACTS: Final = 20_000
"""Facts that are enough for the gate of an ensemble."""


def suggest_temp(
    kind: ModelKind, graph: TemporalGraph, device: torch.device, task: Task
) -> SettingTables:
    """Settings of TeMP: wide, with large steps and all negatives on a GPU; less on a CPU.

    A forecaster has half the facts in its window, which is twice as long. It soon overfits.
    """
    steps, entities, gpu = len(graph.times), len(graph.entities), device.type == "cuda"
    dim = 256 if gpu else 64 if len(graph.train) < 50_000 else 128
    # The embeddings of all entities at the times of a step must fit into memory, and so must their
    # scores for the two queries of each fact; an epoch should have about a dozen training steps.
    window = 16 if task == "forecast" else 8
    # A fact is an edge, in both directions, of every step of a window at which it holds. On a GPU,
    # the messages of events are not stored.
    held = 0.0 if gpu else float(len(graph.train))
    if graph.has_intervals:
        start, end, _ = graph.spans("train")
        held = float((end - start + 1).sum())
    around = window + 1 if task == "forecast" else 2 * window + 1
    messages = 2 * around * held / steps
    max_times = int(memory_budget("temp_step", device) // (8 * dim * (entities + messages)))
    if gpu:
        queries = 2 * math.ceil(len(graph.train) / steps)
        max_times = min(max_times, memory_budget("temp_scores", device) // (4 * queries * entities))
    many = _lays_out_few(graph)
    if many:
        # A step encodes what it asks and draws, with the neighbors, but no other entity.
        rows = _ROWS_PER_FACT * math.ceil(len(graph.train) / steps) + 2 * _MANY_NEGATIVES
        max_times = int(memory_budget("temp_step", device) // (8 * dim * (rows + messages)))
    largest = (64 if steps > 1000 else 32) if gpu else 8
    times_per_step = max(1, min(largest, steps // 11, max_times))
    # Long timelines need fewer epochs, and a cooldown since they do not stop early.
    epochs = round(_TEMP_STEPS / math.ceil(steps / times_per_step)) if gpu else 50
    forecast = task == "forecast"
    return {
        "model": {
            "dim": dim,
            "window": window,
            "feature_dropout": 0.5 if gpu else 0.3,
            "initial_scale": 0.3,
        },
        "train": {
            "epochs": min(max(epochs, 20), 60 if forecast else 150),
            "weight_decay": 1e-4 if forecast else 0.0,
            "times_per_step": times_per_step,
            "negatives": _MANY_NEGATIVES if many else "all" if gpu or entities <= 2000 else 500,
            # Uniformly drawn, few of many entities are hard to tell from answers.
            "negative_sampling": "frequency" if many else "uncorrected",
            "learning_rate": 0.005 if gpu else 0.015,
            "cooldown": 0.3 if epochs < 100 and gpu else 0.0,
            "average": 0.98 if gpu else 0.95,
            # To rank valid among many entities takes longer than an epoch.
            "validate_every": 5 if many else 1,
            "patience": 4 if many else 20 if gpu else 10,
            "precision": "tf32" if gpu else "32-true",
        },
    }


def suggest_embedding(
    kind: ModelKind, graph: TemporalGraph, device: torch.device, task: Task
) -> SettingTables:
    """Settings of an embedding method."""
    gpu, entities = device.type == "cuda", len(graph.entities)
    if kind.defaults["relations"] == "factored":
        return _suggest_factored(graph, device)
    # Distributions allow no dropout, and scoring all entities would take too much memory.
    gaussian = kind.defaults["decoder"] == "gaussian"
    some = gaussian or (not gpu and entities > 2000) or entities >= MANY_ENTITIES
    constant = kind.defaults["entities"] == "fixed" and not gaussian
    return {
        "model": {"dim": 200 if gpu else 100},
        "train": {
            "epochs": 200 if gpu else 50,
            "facts_per_step": 1000 if len(graph.train) > 20_000 else 200,
            "negatives": 500 if some else "all",
            "learning_rate": 0.005,
            "dropout": 0.0 if gaussian else 0.3,
            "validate_every": 5,
            "patience": 5,
            "precision": "tf32" if gpu else "32-true",
            **(_sampled_training(graph, device) if constant else {}),
        },
    }


def _sampled_training(graph: TemporalGraph, device: torch.device) -> dict[str, Setting]:
    """Settings of training that costs the same for each fact however many entities there are.

    None of them for fewer entities, where scoring all is as fast and more accurate.
    """
    if len(graph.entities) < MANY_ENTITIES:
        return {}
    return {
        "negatives": _SAMPLED if device.type == "cuda" else 1000,
        "negative_sampling": "mixed",
        "sparse_gradients": True,
        "optimizer": "adagrad",
        "learning_rate": 0.1,
        "clip": 0.0,
    }


def _suggest_factored(graph: TemporalGraph, device: torch.device) -> SettingTables:
    """Settings of TComplEx and TNTComplEx: Adagrad with N3, as Lacroix et al. 2020 train them.

    The more facts an entity has, the weaker is N3. The more time steps there are, the more alike
    should consecutive ones be.
    """
    gpu, facts, steps = device.type == "cuda", len(graph.train), len(graph.times)
    facts_per_entity = facts / len(graph.entities)
    n3 = 10.0 ** round(math.log10(0.1 / facts_per_entity))
    smoothness = 10.0 ** round(math.log10(0.01 * (steps / 365) ** 2))
    # Weights, gradients and the state of Adagrad.
    widest = memory_budget("factored_tables", device) // (3 * 4 * len(graph.entities))
    if len(graph.entities) >= MANY_ENTITIES:
        widest = min(widest, _MAX_SAMPLED_DIM)
    return {
        "model": {
            "dim": max(64, min(4000 if gpu else 200, widest // 2 * 2)),
            "initial_scale": 0.01,
        },
        "train": {
            "epochs": (40 if facts < 150_000 else 50) if gpu else 25,
            "facts_per_step": 200 if facts < 20_000 else 1000 if facts < 150_000 else 4000,
            "optimizer": "adagrad",
            "learning_rate": 0.1,
            "clip": 0.0,
            "n3": min(max(n3, 1e-3), 0.1),
            "smoothness": min(max(smoothness, 1e-3), 1.0),
            "validate_every": 4,
            "patience": 3,
            "precision": "tf32" if gpu else "32-true",
            **_sampled_training(graph, device),
        },
    }


def suggest_pointer(
    kind: ModelKind, graph: TemporalGraph, device: torch.device, task: Task
) -> SettingTables:
    """Settings of the pointer, with paths if their tables fit into memory and so are fast.

    On a GPU more facts vote the more there are, up to the number of entities from which only the
    candidates that differ are laid out; a CPU takes the same few, and fewer epochs. Names
    matter if they have words in common. If facts hold for a while, similar entities vote and
    candidates gain by their own facts; if entities have few of them, what each gains as such
    depends on their number, and training soon overfits. A forecaster has no facts of its own step,
    nor paths, which look at facts of all times; the latest facts overall and recent paths take
    their place.
    """
    facts = len(graph.train)
    most, epochs = 512, min(max(_CPU_FACTS // facts, 3), 14)
    gpu, many, few = device.type == "cuda", _lays_out_few(graph), _few_facts(graph)
    pairs = task == "complete" and not many and pair_tables_fit(len(graph.entities), device)
    held: dict[str, Setting] = {}
    if graph.has_intervals:
        table = 2 * facts * len(graph.times)
        held = {
            "max_similar": _SIMILAR if pairs else 0,
            "candidate_facts": table <= memory_budget("pair_tables", device)
            and (gpu or facts <= _CPU_CANDIDATE_FACTS),
            "prior": "counts" if few else "entities",
        }
    if gpu:
        # Votes of facts that hold for a while are listed one by one, not summed by a kernel.
        largest = 1024 if graph.has_intervals else 16384
        most = min(max(_power_of_two(facts / 18), 512), largest)
        epochs = 14 if facts < 20_000 else 10
    if few:
        epochs = min(epochs, 6)
    if many:
        # Neither paths nor names: they give every entity a score of its own.
        most, epochs = 512, min(epochs, 4)
    return {
        "model": {
            "max_facts": most,
            "max_facts_per_relation": most // 2,
            "max_facts_per_pair": most // 4,
            "max_facts_overall": 0 if task == "complete" else 2 * most,
            "max_facts_per_hop": 0 if task == "complete" else 16 if gpu else 8,
            "paths": pairs,
            "names": names_help(graph) and not many,
            "counts": "voting" if many else "all",
            **held,
        },
        "train": {
            "epochs": epochs,
            "facts_per_step": _pointer_step(facts, many),
            "learning_rate": 0.01,
            "cooldown": 0.4,
            "weight_decay": 1e-5,
            "clip": 0.0,
            "patience": 4,
        },
    }


def _pointer_step(facts: int, many: bool) -> int:
    """Facts of a training step: small steps of many facts take a GPU long to launch."""
    if many:
        # The scores that all queries of a step share take as long as thousands of queries.
        return 4000
    return 200 if facts <= 20_000 else 1000 if facts <= 500_000 else 2000


def _few_facts(graph: TemporalGraph) -> bool:
    """Whether facts hold for a while and entities have few of them."""
    return graph.has_intervals and len(graph.train) < _FEW_FACTS * len(graph.entities)


def _lays_out_few(graph: TemporalGraph) -> bool:
    """Whether TeMP and the pointer lay out few of many entities: not if facts hold for a while."""
    return len(graph.entities) >= MANY_ENTITIES and not graph.has_intervals


def suggest_ensemble(
    kind: ModelKind, graph: TemporalGraph, device: torch.device, task: Task
) -> SettingTables:
    """Settings of an ensemble whose gate looks at candidates: its parts, and whether to use names.

    The paper's ensemble has no such gate, and stays as it is. In forecasts, attention across
    snapshots does better than a GRU. If facts hold for a while and are few, there is no TeMP: its
    snapshots hold few entities each, and there are as many as there are steps.
    """
    if not kind.defaults.get("candidate_hidden"):
        return {}
    # With names, the pointer would have to score every entity.
    model: dict[str, Setting] = {"names": names_help(graph) and not _lays_out_few(graph)}
    parts = list(kind.defaults["parts"])
    if task == "forecast":
        model["parts"] = parts = ["temp-sa" if part == "temp-gru" else part for part in parts]
    if _few_facts(graph):
        model["parts"] = parts = [part for part in parts if not _has_snapshots(part)] or parts
    if factored_take_long(graph):
        unfactored = [part for part in parts if not is_factored(part)]
        model |= {"parts": unfactored or parts, "max_facts": _MAX_GATE_FACTS}
    return {"model": model}


def ensemble_parts(
    kind: ModelKind, graph: TemporalGraph, device: torch.device, task: Task
) -> tuple[str, ...]:
    """The parts that are suggested for an ensemble."""
    parts: tuple[str, ...] = kind.defaults["parts"]
    model = suggest_ensemble(kind, graph, device, task).get("model", {})
    return tuple(model.get("parts", parts))  # type: ignore[arg-type]


def scored_by_factored(graph: TemporalGraph) -> int:
    """How many entities factored embeddings score for a train fact: of many, a sample."""
    entities = len(graph.entities)
    return entities if entities < MANY_ENTITIES else _SAMPLED


def factored_take_long(graph: TemporalGraph) -> bool:
    """Whether factored embeddings would take most of the time of an ensemble."""
    return len(graph.train) * scored_by_factored(graph) > _MAX_FACTORED


def _has_snapshots(model: str) -> bool:
    return model in MODELS and "temporal" in MODELS[model].defaults


def is_factored(model: str) -> bool:
    """Whether a model has factored relations."""
    return model in MODELS and MODELS[model].defaults.get("relations") == "factored"


def names_help(graph: TemporalGraph) -> bool:
    """Whether entities have attributes, or names that have words in common.

    Words do not if facts hold for a while and are few: their weights learn these by heart.
    """
    return bool(graph.attributes) or (not _few_facts(graph) and share_words(graph.entities))


def _power_of_two(number: float) -> int:
    """The nearest power of two, by ratio."""
    return int(2 ** round(math.log2(max(1.0, number))))
