"""demo: from nothing to a ranked answer with evidence."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from tempograph.cli.answer_tables import print_completion
from tempograph.cli.console import (
    metric_cells,
    metric_columns,
    out,
    print_json,
    progress_bar,
    table,
)
from tempograph.cli.options import Json
from tempograph.cli.train import training_progress

if TYPE_CHECKING:
    from tempograph.evaluation.evaluator import EvaluationSummary
    from tempograph.prediction.answers import Completion
    from tempograph.prediction.predictor import Predictor


def demo(
    folder: Annotated[
        Path,
        typer.Option("--out", help="Folder for the runs; runs of an earlier demo are replaced."),
    ] = Path("runs/demo"),
    json_output: Json = False,
) -> None:
    """Train three models on a small synthetic world, compare them, and answer a query."""
    from tempograph.data.synthetic.world import make_world
    from tempograph.prediction.predictor import Predictor
    from tempograph.training.trainer import evaluate, train

    start = time.perf_counter()
    graph = make_world().graph
    if not json_output:
        out.print(
            f"A synthetic world of diplomacy: {len(graph.entities)} entities, "
            f"{len(graph.relations)} relations, {len(graph.times)} days, "
            f"{len(graph.train):,} train facts. What else happened?\n"
        )

    def fit_and_evaluate(model: str, *overrides: str) -> EvaluationSummary:
        path = folder / model
        with training_progress(path, model, quiet=True) as (_, progress):
            run = train(
                graph, model, out=path, overwrite=True, overrides=overrides, progress=progress
            )
        with progress_bar(f"ranking with {model}") as progress:
            return evaluate(run, progress=progress).summary()

    # A demo has no time for frequent validation.
    rarely = "train.validate_every=10"
    summaries = {
        "ComplEx, blind to time": fit_and_evaluate("complex", rarely),
        "TED, copying nearby facts": fit_and_evaluate("ted"),
        "TeMP-GRU": fit_and_evaluate("temp-gru", rarely),
    }
    run = folder / "temp-gru"
    completion = _correct_completion(Predictor(run, "auto"))
    if json_output:
        answer = dataclasses.asdict(completion)
        print_json({"run": str(run), "models": summaries, "completion": answer})
        return
    rows = [[name, *metric_cells(summary["metrics"])] for name, summary in summaries.items()]
    columns = ["model", *metric_columns(summaries["TeMP-GRU"]["metrics"])]
    caption = f"{len(graph.test):,} test facts, protocol strict, filter time, Hits in percent"
    out.print(table("Missing facts found", columns, rows, caption=caption))
    out.print()
    print_completion(completion)
    out.print(f"\n{time.perf_counter() - start:.0f} s. The runs are in {folder}. Next:")
    relation, name = quote(completion.relation or ""), quote(completion.answers[0].name)
    query = f"--relation {relation} --object {name} --time {completion.time}"
    out.print(f"  tempograph complete {quote(str(run))} {query}", soft_wrap=True)
    out.print("  tempograph fit events.csv --out runs/mine", soft_wrap=True)


def _correct_completion(predictor: Predictor) -> Completion:
    """The best answers to the latest object query of the test split that the run gets right."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    assert predictor.run.path is not None
    ranks = pq.read_table(predictor.run.path / "ranks.parquet")
    correct = (
        (pc.field("split") == "test")
        & (pc.field("side") == "object")
        & (pc.field("pessimistic") == 1)
    )
    order = [("t", "descending"), ("s", "ascending")]
    fact = ranks.filter(correct).sort_by(order).slice(0, 1).to_pylist()[0]
    graph = predictor.graph
    return predictor.objects(
        graph.entities[fact["s"]], graph.relations[fact["r"]], graph.times[fact["t"]], top=5
    )
