"""Why the settings of a run differ from those of small data, in sentences for people."""

from __future__ import annotations

from tempograph.data.graph import TemporalGraph
from tempograph.data.protocol import task_of
from tempograph.models.sparse_scores import MANY_ENTITIES
from tempograph.training.config import Config
from tempograph.training.defaults import factored_take_long, is_factored, scored_by_factored


def explain_settings(config: Config, graph: TemporalGraph) -> list[str]:
    """What was suggested because there are many entities, and why, a sentence each.

    Nothing for a preset, which somebody else chose.
    """
    if config.preset is not None:
        return []
    if config.kind.has_parts:
        return _part_reasons(config, graph)
    entities = len(graph.entities)
    if entities < MANY_ENTITIES:
        return []
    return [*_sample_reasons(config, entities), *_layout_reasons(config, entities)]


def _part_reasons(config: Config, graph: TemporalGraph) -> list[str]:
    """Why an ensemble does without some of its usual parts."""
    default, parts = config.kind.defaults["parts"], config.model.parts
    gone = [part for part in default if is_factored(part) and part not in parts]
    if not gone or not factored_take_long(graph):
        return []
    return [
        f"The ensemble does without {', '.join(gone)}: with {len(graph.train):,} train facts, and "
        f"{scored_by_factored(graph):,} entities scored for each, it would take most of the time."
    ]


def _sample_reasons(config: Config, entities: int) -> list[str]:
    """Why a step scores some of the entities only."""
    negatives = getattr(config.train, "negatives", "all")
    if negatives == "all":
        return []
    reasons = [
        f"Each training step scores {negatives:,} sampled entities, because scoring all "
        f"{entities:,} would take too long; ranks are among all of them."
    ]
    if getattr(config.train, "sparse_gradients", False):
        reasons.append(
            "A step changes only the vectors of the entities in it, with Adagrad, so its cost does "
            "not grow with the number of entities."
        )
    return reasons


def _layout_reasons(config: Config, entities: int) -> list[str]:
    """Why the facts of a query name the candidates that are scored one by one."""
    if getattr(config.model, "counts", "all") != "voting":
        return []
    reasons = [
        "Only candidates that a nearby fact names are scored one by one, because there are "
        f"{entities:,} entities; the score of the others depends on the relation alone."
    ]
    forecasts = task_of(config.protocol) == "forecast"
    off = [
        what
        for what, used in (
            ("common neighbors", forecasts or config.model.paths),
            ("words in names", config.model.names),
        )
        if not used
    ]
    if off:
        what = " and ".join(off)
        reasons.append(f"The model ignores {what}, which give every entity a score of its own.")
    return reasons
