"""What a run answers with: its model over the facts that answers rest on, updates included."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import safetensors.torch
import torch

from tempograph.data.graph import TemporalGraph, sort_by_time
from tempograph.data.timeline import Timeline
from tempograph.errors import QueryError, RunError
from tempograph.models.base import Model
from tempograph.models.growth import grow_weights
from tempograph.training.config import Config
from tempograph.training.question_models import Answering
from tempograph.training.run_folder import REFITTED, explain_damage
from tempograph.training.run_results import RunResults
from tempograph.training.updates import Updates


class AnsweringRun(Protocol):
    """What of a run decides on its answers."""

    @property
    def config(self) -> Config:
        """The settings."""

    @property
    def graph(self) -> TemporalGraph:
        """The data that it was measured on."""

    @property
    def timeline(self) -> Timeline:
        """The train facts of these data."""

    @property
    def model(self) -> Model:
        """The model that was measured."""

    @property
    def results(self) -> RunResults:
        """Whether answers rest on all splits."""

    @property
    def path(self) -> Path | None:
        """Where weights trained on all splits are, if there are any."""

    @property
    def parts(self) -> Mapping[str, AnsweringRun]:
        """The runs of the parts of an ensemble."""

    @property
    def single_models(self) -> Mapping[str, AnsweringRun]:
        """The runs of the parts, or the run itself."""

    @property
    def updates(self) -> Updates | None:
        """What was added."""


def answering(run: AnsweringRun) -> Answering:
    """The facts that answers rest on, and the model over them.

    A forecaster knows all facts; it looks at those before each question.
    """
    past_only = run.timeline.past_only
    if run.results.answers is None and run.updates is None and not past_only:
        return Answering(run.graph, run.timeline, run.model)
    graph = answering_graph(run)
    timeline = Timeline(graph, run.config.protocol, run.timeline.device)
    return Answering(graph, timeline, model_over(run, timeline))


def answering_graph(run: AnsweringRun) -> TemporalGraph:
    """The data of a run, with all facts that answers rest on in train."""
    graph = _graph_before_updates(run)
    return graph if run.updates is None else run.updates.additions.onto(graph)


def measured_answering(run: AnsweringRun) -> Answering:
    """The model as it was measured, over the train facts and those that updates added.

    A forecaster knows all facts, and looks at those before each question.
    """
    if run.updates is None and not run.timeline.past_only:
        return Answering(run.graph, run.timeline, run.model)
    graph = run.graph if run.updates is None else run.updates.additions.onto(run.graph)
    known = all_facts_in_train(graph) if run.timeline.past_only else graph
    timeline = Timeline(known, run.config.protocol, run.timeline.device)
    return Answering(graph, timeline, model_over(run, timeline, measured=True))


# A model that is built while a question is answered has ordinary weights.
@torch.inference_mode(False)
def model_over(
    run: AnsweringRun, timeline: Timeline, measured: bool = False, rebuild: bool = False
) -> Model:
    """The model that answers, or as it was measured, over other facts.

    Names that the model was not trained with come after the others, and get estimated weights. With
    `rebuild`, the model is built for the facts, also if it could be moved to them: a moved model
    has no entity vectors.
    """
    bases = base_models(run, timeline, measured)
    models = [
        _over(bases[name], each.config, timeline, rebuild)
        for name, each in run.single_models.items()
    ]
    if not run.parts:
        return models[0]
    ensemble = run.config.kind.build(run.config.model, timeline, *models)
    ensemble.load_state_dict(run.model.state_dict())
    return ensemble.eval()


def base_models(run: AnsweringRun, timeline: Timeline, measured: bool = False) -> dict[str, Model]:
    """The single models with the weights that answer, or were measured, by name.

    Each is over the data that its weights were trained on. If these are the facts of the given
    timeline, it is over that one.
    """
    trained = None if measured or run.updates is None else run.updates.trained
    if trained is None or run.updates is None:
        return {name: _weights(each, measured) for name, each in run.single_models.items()}
    earlier = run.updates.additions.first(trained.base).onto(_graph_before_updates(run))
    then = Timeline(earlier, run.config.protocol, run.timeline.device)
    if then.sizes == timeline.sizes and torch.equal(then.rows, timeline.rows):
        then = timeline
    models = {}
    for name, each in run.single_models.items():
        if name in trained.states:
            models[name] = each.config.kind.build(each.config.model, then)
            models[name].load_state_dict(trained.states[name])
        else:
            models[name] = _weights(each, measured)
    return models


def _weights(run: AnsweringRun, measured: bool) -> Model:
    """A single model as it was trained: on all facts for its answers, if it was, or on train."""
    refitted = None if run.path is None else run.path / REFITTED
    if measured or refitted is None or not refitted.is_file():
        return run.model
    with explain_damage(refitted.parent):
        model = run.config.kind.build(run.config.model, run.timeline)
        model.load_state_dict(safetensors.torch.load_file(refitted))
    return model.eval()


def _over(base: Model, config: Config, timeline: Timeline, rebuild: bool) -> Model:
    """A single model over other facts; without new names, one that cannot keeps its own facts."""
    if not rebuild and base.timeline.sizes[:2] == timeline.sizes[:2]:
        try:
            return base.with_timeline(timeline).eval()
        except QueryError:
            return base
    model = config.kind.build(config.model, timeline)
    try:
        grow_weights(base, model, base.timeline, timeline)
    except QueryError as error:
        raise RunError(f"{config.name} cannot take new names: {error}; train it again") from error
    return model.eval()


def _graph_before_updates(run: AnsweringRun) -> TemporalGraph:
    train_alone = run.results.answers is None and not run.timeline.past_only
    return run.graph if train_alone else all_facts_in_train(run.graph)


def all_facts_in_train(graph: TemporalGraph) -> TemporalGraph:
    """The graph with the facts of all splits in train."""
    none = graph.train[:0]
    return dataclasses.replace(graph, train=sort_by_time(graph.all_facts), valid=none, test=none)
