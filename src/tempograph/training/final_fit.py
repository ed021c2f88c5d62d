"""Answers from all facts: once a run is measured, it may use what was held out to measure it."""

from __future__ import annotations

from tempograph.data.timeline import Timeline
from tempograph.errors import QueryError
from tempograph.training.answering import all_facts_in_train
from tempograph.training.callbacks import Callbacks
from tempograph.training.holdout import train_copy
from tempograph.training.run_folder import CHECKPOINT_ALL_FACTS, REFITTED, write_weights
from tempograph.training.run_results import AnswerBasis
from tempograph.training.runs import Run
from tempograph.training.setup import build_model


def answer_from_all_facts(run: Run, callbacks: Callbacks) -> AnswerBasis | None:
    """Let a saved run answer from the facts of all splits; None if the time is up.

    A model that reads facts when it answers reads all of them, with the weights it has. One that
    does not, such as an embedding method, is trained again on all of them, for as many epochs as
    were best on valid. The figures of the run stay those of its train facts. A training that was
    interrupted goes on where it stopped.
    """
    graph = all_facts_in_train(run.graph)
    timeline = Timeline(graph, run.config.protocol, run.timeline.device)
    refitted, seconds = [], 0.0
    for name, each in run.single_models.items():
        if _reads_facts(each, timeline):
            continue
        assert each.path is not None
        refitted.append(name)
        if (each.path / REFITTED).is_file():
            continue
        checkpoint = each.path / CHECKPOINT_ALL_FACTS
        model = build_model(each.config, timeline, {})
        progress = train_copy(model, each, checkpoint, callbacks.for_part(f"{name} on all facts"))
        if not progress.finished:
            return None
        write_weights(model, each.path / REFITTED)
        checkpoint.unlink(missing_ok=True)
        seconds += progress.seconds
    basis: AnswerBasis = {
        "facts": len(graph.train),
        "refitted": refitted,
        "seconds": round(seconds, 3),
    }
    run.update_results(answers=basis)
    return basis


def _reads_facts(run: Run, timeline: Timeline) -> bool:
    """Whether a model reads facts when it answers, and can read others than those of training.

    A model that cannot, and is not trained by gradient, keeps its train facts.
    """
    if run.config.recipe.gradient is None:
        return True
    if not run.model.uses_train_facts:
        return False
    try:
        run.model.with_timeline(timeline)
    except QueryError:
        return False
    return True
